"""The cells of a pair of security gateways: their addresses, and the better path.

Each test leaves the service whole. Take-overs are in test_e2e_secgw_ha.py.

Cast: gateway1, gateway2, core, cell1, cell2 (`secgw_ha_ns`).

Seen:
- a cell with the address of another one gets none of its packets;
- a path that loses packets moves the service;
- a cell that knows one address gets the standby too, and keeps its inner address.
"""

import ipaddress
import itertools
import re
import time
from collections.abc import Callable

import pytest
from e2e_core import MME, SGW
from e2e_standby import VIRTUAL, files, is_active, whole
from e2e_support import ActionError, Service, Vdu, outsider
from support.swanctl import tunnel

# The first test builds packages and waits for five VNFs.
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_cell_with_the_address_of_another_one_gets_none_of_its_packets(ha: Service) -> None:
    """Two cells are no pair to a gateway, whatever address one of them is configured with."""
    second, core = ha["cell2"], ha["core"]
    given = {
        "link": "s1c",
        "technology": "ipsec",
        "underlay_interface": "ens4",
        "accept_prefixes": "10.43.1.0/24",
        "ipsec_options": "dpd-delay=5,mobike=no",
        "standby_gateways": "192.168.120.1,192.168.120.2",
    }
    # What the second cell got would have no answer.
    second.out("nft", "add table ip deaf")
    second.out("nft", "add chain ip deaf input { type filter hook input priority 0; }")
    second.out("nft", "add rule ip deaf input icmp type echo-request drop")
    try:
        second.action("configure", **given, inner_address="10.41.0.11/24")
        for gateway in ("gateway1", "gateway2"):
            status = ha[gateway].status("s1c")
            assert status["state"] == "blocked"
            assert "10.41.0.11/32 is already in use by" in status["reason"]
            assert len(status["peers"]) == 2  # Both stay as they were.
        words = ("ping", "-n", "-q", "-c", "8", "-i", "0.2", "-I", MME, "10.41.0.11")
        assert "8 received" in core.out(*words)
    finally:
        second.out("nft", "delete table ip deaf")
        second.action("configure", **given, inner_address="10.41.0.12/24")
    whole(ha)


FIELD = "192.168.120.50"
SHARED, IDENTITY = "192.168.120.254", "gw.secgw.example"


def field_cell(**child: str) -> str:
    """Return what docs/how-to/security-gateway.md tells who sets up a cell that knows one address.

    `child` are more settings of its CHILD_SA.
    """
    gateways = "gateway1.pem, gateway2.pem"
    acts = {"start_action": "start", "dpd_action": "restart", **child}
    return tunnel(
        "gateway",
        {"auth": "pubkey", "id": "@field-cell", "pubkeys": "field-cell.pem"},
        {"auth": "pubkey", "id": f"@{IDENTITY}", "pubkeys": gateways},
        {"local_ts": "10.44.9.1/32", "remote_ts": "10.43.1.0/24", **acts},
        local_addrs=FIELD,
        remote_addrs=SHARED,
        unique="replace",
        keyingtries=0,
        dpd_delay="2s",
    )


BY_ITSELF = 28.0
"""Seconds after which the cell would notice: 2 of DPD, and 26 of repetitions."""


STANDBY = {"virtual_address": f"{VIRTUAL}/24", "router_id": 51, "advert_interval_ms": 30}
"""What secgw_ha_ns is configured with on both gateways."""


def configure_pair(service: Service, **more: object) -> None:
    """Configure both gateways as shipped, with some settings besides."""
    for number, role, other in (("1", "primary", "2"), ("2", "secondary", "1")):
        own = {"role": role, "other_address": f"192.168.121.{other}"}
        service[f"gateway{number}"].action("configure-standby", **own, **STANDBY, **more)


def longest_gap(cell: Vdu, service: Service, action: Callable[[], object]) -> float:
    """Ping the core every 20 ms while something happens; return the longest silence in seconds."""
    words = ("ping", "-n", "-D", "-i", "0.02", "-I", "10.44.9.1", MME)
    file = "StandardOutput=truncate:/run/gap"
    cell.out("systemd-run", "--quiet", "--collect", "--unit=gap", "-p", file, *words)
    time.sleep(2)
    action()
    service.wait(lambda: cell.pings(MME, "-I", "10.44.9.1"), "the cell reaches the core", 150)
    time.sleep(1)
    cell.out("systemctl", "kill", "--signal=INT", "gap")
    service.wait(lambda: "packets transmitted" in cell.out("cat", "/run/gap"), "ping ends")
    lines = re.findall(r"^\[([0-9.]+)\] .* icmp_seq=", cell.out("cat", "/run/gap"), re.M)
    result = [float(at) for at in lines]
    assert len(result) > 20, result
    return max(after - before for before, after in itertools.pairwise(result))


def test_a_cell_that_knows_one_address_gets_the_standby_too(ha: Service) -> None:
    gateways = [ha["gateway1"], ha["gateway2"]]
    shared = {"shared_address": f"{SHARED}/24", "shared_identity": IDENTITY}

    # Bad input leaves the pair as it is.
    given = {"role": "primary", "other_address": "192.168.121.2", **STANDBY}
    for wrong, reason in (
        ({"shared_address": f"{SHARED}/24"}, "shared-identity: none beside"),
        ({**shared, "shared_address": "192.168.99.1/24"}, "not in the subnet of the untrusted"),
        ({**shared, "shared_address": "192.168.120.11/24"}, "is that of"),
    ):
        with pytest.raises(ActionError, match=reason):
            gateways[0].action("configure-standby", **given, **wrong)
    whole(ha)
    configure_pair(ha, **shared)
    whole(ha)
    held = [gateway.out("ip", "-o", "address", "show", "to", SHARED) for gateway in gateways]
    assert [bool(text.strip()) for text in held] == [True, False]
    with outsider(ha, "backhaul", FIELD) as cell:
        key = "/etc/swanctl/private/field-cell.pem"
        cell.out("openssl", "genpkey", "-algorithm", "ED25519", "-out", key)
        public = cell.out("openssl", "pkey", "-in", key, "-pubout")
        cell.out("tee", "/etc/swanctl/pubkey/field-cell.pem", input=public)
        peer = {
            "link": "s1c",
            "name": "field-cell",
            "public_key": "".join(public.splitlines()[1:-1]),
            "allowed_prefixes": "10.44.9.1/32",
        }
        for number, gateway in enumerate(gateways, 1):
            added = gateway.action("add-peer", **peer, endpoint=f"{FIELD}:4500")
            pem = f"-----BEGIN PUBLIC KEY-----\n{added['public-key']}\n-----END PUBLIC KEY-----\n"
            cell.out("tee", f"/etc/swanctl/pubkey/gateway{number}.pem", input=pem)
        cell.out("tee", "/etc/swanctl/conf.d/gateway.conf", input=field_cell())
        daemon = "/etc/strongswan.d/00-osm-vpnaas.conf"
        cell.out("tee", daemon, input=ha["cell1"].out("cat", daemon))
        cell.out("ip", "address", "add", "10.44.9.1/32", "dev", "lo")
        cell.out("systemctl", "restart", "strongswan")
        ha.wait(lambda: cell.pings(MME, "-I", "10.44.9.1"), "the cell reaches the core")
        # It has a tunnel to one gateway, and that is the active one.
        assert len(re.findall("ESTABLISHED", cell.out("swanctl", "--list-sas"))) == 1
        before = files(ha["cell1"])

        def kill() -> None:
            gateways[0].out("systemctl", "kill", "--signal=KILL", "strongswan")
            is_active(ha, "2")

        gap = longest_gap(cell, ha, kill)
        print(f"one address, called by the gateway that takes over: {1000 * gap:.0f} ms")
        assert gap < BY_ITSELF
        whole(ha)  # The primary takes back, although the cell has no tunnel to it.
        ha.wait(lambda: cell.pings(MME, "-I", "10.44.9.1"), "the cell follows the primary")

        def leave() -> None:
            gateways[0].action("switch-over")
            is_active(ha, "2")

        gap = longest_gap(cell, ha, leave)
        print(f"one address, switch-over: {1000 * gap:.0f} ms")
        assert gap < BY_ITSELF
        gateways[0].action("switch-over", activity="resume")
        whole(ha)
        # Where nobody knows its address, the cell finds out, and calls when it is closed.
        cell.out("tee", "/etc/swanctl/conf.d/gateway.conf", input=field_cell(close_action="start"))
        cell.out("swanctl", "--load-all")
        for gateway in gateways:
            gateway.action("add-peer", **peer)
        ha.wait(lambda: cell.pings(MME, "-I", "10.44.9.1"), "the cell reaches the core again", 240)
        gap = longest_gap(cell, ha, kill)
        print(f"one address, the cell finds out by DPD: {gap:.1f} s")
        assert 2 < gap < 150
        whole(ha)
        ha.wait(lambda: cell.pings(MME, "-I", "10.44.9.1"), "the cell follows by itself", 240)
        assert files(ha["cell1"]) == before
        for gateway in gateways:
            gateway.action("delete-peer", link="s1c", name="field-cell")
    configure_pair(ha)
    whole(ha)
    for gateway in gateways:
        assert gateway.out("ip", "-o", "address", "show", "to", SHARED).strip() == ""


def test_a_cell_keeps_the_address_that_the_pair_gave_it(ha: Service) -> None:
    """Both gateways give the same, so that a take-over changes nothing."""
    cell, core, gateways = ha["cell2"], ha["core"], (ha["gateway1"], ha["gateway2"])
    link = {"link": "s1u", "technology": "ipsec", "underlay_interface": "ens4"}
    own = {"inner_address": "10.42.0.1/24", "allowed_prefixes": "10.43.2.0/24"}
    own |= {"accept_prefixes": "10.44.0.0/16"}
    theirs = {
        "accept_prefixes": "10.43.2.0/24",
        "ipsec_options": "dpd-delay=5,mobike=no",
        "standby_gateways": "192.168.120.1,192.168.120.2",
    }
    options = "dpd-delay=5,mobike=no"
    for gateway in gateways:
        gateway.action("configure", **link, **own, ipsec_options=f"{options},pool=10.42.0.64/26")
    cell.action("configure", **link, **theirs, inner_address="pool")
    try:
        whole(ha)
        address = cell.status("s1u")["inner-address"].partition("/")[0]
        assert ipaddress.ip_address(address) in ipaddress.ip_network("10.42.0.64/26")

        def given() -> list[list[str]]:
            listed = [gateway.status("s1u")["peers"] for gateway in gateways]
            return [
                [p["given-addresses"] for p in each if "given-addresses" in p] for each in listed
            ]

        ha.wait(lambda: given() == [[address], [address]], "both gateways give the same")
        assert core.pings(address, "-I", SGW)
        gateways[0].out("systemctl", "kill", "--signal=KILL", "strongswan")
        is_active(ha, "2")
        ha.wait(lambda: core.pings(address, "-I", SGW), "the core reaches it by the standby")
        assert cell.pings(SGW, "-I", address)
        gateways[0].action("show-status")
        whole(ha)
        ha.wait(lambda: given() == [[address], [address]], "still the same of both")
        assert core.pings(address, "-I", SGW)
    finally:
        cell.action("configure", **link, **theirs, inner_address="10.42.0.12/24")
        for gateway in gateways:
            gateway.action("configure", **link, **own, ipsec_options=options)
    whole(ha)
