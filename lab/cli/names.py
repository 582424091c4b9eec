"""Names that the shell completes: of accounts, packages, services, VNFs, primitives, links, units.

Each is a type of a click parameter and takes any text. Whoever completes makes no lab and sees no
error: what cannot be read has no names.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from lab.descriptors.environments import day12
from lab.descriptors.service import members
from lab.errors import LabError
from lab.nbi.engine import Engine
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, VIMS, Document

Given = Mapping[str, Any]  # The parameters of the verb that are given already.


class Names(click.ParamType[str]):
    """A text with the names that the lab knows."""

    name = "text"

    def __init__(self, known: Callable[[Engine, Given], Iterable[str]]) -> None:
        self.names_of = known

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        engine = Engine(ctx.find_root().params["home"].absolute())
        # click leaves the arguments unnamed when the last word is an option without its value.
        unnamed = {"ns": ctx.args[0]} if ctx.args else {}
        try:
            known = (
                set(self.names_of(engine, {**unnamed, **ctx.params}))
                if engine.store.exists()
                else set()
            )
        except (LabError, OSError):
            return []
        return [CompletionItem(name) for name in sorted(known) if name.startswith(incomplete)]


def named(*collections: str) -> Names:
    return Names(
        lambda engine, _: (
            str(record.get("name") or record.get("id") or record["_id"])
            for collection in collections
            for record in engine.store.all(collection)
        )
    )


def _service(engine: Engine, given: Given) -> Document:
    """Return the service that is given; verbs have three names for it."""
    name = given.get("ns") or given.get("ns_name") or given.get("name") or ""
    return engine.store.resolve(NSRS, name, id_field="_id")


def _vnfs(engine: Engine, given: Given) -> list[Document]:
    key = _service(engine, given)["_id"]
    return [record for record in engine.vnfs() if record["nsr-id-ref"] == key]


def _primitives(engine: Engine, given: Given) -> Iterable[str]:
    service = _service(engine, given)["nsd"]
    vnf = given.get("vnf_name")
    found = []
    for index, package in members(service, engine.store).items():
        if vnf in (None, index):
            descriptor = package["descriptor"]
            found.append(day12(descriptor, given.get("vdu_id") or descriptor["id"]) or {})
    return (str(one["name"]) for entry in found for one in entry.get("config-primitive") or ())


def _links(engine: Engine, given: Given) -> Iterable[str]:
    return (
        port["ns-vld-id"]
        for record in _vnfs(engine, given)
        for vdur in record["vdur"]
        for port in vdur["interfaces"]
    )


def _units(engine: Engine, given: Given) -> Iterable[str]:
    from lab.vca.status import status_of  # takes long to import

    status = status_of(engine.store.home, _service(engine, given)["_id"])
    return status.units if status is not None else ()


ACCOUNT = named(VIMS)
SERVICE = named(NSRS)
SLICE = named(NSIS)
SERVICE_OR_SLICE = named(NSRS, NSIS)
OPERATION = named(OPS, NSIOPS)
VNF = Names(
    lambda engine, given: (record["member-vnf-index-ref"] for record in _vnfs(engine, given))
)
PRIMITIVE = Names(_primitives)
LINK = Names(_links)
UNIT = Names(_units)
