"""Every file in dist/params is brought up once, with every service or template that it fits.

The cases are read from the packages and files of the build, so a new file is a new case.

Cast: operator, who instantiates each service.

Seen:
- a file that fits no service fails the test;
- every service comes up; a case that another long module brings up is left to that module;
- a file that is another one without its UE comes up with that one, and so does a case of ALIKE;
- a case of VARIED changes the same values as a case that comes up.
"""

import ipaddress
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_support import PATIENCE, Lab, Secrets, Service, Vnf
from sites_support import Sites, opened
from support import shipped
from support.dist import built

from builder import documents
from builder.parameters import variants

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(order=-9)]

#: Seconds that tunnels and network functions get after OSM says that the service is ready.
SETTLES = 240.0


@dataclass(frozen=True)
class Case:
    """A service or a slice template with one of its parameter files.

    Attributes:
        descriptor: Name of its NSD or NST.
        file: Name of the parameter file, without its ending.
        vim: VIM account that the members go to, unless the file says otherwise.
    """

    descriptor: str
    file: str
    vim: str

    def __str__(self) -> str:
        return f"{self.descriptor}-{self.file}"


CATALOGUE = shipped.catalogue()


def body(name: str) -> dict[str, Any]:
    return CATALOGUE[name].body


def members(nsd: dict[str, Any]) -> set[str]:
    return {profile["id"] for profile in nsd["df"][0]["vnf-profile"]}


def links(nsd: dict[str, Any]) -> set[str]:
    return {link["id"] for link in nsd["virtual-link-desc"]}


def given(document: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of members by member-vnf-index, none for a slice."""
    entries = document.get("additionalParamsForVnf", ())
    return {entry["member-vnf-index"]: entry["additionalParams"] for entry in entries}


def fitting(document: dict[str, Any]) -> list[str]:
    """Return the services that have the members and links of a parameter file."""
    indexes = set(given(document))
    named = {entry["name"] for entry in document.get("vld", ())}
    services = {name: body(name) for name, each in CATALOGUE.items() if each.kind == "ns"}
    return [
        name for name, nsd in services.items() if members(nsd) == indexes and named <= links(nsd)
    ]


def cases() -> list[Case]:
    """Return every service and template with every file for it."""
    files = shipped.files()
    slices = documents.read(shipped.TREE.root / "params/slices.yaml")
    found: list[Case] = []
    made = variants.load(shipped.TREE)
    derived = {s + variant.suffix for variant in made for s in variant.services}
    guarded = {
        s + variant.suffix for variant in made if variant.port_security for s in variant.services
    }
    twice: set[str] = set()
    for name, document in files.items():
        if name in slices:
            found.append(Case(slices[name]["nst"], name, "lab"))
            continue
        fits = fitting(document)
        assert fits, f"dist/params/{name}.yaml fits no service"
        # Dictionaries of members and their parameters: the same, and more.
        if any(given(document).items() < given(other).items() for other in files.values()):
            continue
        # A larger copy of a service comes up with one file, in place of the service.
        larger = [service for service in fits if service in derived - guarded - twice]
        plain = [service for service in fits if service not in derived]
        found += [Case(service, name, "lab") for service in larger or plain]
        twice.update(larger)
    for path in sorted((shipped.TREE.root / "params/deployments").glob("*.yaml")):
        deployment = yaml.safe_load(path.read_text(encoding="utf-8"))
        found.append(Case(deployment["service"], path.stem, "site-a"))
    return found + [Case(name, name.removesuffix("_ns_guarded"), "lab") for name in sorted(guarded)]


ELSEWHERE = {
    "conftest": (
        *("vpn_basic_ns-vpn_basic", "vpn_basic_ns-vpn_basic_novpn", "vpn_basic_ns-vpn_basic_psk"),
        *("epc_ue_ns-epc_ue", "secgw_ha_ns-secgw_ha", "epc_secgw_ha_ns-epc_secgw_ha"),
    ),
    "test_e2e_5g": ("5gc_ue_ns-5gc_ue", "5gc_ue_ns-5gc_ue_ipsec"),
    # Slices of a 5G core are ready when their services are joined.
    "test_e2e_slices_5g": (
        *("embb_5g_access_nst-embb_5g_access", "urllc_5g_access_nst-urllc_5g_access"),
        "mmtc_5g_nst-mmtc_5g",
    ),
    "../../experiments/test_fiveg_on_the_lab": ("embb_5g_nst-embb_5g", "urllc_5g_nst-urllc_5g"),
    "test_e2e_access": ("access_ns-access", "access_ns-access_urllc"),
    "test_e2e_certificates": ("vpn_basic_ns-vpn_basic_ipsec",),
    "test_e2e_cores": ("5gc_ns-5gc",),
    "test_e2e_edge": ("epc_ns-epc_edge", "5gc_ns-5gc_edge"),
    "test_e2e_epc_secgw": ("epc_secgw_nst-epc_secgw_slice",),
    "test_e2e_ipv6": ("sitegw_ns-sitegw_ipv6",),
    "test_e2e_n3iwf": ("5gc_n3iwf_ns-5gc_n3iwf",),
    "test_e2e_post_quantum": ("vpn_basic_ns-vpn_basic_quantum",),
    "test_e2e_secgw": ("secgw_ns-secgw",),
    "test_e2e_secgw_wireguard": ("secgw_ns-secgw_wireguard",),
    "test_e2e_shared_hss": (
        "embb_shared_nst-embb_shared_oai",
        "urllc_shared_nst-urllc_shared_oai",
    ),
    "test_e2e_sitegw": ("sitegw_ns-sitegw_two_sites",),
    # What tests/experiments/test_matrix_on_the_lab.py brings up, with network functions.
    "../../../experiments/setups": ("epc_ns_double-epc",),
    # The links of epc_multisite besides S6a: tests/experiments/test_matrix_on_the_lab.py.
    "test_e2e_sites": ("vpn_basic_ns-vpn_two_sites", "epc_ns-epc_multisite"),
    "test_e2e_slices": (
        *("vpn_basic_nst-vpn_slice", "vpn_shared_nst-vpn_shared_a"),
        "vpn_shared_nst-vpn_shared_b",
    ),
    "test_e2e_small_cell": (
        *("small_cell_ns-small_cell_two_boxes", "small_cell_ns-small_cell_two_tunnels"),
        *("small_cell_ns-small_cell_one_tunnel", "small_cell_ns-small_cell_one_nat"),
        *("small_cell_ns-small_cell_one_address", "small_cell_ns-small_cell_pool"),
    ),
}
"""Cases that another module brings up, by its name; it passes packets through their tunnels."""

#: Cases that come up with another one, which has the same links: all but parameters of network
#: functions, or the class of traffic of a link.
ALIKE = {
    "epc_ns-epc_novpn": ("epc_ue_ns-epc_ue_novpn", "nf_"),
    "epc_secgw_ns-epc_secgw": ("epc_secgw_nst-epc_secgw_slice", "s1u_five_qi"),
    "5gc_ns-5gc_ipsec": ("5gc_ue_ns-5gc_ue_ipsec", "nf_"),
    "embb_shared_nst-embb_shared": ("embb_shared_nst-embb_shared_oai", "nf_"),
    "urllc_shared_nst-urllc_shared": ("urllc_shared_nst-urllc_shared_oai", "nf_"),
    "embb_nst-embb": ("urllc_nst-urllc", "s1u_five_qi", "s1u_guaranteed_mbps"),
    "mmtc_nst-mmtc": ("urllc_nst-urllc", "s1u_five_qi", "s1u_guaranteed_mbps"),
}

#: Derived cases (params/variants.yaml): the case of the file that each one changes, and a case that
#: changes another service's file in the same way.
VARIED = {
    "epc_ns-epc_psk": ("epc_ns_double-epc", "vpn_basic_ns-vpn_basic_psk"),
    "epc_ns-epc_ipsec": ("epc_ns_double-epc", "5gc_ue_ns-5gc_ue_ipsec"),
    "5gc_ue_ns-5gc_ue_novpn": ("5gc_ue_ns-5gc_ue", "epc_ue_ns-epc_ue_novpn"),
}

CASES = cases()
LEFT = {*ALIKE, *VARIED, *(name for names in ELSEWHERE.values() for name in names)}
HERE = [case for case in CASES if str(case) not in LEFT]


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_case_that_is_left_to_a_module_is_brought_up_there(module: str) -> None:
    text = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
    named = {str(case): case for case in CASES}
    for name in ELSEWHERE[module]:
        assert re.search(rf'["/]{named[name].file}(\.yaml)?"', text), name


@pytest.mark.parametrize("name", ALIKE)
def test_a_case_that_is_left_to_another_one_has_the_same_links(name: str) -> None:
    files = shipped.files()
    named = {str(case): case for case in CASES}
    other, *besides = ALIKE[name]
    assert other in named and other not in ALIKE
    descriptors = [named[case].descriptor for case in (name, other)]
    if all(CATALOGUE[descriptor].kind == "nst" for descriptor in descriptors):
        for part in ("netslice-subnet", "netslice-vld"):
            assert len({str(body(descriptor)[part]) for descriptor in descriptors}) == 1, part

    def parameters(case: str) -> dict[str, dict[str, Any]]:
        document = files[named[case].file]
        return {
            member: {k: v for k, v in values.items() if not k.startswith(tuple(besides))}
            for part in document.get("netslice-subnet", [document])
            for member, values in given(part).items()
        }

    own = parameters(name)
    assert own
    assert own == {member: values for member, values in parameters(other).items() if member in own}


@pytest.mark.parametrize("name", VARIED)
def test_a_case_that_is_left_out_changes_the_values_that_another_one_changes(name: str) -> None:
    named = {str(case): case for case in CASES}
    assert not {*VARIED[name]} & {*ALIKE, *VARIED}
    entries = documents.read(shipped.TREE.root / "params/variants.yaml")
    own, (base, other) = entries[named[name].file], (named[case].file for case in VARIED[name])
    assert own["of"] == base
    assert {**own, "of": "", "description": ""} == {**entries[other], "of": "", "description": ""}


def test_every_service_and_template_has_parameters() -> None:
    made = {name for name, each in CATALOGUE.items() if each.kind in ("ns", "nst")}
    parts = {part["nsd-ref"] for name in made if CATALOGUE[name].kind == "nst"
             for part in body(name)["netslice-subnet"]}  # fmt: skip
    assert made - parts - {case.descriptor for case in CASES} == set()


@pytest.fixture(scope="module")
def shop(secrets: Secrets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A lab with every package, and with one VIM account beside the two of two sites."""
    dist = built(tmp_path_factory)
    for sites in opened(tmp_path_factory.mktemp("shipped"), dist, secrets):
        sites.lab.done("vim-create", "--name", "lab")
        for kind in ("vnf", "ns", "nst"):
            sites.lab.onboard(*(n for n, each in CATALOGUE.items() if each.kind == kind))
        yield sites


@pytest.mark.parametrize("case", HERE, ids=str)
def test_it_comes_up(shop: Sites, case: Case) -> None:
    lab = shop.lab
    kind = "nsi" if CATALOGUE[case.descriptor].kind == "nst" else "ns"
    words = [f"--{kind}_name", "it", "--vim_account", case.vim]
    words += ["--nst_name" if kind == "nsi" else "--nsd_name", case.descriptor]
    file = str(lab.dist / "params" / f"{case.file}.yaml")
    try:
        made = lab.verb(
            f"{kind}-create", *words, "--config_file", file, "--wait", timeout=2 * PATIENCE
        )
        assert made.returncode == 0, made.stdout + made.stderr
        document = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        if kind == "nsi":
            for part in document["netslice-subnet"]:
                works(lab, f"it.{part['id']}", part)
        else:
            works(lab, "it", document)
    finally:
        lab.done(f"{kind}-delete", "it", "--wait")


def works(lab: Lab, name: str, document: dict[str, Any]) -> None:
    """Wait until every link that has a relation is up, and every network function is ready."""
    service = Service(lab, name)
    related = relations(lab, service)
    until = time.monotonic() + SETTLES
    for index, vnf in service.vnfs.items():
        own = given(document).get(index, {})
        while wrong := troubles(vnf, related.get(index, set()), own):
            assert time.monotonic() < until, f"{name}/{index}: {wrong}"
            time.sleep(2)


def relations(lab: Lab, service: Service) -> dict[str, set[str]]:
    """Return the ends of relations of each member, from the service's NSD."""
    found: dict[str, set[str]] = {}
    nsd = lab.engine.store.get("nsds", service.record()["nsd-id"])
    for relation in nsd.get("ns-configuration", {}).get("relation", ()):
        for end in ("provider", "requirer"):
            entity = relation[end]
            found.setdefault(entity["vnf-profile-id"], set()).add(entity["endpoint"])
    return found


def troubles(vnf: Vnf, related: set[str], own: dict[str, Any]) -> list[str]:
    """Return what a member lacks: a link that is up, a peer that answers, a function's service."""
    found = []
    # A UE has no links that are ours, so its charm has no such action.
    shows = related - {"uu"}
    for link, shown in (vnf.action("show-status") if shows else {}).items():
        if link not in related or shown["state"] in ("unconfigured", "off"):
            continue
        if shown["state"] not in ("up", "clear"):
            found.append(f"{link} is {shown['state']}: {shown.get('reason')}")
            continue
        for peer in shown["peers"]:
            for prefix in peer["prefixes"].split(","):
                net = ipaddress.ip_network(prefix.strip())
                if net.num_addresses == 1 and not vnf.pings(str(net.network_address)):
                    found.append(f"{link}: {peer['peer']} does not answer at {prefix}")
    if own.get("nf_software", "none") != "none":
        health = vnf.action("health")
        alone = "s6a" in str(health["reason"]) and "s6a" not in related
        if health["state"] != "ready" and not alone:
            found.append(f"function is {health['state']}: {health['reason']}")
    return found
