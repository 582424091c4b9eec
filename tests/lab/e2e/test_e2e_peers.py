"""Peers outside any relation: a machine of an administrator joins a tunnel by add-peer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from e2e_support import PATIENCE, ActionError, Service, Vnf

from lab.vim import PortSpec, ServerSpec, Vim

pytestmark = pytest.mark.lab

INNER, OUTER = "10.77.0.50", "192.168.100.50"
SERVER = "10.77.0.1"


@dataclass(frozen=True)
class Outsider:
    """A plain VDU on the service's data network, without a charm."""

    vim: Vim
    id: str
    public_key: str

    def pings(self, address: str) -> bool:
        # WireGuard repeats a handshake that was not answered after 5 s (section 6.1).
        words = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", "8", address]
        return self.vim.console(self.id, words).returncode == 0


@pytest.fixture(scope="module")
def outsider(basic: Service) -> Iterator[Outsider]:
    vim = basic.vim
    ports = (
        PortSpec(vim.management_network().id),
        PortSpec(basic.network("data"), ip=OUTER),
    )
    spec = ServerSpec("outsider", "outsider", "ubuntu22.04", 1, 1024, 1, ports)
    server = vim.create_server(spec, "e2e-outsider")
    try:
        vim.wait_active(server.id, PATIENCE)
        key = vim.console(server.id, ["wg", "genkey"]).stdout.strip()
        basic.lab.secrets.add(key, "outsider")
        public = vim.console(server.id, ["wg", "pubkey"], input=key).stdout.strip()
        peer = basic["server"].public_key("wg-vpn-server")
        conf = (
            f"[Interface]\nPrivateKey = {key}\nAddress = {INNER}/24\nListenPort = 51820\n"
            f"[Peer]\nPublicKey = {peer}\nEndpoint = 192.168.100.11:51820\n"
            "AllowedIPs = 10.77.0.0/24\n"
        )
        write = ["sh", "-c", "umask 077; cat >/etc/wireguard/wg0.conf"]
        assert vim.console(server.id, write, input=conf).returncode == 0
        started = vim.console(server.id, ["wg-quick", "up", "wg0"])
        assert started.returncode == 0, started.stderr
        yield Outsider(vim, server.id, public)
    finally:
        vim.delete_server(server.id)


def table(vnf: Vnf) -> str:
    """Everything that says what the interface accepts, from whom."""
    shown = ("allowed-ips", "endpoints", "persistent-keepalive")
    return "".join(vnf.out("wg", "show", "wg-vpn-server", what) for what in shown)


def test_peer_comes_and_goes(basic: Service, outsider: Outsider) -> None:
    server = basic["server"]
    before = table(server)
    assert not outsider.pings(SERVER)
    added = server.action(
        "add-peer",
        link="vpn-server",
        name="laptop",
        public_key=outsider.public_key,
        allowed_prefixes=f"{INNER}/32",
    )
    assert added["added"] == "laptop"
    assert added["public-key"] == server.public_key("wg-vpn-server")
    try:
        assert outsider.pings(SERVER)
        assert server.pings(INNER)
        told = {p["peer"]: p for p in server.status("vpn-server")["peers"]}
        assert told["laptop"]["state"] == "up"
        assert told["laptop"]["endpoint"] == f"{OUTER}:51820"
    finally:
        gone = server.action("delete-peer", link="vpn-server", name="laptop")
    assert gone == {"deleted": "laptop", "link": "vpn-server"}
    assert outsider.public_key not in server.peers("wg-vpn-server")
    assert not outsider.pings(SERVER)
    assert table(server) == before
    assert basic["client"].pings(SERVER)


KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"name": "x", "public_key": "short"}, "add-peer: public-key: "),
        ({"name": "../x"}, "add-peer: name: "),
        ({"name": "x", "allowed_prefixes": "10.77.0.2/32"}, "already in use by "),
        ({"name": "x", "allowed_prefixes": "10.77.0.1/32"}, "covers our own inner address"),
        ({"name": "x", "allowed_prefixes": "192.168.100.0/24"}, "overlaps "),
        ({"name": "x", "allowed_prefixes": "10.0.0.1/33"}, "add-peer: allowed-prefixes: "),
        ({"name": "x", "endpoint": "nowhere"}, "add-peer: endpoint: "),
    ],
    ids=["key", "name", "peer's prefix", "own address", "underlay", "prefix", "endpoint"],
)
def test_bad_peer_changes_nothing(basic: Service, params: dict[str, str], reason: str) -> None:
    server = basic["server"]
    before = table(server)
    given = {"public_key": KEY, "allowed_prefixes": "10.77.0.60/32", **params}
    with pytest.raises(ActionError) as refused:
        server.action("add-peer", link="vpn-server", **given)
    assert reason in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert table(server) == before
    assert [p["peer"] for p in server.status("vpn-server")["peers"]] == [
        basic["client"].application
    ]


def test_unknown_peer_cannot_be_deleted(basic: Service) -> None:
    before = table(basic["server"])
    with pytest.raises(ActionError, match="has no manual peer 'nobody'"):
        basic["server"].action("delete-peer", link="vpn-server", name="nobody")
    assert table(basic["server"]) == before
