"""Services over two sites of the lab: floating addresses, 18 ms and 200 Mbit/s apart.

Cast: server, client (`vpn_basic_ns`); hss, mme (of `epc_ns`).

Seen:
- each member is at its site, and the tunnel runs between floating addresses;
- a capture between the sites has the tunnel only, at a rate below that of the uplinks;
- links of one site stay there; a network that a site lacks fails as in OSM.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_support import PATIENCE, Secrets, wait
from sites_support import TREE, Sites, opened

from builder import packages
from builder.parameters import placement, variants

pytestmark = [pytest.mark.lab, pytest.mark.long]

NESTED_MTU = 1370
OVER_IPV4 = 60
"""Bytes that WireGuard adds where it runs over IPv4 only."""


def s6a_only(target: Path) -> Path:
    """Make a service of HSS and MME out of the EPC, with parameters for two sites."""
    known = packages.catalogue(TREE)
    nsd = known["epc_ns"].descriptor["nsd"]["nsd"][0]
    body = json.loads(json.dumps(nsd).replace("epc_ns", "s6a_ns"))
    (flavour,) = body["df"]
    body["vnfd-id"] = ["hss_vnf", "mme_vnf"]
    flavour["vnf-profile"] = [p for p in flavour["vnf-profile"] if p["id"] in ("hss", "mme")]
    config = body["ns-configuration"]
    config["relation"] = [r for r in config["relation"] if r["name"] == "s6a"]
    folder = target / "s6a_ns"
    folder.mkdir()
    (folder / "s6a_nsd.yaml").write_text(yaml.safe_dump({"nsd": {"nsd": [body]}}))
    deployed = placement.read(TREE.root / "params/deployments/epc_multisite.yaml")
    base = variants.parameter_files(TREE)["epc"]
    base["additionalParamsForVnf"] = [
        m for m in base["additionalParamsForVnf"] if m["member-vnf-index"] in ("hss", "mme")
    ]
    kept = ("s6a", "s11", "s1c")
    base["vld"] = [link for link in base["vld"] if link["name"] in kept]
    for link in base["vld"]:
        points = link["vnfd-connection-point-ref"]
        link["vnfd-connection-point-ref"] = [
            p for p in points if p["member-vnf-index-ref"] in ("hss", "mme")
        ]
    vnfds = {n: known[n].descriptor["vnfd"] for n in body["vnfd-id"]}
    document = placement.parameters(deployed, body, vnfds, base, "test")
    (target / "s6a.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return folder


@pytest.fixture(scope="module")
def sites(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    """Two sites; the basic service and S6a over both, made side by side."""

    def narrow(name: str, config: dict[str, Any]) -> None:
        if name == "site-b":
            # As behind a tunnel between the sites' own gateways, which takes 80 bytes.
            config["networks"][0]["mtu"] = NESTED_MTU

    home = tmp_path_factory.mktemp("sites")
    for sites in opened(home, dist, secrets, narrow):
        lab = sites.lab
        lab.onboard("vpn_endpoint_vnf", "vpn_basic_ns", "hss_vnf", "mme_vnf")
        scratch = tmp_path_factory.mktemp("s6a")
        lab.done("nspkg-create", str(s6a_only(scratch)))
        running = []
        for name, nsd, file in (
            ("vpn", "vpn_basic_ns", dist / "params/vpn_two_sites.yaml"),
            ("core", "s6a_ns", scratch / "s6a.yaml"),
        ):
            words = ["--ns_name", name, "--nsd_name", nsd, "--vim_account", "site-a"]
            words += ["--config_file", str(file), "--wait"]
            argv = [sys.executable, "-m", "lab.cli", "--home", str(home), "ns-create", *words]
            running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        for process in running:
            said, _ = process.communicate(timeout=2 * PATIENCE)
            assert process.returncode == 0, said.decode()
        yield sites


def test_members_are_where_the_deployment_says(sites: Sites) -> None:
    for ns, member, external in (
        ("vpn", "server", "198.51.100."),
        ("vpn", "client", "203.0.113."),
        ("core", "mme", "198.51.100."),
        ("core", "hss", "203.0.113."),
    ):
        vnfr = sites.lab.engine.vnf(ns, member)
        # The charm reaches its VDU at a floating address, which no interface has.
        assert vnfr["ip-address"].startswith(external)
        assert vnfr["ip-address"] not in sites.out(ns, member, "ip", "-4", "address")
        (mgmt,) = [p for p in vnfr["vdur"][0]["interfaces"] if p["mgmt-vnf"]]
        assert mgmt["ip-address"].startswith(vnfr["ip-address"] + ";10.250.")


@dataclass(frozen=True)
class Far:
    """A link between the sites, seen from one end: where its peer is."""

    ns: str
    near: str
    link: str
    inner: str
    endpoint: str


@pytest.mark.parametrize(
    "far",
    [
        Far("vpn", "client", "vpn-client", inner="10.77.0.1", endpoint="198.51.100.11:51820"),
        Far("core", "mme", "s6a", inner="172.16.6.129", endpoint="203.0.113.129:51821"),
    ],
    ids=lambda far: far.link,
)
def test_a_tunnel_runs_between_floating_addresses(sites: Sites, far: Far) -> None:
    shown = sites.status(far.ns, far.near, far.link)
    (peer,) = shown["peers"]
    assert (shown["state"], peer["state"], peer["endpoint"]) == ("up", "up", far.endpoint)
    # Never below what the two uplinks add; far above only on a very busy machine.
    assert 18.0 <= sites.round_trip(far.ns, far.near, far.inner) < 40.0


def test_the_mtu_of_a_tunnel_inside_a_tunnel_follows_at_both_ends(sites: Sites) -> None:
    for member, link in (("client", "vpn-client"), ("server", "vpn-server")):
        assert sites.status("vpn", member, link)["mtu"] == NESTED_MTU - OVER_IPV4
    assert sites.whole("vpn", "client", "10.77.0.1", NESTED_MTU - OVER_IPV4)
    assert not sites.whole("vpn", "client", "10.77.0.1", NESTED_MTU - OVER_IPV4 + 1)


def test_the_rate_is_below_that_of_the_uplinks(sites: Sites) -> None:
    sites.out("vpn", "server", "iperf3", "-s", "-D", "-1", "-B", "10.77.0.1")
    said = sites.out("vpn", "client", "iperf3", "-J", "-c", "10.77.0.1", "-t", "4")
    rate = json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6
    assert 20 < rate < 200


def test_only_the_tunnel_is_seen_between_the_sites(sites: Sites, tmp_path: Path) -> None:
    file = tmp_path / "uplink.pcap"
    with sites.vim("site-b").capture_uplink(file):
        sites.round_trip("core", "mme", "172.16.6.129")
    argv = ["tcpdump", "-n", "-r", str(file), "icmp or host 172.16.6.129 or host 10.30.0.129"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert shown == ""
    argv = ["tcpdump", "-n", "-r", str(file), "udp port 51821 and host 203.0.113.129"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert len(shown.splitlines()) >= 20


def test_links_that_stay_at_a_site_are_networks_of_that_site(sites: Sites) -> None:
    names = {n: {net.name for net in sites.vim(n).networks()} for n in ("site-a", "site-b")}
    assert {"core-s11", "core-s1c"} <= names["site-a"]
    assert not {"core-s11", "core-s1c", "core-s6a"} & names["site-b"]


def test_over_management_the_floating_address_is_found(sites: Sites) -> None:
    """Nobody types it in: OSM logs in to it."""
    ends = {"server": ("vpn-server", "10.77.0.1"), "client": ("vpn-client", "10.77.0.2")}
    floating = {m: sites.lab.engine.vnf("vpn", m)["ip-address"] for m in ends}
    for member, (link, inner) in ends.items():
        # All that leaves for the other site does so by management.
        far = {"server": "203.0.113.0/24", "client": "198.51.100.0/24"}[member]
        sites.out("vpn", member, "ip", "route", "del", far)
        given = {"link": link, "inner_address": f"{inner}/24", "underlay_interface": "auto"}
        sites.action("vpn", member, "configure", **given)

    def calls(member: str, other: str) -> bool:
        (peer,) = sites.status("vpn", member, ends[member][0])["peers"]
        return (peer["state"], peer["endpoint"]) == ("up", f"{floating[other]}:51820")

    wait(lambda: calls("client", "server"), "the client calls the server's floating address")
    wait(lambda: calls("server", "client"), "the server calls the client's floating address")
    assert sites.round_trip("vpn", "client", "10.77.0.1") >= 18.0


def test_a_network_that_a_site_does_not_have_fails_as_in_osm(sites: Sites, tmp_path: Path) -> None:
    document = yaml.safe_load((sites.lab.dist / "params/vpn_two_sites.yaml").read_text())
    document["vld"][0]["vim-network-name"]["site-b"] = "elsewhere"
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(document))
    words = ("--nsd_name", "vpn_basic_ns", "--vim_account", "site-a", "--config_file", str(file))
    said = sites.lab.refused("ns-create", "--ns_name", "wrong", *words, "--wait")
    assert "Network not found with this criteria: 'elsewhere'" in said
    sites.lab.done("ns-delete", "wrong", "--wait")
    document["vld"][0]["vim-network-name"] = {"site-c": "transit"}
    file.write_text(yaml.safe_dump(document))
    said = sites.lab.refused("ns-create", "--ns_name", "wrong", *words)
    assert "vim account 'site-c' not found" in said
