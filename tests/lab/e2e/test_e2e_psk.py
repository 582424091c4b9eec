"""A preshared key on the tunnel.

Then the service is taken apart until nothing of it is left.

Cast: server, client (`vpn_basic_ns` with a preshared key).

Seen:
- the tunnel needs the key of both ends, and no process has it in its arguments;
- a removed relation takes the peer away at once;
- a deleted service leaves nothing on the machine.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e_basic import CLIENT, SERVER
from e2e_leftovers import lasting_leftovers
from e2e_support import Lab, Service, Vnf, scan, secret_files, wait
from support.juju_operator import remove_relation
from vpnaas.vdu import machine

pytestmark = [pytest.mark.lab, pytest.mark.long]

PROGRAMS = ("wg", "openssl", "ip", "mv", "systemctl")


def preshared(vnf: Vnf) -> str:
    """Return the preshared key a VDU's interface uses with its only peer."""
    shown = vnf.out("wg", "show", f"wg-vpn-{vnf.index}", "preshared-keys").split()
    assert len(shown) == 2
    vnf.service.lab.secrets.add(shown[1], f"{vnf.service.name}/{vnf.index}: wg show")
    return shown[1]


def install(vnf: Vnf, key: str) -> None:
    """Give an interface's only peer a preshared key and make it forget its session."""
    interface = f"wg-vpn-{vnf.index}"
    (peer,) = vnf.peers(interface)
    allowed, endpoint = (
        vnf.out("wg", "show", interface, what).split()[1] for what in ("allowed-ips", "endpoints")
    )
    vnf.out("wg", "set", interface, "peer", peer, "remove")
    words = ("preshared-key", "/dev/stdin", "allowed-ips", allowed, "endpoint", endpoint)
    # A pipe of the VDU's own: root there may not open one of the machine's.
    command = ("wg", "set", interface, "peer", peer, *words)
    vnf.out("sh", "-c", 'cat | "$@"', "sh", *command, input=key)


def test_tunnel_needs_the_key_both_ends_agreed(psk: Service) -> None:
    server, client = psk["server"], psk["client"]
    key = preshared(server)
    assert key == preshared(client) != "(none)"
    assert client.pings(SERVER)
    answer = server.status("vpn-server")
    assert (answer["state"], answer["peers"][0]["preshared-key"]) == ("up", True)

    other = client.out("wg", "genpsk").strip()
    install(client, other)
    assert preshared(client) == other
    assert not client.pings(SERVER, tries=30)
    install(client, key)
    assert client.pings(SERVER, tries=60)


@contextmanager
def recorded(vnf: Vnf) -> Iterator[Path]:
    """Have the VDU note the arguments and environment of what may handle keys."""
    for name in PROGRAMS:
        # sudo and the agent look in /usr/local/bin first.
        text = (
            "#!/bin/sh\n"
            f'{{ echo "{name} $*"; env; }} >>/run/e2e-recorded\n'
            f'exec "$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v {name})" "$@"\n'
        )
        vnf.out("sh", "-c", f"cat >/usr/local/bin/{name} && chmod 755 /usr/local/bin/{name}",
                input=text)  # fmt: skip
    try:
        yield Path("/run/e2e-recorded")
    finally:
        vnf.out("rm", *(f"/usr/local/bin/{name}" for name in PROGRAMS))


class Ps:
    """Samples the argument list and environment of every process, over and over."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Ps":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            for entry in Path("/proc").glob("[0-9]*"):
                try:
                    self.seen.add((entry / "cmdline").read_bytes())
                except (FileNotFoundError, ProcessLookupError):
                    continue


def test_no_process_is_given_a_secret(psk: Service) -> None:
    """The VDU's programs are recorded one by one; on the machine `ps` is sampled."""
    client = psk["client"]
    with recorded(client) as record, Ps() as ps:
        client.action("rotate-keys", link="vpn-client")
        common = {"link": "vpn-client", "inner_address": f"{CLIENT}/24",
                  "underlay_interface": "ens4"}  # fmt: skip
        wrapped = "/etc/osm-vpnaas/vpn-client/wrap.pem"
        psk.note_secrets()
        client.out("rm", wrapped)  # a new agreement makes and opens a new key
        client.action("configure", preshared_key=True, **common)
    psk.note_secrets()
    result = client.out("cat", str(record))
    # The recorder was in the way: it saw both programs that handle keys do so.
    assert "wg genkey" in result
    assert "openssl pkeyutl -decrypt" in result
    assert any(b"charm.py" in words for words in ps.seen)
    everything = result + "\n".join(words.decode(errors="replace") for words in ps.seen)
    secrets = {text: where for text, where in psk.lab.secrets.texts.items()
               if "\n" not in text}  # fmt: skip
    assert len(secrets) >= 4
    assert [where for text, where in secrets.items() if text in everything] == []
    assert client.pings(SERVER, tries=60)
    assert preshared(psk["server"]) == preshared(client) != "(none)"


def ends(service: Service) -> tuple[str, str]:
    return tuple(f"{service[i].application}:vpn-{i}" for i in ("server", "client"))  # type: ignore[return-value]


def test_removed_relation_takes_the_peer_away_at_once(psk: Service) -> None:
    server, client = psk["server"], psk["client"]
    with psk.controller() as controlled:
        remove_relation(controlled.model, *ends(psk))
        wait(
            lambda: not server.peers("wg-vpn-server") and not client.peers("wg-vpn-client"),
            "both ends forget each other",
            20,
        )
        assert not client.pings(SERVER, tries=5)
        controlled.settle()
        for index in ("server", "client"):
            state, message = controlled.status(index)
            assert (state, f"vpn-{index} waiting" in message) == ("active", True), message
        controlled.model.add_relation(*ends(psk))
        controlled.settle()
    assert client.pings(SERVER, tries=60)
    assert preshared(server) == preshared(client) != "(none)"


def test_terminated_member_is_forgotten_and_leaves_no_link(psk: Service) -> None:
    """Also if the unit's agent was restarted, as here: Juju then breaks the peer relation first."""
    server, client = psk["server"], psk["client"]
    assert server.peers("wg-vpn-server") == {client.public_key("wg-vpn-client")}
    psk.note_secrets()
    assert "osm_vpnaas" in client.out("nft", "list", "tables")
    with psk.controller() as controlled:
        # This process runs the model that the operation's worker ran before.
        unit = client.unit
        restarted = lambda: controlled.model._view().units[unit].agent_restarted  # noqa: E731
        wait(restarted, "the agent knows that it was restarted", 30)
        controlled.model.remove_application(client.application)
        wait(lambda: not server.peers("wg-vpn-server"), "the server forgets the client")
        controlled.model.wait_for(
            lambda status: client.application not in status.applications, 60, "the end"
        )
    assert client.run("wg", "show", "interfaces").stdout.strip() == ""
    assert client.run("test", "-e", "/etc/wireguard/wg-vpn-client.conf").returncode == 1
    assert client.run("systemctl", "is-enabled", "wg-quick@wg-vpn-client").stdout.strip() != (
        "enabled"
    )
    assert "osm_vpnaas" not in client.out("nft", "list", "tables")
    left = client.out("find", "/etc/osm-vpnaas", "/etc/wireguard", "-type", "f").split()
    assert left == [machine.MARK]
    units = client.out("systemctl", "list-unit-files", "--no-legend", "osm-vpnaas*", "wg-quick@*")
    assert [row for row in units.splitlines() if row.split()[1] == "enabled"] == []
    assert "osm-vpnaas" not in client.out("systemctl", "list-units", "--no-legend")
    assert server.status("vpn-server")["state"] == "waiting"


def test_deleted_service_leaves_nothing(lab: Lab, psk: Service) -> None:
    names = [psk.id, *(vnf.server_id for vnf in psk.vnfs.values())]
    networks = [n for n in psk.vim.networks() if n.tag == psk.id]
    names += [n.bridge for n in networks]
    names += [port.device for vnf in psk.vnfs.values() for port in vnf.server.ports]
    psk.note_secrets()
    assert secret_files(psk["server"])
    assert scan(lab, lab.secrets.texts) == []
    assert lasting_leftovers(names, 0) != []
    lab.done("ns-delete", "psk", "--wait")
    assert lasting_leftovers(names) == []
    devices = subprocess.run(
        ["ip", "netns", "exec", psk.vim.fabric, "ip", "-o", "link"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert [name for name in names if name in devices] == []
    assert [p for p in lab.home.rglob("*") if any(name in p.name for name in names)] == []
    found = subprocess.run(
        ["grep", "-raFlD", "skip", "--exclude-dir=disk", psk.id, str(lab.home)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == ""
    assert psk.vim.servers(psk.id) == []
    assert "psk" not in lab.done("ns-list")
