"""Every code of the validator is told by the lab's northbound side, before any machine is made."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import params_cases
import pytest
import validate_cases
import yaml
from support.validating import validate_package
from validate_support import (
    CODES,
    DESCRIPTOR,
    ENTRY,
    NSD_FILE,
    NST,
    PARAMS,
    Draft,
    File,
    catalog,
    ns,
    ns_with_charm,
    nst,
    tar,
    vnf,
)

from builder.validate import Catalog, reader, validate_params
from lab.errors import NbiError
from lab.nbi.engine import Engine
from lab.nbi.params import InstanceRequest
from lab.nbi.slice_requests import Slices
from lab.records import jobs
from lab.records.ids import admin, new_id
from lab.records.journal import Tail
from lab.records.store import NSDS, NSTS, OPS, PLACE, VIMS, VNFDS, Store

pytestmark = pytest.mark.slow

KIND = {"vnf": VNFDS, "ns": NSDS, "nst": NSTS}
TOLD_WHICH_SERVICE = {"params-no-service"}
"""A parameter file beside packages must fit one; here the command names the service."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a lab with the good packages onboarded."""
    folder = tmp_path_factory.mktemp("lab")
    engine = Engine(folder / "home")
    for name, draft in (("vnf", vnf()), ("ns", ns()), ("nst", nst())):
        engine.catalogue.onboard(KIND[name], draft.tar(folder / f"{name}.tar.gz"))
    for name in ("north", "south"):
        engine.store.put(VIMS, {"_id": new_id(), "name": name, "_admin": admin()})
    return folder / "home"


@pytest.fixture
def engine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine of a copy of that home, which starts no workers."""
    # Of a home that has no VDUs, a copy is a home of its own.
    ignored = shutil.ignore_patterns(PLACE)
    engine = Engine(shutil.copytree(home, tmp_path / "home", ignore=ignored))

    def start(store: Store, operation: dict[str, Any], collection: str = OPS) -> Tail:
        return Tail(store.home / "events")

    monkeypatch.setattr(jobs, "start", start)
    return engine


def onboarded(engine: Engine, kind: str, path: Path) -> str:
    """Return what the lab says of a package, as warnings or as its refusal."""
    own = {VNFDS: "gate_vnf", NSDS: "gate_ns", NSTS: "gate_slice"}[kind]
    try:
        return "\n".join(engine.catalogue.update(kind, own, path)[1])
    except NbiError as error:
        return f"refused: {error}"


def kind_of(draft: Draft) -> str:
    return next(KIND[name] for name, kind in KINDS_OF_DRAFTS if draft is kind)


KINDS_OF_DRAFTS = (("vnf", vnf), ("ns", ns), ("ns", ns_with_charm), ("nst", nst))
FIRST = {case.code: case for case in reversed(validate_cases.CASES)}


@pytest.mark.parametrize("code", FIRST)
def test_a_package(engine: Engine, code: str, tmp_path: Path) -> None:
    path = FIRST[code].package().tar(tmp_path / "gate.tar.gz")
    problem = next(p for p in validate_package(path, catalog()) if p.code == code)
    told = onboarded(engine, kind_of(FIRST[code].draft), path)
    if code in UNPACKED:
        assert told.startswith("refused: ")
        return
    assert (problem.osm_message or problem.sentence) in told
    assert told.startswith("refused: ") == (problem.severity == "refused")


UNPACKED = ("archive-link", "charm-link", "archive-folders", "zip-link")
"""What the lab itself does not unpack, in a sentence of its own."""
ARCHIVES = {
    "archive-path": [NSD_FILE, ("p/../x", b"")],
    "archive-top": [NSD_FILE, ("README", b"")],
    "archive-folders": [NSD_FILE, ("q/charms/x", b"")],
    "archive-size": [NSD_FILE, ("p/large", bytes(1 << 17))],
    "archive-member": [NSD_FILE, ("p//LICENSE", b"")],
    "archive-twice": [NSD_FILE, ("p/a", b""), ("p/a", b"")],
    "descriptor-count": [NSD_FILE, ("p/other.yml", b"")],
    "descriptor-json": [("p/x.json", b"{}")],
    "descriptor-yaml": [("p/x_nsd.yaml", b"a: [")],
    "key-twice": [("p/x_nsd.yaml", DESCRIPTOR + b"    name: gate_ns\n")],
}


@pytest.mark.parametrize("code", ARCHIVES)
def test_an_archive(
    engine: Engine, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 1 << 16)
    path = tar(tmp_path / "x.tar.gz", ARCHIVES[code])
    problems = validate_package(path, catalog())
    (sentence,) = {p.osm_message or p.sentence for p in problems if p.code == code}
    told = onboarded(engine, NSDS, path)
    assert sentence in told or (code in UNPACKED and told.startswith("refused: "))


def test_what_is_no_archive(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(b"no archive")
    assert "invalid file content" in onboarded(engine, NSDS, path)


@pytest.mark.parametrize("made", ["zip-link", "charm-place"])
def test_a_zip(engine: Engine, made: str, tmp_path: Path) -> None:
    draft = vnf()
    if made == "zip-link":
        draft.files["charms/gate/lib.py"] = File("", link="src/charm.py")
    told = onboarded(engine, VNFDS, draft.zip(tmp_path / "x.zip"))
    assert ("loses links" in told) if made == "zip-link" else told == ""


def created(engine: Engine, document: Any, service: str = "gate_ns") -> str:
    """Return what ns-create says of parameters; nothing is recorded where it refuses."""
    try:
        started = engine.ns_create(InstanceRequest("s", service, "north", document))
    except NbiError as error:
        assert engine.store.all(OPS) == []
        return f"refused: {error}"
    return "\n".join(started.warnings)


OF_SERVICES = {case.code: case for case in reversed(params_cases.CASES)}


@pytest.mark.parametrize("code", OF_SERVICES)
def test_parameters_of_a_service(engine: Engine, code: str) -> None:
    document = copy.deepcopy(PARAMS)
    OF_SERVICES[code].change(document)
    problem = next(p for p in validate_params("ns", document, catalog()) if p.code == code)
    told = created(engine, document)
    by_nbi = told.startswith("refused: Invalid parameter")  # it says more than the real one
    assert by_nbi or (problem.osm_message or problem.sentence) in told


def test_parameters_of_a_services_own_charm(engine: Engine, tmp_path: Path) -> None:
    service = ns_with_charm()
    service.put("ns-configuration/initial-config-primitive/0/parameter/0/value", "<wan>")
    onboarded(engine, NSDS, service.tar(tmp_path / "own.tar.gz"))
    assert "Parameter '<wan>' needed for" in created(engine, copy.deepcopy(PARAMS))


def test_parameters_that_disagree(engine: Engine) -> None:
    document = copy.deepcopy(PARAMS)
    inner = {"s1c_inner_address": "10.9.0.1/24", "s1u_inner_address": "10.9.0.129/25"}
    document["additionalParamsForVnf"][0]["additionalParams"] |= inner
    assert "10.9.0.129/25, which overlaps 10.9.0.0/24 of its s1c" in created(engine, document)


def test_parameters_that_are_no_parameters(engine: Engine) -> None:
    document: dict[str, Any] = {"additionalParamsForNs": {}}
    deep = document["additionalParamsForNs"]
    for _ in range(100):
        deep["a"] = {}
        deep = deep["a"]
    assert "the parameters are nested too deeply" in created(engine, document)


def of_slice() -> dict[str, Any]:
    own = copy.deepcopy(PARAMS)
    del own["vld"][0]["ip-profile"]
    return {"netslice-subnet": [{"id": n, **copy.deepcopy(own)} for n in ("core", "edge")]}


def extra(document: Any) -> Any:
    return document["netslice-subnet"][0]["additionalParamsForVnf"][0]["additionalParams"]


OF_SLICES: dict[str, Any] = {
    "params-nss": lambda d: d["netslice-subnet"].append({"id": "x"}),
    "params-nsi-vld": lambda d: d.update({"netslice-vld": [{"name": "x"}]}),
    "params-value": lambda d: extra(d).update(port=None),
    "params-cloud-init": lambda d: extra(d).pop("name"),
    "params-nss-vld": lambda d: d["netslice-subnet"][0].update(
        vld=[{"name": "mgmt", "vim-network-name": "x"}]
    ),
    "params-five-qi": lambda d: extra(d).update(s1u_five_qi=9),
    "params-five-qi-unused": lambda d: extra(d).update(s1u_five_qi=0),
}


@pytest.mark.parametrize("code", OF_SLICES)
def test_parameters_of_a_slice(engine: Engine, code: str, tmp_path: Path) -> None:
    template = copy.deepcopy(NST)
    document = of_slice()
    if code.startswith("params-five-qi"):
        template["nst"][0]["quality-of-service"] = {"id": 82}
        made = vnf()
        parameter = {"name": "five-qi", "data-type": "INTEGER", "value": "<s1u_five_qi>"}
        made.put(f"{ENTRY}/0/initial-config-primitive/1/parameter/1", parameter)
        onboarded(engine, VNFDS, made.tar(tmp_path / "v.tar.gz"))
        for service in document["netslice-subnet"]:
            for entry in service["additionalParamsForVnf"]:
                entry["additionalParams"]["s1u_five_qi"] = 0
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(template))
    onboarded(engine, NSTS, path)
    OF_SLICES[code](document)
    store = engine.store
    known = Catalog(
        *({d["id"]: d["descriptor"] for d in store.all(kind)} for kind in (VNFDS, NSDS)),
        nsts={"gate_slice": template["nst"][0]},
        folders={d["id"]: engine.catalogue.folder(d) for d in store.all(VNFDS)},
    )
    problems = validate_params("nsi", document, known)
    expected = [p.osm_message or p.sentence for p in problems if p.code == code]
    assert expected
    try:
        asked = InstanceRequest("s", "gate_slice", "north", document)
        told = "\n".join(Slices(engine).create(asked).warnings)
    except NbiError as error:
        told = str(error)
    assert any(sentence in told for sentence in expected)


def test_no_code_is_left_out() -> None:
    told = {*FIRST, *ARCHIVES, *OF_SERVICES, *OF_SLICES, "archive-unreadable", "zip-link"}
    told |= {"params-ns-missing", "params-disagree", "params-form", "params-link", "nst-no-subnet"}
    assert sorted(CODES) == sorted(told | TOLD_WHICH_SERVICE)
