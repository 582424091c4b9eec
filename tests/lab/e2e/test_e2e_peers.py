"""Peers outside any relation: an administrator's machine joins a tunnel by `add-peer`.

Cast: server, client (`vpn_basic_ns`); laptop, a namespace with WireGuard.

Seen:
- the laptop reaches the inner network, and no more after `delete-peer`;
- a bad or unknown peer is refused and changes nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from e2e_basic import SERVER
from e2e_support import ActionError, Service, Vdu, Vnf, outsider

pytestmark = [pytest.mark.lab, pytest.mark.schedule(worker="basic")]

INNER, OUTER = "10.77.0.50", "192.168.100.50"


class Laptop(NamedTuple):
    """A plain VDU on the service's data network, which somebody set up by hand."""

    vdu: Vdu
    key: str
    public_key: str

    def take(self, file: str) -> None:
        """Enter the file of an answer in place of one's own."""
        text = file.replace("PRIVATE-KEY-OF-LAPTOP", self.key)
        self.vdu.out("wg-quick", "down", "wg0")
        self.vdu.out("sh", "-c", "umask 077; cat >/etc/wireguard/wg0.conf", input=text)
        self.vdu.out("wg-quick", "up", "wg0")

    def pings(self, address: str) -> bool:
        # WireGuard repeats a handshake that was not answered after 5 s (section 6.1).
        return self.vdu.pings(address, tries=40)


@pytest.fixture(scope="module")
def laptop(basic: Service) -> Iterator[Laptop]:
    with outsider(basic, "data", OUTER) as vdu:
        key = vdu.out("wg", "genkey").strip()
        basic.lab.secrets.add(key, "outsider")
        public = vdu.out("wg", "pubkey", input=key).strip()
        peer = basic["server"].public_key("wg-vpn-server")
        conf = (
            f"[Interface]\nPrivateKey = {key}\nAddress = {INNER}/24\nListenPort = 51820\n"
            f"[Peer]\nPublicKey = {peer}\nEndpoint = 192.168.100.11:51820\n"
            "AllowedIPs = 10.77.0.0/24\n"
        )
        vdu.out("sh", "-c", "umask 077; cat >/etc/wireguard/wg0.conf", input=conf)
        vdu.out("wg-quick", "up", "wg0")
        yield Laptop(vdu, key, public)


def table(vnf: Vnf) -> str:
    """Everything that says what the interface accepts, from whom."""
    shown = ("allowed-ips", "endpoints", "persistent-keepalive")
    return "".join(vnf.out("wg", "show", "wg-vpn-server", what) for what in shown)


def test_peer_comes_and_goes(basic: Service, laptop: Laptop) -> None:
    server = basic["server"]
    before = table(server)
    assert not laptop.pings(SERVER)
    added = server.action(
        "add-peer",
        link="vpn-server",
        name="laptop",
        public_key=laptop.public_key,
        allowed_prefixes=f"{INNER}/32",
    )
    assert added["added"] == "laptop"
    assert added["public-key"] == server.public_key("wg-vpn-server")
    try:
        assert laptop.pings(SERVER)
        assert server.pings(INNER)
        answer = {p["peer"]: p for p in server.status("vpn-server")["peers"]}
        assert answer["laptop"]["state"] == "up"
        assert answer["laptop"]["endpoint"] == f"{OUTER}:51820"
        laptop.take(added["wg-quick"])
        assert laptop.pings(SERVER)
    finally:
        gone = server.action("delete-peer", link="vpn-server", name="laptop")
    assert gone == {"deleted": "laptop", "link": "vpn-server"}
    assert laptop.public_key not in server.peers("wg-vpn-server")
    assert not laptop.pings(SERVER)
    assert table(server) == before
    assert basic["client"].pings(SERVER)


KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"name": "x", "allowed_prefixes": "10.77.0.2/32"}, "already in use by "),
        ({"name": "x", "allowed_prefixes": "192.168.100.0/24"}, "overlaps "),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ({"name": "x", "public_key": "short"}, "add-peer: public-key: "),
                ({"name": "../x"}, "add-peer: name: "),
                ({"name": "x", "allowed_prefixes": "10.77.0.1/32"}, "covers our own inner address"),
                ({"name": "x", "allowed_prefixes": "10.0.0.1/33"}, "add-peer: allowed-prefixes: "),
                ({"name": "x", "endpoint": "nowhere"}, "add-peer: endpoint: "),
            )
        ),
    ],
    ids=["peer's prefix", "underlay", "key", "name", "own address", "prefix", "endpoint"],
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
