"""Northbound side: records on disk, catalogue, parameters, refusals in NBI's words."""

import errno
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.lcm_fakes import day12_of, nsd, vnfd

from builder import validate
from lab import accounts
from lab.descriptors import service, topology
from lab.descriptors.environments import Environment
from lab.errors import NbiError
from lab.files import locked
from lab.lcm.work import configuration_status, new_vca
from lab.nbi.catalogue import Catalogue
from lab.nbi.engine import Engine, Started
from lab.nbi.params import InstanceRequest, client_params, load_mapping
from lab.nbi.requests import check_action
from lab.records import jobs
from lab.records.ids import admin
from lab.records.journal import Journal, Tail
from lab.records.operations import fail_operation, operation_folder, remove_service
from lab.records.store import NSDS, NSRS, OPS, VIMS, VNFDS, VNFRS, Store


@dataclass(frozen=True)
class Found:
    severity: str
    path: str
    sentence: str
    osm_message: str = ""
    code: str = "unknown-key"


VALIDATE = validate.validate


@pytest.fixture(autouse=True)
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    """What the validator finds in packages and parameters: nothing, until a test says so."""
    result: list[Found] = []
    for name in ("validate", "validate_params"):
        monkeypatch.setattr(f"builder.validate.{name}", lambda *_: result)
    return result


def add_package(
    catalogue: Catalogue, kind: str, descriptor: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    package = folder / f"{descriptor['id']}_pkg"
    (package / "charms" / "demo").mkdir(parents=True)
    name = "vnfd" if kind == VNFDS else "nsd"
    document = {"vnfd": descriptor} if kind == VNFDS else {"nsd": {"nsd": [descriptor]}}
    (package / f"x_{name}.yaml").write_text(yaml.safe_dump(document))
    return catalogue.onboard(kind, package)[0]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine with the samples onboarded, which starts no workers."""
    engine = Engine(tmp_path / "home")
    add_package(engine.catalogue, VNFDS, vnfd(), tmp_path)
    add_package(engine.catalogue, NSDS, nsd(), tmp_path)
    engine.store.put(VIMS, {"_id": "vim-1", "name": "north", "_admin": admin()})

    def start(store: Store, operation: dict[str, Any], collection: str = OPS) -> Tail:
        return Tail(store.home / f"events-{operation['_id']}")

    monkeypatch.setattr(jobs, "start", start)
    return engine


CONFIG = {
    "additionalParamsForVnf": [
        {"member-vnf-index": "1", "additionalParams": {"inner": "a"}},
        {"member-vnf-index": "2", "additionalParams": {"inner": "b"}},
    ]
}


def create(engine: Engine, name: str = "demo", **config: Any) -> Any:
    return engine.ns_create(InstanceRequest(name, "an_ns", "north", {**CONFIG, **config}))


def test_revisions_of_a_package_stay_as_long_as_a_vnf_has_them(
    engine: Engine, tmp_path: Path
) -> None:
    store, catalogue = engine.store, engine.catalogue

    def revise(number: int) -> Any:
        source = tmp_path / str(number)
        (source / "charms" / "demo").mkdir(parents=True)
        text = yaml.safe_dump({"vnfd": {**vnfd(), "version": "1.0"}})
        (source / "x_vnfd.yaml").write_text(text, encoding="utf-8")
        return catalogue.update(VNFDS, "a_vnf", source)[0]

    first = store.resolve(VNFDS, "a_vnf")
    # As an earlier lab recorded what YAML reads as a number.
    with store.edit(VNFDS, first["_id"]) as d:
        d["descriptor"].update(version=1.0)
    started = create(engine)
    revise(2)
    revise(3)
    kept = store.get(VNFDS, first["_id"])["_admin"]["revisions"]
    assert list(kept) == ["1", "3"]
    places = [store.root / each["folder"] for each in kept.values()]
    assert all(place.is_dir() for place in places)
    found = [p for p in (store.root / "packages").iterdir() if p.name.startswith(first["_id"])]
    assert len(found) == 2
    remove_service(store, started.nsr["_id"])
    assert list(store.get(VNFDS, first["_id"])["_admin"]["revisions"]) == ["3"]
    assert [place.is_dir() for place in places] == [False, True]


def test_a_change_that_a_service_forbids_says_what_to_do(engine: Engine, tmp_path: Path) -> None:
    create(engine)
    changed = tmp_path / "changed"
    changed.mkdir()
    text = yaml.safe_dump({"vnfd": {**vnfd(), "version": "2.0"}})
    (changed / "x_vnfd.yaml").write_text(text, encoding="utf-8")
    sentence = (
        "version cannot be modified; allowed: .*; for all else delete its services first, or"
        " onboard the package with another id"
    )
    with pytest.raises(NbiError, match=sentence):
        engine.catalogue.update(VNFDS, "a_vnf", changed)


# -- store -----------------------------------------------------------------------------------------


def _count(home: Path, times: int) -> None:
    store = Store(home)
    for _ in range(times):
        with store.edit(VIMS, "v") as d:
            d.update(n=d["n"] + 1)


def test_updates_of_several_processes_are_not_lost(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(VIMS, {"_id": "v", "name": "v", "n": 0, "_admin": admin()})
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count, args=(tmp_path, 50)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert store.get(VIMS, "v")["n"] == 150
    assert [p.name for p in (tmp_path / "nbi" / VIMS).iterdir()] == ["v.json"]


def test_lock_gives_up_with_a_sentence(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock"),
        pytest.raises(NbiError, match=r"^ns demo is busy"),
        locked(tmp_path / "lock", 0.1, "ns demo"),
    ):
        pass


def test_failed_change_leaves_the_document(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(VIMS, {"_id": "v", "name": "v", "n": 0, "_admin": admin()})
    with pytest.raises(TypeError), store.edit(VIMS, "v") as d:
        d.update(n=object())
    assert store.get(VIMS, "v")["n"] == 0


@pytest.mark.parametrize("name", ["../../etc/passwd", "", ".", "a/b", "*", "x" * 300])
def test_strange_names_are_not_found(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    store.put(VIMS, {"_id": "v", "name": "v", "_admin": admin()})
    with pytest.raises(NbiError, match="not found"):
        store.resolve(VIMS, name)
    assert store.find(VIMS, name) is None


def test_name_that_two_documents_share(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key in ("a", "b"):
        store.put(VIMS, {"_id": key, "name": "same", "_admin": admin()})
    with pytest.raises(NbiError, match="not unique, use one of the ids a, b"):
        store.resolve(VIMS, "same")
    assert store.resolve(VIMS, "b")["_id"] == "b"


# -- catalogue -------------------------------------------------------------------------------------


def test_a_package_that_has_no_room_is_refused_with_the_folder(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lab.nbi.catalogue._write", full)
    with pytest.raises(NbiError) as caught:
        add_package(engine.catalogue, VNFDS, dict(vnfd(), id="other"), tmp_path / "again")
    folder = f"there is no room left in the folder {engine.store.root / 'packages'}"
    assert str(caught.value).endswith(f"cannot be unpacked: {folder}")


def test_same_id_twice_is_refused_in_nbis_words(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(NbiError, match="vnfd with id 'a_vnf' already exists for this project"):
        add_package(engine.catalogue, VNFDS, vnfd(), tmp_path / "again")
    assert len(list((engine.store.root / "packages").iterdir())) == 2


def test_nsd_before_its_vnfds(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builder.validate.validate", VALIDATE)
    other = nsd("missing_vnf")
    other["id"] = "other"
    with pytest.raises(NbiError, match="'vnfd-id'='missing_vnf' references a non existing vnfd"):
        add_package(engine.catalogue, NSDS, other, tmp_path / "x")


@pytest.mark.parametrize("updates", [False, True])
def test_a_vnfd_that_an_nsd_names_cannot_go_while_the_nsd_comes(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: bool
) -> None:
    other = {**vnfd(), "id": "other_vnf"}
    add_package(engine.catalogue, VNFDS, other, tmp_path)
    service = nsd("other_vnf")
    service["id"] = nsd()["id"] if updates else "other"
    told: list[str] = []

    def delete() -> None:
        try:
            engine.catalogue.delete(VNFDS, "other_vnf")
        except NbiError as error:
            told.append(str(error))

    deletion = threading.Thread(target=delete)

    def checked(package: validate.Package, catalog: validate.Catalog) -> list[Any]:
        deletion.start()
        deletion.join(0.5)
        return VALIDATE(package, catalog)

    monkeypatch.setattr("builder.validate.validate", checked)
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "a_nsd.yaml").write_text(yaml.safe_dump({"nsd": {"nsd": [service]}}))
    if updates:
        engine.catalogue.update(NSDS, service["id"], folder)
    else:
        engine.catalogue.onboard(NSDS, folder)
    deletion.join()
    assert told == ["There is at least one NS package referencing this descriptor"]


def test_wrong_kind(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "a_nsd.yaml").write_text(yaml.safe_dump({"nsd": {"nsd": [nsd()]}}))
    with pytest.raises(NbiError, match="is no vnfd descriptor; nspkg-create takes it"):
        engine.catalogue.onboard(VNFDS, folder)


def test_a_package_that_is_not_there_is_answered_with_the_nearest(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "vpn_endpoint_vnf.tar.gz").touch()
    with pytest.raises(NbiError, match="does not exist; did you mean 'vpn_endpoint_vnf.tar.gz'"):
        engine.catalogue.onboard(VNFDS, tmp_path / "vpn_endpoint.tar.gz")
    with pytest.raises(NbiError, match="does not exist$"):
        engine.catalogue.onboard(VNFDS, tmp_path / "dist" / "vpn_endpoint.tar.gz")


def test_what_nbi_takes_without_envelope_or_list_of_one(tmp_path: Path) -> None:
    catalogue = Catalogue(Store(tmp_path / "home"))
    function = vnfd()
    (disk,) = function["vdu"][0]["virtual-storage-desc"]
    function["vdu"][0]["virtual-storage-desc"] = disk
    service = {**nsd(), "vnfd-id": "a_vnf", "id": 7}
    file = tmp_path / "x.yaml"
    for kind, document in ((VNFDS, function), (NSDS, {"nsd": service})):
        file.write_text(yaml.safe_dump(document))
        catalogue.onboard(kind, file)
    (function,) = (d["descriptor"] for d in catalogue.store.all(VNFDS))
    (service,) = (d["descriptor"] for d in catalogue.store.all(NSDS))
    assert function["vdu"][0]["virtual-storage-desc"] == [disk]
    assert (service["vnfd-id"], service["id"]) == (["a_vnf"], "7")


def test_two_descriptors(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text("vnfd: {id: x}")
    with pytest.raises(NbiError, match="Found more than one descriptor file"):
        engine.catalogue.onboard(VNFDS, folder)


def test_refused_finding_stops_with_osms_message(
    engine: Engine, tmp_path: Path, findings: list[Found]
) -> None:
    findings += [
        Found("silent", "f: a", "will hurt"),
        Found("refused", "f: b", "ours", "NBI's text"),
        Found("refused", "f: c", "more"),
    ]
    other = vnfd("b_vnf")
    with pytest.raises(NbiError, match=r"NBI's text \(at f: b\); and 1 more"):
        add_package(engine.catalogue, VNFDS, other, tmp_path / "x")
    assert [d["id"] for d in engine.store.all(VNFDS)] == ["a_vnf"]


def test_silent_finding_is_a_warning_unless_strict(
    engine: Engine, tmp_path: Path, findings: list[Found]
) -> None:
    findings += [Found("silent", "f: a", "will hurt")]
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "b_vnfd.yaml").write_text(yaml.safe_dump({"vnfd": vnfd("b_vnf")}))
    with pytest.raises(NbiError, match="will hurt"):
        engine.catalogue.onboard(VNFDS, folder, strict=True)
    assert engine.catalogue.onboard(VNFDS, folder)[1] == ["f: a: will hurt"]


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def _link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info, b""


@pytest.mark.parametrize(
    "members",
    [
        [(tarfile.TarInfo("../evil"), b"x")],
        [(tarfile.TarInfo("/tmp/evil"), b"x")],
        [_link("pkg/out", "../../..")],
        [_link("pkg/out", "/etc"), (tarfile.TarInfo("pkg/out/evil"), b"x")],
        [_link("pkg/out", "x/../.."), _link("pkg/x", "..")],
    ],
)
def test_archives_cannot_lead_outside(engine: Engine, tmp_path: Path, members: Any) -> None:
    descriptor = yaml.safe_dump({"vnfd": vnfd("b_vnf")}).encode()
    whole = (tarfile.TarInfo("pkg/b_vnfd.yaml"), descriptor)
    archive = _tar(tmp_path / "evil.tar.gz", whole, *members)
    with pytest.raises(NbiError):
        engine.catalogue.onboard(VNFDS, archive)
    assert len(list((engine.store.root / "packages").iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x1f\x8b\x08\x00broken"])
def test_damaged_archives_are_one_sentence(engine: Engine, tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "p.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(NbiError, match="invalid file content"):
        engine.catalogue.onboard(VNFDS, archive)


def test_archive_keeps_modes_and_inner_links(engine: Engine, tmp_path: Path) -> None:
    runnable = tarfile.TarInfo("pkg/charms/demo/dispatch")
    runnable.mode = 0o755
    archive = _tar(
        tmp_path / "p.tar.gz",
        (tarfile.TarInfo("pkg/b_vnfd.yaml"), yaml.safe_dump({"vnfd": vnfd("b_vnf")}).encode()),
        (runnable, b"#!/bin/sh\n"),
        _link("pkg/charms/demo/start", "dispatch"),
        _link("pkg/round", "round"),
    )
    document, _ = engine.catalogue.onboard(VNFDS, archive)
    charm = engine.catalogue.folder(document) / "charms" / "demo"
    assert os.access(charm / "dispatch", os.X_OK)
    assert os.readlink(charm / "start") == "dispatch"


def test_packages_in_use_stay(engine: Engine) -> None:
    with pytest.raises(NbiError, match="at least one NS package referencing this descriptor"):
        engine.catalogue.delete(VNFDS, "a_vnf")
    create(engine)
    with pytest.raises(NbiError, match="at least one NS instance using this descriptor"):
        engine.catalogue.delete(NSDS, "an_ns")
    with pytest.raises(NbiError, match="at least one VNF instance using this descriptor"):
        engine.catalogue.delete(VNFDS, "a_vnf")
    with pytest.raises(NbiError, match="vim account 'north' is in use by ns 'demo'"):
        accounts.delete(engine, "north")


def test_packages_share_files_with_the_same_content(engine: Engine, tmp_path: Path) -> None:
    catalogue, kept = engine.catalogue, engine.store.root / "files"
    before = set(kept.iterdir())
    module, script = Path("charms/demo/venv/module.py"), Path("charms/demo/script")

    def onboard(name: str) -> Path:
        folder = tmp_path / name / f"{name}_pkg" / "charms" / "demo"
        for path in (folder / "venv" / "module.py", folder / "script"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("print()")
        (folder / "script").chmod(0o755)
        descriptor = yaml.safe_dump({"vnfd": vnfd(name)})
        (folder.parents[1] / f"{name}_vnfd.yaml").write_text(descriptor)
        return catalogue.folder(catalogue.onboard(VNFDS, folder.parents[1])[0])

    one, two = onboard("one"), onboard("two")
    assert (one / module).samefile(two / module)
    assert not (one / module).samefile(one / script)
    assert os.access(two / script, os.X_OK)
    # A power failure may cut what was written last.
    shared = next(path for path in kept.iterdir() if path.samefile(one / module))
    shared.unlink()
    shared.touch()
    assert (onboard("three") / module).read_text() == "print()"
    for name in ("one", "two", "three"):
        catalogue.delete(VNFDS, name)
    assert set(kept.iterdir()) == before


def test_delete_removes_the_files(engine: Engine) -> None:
    engine.catalogue.delete(NSDS, "an_ns")
    engine.catalogue.delete(VNFDS, "a_vnf")
    assert list((engine.store.root / "packages").iterdir()) == []


# -- parameters ------------------------------------------------------------------------------------


def test_client_maps_names_of_vim_accounts(engine: Engine) -> None:
    engine.store.put(VIMS, {"_id": "vim-2", "name": "south", "_admin": admin()})
    asked = InstanceRequest(
        "n",
        "an_ns",
        "north",
        {
            "vnf": [{"member-vnf-index": "1", "vim_account": "south"}],
            "vld": [
                {
                    "name": "l",
                    "vim-network-name": {"north": "a", "south": "b"},
                    "wim_account": False,
                }
            ],
            "wim_account": False,
        },
        ["key"],
    )
    links = {"vim-1": "a", "vim-2": "b"}
    assert client_params(asked, engine.store) == {
        "nsName": "n",
        "nsdId": engine.store.resolve(NSDS, "an_ns")["_id"],
        "vimAccountId": "vim-1",
        "ssh_keys": ["key"],
        "wimAccountId": False,
        "vnf": [{"member-vnf-index": "1", "vimAccountId": "vim-2"}],
        "vld": [{"name": "l", "vim-network-name": links, "wimAccountId": False}],
    }


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"vnf": "x"}, "'vnf' must be a list of mappings"),
        ({"vld": [1]}, "'vld' must be a list of mappings"),
        ({"additionalParamsForVnf": [{}]}, "must contain 'member-vnf-index'"),
        (
            {"vnf": [{"member-vnf-index": "1", "vim_account": "nowhere"}]},
            "vim account 'nowhere' not found",
        ),
        (
            {"vnf": [{"member-vnf-index": "1", "vimAccountId": "zzz"}]},
            "Invalid vimAccountId='zzz' not present for the project",
        ),
    ],
)
def test_bad_parameters_leave_no_record(
    engine: Engine, config: dict[str, Any], reason: str
) -> None:
    with pytest.raises(NbiError) as caught:
        create(engine, **config)
    assert reason in str(caught.value)
    for kind in (NSRS, VNFRS, OPS):
        assert engine.store.all(kind) == []


def test_missing_value_of_an_initial_primitive(engine: Engine) -> None:
    with pytest.raises(
        NbiError,
        match=r"Parameter '<inner>' needed for vnfd\[id=a_vnf\]:day1-2 "
        r"configuration:initial-config-primitive\[name=configure\] not supplied",
    ):
        create(engine, additionalParamsForVnf=[])


def test_refused_parameters(engine: Engine, findings: list[Found]) -> None:
    findings += [Found("refused", "p: vld", "unknown key")]
    with pytest.raises(NbiError, match="unknown key"):
        create(engine)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "must be a mapping"),
        ("a: [", "no valid YAML: line 2, column 1: did not find expected node content"),
        ("x", "mapping"),
        ("a: {expires: 2026-11-23}", "--params: a/expires: the date '2026-11-23' cannot be sent"),
        ("a: [.inf]", r"--params: a\[0\]: inf cannot be sent; allowed: a number"),
        ("2026-11-30: a", "--params: the key '2026-11-30' cannot be sent; allowed: text"),
    ],
)
def test_parameters_that_osmclient_could_not_send(text: str, reason: str) -> None:
    with pytest.raises(NbiError, match=reason):
        load_mapping(text, "--params")


def test_keys_of_parameters_become_text_as_in_osmclient() -> None:
    assert load_mapping("{1: a, b: {true: c}}", "--config") == {"1": "a", "b": {"true": "c"}}


# -- services --------------------------------------------------------------------------------------


def test_create_records_everything(engine: Engine) -> None:
    started = create(engine)
    nsr = engine.store.get(NSRS, started.nsr["_id"])
    assert (nsr["name"], nsr["nsState"], nsr["_admin"]["nsState"]) == (
        "demo",
        "NOT_INSTANTIATED",
        "NOT_INSTANTIATED",
    )
    assert [v["member-vnf-index-ref"] for v in engine.vnfs("demo")] == ["1", "2"]
    (operation,) = engine.store.all(OPS)
    assert (operation["lcmOperationType"], operation["operationState"]) == (
        "instantiate",
        "PROCESSING",
    )


def test_a_topology_is_planned_once_and_for_no_action(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    def counted(*arguments: Any) -> Any:
        planned.append(arguments[0])
        return topology.plan(*arguments)

    monkeypatch.setattr(service, "plan", counted)
    _instantiated(engine)
    assert planned == ["demo"]
    touch(engine, "demo", "1")
    assert planned == ["demo"]


def test_name_of_a_service_is_unique(engine: Engine) -> None:
    create(engine)
    with pytest.raises(NbiError, match="ns with name 'demo' already exists"):
        create(engine)
    assert len(engine.store.all(VNFRS)) == 2


@pytest.mark.parametrize("name", ["", "a,b", "it's", "x" * 256])
def test_name_that_nbi_refuses(engine: Engine, name: str) -> None:
    with pytest.raises(NbiError, match="Format error at 'nsName'") as caught:
        create(engine, name)
    assert caught.value.status == 422
    assert engine.store.all(NSRS) == []


def test_instances_of_a_scale_that_was_killed_are_not_building(engine: Engine) -> None:
    operation = create(engine).operation
    with engine.store.edit(NSRS, operation["nsInstanceId"]) as nsr:
        nsr["_admin"]["deployed"]["VCA"] = [new_vca(Environment("app", "c", "ee", "1"))]
        nsr["configurationStatus"] = configuration_status(nsr)
    fail_operation(engine.store, {**operation, "lcmOperationType": "scale"}, "it was killed")
    assert {v["status"] for r in engine.store.all(VNFRS) for v in r["vdur"]} == {"ERROR"}
    shown = engine.ns("demo")
    assert {vca["status"] for vca in shown["configurationStatus"]} == {"BROKEN"}
    assert shown["nsState"] != "BROKEN"


def test_dead_worker_is_noticed(engine: Engine) -> None:
    operation = create(engine).operation
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        jobs.record_worker(engine.store, operation["_id"], process.pid)
        assert engine.ns("demo")["nsState"] == "NOT_INSTANTIATED"
        with engine.store.edit(NSRS, operation["nsInstanceId"]) as nsr:
            nsr["_admin"]["deployed"]["VCA"] = [new_vca(Environment("app", "c", "ee", "1"))]
            nsr["configurationStatus"] = configuration_status(nsr)
        process.kill()
        process.wait()
    assert engine.ns("demo")["nsState"] == "BROKEN"
    record = engine.operation(operation["_id"])
    assert record["operationState"] == "FAILED"
    assert "was killed" in record["errorMessage"]
    # Nobody builds these any more.
    assert {v["status"] for r in engine.store.all(VNFRS) for v in r["vdur"]} == {"ERROR"}
    shown = engine.ns("demo")
    assert {vca["status"] for vca in shown["configurationStatus"]} == {"BROKEN"}
    assert {vca["status"] for vca in shown["_admin"]["deployed"]["VCA"]} == {"BROKEN"}


def test_a_dead_worker_is_quoted(engine: Engine) -> None:
    operation = create(engine).operation
    log = operation_folder(engine.store.home, operation["_id"]) / "worker.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        command = [sys.executable, "-c", "import lab.vanished"]
        process = subprocess.Popen(command, stderr=stream)
        jobs.record_worker(engine.store, operation["_id"], process.pid)
        process.wait()
    reason = "the process running the operation has ended: ModuleNotFoundError: No module named"
    assert reason in engine.operation(operation["_id"])["errorMessage"]


def test_an_operation_whose_worker_cannot_be_started_fails(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(NbiError, match="no process could be started for .*No such file"):
        create(engine)
    (operation,) = engine.store.all(OPS)
    assert operation["operationState"] == "FAILED"
    assert "No such file" in operation["errorMessage"]


def test_another_process_with_the_same_id_is_not_killed(engine: Engine) -> None:
    operation = create(engine).operation
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        operation["lab"]["worker"] = {"pid": process.pid, "start": 1}
        jobs.kill(operation)
        time.sleep(0.05)
        assert process.poll() is None
        process.kill()


def test_delete_cancels_a_running_create(engine: Engine) -> None:
    operation = create(engine).operation
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        jobs.record_worker(engine.store, operation["_id"], process.pid)
        started = engine.ns_delete("demo")
        assert process.wait(120) == -15
    assert engine.operation(operation["_id"])["errorMessage"] == "Operation was cancelled"
    assert started.operation["lcmOperationType"] == "terminate"


# -- actions ---------------------------------------------------------------------------------------

PRIMITIVES = [
    {
        "name": "touch",
        "parameter": [
            {"name": "file"},
            {"name": "empty", "default-value": "", "mandatory": False},
            {"name": "times", "default-value": "1"},
        ],
    },
]


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("nope", {}, "Invalid primitive 'nope' is not present at vnfd/nsd; allowed: touch"),
        ("touch", {}, "Needed parameter file not provided for primitive 'touch'"),
        ("touch", {"file": "x"}, "Needed parameter empty not provided for primitive 'touch'"),
        (
            "touch",
            {"fil": "x"},
            "Needed parameter file not provided for primitive 'touch'; parameter/s '['fil']' not "
            "present at vnfd /nsd for primitive 'touch'; did you mean 'file'",
        ),
        (
            "touch",
            {"file": "x", "empty": "", "more": 1},
            "parameter/s '['more']' not present at vnfd /nsd for primitive 'touch'; "
            "allowed: empty, file, times",
        ),
    ],
)
def test_refused_actions(name: str, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(NbiError) as caught:
        check_action(PRIMITIVES, name, given)
    assert str(caught.value) == reason


def test_accepted_action() -> None:
    assert check_action(PRIMITIVES, "touch", {"file": "", "empty": "x"})["name"] == "touch"


def _no_name(descriptor: dict[str, Any]) -> None:
    del descriptor["name"]


def _no_vdu_name(descriptor: dict[str, Any]) -> None:
    del descriptor["vdu"][0]["name"]


def _no_value(descriptor: dict[str, Any]) -> None:
    entry = descriptor["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"]
    del entry[0]["initial-config-primitive"][0]["parameter"][0]["value"]


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        pytest.param(NSDS, _no_name, "nsd 'an_ns' has no name", id="nsd"),
        pytest.param(VNFDS, _no_vdu_name, "of vnfd 'a_vnf' has no name", id="vdu"),
        pytest.param(VNFDS, _no_value, "has no value", id="primitive"),
    ],
)
def test_what_nbi_stumbles_over_is_refused_before_anything_is_made(
    engine: Engine,
    kind: str,
    change: Callable[[dict[str, Any]], None],
    sentence: str,
) -> None:
    (package,) = engine.store.all(kind)
    with engine.store.edit(kind, package["_id"]) as document:
        change(document["descriptor"])
    with pytest.raises(NbiError, match=sentence):
        create(engine)
    assert engine.store.all(NSRS) == []


def _instantiated(engine: Engine) -> None:
    nsr = create(engine).nsr
    with engine.store.edit(NSRS, nsr["_id"]) as n:
        n["_admin"].update(nsState="INSTANTIATED")


def touch(
    engine: Engine, name: str, index: str | None, vdu: str | None = None, **more: object
) -> Started:
    body = {"primitive": "touch", "primitive_params": {"file": "x"}, **more}
    given = {"member_vnf_index": index, "vdu_id": vdu}
    body |= {key: value for key, value in given.items() if value is not None}
    return engine.ns_run(name, "action", body)


def test_action_before_instantiation(engine: Engine) -> None:
    create(engine)
    with pytest.raises(NbiError, match="cannot be 'action' because it is not instantiated"):
        touch(engine, "demo", "1")


@pytest.mark.parametrize(
    ("index", "vdu", "reason"),
    [
        ("9", None, "member_vnf_index='9'"),
        ("1", "nobox", "vdu_id='nobox' not present"),
        ("1", "box", "Invalid primitive 'touch'"),
        (None, None, "Invalid primitive 'touch'"),
    ],
)
def test_action_at_the_wrong_place(
    engine: Engine, index: str | None, vdu: str | None, reason: str
) -> None:
    _instantiated(engine)
    before = len(engine.store.all(OPS))
    with pytest.raises(NbiError, match=reason):
        touch(engine, "demo", index, vdu)
    assert len(engine.store.all(OPS)) == before


def test_action_is_recorded(engine: Engine) -> None:
    _instantiated(engine)
    operation = touch(engine, "demo", "1", timeout_ns_action=7).operation
    assert operation["operationParams"] == {
        "primitive": "touch",
        "primitive_params": {"file": "x"},
        "member_vnf_index": "1",
        "timeout_ns_action": 7,
    }


def test_vdu_level_action(engine: Engine, tmp_path: Path) -> None:
    descriptor = vnfd("b_vnf")
    day12_of(descriptor)[0]["id"] = "box"
    add_package(engine.catalogue, VNFDS, descriptor, tmp_path / "b")
    top = nsd("b_vnf")
    top.update(id="b_ns", name="b_ns")
    top["ns-configuration"] = {}
    add_package(engine.catalogue, NSDS, top, tmp_path / "b")
    nsr = engine.ns_create(InstanceRequest("vdu", "b_ns", "north", CONFIG)).nsr
    with engine.store.edit(NSRS, nsr["_id"]) as n:
        n["_admin"].update(nsState="INSTANTIATED")
    operation = touch(engine, "vdu", "1", "box").operation
    assert operation["operationParams"]["vdu_count_index"] == 0


# -- journal ---------------------------------------------------------------------------------------


def test_tail_reads_whole_lines_only_and_survives_deletion(tmp_path: Path) -> None:
    path = tmp_path / "events"
    tail = Tail(path)
    journal = Journal(path)
    journal.write("stage", "ns", "one")
    with path.open("a") as stream:
        stream.write(json.dumps({"kind": "half"})[:5])
        stream.flush()
        assert [e["text"] for e in tail.new_events()] == ["one"]
        path.unlink()
        stream.write(json.dumps({"kind": "half"})[5:] + "\n")
    assert [e["kind"] for e in tail.new_events()] == ["half"]
    journal.close()
