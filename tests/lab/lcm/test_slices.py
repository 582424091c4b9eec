"""Slices without a VDU: which services and links a request makes, and what is refused."""

import contextlib
import copy
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient
from support.lcm_fakes import FakeBackends, nsd, vnfd

from builder import validate
from lab.api.app import create_app
from lab.api.tokens import Tokens
from lab.cli.commands import main
from lab.errors import LcmError, NbiError
from lab.lcm.slice_operations import SliceOperations, deployed_links, service_links
from lab.lcm.timeouts import Timeouts
from lab.lcm.work import Work
from lab.lcm.worker import perform
from lab.nbi.engine import Engine
from lab.nbi.params import InstanceRequest
from lab.nbi.slice_requests import Slices
from lab.page.data import Data
from lab.records import jobs
from lab.records.ids import admin
from lab.records.jobs import alive
from lab.records.journal import Journal, Tail
from lab.records.operations import end_slice_operation, fail_operation, remove_service
from lab.records.store import (
    CREATED,
    DAMAGED,
    NSDS,
    NSIOPS,
    NSIS,
    NSRS,
    NSTS,
    OPS,
    VCAS,
    VIMS,
    VNFDS,
    VNFRS,
    Store,
)
from lab.vim.fabric import netns_names
from lab.vim.store import Home

VALIDATE, VALIDATE_PARAMS = validate.validate, validate.validate_params


@pytest.fixture(autouse=True)
def _no_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to find: the samples are no complete descriptors."""
    for name in ("validate", "validate_params"):
        monkeypatch.setattr(f"builder.validate.{name}", lambda *_: [])


def template(**more: Any) -> dict[str, Any]:
    """Two services of one kind and a link between them; the first is shared."""
    points = [
        {"nss-ref": name, "nsd-connection-point-ref": "data-sap"} for name in ("hub", "spoke")
    ]
    return {
        "id": "an_nst",
        "name": "an_nst",
        "SNSSAI-identifier": {"slice-service-type": "URLLC"},
        "quality-of-service": {"id": 82},
        "netslice-subnet": [
            {"id": "hub", "nsd-ref": "an_ns", "is-shared-nss": True, "description": "hub"},
            {"id": "spoke", "nsd-ref": "an_ns", "is-shared-nss": False, "description": "spoke"},
        ],
        "netslice-vld": [{"id": "data", "name": "data", "nss-connection-point-ref": points}],
        **more,
    }


PARAMS = [
    {"member-vnf-index": i, "additionalParams": {"inner": f"172.16.0.{i}/24"}} for i in ("1", "2")
]


def config(*names: str, **more: Any) -> dict[str, Any]:
    subnets = [{"id": n, "additionalParamsForVnf": copy.deepcopy(PARAMS)} for n in names]
    return {"netslice-subnet": subnets, **more}


@pytest.fixture
def slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slices:
    """Slices of an engine that starts no workers and takes every operation for alive."""
    engine = Engine(tmp_path / "home")
    service = {**nsd(), "sapd": [{"id": "data-sap", "virtual-link-desc": "data"}]}
    for kind, document in (
        (VNFDS, {"vnfd": vnfd()}),
        (NSDS, {"nsd": {"nsd": [service]}}),
        (NSTS, {"nst": [template()]}),
    ):
        file = tmp_path / f"{kind}.yaml"
        file.write_text(yaml.safe_dump(document))
        engine.catalogue.onboard(kind, file)
    engine.store.put(VIMS, {"_id": "vim-1", "name": "north", "_admin": admin()})
    monkeypatch.setattr(jobs, "alive", lambda operation: True)
    monkeypatch.setattr(jobs, "kill", lambda operation: None)

    def start(store: Store, operation: dict[str, Any], collection: str = OPS) -> Tail:
        return Tail(store.home / f"events-{operation['_id']}")

    monkeypatch.setattr(jobs, "start", start)
    return Slices(engine)


def journal(slices: Slices) -> Journal:
    return Journal(slices.store.home / "events.jsonl")


def running(
    slices: Slices,
    backends: FakeBackends,
    factor: float,
    start: Callable[..., object] | None = None,
) -> SliceOperations:
    work = Work(slices.store, backends, Timeouts().scaled(factor), journal(slices))
    return SliceOperations(work, start or jobs.start)


def request(name: str, **more: Any) -> InstanceRequest:
    return InstanceRequest(name, "an_nst", "north", config("hub", "spoke", **more))


def make(slices: Slices, name: str, **more: Any) -> Any:
    return slices.create(request(name, **more))


def entries(nsi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["nss-id"]: entry for entry in nsi["_admin"]["nsrs-detailed-list"]}


def test_the_page_tells_a_slice_from_a_service_of_its_name(slices: Slices) -> None:
    nsi = make(slices, "same").nsr
    request = InstanceRequest("same", "an_ns", "north", {"additionalParamsForVnf": PARAMS})
    nsr = slices.engine.ns_create(request).nsr
    data = Data(slices.engine)
    assert [[each.key for each in kind] for kind in data.overview()] == [[nsi["_id"]], [nsr["_id"]]]
    assert [o["nsInstanceId"] for o in data.operations(nsr["_id"])] == [nsr["_id"]]
    assert len(data.operations(nsi["_id"])) == 3
    assert {node.service for node in data.graph(nsr["_id"]).nodes} == {"same"}
    assert {node.service for node in data.graph(nsi["_id"]).nodes} == {"same.hub", "same.spoke"}
    # A picture makes no network namespace: nothing of a lab without a VIM would remove it.
    assert netns_names(Home.at(slices.store.home).prefix) == []
    # While a slice ends, its services go before it.
    remove_service(slices.store, nsi["_admin"]["nsrs-detailed-list"][0]["nsrId"])
    assert len(data.operations(nsi["_id"])) == 2


def test_a_vnf_is_named_by_a_service_whose_name_has_a_slash(
    slices: Slices, capsys: pytest.CaptureFixture[str]
) -> None:
    make(slices, "lab/one")
    main(["--home", str(slices.store.home), "--json", "vnf-show", "lab/one.hub/1"])
    assert json.loads(capsys.readouterr().out)["member-vnf-index-ref"] == "1"


def test_a_slice_has_a_service_for_each_subnet(slices: Slices) -> None:
    started = make(slices, "one")
    store = slices.store
    assert [n["name"] for n in store.all(NSRS)] == ["one.hub", "one.spoke"]
    assert len(store.all(OPS)) == 2
    (operation,) = store.all(NSIOPS)
    assert operation["operationParams"]["nslcmops_ids"] == [o["_id"] for o in store.all(OPS)]
    assert started.nsr["network-slice-template"]["quality-of-service"] == {"id": 82}
    # Kept in the record of the slice and nowhere else: nothing could enforce it.
    # (82 alone may stand in an id by chance.)
    shown = [str(n["instantiate_params"]) for n in store.all(NSRS)]
    assert not any("quality" in text or ": 82" in text for text in shown)


def test_a_shared_service_is_used_again_and_its_new_parameters_are_told_to_be_ignored(
    slices: Slices,
) -> None:
    first = entries(make(slices, "one").nsr)
    started = make(slices, "two")
    second = entries(started.nsr)
    assert first["hub"] == second["hub"]
    assert first["spoke"]["nsrId"] != second["spoke"]["nsrId"]
    assert [n["name"] for n in slices.store.all(NSRS)] == ["one.hub", "one.spoke", "two.spoke"]
    (warning,) = started.warnings
    assert "'hub' is shared and runs as ns 'one.hub'" in warning
    steps = started.operation["operationParams"]["nslcmops_ids"]
    assert steps[0] == first["hub"]["nslcmop_instantiate"]
    assert started.nsr["_admin"]["netslice-vld"][0]["shared-nsrs-list"] == [first["hub"]["nsrId"]]


@pytest.mark.parametrize("seconds", [-60, 3600])
def test_a_service_whose_slices_worker_is_slow_to_start_it_is_not_given_up(
    slices: Slices, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """An hour ahead: the clock jumped back since."""
    one, two = (make(slices, name).operation["_id"] for name in ("one", "two"))
    store = slices.store
    for kind in (OPS, NSIOPS):
        for operation in store.all(kind):
            with store.edit(kind, operation["_id"]) as o:
                o.update(startTime=o["startTime"] + seconds)
    for op_id in (one, two):
        jobs.record_worker(store, op_id, os.getpid(), NSIOPS)
    monkeypatch.setattr(jobs, "alive", alive)

    def states() -> list[str]:
        slices.reap()
        return [operation["operationState"] for operation in store.all(OPS)]

    assert states() == ["PROCESSING"] * 3
    # The shared service is the first slice's, whose worker alone would start it.
    with store.edit(NSIOPS, one) as operation:
        operation["lab"]["worker"].update(start=0)
    assert states() == ["FAILED", "FAILED", "PROCESSING"]


def test_an_operation_that_ends_while_its_worker_is_looked_for_is_not_failed(
    slices: Slices, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = make(slices, "one")

    def complete(operation: dict[str, Any]) -> bool:
        of_slice = "netsliceInstanceId" in operation
        if of_slice:
            end_slice_operation(slices.store, operation)
        return not of_slice

    monkeypatch.setattr(jobs, "alive", complete)
    slices.reap()
    assert slices.store.get(NSIOPS, started.operation["_id"])["operationState"] == "COMPLETED"
    assert slices.store.get(NSIS, started.nsr["_id"])["operational-status"] == "running"


def test_a_link_with_a_shared_service_is_one_network_for_all_slices(slices: Slices) -> None:
    one, two, three = (make(slices, name).nsr for name in ("one", "two", "three"))
    link = {"vld_id": "data", "netslice_scenario_id": f"nsir:{one['_id']}:vld.data"}
    # Whoever of them is first to start.
    assert deployed_links(two, [one, two, three]) == [link]
    assert deployed_links(one, [one, two, three]) == [link]
    # The slice that made the link is gone, its id stays.
    two["_admin"]["deployed"]["RO"] = [link]
    assert deployed_links(three, [two, three]) == [link]


def test_a_link_without_a_shared_service_is_each_slices_own(slices: Slices) -> None:
    one = make(slices, "one").nsr
    other = {**copy.deepcopy(one), "_id": "other"}
    for nsi in (one, other):
        nsi["_admin"]["netslice-vld"][0]["shared-nsrs-list"] = []
    one["_admin"]["deployed"]["RO"] = deployed_links(one, [one])
    (link,) = deployed_links(other, [one, other])
    assert link["netslice_scenario_id"] == "nsir:other:vld.data"


def test_a_service_of_a_slice_keeps_of_its_links_what_lcm_leaves(slices: Slices) -> None:
    profile = {"subnet-address": "10.9.0.0/24"}
    nsi = make(slices, "one", **{"netslice-vld": [{"name": "data", "ip-profile": profile}]}).nsr
    nsi["_admin"]["deployed"]["RO"] = deployed_links(nsi, [nsi])
    service = {"sapd": [{"id": "data-sap", "virtual-link-desc": "data"}]}
    point = {
        "member-vnf-index-ref": "1",
        "vnfd-connection-point-ref": "x",
        "ip-address": "10.1.0.1",
    }
    given = [
        {"name": "data", "ip-profile": {"subnet-address": "10.7.0.0/24"}},
        {"name": "other", "ip-profile": {}, "vnfd-connection-point-ref": [point]},
        {"name": "third", "ip-profile": {}},
    ]
    assert service_links(nsi, "spoke", service, {"vld": given}) == [
        {"name": "data", "common_id": f"nsir:{nsi['_id']}:vld.data", "ip-profile": profile},
        {"name": "other", "vnfd-connection-point-ref": [point]},
    ]


def ended(slices: Slices, name: str) -> set[str]:
    steps = slices.delete(name).operation["operationParams"]["nslcmops_ids"]
    return {slices.store.get(OPS, step)["nsInstanceId"] for step in steps}


def test_a_shared_service_goes_with_its_last_slice(slices: Slices) -> None:
    first = entries(make(slices, "one").nsr)
    make(slices, "two")
    assert ended(slices, "one") == {first["spoke"]["nsrId"]}
    assert first["hub"]["nsrId"] in ended(slices, "two")


def test_a_shared_service_that_ends_is_not_used_again(slices: Slices) -> None:
    first = entries(make(slices, "one").nsr)
    assert first["hub"]["nsrId"] in ended(slices, "one")
    started = make(slices, "two")
    assert entries(started.nsr)["hub"]["nsrId"] != first["hub"]["nsrId"]
    assert started.warnings == ()
    # The first slice is still recorded, but the third one shares the second one's.
    assert entries(make(slices, "three").nsr)["hub"] == entries(started.nsr)["hub"]


def test_a_link_stays_for_a_slice_that_has_no_ids_yet(slices: Slices) -> None:
    store, backends = slices.store, FakeBackends()
    first = make(slices, "one").nsr
    first["_admin"]["deployed"]["RO"] = links = deployed_links(first, [first])
    store.put(NSIS, first)
    second = make(slices, "two").nsr

    def end(name: str, *gone: dict[str, Any]) -> list[tuple[str, ...]]:
        for entry in gone:
            remove_service(store, entry["nsrId"])
        operation = slices.delete(name).operation
        run = running(slices, backends, 0.01)
        assert run.run(operation["_id"]) == "COMPLETED"
        return backends.log.of("delete-tag")

    assert end("one", entries(first)["spoke"]) == []
    # The network of the shared service is now the second one's, which may start or end.
    (second,) = store.all(NSIS)
    assert deployed_links(second, [second]) == links
    assert end("two", *entries(second).values()) == [
        ("delete-tag", link["netslice_scenario_id"]) for link in links
    ]


def test_a_link_goes_with_the_last_of_two_slices_that_end_at_once(slices: Slices) -> None:
    store, backends = slices.store, FakeBackends()
    made = [make(slices, name).nsr for name in ("one", "two")]
    for nsi in made:
        nsi["_admin"]["deployed"]["RO"] = links = deployed_links(nsi, made)
        store.put(NSIS, nsi)
    run = running(slices, backends, 0.01)
    operations = [slices.delete(name).operation for name in ("one", "two")]
    for nsr in store.all(NSRS):
        remove_service(store, nsr["_id"])
    gone = backends.log.of

    def meanwhile(nsi: dict[str, Any], leave: bool) -> list[str]:
        real(nsi, leave)
        assert gone("delete-tag") == []
        # The other one ends before this one's record is removed.
        run._delete_links = real  # type: ignore[method-assign]
        assert run.run(operations[1]["_id"]) == "COMPLETED"
        return []

    real = run._delete_links
    run._delete_links = meanwhile  # type: ignore[method-assign]
    assert run.run(operations[0]["_id"]) == "COMPLETED"
    assert gone("delete-tag") == [("delete-tag", links[0]["netslice_scenario_id"])]
    assert store.all(NSIS) == []


def test_a_slice_whose_services_do_not_end_does_not_leave_its_link(slices: Slices) -> None:
    store, backends = slices.store, FakeBackends()
    made = [make(slices, name).nsr for name in ("one", "two")]
    for nsi in made:
        nsi["_admin"]["deployed"]["RO"] = deployed_links(nsi, made)
        store.put(NSIS, nsi)
    run = running(slices, backends, 0.0001)
    first, second = (slices.delete(name).operation for name in ("one", "two"))
    assert run.run(first["_id"]) == "FAILED"  # its spoke stays, with a server on the network
    for step in second["operationParams"]["nslcmops_ids"]:
        remove_service(store, store.get(OPS, step)["nsInstanceId"])
    assert run.run(second["_id"]) == "COMPLETED"
    assert backends.log.of("delete-tag") == []


@pytest.mark.parametrize("dead", ["vim-1", "vim-2"])
def test_a_dead_vim_keeps_only_slices_that_use_it(
    slices: Slices, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, backends = slices.store, FakeBackends()
    store.put(VIMS, {"_id": "vim-2", "name": "south", "_admin": admin()})
    nsi = make(slices, "one").nsr
    nsi["_admin"]["deployed"]["RO"] = deployed_links(nsi, [nsi])
    store.put(NSIS, nsi)
    asked = []

    def vim(key: str) -> Any:
        asked.append(key)
        if key == dead:
            raise LcmError(f"no VIM {key}")
        return backends.the_vim

    monkeypatch.setattr(backends, "vim", vim)
    operation = slices.delete("one").operation
    for nsr in store.all(NSRS):
        remove_service(store, nsr["_id"])
    run = running(slices, backends, 0.01)
    assert run.run(operation["_id"]) == ("FAILED" if dead == "vim-1" else "COMPLETED")
    assert asked == ["vim-1", "vim-2"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (config("spoke"), "Parameter '<inner>' needed"),
        (
            {"netslice-subnet": [{"id": "hub", "vnf": [{"vim_account": "south"}]}]},
            "vim account 'south' not found",
        ),
        (
            {"netslice-vld": [{"name": "data", "vim-network-name": {"south": "n"}}]},
            "vim account 'south' not found",
        ),
    ],
)
def test_what_nbi_refuses_leaves_no_record(
    slices: Slices, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(NbiError) as caught:
        slices.create(InstanceRequest("one", "an_nst", "north", given))
    assert words in str(caught.value)
    assert [slices.store.all(kind) for kind in (NSIS, NSIOPS, NSRS, OPS)] == [[], [], [], []]


def test_parameters_of_an_unknown_service_are_refused(
    slices: Slices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builder.validate.validate_params", VALIDATE_PARAMS)
    with pytest.raises(NbiError, match="nstId='x' is not one of the nst:netslice-subnet"):
        slices.create(InstanceRequest("one", "an_nst", "north", config("spoke", "x")))
    assert slices.store.all(NSIS) == []


def test_a_slice_without_links_ends(slices: Slices) -> None:
    store = slices.store
    (record,) = store.all(NSTS)
    record["descriptor"]["netslice-vld"] = []
    store.put(NSTS, record)
    started = make(slices, "one")
    for nsr in store.all(NSRS):
        store.delete(NSRS, nsr["_id"])
    operation = slices.delete("one").operation
    run = running(slices, FakeBackends(), 0.01)
    assert run.run(operation["_id"]) == "COMPLETED"
    assert store.find(NSIS, started.nsr["_id"]) is None


@pytest.mark.parametrize("state", ["FAILED", "FAILED_TEMP"])
def test_a_slice_fails_with_a_service_that_failed_or_was_cancelled(
    slices: Slices, state: str
) -> None:
    operation = make(slices, "one").operation
    for step in slices.store.all(OPS):
        fail_operation(slices.store, step, "why", state)
    run = running(slices, FakeBackends(), 0.001, lambda *_: None)
    assert run.run(operation["_id"]) == "FAILED"
    reason = slices.store.get(NSIOPS, operation["_id"])["errorMessage"]
    assert sorted(reason.split("; ")) == [f"NS one.{n} {state}: why" for n in ("hub", "spoke")]


def test_the_client_translates_what_is_inside_a_slice(slices: Slices) -> None:
    slices.engine.store.put(VIMS, {"_id": "vim-2", "name": "south", "_admin": admin()})
    given = config("hub", "spoke", timeout_nsi_deploy=77)
    given["netslice-subnet"][1]["vnf"] = [{"member-vnf-index": "1", "vim_account": "south"}]
    started = slices.create(InstanceRequest("one", "an_nst", "north", given))
    assert started.operation["operationParams"]["timeout_nsi_deploy"] == 77
    nsr = slices.store.get(NSRS, entries(started.nsr)["spoke"]["nsrId"])
    assert nsr["instantiate_params"]["vnf"] == [{"member-vnf-index": "1", "vimAccountId": "vim-2"}]


def test_names_and_descriptors_in_use_are_protected(slices: Slices) -> None:
    make(slices, "one")
    for act, words in (
        (lambda: make(slices, "one"), "already exists"),
        (lambda: slices.engine.ns_delete("one.hub"), "is a part of nsi 'one'"),
        (lambda: slices.engine.catalogue.delete(NSTS, "an_nst"), "Netslice Instance using"),
        (
            lambda: slices.create(InstanceRequest("two", "none", "north", {})),
            "nst 'none' not found",
        ),
    ):
        with pytest.raises(NbiError, match=words):
            act()


def test_a_template_needs_its_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.validate.validate", VALIDATE)
    file = tmp_path / "nst.yaml"
    file.write_text(yaml.safe_dump({"nst": [template()]}))
    engine = Engine(tmp_path / "home")
    with pytest.raises(NbiError, match="'nsd-ref'='an_ns' references a non existing nsd"):
        engine.catalogue.onboard(NSTS, file)
    assert engine.store.all(NSTS) == []


def _parts(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key of a record; what descriptors and requests hold is their own."""
    found = []
    inner = ("descriptor", "nsd", "network-slice-template", "operationParams", "_id")
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        found.append((*way, key))
        opaque = key in inner or str(key).startswith(("inst", "additionalParams"))
        if isinstance(below, dict | list) and not opaque:
            found += _parts(below, (*way, key))
    return found


VERBS = [
    ["vim-list"], ["vnfpkg-list"], ["nspkg-list"], ["nst-list"], ["ns-list"], ["nsi-list"],
    ["vnf-list"], ["ns-show", "one.hub"], ["ns-op-list", "one.hub"], ["nsi-show", "one"],
    ["nsi-op-list", "one"], ["vnf-show", "one.hub/1"], ["ns-delete", "one.hub"],
    ["ns-action", "one.hub", "--vnf_name", "1", "--action_name", "touch", "--params", "{file: x}"],
]  # fmt: skip


@pytest.mark.parametrize("kind", [VIMS, VNFDS, NSDS, NSTS, NSRS, VNFRS, OPS, NSIS, NSIOPS])
def test_a_record_that_lacks_anything_is_a_sentence(
    slices: Slices, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(slices, "one")
    store, home = slices.store, str(slices.store.home)

    def verbs() -> list[str]:
        """Run all; return what the refused ones say. A traceback fails the test."""
        for words in VERBS:
            try:
                main(["--home", home, *words])
            except SystemExit as end:
                assert end.code in (0, 1)
        return capsys.readouterr().err.splitlines()

    record = store.all(kind)[0]
    path = store.root / kind / f"{record['_id']}.json"
    result = 0
    for way in _parts(record):
        cut = copy.deepcopy(record)
        holder = functools.reduce(lambda value, key: value[key], way[:-1], cut)
        del holder[way[-1]]
        path.write_text(json.dumps(cut))
        try:
            store.get(kind, record["_id"])
        except NbiError as error:
            result += 1
            assert str(error).startswith(f"the lab's record {path} lacks '")
            assert ".".join(map(str, way)) in str(error)
            assert str(error).endswith(f"(osm-lab lab discard {record['_id']}), or clean the lab")
            assert record["_id"] not in [other["_id"] for other in store.all(kind)]
        else:
            assert not any(str(path) in line for line in verbs())
    assert result
    path.write_text(json.dumps({**record, "_admin": []}))
    assert [line["_id"] for line in store.damaged(kind)] == [record["_id"]]
    assert f"{path} is damaged at '_admin'" in store.damaged(kind)[0]["errorDetail"]
    assert not any("Traceback" in line for line in verbs())


LISTS = {
    VIMS: ("vim-list", "admin/v1/vim_accounts"),
    VCAS: (None, "admin/v1/vca"),
    VNFDS: ("vnfpkg-list", "vnfpkgm/v1/vnf_packages"),
    CREATED: (None, "nsd/v1/ns_descriptors"),
    NSDS: ("nspkg-list", "nsd/v1/ns_descriptors"),
    NSTS: ("nst-list", "nst/v1/netslice_templates"),
    NSRS: ("ns-list", "nslcm/v1/ns_instances"),
    VNFRS: ("vnf-list", "nslcm/v1/vnf_instances"),
    OPS: ("ns-op-list two.spoke", "nslcm/v1/ns_lcm_op_occs"),
    NSIS: ("nsi-list", "nsilcm/v1/netslice_instances"),
    NSIOPS: ("nsi-op-list two", "nsilcm/v1/nsi_lcm_op_occs"),
}


def test_no_list_is_lost_to_one_damaged_record(
    slices: Slices, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(slices, "one").nsr
    make(slices, "two")
    store, client = slices.store, _client(slices)

    def said(words: str, code: int = 0) -> str:
        """Return what a verb prints."""
        with contextlib.suppress(SystemExit) if code else contextlib.nullcontext():
            main(["--home", str(store.home), *words.split()])
        shown = capsys.readouterr()
        assert ("no damaged record" in shown.err) == bool(code), shown.err
        return shown.out

    def listed() -> set[str]:
        """Return the kinds in whose lists a damaged record is; every list is there."""
        found = set()
        for kind, (words, place) in LISTS.items():
            answer = client.get(f"/osm/{place}")
            assert answer.status_code == 200, answer.text
            lines = [line for line in answer.json() if line.get("name") == DAMAGED]
            assert len(lines) < 2
            if words is not None:
                assert bool(lines) == (DAMAGED in said(words))
            found |= {kind} if lines else set()
        Data(slices.engine).overview()
        assert "two" in said("nsi-show two")
        return found

    for kind in LISTS:
        key = store.all(kind)[0]["_id"] if store.has(kind) else "one"
        if kind == NSRS:
            key = entries(made)["spoke"]["nsrId"]
        path = store.root / kind / f"{key}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{damaged")
        # What was announced may be a package of any of the three kinds.
        shown = {kind, NSDS, VNFDS, NSTS} if kind == CREATED else {kind}
        assert listed() - {CREATED} == shown - {CREATED}
        said(f"lab discard {key}")
        assert not path.exists()
        said(f"lab discard {key}", code=1)
    assert listed() == set()
    key = entries(made)["spoke"]["nsrId"]
    assert key not in [o["nsInstanceId"] for o in store.all(OPS)]
    assert key not in [r["nsr-id-ref"] for r in store.all(VNFRS)]


def test_a_client_of_the_api_deletes_only_a_damaged_record(slices: Slices) -> None:
    make(slices, "one")
    store, client = slices.store, _client(slices)
    for kind in (OPS, VNFRS, NSIOPS, VCAS, CREATED):
        place = LISTS[kind][1]
        if store.has(kind):
            whole = store.all(kind)[0]["_id"]
            assert client.delete(f"/osm/{place}/{whole}").status_code == 405
            assert store.find(kind, whole)
        file = store.root / kind / "one.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("[]")
        assert client.delete(f"/osm/{place}/one").status_code in (202, 204)
        assert not file.exists()


def _client(slices: Slices) -> TestClient:
    client = TestClient(create_app(slices.engine, Tokens("secret")))
    client.headers["Accept"] = "application/json"
    credentials = {"username": "admin", "password": "secret", "project_id": "admin"}
    token = client.post("/osm/admin/v1/tokens", json=credentials).json()["id"]
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def test_a_slice_with_damaged_records_can_be_deleted(slices: Slices) -> None:
    made = make(slices, "one").nsr
    store = slices.store
    nsr = store.get(NSRS, entries(made)["hub"]["nsrId"])
    (store.root / VNFRS / f"{nsr['constituent-vnfr-ref'][0]}.json").write_text("")
    (store.root / NSRS / f"{entries(made)['spoke']['nsrId']}.json").write_text("")
    operation = slices.delete("one").operation
    (step,) = operation["operationParams"]["nslcmops_ids"]
    assert store.get(OPS, step)["nsInstanceId"] == nsr["_id"]
    perform(Work(store, FakeBackends(), Timeouts().scaled(0.001), journal(slices)), step)
    left = [r["nsr-id-ref"] for r in store.all(VNFRS)]
    assert (store.damaged(VNFRS), nsr["_id"] in left) == ([], False)


def test_an_announced_package_that_lacks_anything_is_a_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    states = {"onboardingState": "CREATED", "operationalState": "DISABLED"}
    whole = {**admin(), **states, "usageState": "NOT_IN_USE", "kind": VNFDS}
    store.put(CREATED, {"_id": "one", "_admin": whole})
    assert store.get(CREATED, "one")["_admin"]["kind"] == VNFDS
    for key in [*states, "usageState", "kind", "created"]:
        store.put(CREATED, {"_id": "one", "_admin": {k: whole[k] for k in whole if k != key}})
        with pytest.raises(NbiError, match=f"one.json lacks '_admin.{key}': delete it"):
            store.get(CREATED, "one")
