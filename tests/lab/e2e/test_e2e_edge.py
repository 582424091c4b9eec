"""User plane at the edge: a mobile core over two sites.

All functions are at the first site but user plane and station.

Cast: amf, smf, upf, gnb, ue (`5gc_ue_ns`); hss, mme, spgwc, spgwu, enb, ue (`epc_ue_ns`).

Seen:
- each link runs between the sites that the parameter file names;
- a UE at the edge has a session, and its packets stay at that site.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from e2e_support import CORE_5G, EPC, PATIENCE, Secrets, wait
from e2e_wire import Capture, wireguard_only
from sites_support import TREE, Sites, opened
from vpnaas.base.links import REFERENCE_POINTS

from builder import packages
from builder.parameters import placement, variants

pytestmark = [pytest.mark.lab, pytest.mark.long]

MARKER = b"a UE's own words"


@dataclass(frozen=True)
class Edge:
    """A core of params/deployments with its user plane at the edge.

    Attributes:
        name: The deployment.
        packages: Packages of the core.
        service, parameters: In place of the deployment's: with network functions and a UE.
        members: Those at the edge.
        crossing, local: Links by whether they cross: an end, and the inner address of the other.
        signalling, user: The link of signalling that crosses, that of UEs' packets, which does not.
        data_network: Address behind the user plane.
    """

    name: str
    packages: tuple[str, ...]
    service: str
    parameters: str
    members: tuple[str, ...]
    crossing: dict[str, tuple[str, str]]
    local: dict[str, tuple[str, str]]
    signalling: str
    user: str
    data_network: str


EDGES = (
    Edge(
        "epc_edge",
        EPC,
        "epc_ue_ns",
        "epc_ue",
        ("spgwu", "enb", "ue"),
        {"s1c": ("mme", "192.168.247.10"), "sxab": ("spgwc", "172.30.55.102")},
        {
            "s6a": ("mme", "172.16.6.129"),
            "s11": ("mme", "172.16.1.104"),
            "s1u": ("enb", "192.168.248.159"),
        },
        "s1c",
        "s1u",
        "10.254.1.203",
    ),
    Edge(
        "5gc_edge",
        CORE_5G,
        "5gc_ue_ns",
        "5gc_ue",
        ("upf", "gnb", "ue"),
        {"n2": ("amf", "172.16.20.40"), "n4": ("smf", "172.16.22.30")},
        {"sbi": ("amf", "172.16.23.20"), "n3": ("gnb", "172.16.21.30")},
        "n2",
        "n3",
        "10.254.2.30",
    ),
)


def parameters(edge: Edge, target: Path) -> Path:
    """Make the parameters of a deployment with network functions and a UE."""
    source = yaml.safe_load((TREE.root / f"params/deployments/{edge.name}.yaml").read_text())
    source |= {"service": edge.service, "parameters": edge.parameters}
    source["members"] = dict.fromkeys(edge.members, "edge")
    known = packages.catalogue(TREE)
    vnfds = {p.name: p.descriptor["vnfd"] for p in known.values() if p.kind == "vnf"}
    document = placement.parameters(
        placement.Deployment.model_validate(source),
        known[edge.service].descriptor["nsd"]["nsd"][0],
        vnfds,
        variants.parameter_files(TREE)[edge.parameters],
        edge.name,
    )
    target.write_text(yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False))
    return target


@pytest.fixture(scope="module", params=EDGES, ids=lambda edge: edge.name)
def edge(request: pytest.FixtureRequest) -> Edge:
    chosen: Edge = request.param
    return chosen


@pytest.fixture(scope="module")
def sites(
    edge: Edge, dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    for sites in opened(tmp_path_factory.mktemp("edge"), dist, secrets):
        sites.lab.onboard(*edge.packages)
        file = parameters(edge, tmp_path_factory.mktemp("params") / f"{edge.name}.yaml")
        words = ("--ns_name", "core", "--nsd_name", edge.service, "--vim_account", "site-a")
        done = sites.lab.verb(
            "ns-create", *words, "--config_file", str(file), "--wait", timeout=3 * PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield sites


def test_links_run_where_the_deployment_says(edge: Edge, sites: Sites) -> None:
    for link, (member, far) in {**edge.crossing, **edge.local}.items():
        assert sites.status("core", member, link)["state"] == "up", link
        crosses = sites.round_trip("core", member, far) >= 18.0
        assert crosses == (link in edge.crossing), link


def test_a_ue_at_the_edge_has_a_session_and_its_packets_stay_there(
    edge: Edge, sites: Sites, tmp_path: Path
) -> None:
    def reaches() -> bool:
        words = "ping -n -q -c 3 -i 0.2 -W 2 -I oaitun_ue1"
        argv = (*shlex.split(words), "-p", MARKER.hex(), "-s", "64", edge.data_network)
        return " 0% packet loss" in sites.out("core", "ue", *argv)

    wait(reaches, "the UE reaches the data network", PATIENCE)
    ports = {link: REFERENCE_POINTS[link].listen_port for link in (edge.signalling, edge.user)}
    capture = Capture(tmp_path / "uplink.pcap")
    with sites.vim("site-b").capture_uplink(capture.path):
        assert reaches()
        sites.round_trip("core", *edge.crossing[edge.signalling])
    assert capture.count(wireguard_only(ports[edge.signalling])) >= 20
    user = wireguard_only(ports[edge.user])
    assert capture.count(f"icmp or udp port 2152 or {user}") == 0
    assert not capture.holds(MARKER)
