"""A link that `vpnaas-build add-link` added to packages of vendors comes up, as it printed it.

Cast: firewall, of a vendor with a charm of its own; router, of a vendor without one.

Seen:
- the link is up, and packets pass;
- the charm of the firewall's vendor works beside ours.
"""

import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e_support import Lab, Service, gone
from support.vendor import vendors

from builder import packages
from builder.tree import Tree
from lab.records.store import NSDS, VNFDS

pytestmark = [pytest.mark.lab, pytest.mark.long]

ROLES = {"firewall": "provider", "router": "requirer"}
"""Role by member. The firewall's vendor has a charm, that of the router has none."""
INNER = {"firewall": "10.66.0.1", "router": "10.66.0.2"}
LINK = "n6"


def printed(folder: Path, member: str) -> list[str]:
    """Make a vendor's package and add the link; return both documents that it prints."""
    name = f"{member}_vnf"
    tools = "python3, wireguard-tools, nftables, iperf3"
    source = vendors(folder / name, charm=member == "firewall", name=name, installs=tools)
    words = [str(source), "--link", f"{LINK}:{ROLES[member]}", "--interface", "ens4"]
    words += ["--out", str(folder / "out")]
    command = [str(Path(sys.executable).with_name("vpnaas-build")), "add-link", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.partition("ns-configuration:")[2].split("# Into the parameters")


@pytest.fixture(scope="module")
def service(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("vendors")
    nsd = copy.deepcopy(packages.catalogue(Tree.find())["vpn_basic_ns"].descriptor)
    (body,) = nsd["nsd"]["nsd"]
    body["id"] = body["name"] = "acme_ns"
    body["vnfd-id"] = [f"{member}_vnf" for member in ROLES]
    given = []
    for member, profile in zip(ROLES, body["df"][0]["vnf-profile"], strict=True):
        relation, rest = printed(folder, member)
        profile["id"], profile["vnfd-id"] = member, f"{member}_vnf"
        for network in profile["virtual-link-connectivity"]:
            for point in network["constituent-cpd-id"]:
                point["constituent-base-element-id"] = member
        (other,) = set(ROLES) - {member}
        text = "ns-configuration:" + relation.replace("THIS", member).replace("OTHER", other)
        body["ns-configuration"] = yaml.safe_load(text)["ns-configuration"]
        text = rest.partition("\n")[2].replace("THIS", member)
        (parameters,) = yaml.safe_load(text)["additionalParamsForVnf"]
        assert f"{LINK}_inner_address" in parameters["additionalParams"]
        parameters["additionalParams"][f"{LINK}_inner_address"] = f"{INNER[member]}/24"
        given.append(parameters)
        lab.engine.catalogue.onboard(VNFDS, folder / "out" / f"{member}_vnf.tar.gz")
    (folder / "acme_ns").mkdir()
    (folder / "acme_ns/acme_nsd.yaml").write_text(yaml.safe_dump(nsd))
    lab.engine.catalogue.onboard(NSDS, folder / "acme_ns")
    (folder / "params.yaml").write_text(yaml.safe_dump({"additionalParamsForVnf": given}))
    words = ("--ns_name", "acme", "--nsd_name", "acme_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(folder / "params.yaml"), "--wait")
    made = Service(lab, "acme")
    yield made
    gone(made)


def test_the_link_is_up_and_the_vendors_charm_works_beside_ours(service: Service) -> None:
    for member, address in INNER.items():
        (other,) = set(INNER) - {member}
        shown = service[member].status(LINK)
        assert (shown["state"], shown["reason"], shown["inner-address"]) == (
            *("up", ""),
            f"{address}/24",
        )
        assert service[member].pings(INNER[other])
        assert service[member].action("measure-latency", link=LINK)["rtt-ms"]
    # What is not ours: the vendor's primitive, which has the name of one of ours.
    answer = service["firewall"].action("run")
    assert "ran" in str(answer)
