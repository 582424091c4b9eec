"""Another type in any scalar of a shipped descriptor: refused, or a package like any other."""

import copy
import datetime
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from builder import documents, packages
from builder.parameters import variants
from builder.tree import Tree
from lab.errors import NbiError
from lab.nbi.catalogue import Catalogue
from lab.nbi.engine import Engine
from lab.nbi.params import InstanceRequest
from lab.records import jobs
from lab.records.ids import admin, new_id
from lab.records.journal import Tail
from lab.records.store import NSDS, NSTS, OPS, VIMS, VNFDS, Store

COLLECTION = {"vnf": VNFDS, "ns": NSDS, "nst": NSTS}
OTHERS = (2, None, 1.5, True, datetime.date(2026, 1, 31))
"""One of these goes to each place, in long runs all."""
Way = tuple[Any, ...]


all_or_one = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])


def others(number: int, every: bool) -> tuple[Any, ...]:
    return OTHERS if every else (OTHERS[number % len(OTHERS)],)


@cache
def shipped() -> dict[str, packages.Package]:
    return packages.catalogue(Tree.find())


def scalars(value: Any, way: Way = ()) -> Iterator[Way]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from scalars(inner, (*way, key))
        else:
            yield (*way, key)


def places(kind: str) -> list[tuple[str, Way]]:
    """Every kind of place of a scalar in the descriptors of a kind, in the first that has it."""
    found: dict[Way, tuple[str, Way]] = {}
    for name, package in shipped().items():
        if package.kind == kind:
            for way in scalars(package.descriptor):
                found.setdefault(tuple(p for p in way if isinstance(p, str)), (name, way))
    return list(found.values())


def body_of(document: Any) -> Any:
    """Return a descriptor inside its envelope."""
    while isinstance(document, list) or "id" not in document:
        document = next(iter(document if isinstance(document, list) else document.values()))
    return document


def written(folder: Path, name: str, descriptor: Any) -> Path:
    """Write a package with charms of no content, which NBI does not look for."""
    for part in ("charms/any/x", "cloud_init/vnf.yaml", "cloud_init/nr_cell.yaml"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).write_text("#cloud-config\n{}\n")
    (folder / f"{name}.yaml").write_text(documents.dump(descriptor))
    return folder


def catalogue_of(home: Path, kind: str) -> Catalogue:
    """Return a catalogue with what the descriptors of a kind name."""
    catalogue, named = Catalogue(Store(home)), set()
    for name, _ in places(kind):
        body = body_of(shipped()[name].descriptor)
        named |= {
            *body.get("vnfd-id", ()),
            *(s["nsd-ref"] for s in body.get("netslice-subnet", ())),
        }
    for name in named:
        package = shipped()[name]
        record = {"_id": new_id(), "id": name, "name": name, "folder": f"packages/{name}"}
        record |= {"descriptor": body_of(package.descriptor)}
        record |= {"_admin": {**admin(), "revision": 1, "revisions": {}}}
        catalogue.store.put(COLLECTION[package.kind], record)
    return catalogue


@all_or_one
@pytest.mark.parametrize("kind", COLLECTION)
def test_a_package_is_refused_or_listed_and_deleted(kind: str, every: bool, tmp_path: Path) -> None:
    catalogue = catalogue_of(tmp_path / "home", kind)
    store, collection = catalogue.store, COLLECTION[kind]
    before = {d["_id"] for d in store.all(collection)}
    accepted = 0
    for number, (name, way) in enumerate(places(kind)):
        for other in others(number, every):
            made = copy.deepcopy(shipped()[name].descriptor)
            holder = made
            for part in way[:-1]:
                holder = holder[part]
            holder[way[-1]] = other
            if way[-1] != "id" or len(way) > 4:  # an id of its own, beside the good one
                body_of(made)["id"] = f"other-{number}"
            folder = written(tmp_path / "pkg", "d", made)
            try:
                document, _ = catalogue.onboard(collection, folder)
            except NbiError:
                continue
            accepted += 1
            listed = {d["_id"]: d for d in store.all(collection)}
            assert listed.keys() == before | {document["_id"]}, (name, way, other)
            assert store.damaged(collection) == []
            shown = listed[document["_id"]]
            assert isinstance(shown["id"], str)
            assert isinstance(shown["name"], str | None)
            catalogue.delete(collection, shown["id"])
            assert {d["_id"] for d in store.all(collection)} == before
    assert accepted


@all_or_one
def test_a_service_is_refused_or_created(
    every: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(store: Store, operation: dict[str, Any], collection: str = OPS) -> Tail:
        return Tail(store.home / "events")

    monkeypatch.setattr(jobs, "start", start)
    config = variants.parameter_files(Tree.find())["vpn_basic"]
    created = 0
    for name in ("vpn_endpoint_vnf", "vpn_basic_ns"):
        way_by_place = {
            tuple(p for p in way if isinstance(p, str)): way
            for way in scalars(shipped()[name].descriptor)
        }
        for number, way in enumerate(way_by_place.values()):
            if "config-primitive" in way:
                continue  # of day 2
            for other in others(number, every):
                engine = Engine(tmp_path / "home")
                engine.store.put(VIMS, {"_id": "v", "name": "north", "_admin": admin()})
                made = copy.deepcopy(shipped()[name].descriptor)
                holder = made
                for part in way[:-1]:
                    holder = holder[part]
                holder[way[-1]] = other
                try:
                    for kind, package in ((VNFDS, "vpn_endpoint_vnf"), (NSDS, "vpn_basic_ns")):
                        descriptor = made if package == name else shipped()[package].descriptor
                        engine.catalogue.onboard(kind, written(tmp_path / kind, "d", descriptor))
                    (nsd,) = engine.store.all(NSDS)
                    started = engine.ns_create(
                        InstanceRequest("s", nsd["_id"], "north", copy.deepcopy(config))
                    )
                    created += 1
                    assert engine.ns(started.nsr["_id"])
                except NbiError:
                    pass
                for kind in (NSDS, VNFDS):
                    for document in engine.store.all(kind):
                        engine.catalogue.delete(kind, document["_id"], force=True)
                for kind in ("nsrs", "vnfrs", OPS):
                    for document in engine.store.all(kind):
                        engine.store.delete(kind, document["_id"])
                    assert engine.store.damaged(kind) == []
    assert created
