"""Slices of the smallest services: side by side, with a shared service, and half made.

Cast: server, client (`vpn_basic_nst`); endpoint (`vpn_shared_nst`).

Seen:
- two slices with the same addresses do not meet;
- `nsi-create` alone enforces the 5QI of the template;
- a shared service serves two slices and goes with the last;
- a slice whose workers were killed can be deleted.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_support import PATIENCE, Lab, Service, make_together

from lab.records import jobs
from lab.records.store import NSIOPS, NSIS, NSRS, OPS
from operate.join import End, join, part

pytestmark = pytest.mark.lab

PACKAGES = ("vpn_endpoint_vnf", "vpn_basic_ns", "vpn_endpoint_ns")
TEMPLATES = ("vpn_basic_nst", "vpn_shared_nst")


@pytest.fixture(scope="module")
def templates(lab: Lab) -> Lab:
    lab.onboard(*PACKAGES, *TEMPLATES)
    return lab


@pytest.fixture(scope="module")
def twins(templates: Lab) -> Iterator[tuple[Service, Service]]:
    """Two slices of one template with the same parameters, so with the same addresses."""
    lab = templates
    make_together(lab, *((name, "vpn_basic_nst", "vpn_slice") for name in ("red", "blue")))
    yield Service(lab, "red.pair"), Service(lab, "blue.pair")
    for name in ("red", "blue"):
        lab.done("nsi-delete", name, "--wait")


def test_two_slices_with_the_same_addresses_do_not_meet(twins: tuple[Service, Service]) -> None:
    red, blue = twins
    for service in twins:
        assert service["client"].pings("10.77.0.1"), service.name
    for index in ("server", "client"):
        assert [p.ip for p in red[index].server.ports][1:] == [
            p.ip for p in blue[index].server.ports
        ][1:]
    # While red's server is silent, nobody else answers for it.
    red["server"].out("ip", "link", "set", "ens4", "down")
    try:
        assert not red["client"].pings("10.77.0.1", tries=5)
        assert not red["client"].pings("192.168.100.11", tries=5)
        assert blue["client"].pings("10.77.0.1")
    finally:
        red["server"].out("ip", "link", "set", "ens4", "up")
    assert red["client"].pings("10.77.0.1", tries=60)


def test_a_slice_shows_what_osm_stores_of_it(twins: tuple[Service, Service]) -> None:
    lab = twins[0].lab
    nsi = json.loads(lab.done("--json", "nsi-show", "red"))
    assert nsi["quality-of-service"]["id"] == 6
    assert nsi["SNSSAI-identifier"]["slice-service-type"] == "eMBB"
    assert (nsi["operational-status"], nsi["config-status"]) == ("running", "configured")
    assert "is a part of nsi 'red'" in lab.refused("ns-delete", "red.pair")


def test_nsi_create_alone_enforces_the_5qi_of_the_template(twins: tuple[Service, Service]) -> None:
    for end in ("server", "client"):
        (answer,) = twins[0][end].action("show-qos").values()
        assert (answer["five-qi"], answer["dscp"], answer["in-force"]) == (6, "af32", True)


@pytest.mark.long
def test_a_shared_service_serves_two_slices_and_goes_with_the_last(templates: Lab) -> None:
    lab = templates
    make_together(
        lab, ("a", "vpn_shared_nst", "vpn_shared_a"), ("b", "vpn_shared_nst", "vpn_shared_b")
    )
    names = {n["name"] for n in lab.engine.store.all(NSRS)}
    (hub,) = names & {"a.server", "b.server"}
    server = Service(lab, hub)["endpoint"]
    clients = {name: Service(lab, f"{name}.client")["endpoint"] for name in ("a", "b")}
    client = lab.client()
    one = End.parse(f"{hub}/endpoint:vpn-server@192.168.100.11")
    for name in clients:
        assert len(join(client, one, End.parse(f"{name}.client/endpoint:vpn-client"))) == 2
    assert {len(c.peers("wg-vpn-client")) for c in clients.values()} == {1}
    assert len(server.peers("wg-vpn-server")) == 2
    for vnf in clients.values():
        assert vnf.pings("10.77.0.1")
    # The shared service joins no slices: it does not forward.
    assert not clients["a"].pings("10.77.0.3", tries=5)
    # Leaving again: one end forgets the other.
    part(client, one, End.parse("a.client/endpoint:vpn-client"))
    assert not clients["a"].pings("10.77.0.1", tries=5)
    assert clients["b"].pings("10.77.0.1")
    lab.done("nsi-delete", "a", "--wait")
    assert hub in {n["name"] for n in lab.engine.store.all(NSRS)}
    assert clients["b"].pings("10.77.0.1")
    lab.done("nsi-delete", "b", "--wait")
    left = {n["name"] for n in lab.engine.store.all(NSRS)}
    assert not left & {"a.server", "b.server", "a.client", "b.client"}
    assert not [n for n in lab.backends.vim(server_vim(lab)).networks() if "nsir:" in n.tag]


def server_vim(lab: Lab) -> str:
    return str(lab.engine.store.resolve("vim_accounts", "lab")["_id"])


@pytest.mark.long
def test_a_slice_whose_makers_were_killed_can_be_deleted(templates: Lab) -> None:
    lab = templates
    file = str(lab.dist / "params" / "vpn_shared_a.yaml")
    words = ("--nsi_name", "half", "--nst_name", "vpn_shared_nst", "--vim_account", "lab")
    lab.done("nsi-create", *words, "--config_file", file)
    until = time.monotonic() + PATIENCE
    vim = lab.backends.vim(server_vim(lab))
    while not any("half" in s.name for s in vim.servers()):
        assert time.monotonic() < until
        time.sleep(0.05)
    (operation,) = lab.engine.store.all(NSIOPS)[-1:]
    steps = [lab.engine.store.get(OPS, o) for o in operation["operationParams"]["nslcmops_ids"]]
    for document in (operation, *steps):
        if jobs.alive(document):
            os.kill(document["lab"]["worker"]["pid"], signal.SIGKILL)
    shown = json.loads(lab.done("--json", "nsi-show", "half"))
    assert shown["operational-status"] == "failed"
    lab.done("nsi-delete", "half", "--wait")
    assert not [s for s in vim.servers() if "half" in s.name]
    assert not [n for n in vim.networks() if "nsir:" in n.tag or "half" in n.name]
    assert "half" not in {n["name"] for n in lab.engine.store.all(NSIS)}
    assert not list(Path(lab.home).glob(f"lcm/operations/{operation['_id']}"))
