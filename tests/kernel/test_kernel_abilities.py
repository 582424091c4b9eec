"""The kernel on which VDUs stand has what a VPN needs.

The only module of virtual machines in the default run.
"""

from __future__ import annotations

import pytest
from support.guest import GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-11, worker="alone")]

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


@pytest.mark.parametrize("ability", ABILITIES)
def test_the_kernel_has_what_a_vpn_needs(guest_machine: GuestMachine, ability: str) -> None:
    assert guest_machine.out("unshare", "--net", "sh", "-c", ABILITIES[ability]).strip()
