"""Six topologies of a small cell with LTE and NR.

Only the parameters of one network service differ.

Cast: lte, nr, gateway, core (`small_cell_ns`).

Seen:
- (a) a tunnel each, that of LTE through the NAT of the NR box;
- (b) both tunnels end on the NR box, which hands an inner address of LTE inside;
- (c) one tunnel with two inner addresses;
- (d) one tunnel whose inner address is the outer one;
- (e) one tunnel whose inner address stands for private ones by NAT;
- (f) one tunnel with two inner addresses that the gateway hands out.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e_core import MME, with_core
from e2e_support import SMALL_CELL, ActionError, Lab, Service, Vnf
from e2e_wire import Capture, captured
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-5)]

AMF = "10.43.2.10"
BACKHAUL = "192.168.122.11"
#: IKE and ESP in UDP as behind a NAT, where only one of the two ports is 4500.
IPSEC = "(udp port 4500 or ip proto 50)"


@pytest.fixture
def cell(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with the parameter file the test names."""
    packages, addresses = SMALL_CELL, (MME, AMF)
    with with_core(lab, "cell", "small_cell_ns", request.param, packages, addresses) as service:
        yield service


def topology(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a test the service of one topology."""
    decorate: Callable[[Callable[..., None]], Callable[..., None]]
    decorate = pytest.mark.parametrize("cell", [name], indirect=True)
    return decorate


def remotes(vnf: Vnf) -> list[str]:
    """Return from where tunnels are established, as ADDRESS[PORT]."""
    listed = vnf.out("swanctl", "--list-sas")
    # A gateway may still be calling an address that only the other side of a NAT knows.
    pattern = r", ESTABLISHED, IKEv2.*\n  local .*\n  remote '.*' @ (\S+)\n"
    return sorted(re.findall(pattern, listed))


def heard(core: Vnf, path: Path, work: Callable[[], bool]) -> set[str]:
    """Return who asks the core for echoes while something works."""
    with captured(core.service, "trusted", path) as capture:
        assert work()
    return senders(capture)


def senders(capture: Capture) -> set[str]:
    """Return the sources of echo requests."""
    result = capture.sample("icmp[icmptype] = icmp-echo")
    return set(re.findall(r" IP (\S+) > ", result))


def only_ipsec(cell: Service, path: Path) -> None:
    """Let both radios talk to their cores; nothing of it is in clear on the backhaul."""
    with captured(cell, "backhaul", path) as capture:
        assert cell["nr"].pings(AMF)
        assert cell["lte"].pings(MME)
    assert capture.count(IPSEC) >= 4
    other = f"not {NEIGHBOURS} and not {IPSEC}"
    assert capture.count(other) == 0, capture.sample(other)


def links(vnf: Vnf) -> set[str]:
    listed = vnf.out("ip", "-o", "link", "show")
    return set(re.findall(r"^\d+: xf-([a-z]+)", listed, re.MULTILINE))


@topology("small_cell_two_boxes")
def test_a_tunnel_each_and_that_of_lte_through_nat(cell: Service, tmp_path: Path) -> None:
    only_ipsec(cell, tmp_path / "backhaul.pcap")
    assert (links(cell["nr"]), links(cell["lte"])) == ({"nr"}, {"lte"})
    behind, own = sorted(remotes(cell["gateway"]), key=lambda answer: answer.endswith("[4500]"))
    assert own == f"{BACKHAUL}[4500]"
    assert re.fullmatch(rf"{re.escape(BACKHAUL)}\[\d+\]", behind)
    assert cell["core"].pings("10.51.0.21", "-I", MME)
    assert cell["core"].pings("10.52.0.11", "-I", AMF)
    # What is switched off is not missed.
    assert cell["nr"].status("lte")["state"] == "off"
    shown = cell["gateway"].status("lte")
    assert (shown["state"], shown["reason"]) == ("up", "")


@pytest.mark.long
@topology("small_cell_two_tunnels")
def test_b_the_nr_box_hands_the_address_of_lte_inside(cell: Service, tmp_path: Path) -> None:
    only_ipsec(cell, tmp_path / "backhaul.pcap")
    assert (links(cell["nr"]), links(cell["lte"])) == ({"lte", "nr"}, set())
    assert remotes(cell["gateway"]) == [f"{BACKHAUL}[4500]"] * 2
    lte = cell["lte"]
    assert heard(cell["core"], tmp_path / "lte.pcap", lambda: lte.pings(MME)) == {"10.44.0.2"}
    assert cell["core"].pings("10.44.0.2", "-I", MME)
    # Each radio has its tunnel: LTE's address is not among the selectors of NR's.
    assert not cell["core"].pings("10.44.0.2", "-I", AMF, tries=5)


@pytest.mark.long
@topology("small_cell_one_tunnel")
def test_c_one_tunnel_has_two_inner_addresses(cell: Service, tmp_path: Path) -> None:
    only_ipsec(cell, tmp_path / "backhaul.pcap")
    assert (links(cell["nr"]), links(cell["lte"])) == ({"nr"}, set())
    assert remotes(cell["gateway"]) == [f"{BACKHAUL}[4500]"]
    lte, nr = cell["lte"], cell["nr"]
    assert heard(cell["core"], tmp_path / "lte.pcap", lambda: lte.pings(MME)) == {"10.44.0.2"}
    assert heard(cell["core"], tmp_path / "nr.pcap", lambda: nr.pings(AMF)) == {"10.52.0.11"}
    for address in ("10.44.0.2", "10.52.0.11"):
        assert cell["core"].pings(address, "-I", MME)
    assert cell["gateway"].status("lte")["state"] == "off"


@pytest.mark.long
@topology("small_cell_one_nat")
def test_e_private_addresses_become_the_inner_one_before_ipsec(
    cell: Service, tmp_path: Path
) -> None:
    only_ipsec(cell, tmp_path / "backhaul.pcap")
    lte, nr, core = cell["lte"], cell["nr"], cell["core"]
    assert (links(nr), links(lte)) == ({"nr"}, set())
    assert heard(core, tmp_path / "lte.pcap", lambda: lte.pings(MME)) == {"10.52.0.11"}
    # GTP-U, too (TS 29.281): a packet of LTE comes from the tunnel's address, and no other one.
    gtpu = "import socket; s = socket.socket(2, 2); s.bind(('10.44.0.2', 2152)); "
    gtpu += f"s.sendto(bytes.fromhex('30ff000000000001'), ('{MME}', 2152))"
    with captured(cell, "trusted", tmp_path / "gtpu.pcap") as capture:
        lte.out("python3", "-c", gtpu)
        assert lte.pings(MME)
    assert capture.count("udp dst port 2152 and src 10.52.0.11") == 1
    assert capture.count("src net 10.44.0.0/16") == 0
    # Nobody outside reaches the private address.
    assert not core.pings("10.44.0.2", "-I", MME, tries=3)


@pytest.mark.long
@topology("small_cell_one_address")
def test_d_the_one_inner_address_is_the_outer_one(cell: Service, tmp_path: Path) -> None:
    only_ipsec(cell, tmp_path / "backhaul.pcap")
    nr, lte, core = cell["nr"], cell["lte"], cell["core"]
    assert remotes(cell["gateway"]) == [f"{BACKHAUL}[4500]"]
    # Whoever of the cell speaks, the core hears one address, and answers it by the gateway.
    assert heard(core, tmp_path / "lte.pcap", lambda: lte.pings(MME)) == {BACKHAUL}
    assert heard(core, tmp_path / "nr.pcap", lambda: nr.pings(AMF)) == {BACKHAUL}
    assert core.pings(BACKHAUL, "-I", AMF)
    # IKE itself goes on beside it: a new key exchange needs packets outside the tunnel.
    child = nr.out("swanctl", "--list-sas", "--raw").partition("child-sas {")[2].partition("-")[0]
    nr.out("swanctl", "--rekey", "--child", child)
    assert nr.pings(AMF)
    for vnf in ("gateway", "nr"):
        assert cell[vnf].status("nr")["state"] == "up"
    # Without the tunnel the same address is reached by IKE only, and nothing leaves in clear.
    nr.out("systemctl", "stop", "osm-vpnaas-ipsec-keeper", "strongswan")
    try:
        with captured(cell, "backhaul", tmp_path / "down.pcap") as capture:
            assert not core.pings(BACKHAUL, "-I", AMF, tries=5)
            assert not nr.pings(AMF, tries=5)
            assert not lte.pings(MME, tries=5)
        assert capture.count("net 10.43.0.0/16") == 0, capture.sample("net 10.43.0.0/16")
    finally:
        nr.out("systemctl", "start", "strongswan", "osm-vpnaas-ipsec-keeper")
    cell.wait(lambda: lte.pings(MME), "the tunnel is back")


@pytest.mark.long
@topology("small_cell_pool")
def test_f_the_gateway_hands_out_two_addresses_that_stay(cell: Service, tmp_path: Path) -> None:
    gateway, nr, core = cell["gateway"], cell["nr"], cell["core"]

    def given() -> list[str]:
        answer = gateway.status("nr")["peers"]
        return str(answer[0].get("given-addresses", "")).split(",") if answer else []

    def up() -> bool:
        return "given-addresses" in gateway.status("nr")["peers"][0]

    cell.wait(up, "the gateway has handed out addresses")
    first, second = addresses = given()
    assert first != second
    assert nr.status("nr")["inner-address"] == f"{first}/24"
    # IKEv2 handed them out: the daemons of both ends say so.
    sas = nr.out("swanctl", "--list-sas", "--raw")
    assert set(re.findall(r"local-vips=\[([^]]*)\]", sas)[0].split()) == set(addresses)
    leases = gateway.out("swanctl", "--list-pools", "--leases")
    assert sorted(re.findall(r"(10\.52\.0\.\d+)\s+online", leases)) == sorted(addresses)

    def carries() -> bool:
        return all(
            nr.pings(target, "-I", own) and core.pings(own, "-I", target)
            for own, target in ((first, AMF), (second, MME))
        )

    with captured(cell, "backhaul", tmp_path / "backhaul.pcap") as capture:
        nr_asks = lambda: nr.pings(AMF, "-I", first)  # noqa: E731
        lte_asks = lambda: nr.pings(MME, "-I", second)  # noqa: E731
        assert heard(core, tmp_path / "first.pcap", nr_asks) == {first}
        assert heard(core, tmp_path / "second.pcap", lte_asks) == {second}
        assert carries()
    other = f"not {NEIGHBOURS} and not {IPSEC}"
    assert capture.count(IPSEC) >= 8
    assert capture.count(other) == 0, capture.sample(other)

    # An address of the pool that it was not given gets it nothing.
    stolen = next(f"10.52.0.{n}" for n in range(65, 70) if f"10.52.0.{n}" not in addresses)
    nr.out("ip", "address", "add", f"{stolen}/32", "dev", "xf-nr")
    assert not nr.pings(AMF, "-I", stolen, tries=5)
    nr.out("ip", "address", "del", f"{stolen}/32", "dev", "xf-nr")

    # Bad input leaves the tunnel as it is.
    configured = {
        "link": "nr",
        "technology": "ipsec",
        "underlay_interface": "ens4",
        "accept_prefixes": "10.43.1.0/24,10.43.2.0/24",
    }
    with pytest.raises(ActionError, match="'ipv6' is unknown; allowed: ipv4"):
        nr.action("configure", **configured, inner_address="pool:ipv6")
    with pytest.raises(ActionError, match="the peers of nr connect to this VNF"):
        gateway.action("configure", **configured, inner_address="pool")
    assert carries()

    def rekeyed() -> None:
        nr.out("swanctl", "--rekey", "--child", "nr")
        (name,) = set(re.findall(r"list-sa event \{(nr_\S+)", sas))
        nr.out("swanctl", "--rekey", "--ike", name)

    for what, happens in (
        ("rekeyed", rekeyed),
        ("daemon of the cell killed", lambda: kill(nr)),
        ("daemon of the gateway killed", lambda: kill(gateway)),
        ("restart", lambda: nr.action("restart", link="nr")),
        ("new keys", lambda: gateway.action("rotate-keys", link="nr")),
    ):
        happens()
        cell.wait(carries, f"both addresses carry packets: {what}")
        cell.wait(lambda: given() == addresses, f"the same addresses: {what}")


def kill(vnf: Vnf) -> None:
    """Kill the IKE daemon; systemd starts it again."""
    vnf.out("systemctl", "kill", "--signal=KILL", "strongswan")
