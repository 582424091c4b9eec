"""A VNF whose VDU scales: an added instance is joined by the operator, and gone when it leaves."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_basic import CLIENT, SERVER
from e2e_support import Lab, Service, Vdu

from operate.client import Client
from operate.join import End, join, part

pytestmark = [pytest.mark.lab, pytest.mark.long]

ADDED = "10.77.0.3"


def packed(lab: Lab, folder: Path, name: str, new: str, change: Any) -> Path:
    """Return a package of dist/ under another id, its descriptor changed."""
    with tarfile.open(lab.dist / f"{name}.tar.gz") as archive:
        archive.extractall(folder)  # noqa: S202 - built by ourselves
    (folder / name).rename(folder / new)
    (path,) = (folder / new).glob("*.yaml")
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    package = folder / f"{new}.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        archive.add(folder / new, new)
    return package


def scalable(document: dict[str, Any]) -> None:
    """Give the endpoint's VDU a charm for each instance, and an aspect."""
    body = document["vnfd"]
    body["id"] = body["product-name"] = "scaling_vnf"
    (vdu,), (flavour,) = body["vdu"], body["df"]
    operations = flavour["lcm-operations-configuration"]["operate-vnf-op-config"]
    operations["day1-2"][0]["id"] = vdu["id"]
    flavour["vdu-profile"][0]["max-number-of-instances"] = 2
    one = {"id": "one", "vdu-delta": [{"id": vdu["id"], "number-of-instances": 1}]}
    details = {"deltas": [one]}
    flavour["scaling-aspect"] = [{"id": "more", "name": "more", "aspect-delta-details": details}]


@pytest.fixture(scope="module")
def scaled(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service of two members, both of the package that scales, and the VDU's id."""
    folder = tmp_path_factory.mktemp("scaling")
    lab.done("vnfpkg-create", str(packed(lab, folder, "vpn_endpoint_vnf", "scaling_vnf", scalable)))
    package = next(d for d in lab.engine.store.all("vnfds") if d["id"] == "scaling_vnf")
    vdu = str(package["descriptor"]["vdu"][0]["id"])

    def service(document: dict[str, Any]) -> None:
        (body,) = document["nsd"]["nsd"]
        body.update({"id": "scaling_ns", "name": "scaling_ns", "vnfd-id": ["scaling_vnf"]})
        for profile in body["df"][0]["vnf-profile"]:
            profile["vnfd-id"] = "scaling_vnf"
        for relation in body["ns-configuration"]["relation"]:
            for side in ("provider", "requirer"):
                relation[side]["vdu-profile-id"] = vdu

    lab.done("nspkg-create", str(packed(lab, folder, "vpn_basic_ns", "scaling_ns", service)))
    params = yaml.safe_load((lab.dist / "params/vpn_basic.yaml").read_text())
    file = folder / "params.yaml"
    file.write_text(yaml.safe_dump(params))
    words = ("--ns_name", "scaled", "--nsd_name", "scaling_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(file), "--wait")
    yield Service(lab, "scaled"), vdu
    lab.done("ns-delete", "scaled", "--wait")


def test_an_instance_joins_and_leaves(scaled: tuple[Service, str]) -> None:
    service, vdu = scaled
    lab, server, client = service.lab, service["server"], service["client"]
    assert client.pings(SERVER)
    keys = server.peers("wg-vpn-server")
    scale = ("vnf-scale", "scaled", "client", "--scaling-group", "more", "--wait")
    lab.done(*scale)
    record = lab.engine.vnf("scaled", "client")
    first, second = record["vdur"]
    assert (second["count-index"], second["status"]) == (1, "ACTIVE")
    # A fixed address counts up, and the first instance and its peer were left alone.
    before, after = (v["interfaces"][1]["ip-address"] for v in (first, second))
    assert int(after.rpartition(".")[2]) == int(before.rpartition(".")[2]) + 1
    assert client.pings(SERVER)
    assert server.peers("wg-vpn-server") == keys
    added = Vdu(service, "client", second["vim-id"])
    osm = Client((sys.executable, "-m", "lab.cli", "--home", str(lab.home)), pause=0.1)
    given = {
        "link": "vpn-client",
        "inner-address": f"{ADDED}/24",
        "underlay-interface": "ens4",
    }
    osm.action("scaled", "client", "configure", given, instance=(vdu, 1))
    address = server.server.ip_on(service.network("data"))
    ends = (
        End.parse(f"scaled/client/{vdu}/1:vpn-client"),
        End("scaled", "server", "vpn-server", address, (), (vdu, 0)),
    )
    join(osm, *ends)
    service.wait(lambda: added.pings(SERVER), "the added instance reaches the server")
    assert client.pings(SERVER)
    assert len(server.peers("wg-vpn-server")) == len(keys) + 1
    assert "(max-instance-count)" in lab.refused(*scale)
    part(osm, *ends)
    assert server.peers("wg-vpn-server") == keys
    assert not added.pings(SERVER, tries=5)
    lab.done(*scale, "--scale-in")
    assert [v["count-index"] for v in lab.engine.vnf("scaled", "client")["vdur"]] == [0]
    assert client.pings(SERVER)
    assert server.pings(CLIENT)
