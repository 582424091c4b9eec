"""User plane at the edge: an EPC over two sites, HSS and gateways' control at the core."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e_support import EPC, PATIENCE, Secrets, wait
from e2e_wire import Capture, wireguard_only
from sites_support import TREE, Sites, opened

from builder import deployment, packages, variants

pytestmark = [pytest.mark.lab, pytest.mark.long]

SGI = "10.254.1.203"
EDGE = ("spgwu", "enb", "ue")
#: Links by whether they cross: an end, and the inner address of the other.
CROSSING = {"s1c": ("mme", "192.168.247.10"), "sxab": ("spgwc", "172.30.55.102")}
LOCAL = {"s6a": ("mme", "172.16.6.129"), "s11": ("mme", "172.16.1.104"),
         "s1u": ("enb", "192.168.248.159")}  # fmt: skip
MARKER = b"a UE's own words"


def parameters(target: Path) -> Path:
    """Make the parameters of params/deployments/epc_edge.yaml with network functions and a UE."""
    source = yaml.safe_load((TREE.root / "params/deployments/epc_edge.yaml").read_text())
    source |= {"service": "epc_ue_ns", "parameters": "epc_ue"}
    source["members"] = dict.fromkeys(EDGE, "edge")
    known = packages.catalogue(TREE)
    vnfds = {p.name: p.descriptor["vnfd"] for p in known.values() if p.kind == "vnf"}
    document = deployment.parameters(
        deployment.Deployment.model_validate(source),
        known["epc_ue_ns"].descriptor["nsd"]["nsd"][0],
        vnfds,
        variants.parameter_files(TREE)["epc_ue"],
        "epc_edge",
    )
    target.write_text(yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False))
    return target


@pytest.fixture(scope="module")
def sites(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    for sites in opened(tmp_path_factory.mktemp("edge"), dist, secrets):
        sites.lab.onboard(*EPC)
        file = parameters(tmp_path_factory.mktemp("params") / "epc_edge_ue.yaml")
        words = ("--ns_name", "epc", "--nsd_name", "epc_ue_ns", "--vim_account", "site-a")
        done = sites.lab.verb(
            "ns-create", *words, "--config_file", str(file), "--wait", timeout=3 * PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield sites


def test_links_run_where_the_deployment_says(sites: Sites) -> None:
    for link, (member, far) in {**CROSSING, **LOCAL}.items():
        assert sites.status("epc", member, link)["state"] == "up", link
        crosses = sites.round_trip("epc", member, far) >= 18.0
        assert crosses == (link in CROSSING), link


def test_a_ue_at_the_edge_attaches_and_its_packets_stay_there(sites: Sites, tmp_path: Path) -> None:
    def reaches() -> bool:
        words = f"ping -n -q -c 3 -i 0.2 -W 2 -I oaitun_ue1 -p {MARKER.hex()} -s 64 {SGI}"
        return " 0% packet loss" in sites.out("epc", "ue", *shlex.split(words))

    wait(reaches, "the UE reaches SGi")
    capture = Capture(tmp_path / "uplink.pcap")
    with sites.vim("site-b").capture_uplink(capture.path):
        assert reaches()
        sites.round_trip("epc", "mme", CROSSING["s1c"][1])
    assert capture.count(wireguard_only(51823)) >= 20
    assert capture.count(f"icmp or udp port 2152 or {wireguard_only(51825)}") == 0
    assert not capture.holds(MARKER)
