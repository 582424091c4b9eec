"""Verbs that most kinds of records have alike: list, show, delete, op-list and op-show."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from builder import documents
from builder.link_table import span
from lab import accounts
from lab.cli.context import Lab, pass_lab
from lab.cli.names import OPERATION, SERVICE, SLICE, named
from lab.cli.options import literally
from lab.cli.render import when
from lab.cli.watching import watched
from lab.errors import unknown
from lab.nbi.engine import Instances
from lab.records.store import CREATED, NSDS, NSIS, NSRS, NSTS, VIMS, VNFDS, VNFRS, Document

_SHOWN = documents.read(Path(__file__).with_suffix(".yaml"))


@dataclass(frozen=True)
class Noun:
    """A kind of record. A verb that is None it has not, or it is one of its own in `commands`."""

    name: str  # Its verbs begin with it.
    what: str  # In help, with its article.
    record: Callable[[Lab, str], Document]  # What `show` prints; its docstring is the verb's help.
    fields: Sequence[str] | None = None  # Of the record in a table; None: all.
    more: Callable[[Lab, Document], None] = lambda lab, record: None  # Printed below that table.
    names: click.ParamType[str] = field(default_factory=click.types.StringParamType)
    rows: Callable[[Lab], Sequence[Mapping[str, Any]]] | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # Heading -> keys.
    spare: Sequence[str] = ()  # Columns that go first where the terminal is narrow.
    delete: Callable[[Lab, str, bool], None] | None = None  # The last is: force.
    operations: Callable[[Lab], Instances] | None = None

    def verbs(self) -> Iterator[click.Command]:
        argument = click.argument("name", type=self.names)

        @click.command(f"{self.name}-show", help=self.record.__doc__)
        @argument
        @literally
        @watched
        @pass_lab
        def show(lab: Lab, name: str) -> None:
            record = self.record(lab, name)
            lab.out.fields(record, self.fields)
            if not lab.out.as_json:
                self.more(lab, record)

        yield show
        if rows := self.rows:

            @click.command(f"{self.name}-list", help=f"List {self.what.split(maxsplit=1)[1]}s.")
            @watched
            @pass_lab
            def show_all(lab: Lab) -> None:
                lab.out.rows(rows(lab), self.columns, self.spare)

            yield show_all
        if delete := self.delete:

            @click.command(f"{self.name}-delete", help=f"Delete {self.what} that nothing uses.")
            @argument
            @click.option("--force", is_flag=True, help="Delete it even if it is in use.")
            @click.option("--wait", is_flag=True, hidden=True, expose_value=False)
            @pass_lab
            def remove(lab: Lab, name: str, force: bool) -> None:
                delete(lab, name, force)
                lab.out.remark("Deleted")

            yield remove
        if operations := self.operations:

            @click.command(f"{self.name}-op-list", help=f"List the operations of {self.what}.")
            @argument
            @watched
            @pass_lab
            def show_operations(lab: Lab, name: str) -> None:
                engine = operations(lab)
                # Nobody can tell whose operation a damaged record was.
                lab.out.operations(lab.views(engine.running, engine.operations(name)))

            @click.command(f"{self.name}-op-show", help=f"Show an operation on {self.what}.")
            @click.argument("id", type=OPERATION)
            @click.option("--filter", hidden=True, expose_value=False)
            @literally
            @pass_lab
            def show_operation(lab: Lab, id: str) -> None:
                engine = operations(lab)
                record = lab.view(engine.running, engine.operation(id))
                lab.out.fields(record, _SHOWN["operation"]["fields"])

            yield from (show_operations, show_operation)


def links_of(lab: Lab, *services: Document) -> str:
    """Return what `lab.graph.states` says of services; only some verbs need its long import."""
    from lab.graph import states

    return states.links_of(lab.engine.store, *services)


def _vim(lab: Lab, name: str) -> Document:
    """Show a VIM account with its networks and servers."""
    from lab.lcm.backends import Backends

    document = lab.view(VIMS, lab.engine.store.resolve(VIMS, name))
    vim = Backends(lab.home).vim(document["_id"])
    document["networks"] = [
        {"name": n.name, "id": n.id, "subnet": n.subnet} for n in vim.networks()
    ]
    document["servers"] = [
        {"name": s.name, "id": s.id, "status": s.status, **({"fault": s.fault} if s.fault else {})}
        for s in vim.servers()
    ]
    return document


def _package(name: str, kind: str, what: str) -> Noun:
    def record(lab: Lab, name: str) -> Document:
        descriptor: Document = lab.engine.store.resolve(kind, name)["descriptor"]
        return descriptor

    def rows(lab: Lab) -> list[Document]:
        store = lab.engine.store
        damaged = [*store.damaged(kind), *store.damaged(CREATED)]  # announced: of any kind
        return [*store.all(kind), *damaged]

    record.__doc__ = f"Show the descriptor of {what}."
    return Noun(
        name,
        what,
        record,
        names=named(kind),
        rows=rows,
        **_SHOWN["package"],
        delete=lambda lab, name, force: lab.engine.catalogue.delete(kind, name, force),
    )


def _service(lab: Lab, name: str) -> Document:
    """Show a network service."""  # `--help` shows it.
    return lab.view(NSRS, lab.engine.ns(name))


def _services(lab: Lab) -> list[Document]:
    lab.engine.reap()
    services = [
        {**n, "date": when(n["create-time"]), "links": links_of(lab, n)}
        for n in lab.engine.store.all(NSRS)
    ]
    return lab.views(NSRS, services)


def summary(lab: Lab, nsr: Document) -> None:
    """Print the final table of a service: VNFs, addresses, status of the charms."""
    charms: Mapping[str, Any] = nsr["lab"]["charms"]
    by_index: dict[str, list[str]] = {}
    for vca in nsr["_admin"]["deployed"]["VCA"]:
        state = charms.get(vca["application"])
        text = f"{state['status']}: {state['message']}" if state else vca["status"]
        if state and state.get("looked"):
            text += f", seen {span(round(time.time() - state['looked']))} ago"
        by_index.setdefault(vca["member-vnf-index"], []).append(text)
    rows = [
        {
            "vnf": vnfr["member-vnf-index-ref"],
            "address": vnfr["ip-address"],
            "ports": ", ".join(
                f"{p['ns-vld-id']}={p['ip-address'] or '-'}"
                for vdur in vnfr["vdur"]
                for p in vdur["interfaces"]
            ),
            "charm": "; ".join(by_index.get(vnfr["member-vnf-index-ref"], ["-"])),
        }
        for vnfr in lab.engine.vnfs(nsr["_id"])
    ]
    if lab.out.as_json:
        lab.out.json({**nsr, "vnfs": rows})
        return
    lab.out.rows(rows, _SHOWN["summary"]["columns"])
    seconds = nsr["lab"].get("seconds-vms-ready-to-charms-idle")
    if seconds is not None:
        lab.out.remark(f"VMs ready to all charms idle: {seconds:.1f} s")


def _slice(lab: Lab, name: str) -> Document:
    """Show a network slice with its services."""  # `--help` shows it.
    nsi = lab.view(NSIS, lab.slices.nsi(name))
    template = nsi["network-slice-template"]
    return {
        **nsi,
        "SNSSAI-identifier": template.get("SNSSAI-identifier"),
        "quality-of-service": template.get("quality-of-service"),
        "services": [_part(lab, entry) for entry in nsi["_admin"]["nsrs-detailed-list"]],
    }


def _part(lab: Lab, entry: Document) -> Document:
    """Return what is shown of a service of a slice."""
    nsr = lab.engine.store.readable(NSRS, entry["nsrId"]) or {}
    users = [
        nsi["name"]
        for nsi in lab.engine.store.all(NSIS)
        if any(n["nsrId"] == entry["nsrId"] for n in nsi["_admin"]["nsrs-detailed-list"])
    ]
    return {
        "id": entry["nss-id"],
        "ns": nsr.get("name"),
        "state": nsr.get("nsState"),
        "links": links_of(lab, nsr) if nsr else None,
        "shared": entry["shared"],
        "slices": ", ".join(users),
    }


def _slices(lab: Lab) -> list[Document]:
    def services(nsi: Document) -> list[Document]:
        keys = [entry["nsrId"] for entry in nsi["_admin"]["nsrs-detailed-list"]]
        return [nsr for key in keys if (nsr := lab.engine.store.readable(NSRS, key)) is not None]

    found = ({**n, "links": links_of(lab, *services(n))} for n in lab.slices.all())
    return lab.views(NSIS, found)


def vnf_record(lab: Lab, id: str) -> Document:
    """Return the record of a VNF, by its id or as NS/MEMBER-VNF-INDEX."""
    if "/" in id:
        ns, _, index = id.rpartition("/")
        return lab.engine.vnf(ns, index)
    records = lab.engine.vnfs()
    for record in records:
        if record["_id"] == id:
            return record
    services = {nsr["_id"]: nsr["name"] for nsr in lab.engine.store.all(NSRS)}
    names = [f"{services.get(r['nsr-id-ref'])}/{r['member-vnf-index-ref']}" for r in records]
    raise unknown(f"vnf '{id}' not found", id, names)


def _vnf(lab: Lab, id: str) -> Document:
    """Show a VNF record (by its id, or as NS/MEMBER-VNF-INDEX)."""
    return lab.view(VNFRS, vnf_record(lab, id))


NOUNS = (
    Noun(
        "vim",
        "a VIM account",
        _vim,
        **_SHOWN["vim"],
        names=named(VIMS),
        rows=lambda lab: lab.views(VIMS, lab.engine.store.all(VIMS)),
        delete=lambda lab, name, force: accounts.delete(lab.engine, name, force),
    ),
    _package("vnfpkg", VNFDS, "a VNF package"),
    _package("nspkg", NSDS, "an NS package"),
    _package("nst", NSTS, "a slice template"),
    Noun(
        "ns",
        "a network service",
        _service,
        **_SHOWN["ns"],
        more=summary,
        names=SERVICE,
        rows=_services,
        operations=lambda lab: lab.engine,
    ),
    Noun(
        "nsi",
        "a network slice",
        _slice,
        **_SHOWN["nsi"],
        names=SLICE,
        rows=_slices,
        operations=lambda lab: lab.slices,
    ),
    Noun("vnf", "a VNF record", _vnf, **_SHOWN["vnf"]),
)
