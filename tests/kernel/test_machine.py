"""One virtual machine of the lab: the kernel on which VDUs stand has what a VPN needs.

The only module of machines in the default run. Services on machines are `long`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.vim import PortSpec, ServerSpec, Vim, clean

pytestmark = [pytest.mark.lab, pytest.mark.vm, pytest.mark.timeout(1800)]

#: WireGuard, ESP on an XFRM interface with extended sequence numbers, and SCTP.
ABILITIES = {
    "wireguard": "ip link add wg0 type wireguard && wg set wg0 listen-port 51820 && wg show wg0",
    "xfrm": "ip link add xf0 type xfrm if_id 1 && ip link show xf0",
    "esp": (
        "ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 mode tunnel "
        "if_id 1 flag esn replay-window 128 aead 'rfc4106(gcm(aes))' "
        f"0x{'00' * 36} 128 && ip xfrm state"
    ),
    "sctp": "modprobe sctp && cat /proc/net/protocols | grep -w SCTP",
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vim, str]]:
    home = tmp_path_factory.mktemp("machine")
    try:
        vim = Vim.create(home, "machines", {}, "qemu")
        port = PortSpec(vim.management_network().id)
        server = vim.create_server(
            ServerSpec("one", "one", "ubuntu22.04", 1, 768, 4, (port,)), "machines"
        )
        vim.wait_active(server.id, 1200)
        yield vim, server.id
    finally:
        clean(home)


@pytest.mark.parametrize("ability", ABILITIES)
def test_the_kernel_has_what_a_vpn_needs(machine: tuple[Vim, str], ability: str) -> None:
    vim, server = machine
    done = vim.console(server, ["sh", "-c", ABILITIES[ability]], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
