"""A hub with two spokes: one service with a site more than `sitegw_ns` has.

Cast: hub, spoke, hub-host, spoke-host (`sitegw_ns`).

Seen:
- the hub's host and those of both spokes reach each other, the hosts of two spokes do not;
- a spoke that goes takes nothing from the other.
"""

import copy
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_support import SITEGW, Lab, Service, gone, wait

from lab.records.store import NSDS

pytestmark = [pytest.mark.lab, pytest.mark.long]


def renamed(value: Any, **names: str) -> Any:
    """Return a document with other names and addresses in its texts."""
    text: str = yaml.safe_dump(value)
    for old, new in names.items():
        text = text.replace(old.replace("_", "."), new).replace(old.replace("_", "-"), new)
    return yaml.safe_load(text)


def with_third_site(dist: Path, folder: Path) -> tuple[Path, Path]:
    """Return the NSD and the parameters with the spoke and what is behind it once more."""
    with tarfile.open(dist / "sitegw_ns.tar.gz") as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("nsd.yaml")]
        stream = archive.extractfile(name)
        assert stream is not None
        document = yaml.safe_load(stream)
    params = yaml.safe_load((dist / "params/sitegw.yaml").read_text())
    (nsd,) = document["nsd"]["nsd"]
    (df,) = nsd["df"]
    other = {"spoke": "third", "192_168_132": "192.168.133", "10_82": "10.84"}
    wan = {"192_168_130_12": "192.168.130.13", "10_80_0_2": "10.80.0.3"}

    def more(items: list[Any]) -> list[Any]:
        mine = [item for item in items if "spoke" in yaml.safe_dump(item)]
        return [*items, *(renamed(copy.deepcopy(item), **other, **wan) for item in mine)]

    nsd["id"] = nsd["name"] = "three_sites_ns"
    nsd["virtual-link-desc"] = more(nsd["virtual-link-desc"])
    df["virtual-link-profile"] = more(df["virtual-link-profile"])
    df["vnf-profile"] = more(df["vnf-profile"])
    relations = nsd["ns-configuration"]["relation"]
    made = [renamed(one, spoke="third") for one in relations if "spoke" in yaml.safe_dump(one)]
    for one in made:
        one["name"] = f"third-{one['name']}"
        for end in ("provider", "requirer"):  # endpoints keep their names
            one[end]["endpoint"] = one[end]["endpoint"].replace("third", "spoke")
    nsd["ns-configuration"]["relation"] = relations + made
    links = {link["name"]: link for link in params["vld"]}
    params["vld"].append(renamed(links["spoke-lan"], **other))
    points = links["wan"]["vnfd-connection-point-ref"]
    points.append(renamed(points[-1], **other, **wan))
    members = {each["member-vnf-index"]: each for each in params["additionalParamsForVnf"]}
    for name in ("spoke", "spoke-host"):
        third = renamed(members[name], **other, **wan)
        given = third["additionalParams"]
        if "site_link" in given:
            given["site_link"] = "site-spoke"
        params["additionalParamsForVnf"].append(third)
    # All that changes at the hub: what it takes from other sites, and what its hosts reach by it.
    both = "10.82.0.0/16,10.84.0.0/16"
    hub, host = members["hub"]["additionalParams"], members["hub-host"]["additionalParams"]
    hub["site_accept_prefixes"] = hub["lan_allowed_prefixes"] = both
    host["vpn_accept_prefixes"] = both
    files = folder / "three_sites_nsd.yaml", folder / "params.yaml"
    files[0].write_text(yaml.safe_dump(document))
    files[1].write_text(yaml.safe_dump(params))
    return files


@pytest.fixture(scope="module")
def sites(lab: Lab, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    lab.onboard(*SITEGW)
    nsd, params = with_third_site(dist, tmp_path_factory.mktemp("sites"))
    lab.engine.catalogue.onboard(NSDS, nsd)
    words = ("--ns_name", "three", "--nsd_name", "three_sites_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(params), "--wait")
    service = Service(lab, "three")
    yield service
    gone(service)


def test_a_hub_has_two_spokes_and_keeps_them_apart(sites: Service) -> None:
    spokes = {"spoke": "10.82.0.10", "third": "10.84.0.10"}
    wait(lambda: sites["hub"].status("site-hub")["state"] == "up", "both spokes are up")
    peers = {p["peer"]: p for p in sites["hub"].status("site-hub")["peers"]}
    assert sorted(p["prefixes"].rpartition(",")[2] for p in peers.values()) == [
        "10.82.0.0/16", "10.84.0.0/16",
    ]  # fmt: skip
    for name, host in spokes.items():
        assert sites["hub-host"].pings(host), name
        assert sites[f"{name}-host"].pings("10.81.0.10"), name
        assert len(sites[name].status("site-spoke")["peers"]) == 1
    # A spoke takes the hub's prefixes only, so sites of two spokes do not meet.
    assert not sites["spoke-host"].pings(spokes["third"], tries=2)
    assert not sites["third-host"].pings(spokes["spoke"], tries=2)
    # One spoke that goes takes nothing from the other.
    sites["spoke"].out("systemctl", "stop", "wg-quick@wg-site-spoke")
    assert sites["hub-host"].pings(spokes["third"])
