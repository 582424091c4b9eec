"""What the page shows and does, without any display: records, pictures, primitives."""

import json
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.declarations import Action
from builder.link_table import Link
from builder.link_table import links as table
from builder.tree import Tree
from lab import accounts
from lab.descriptors.environments import Environment
from lab.descriptors.service import Service, service
from lab.errors import LcmError, NbiError, spoken
from lab.graph import model
from lab.graph.states import links_of
from lab.lcm import heartbeat, looking
from lab.lcm.request import charm_folder
from lab.nbi.catalogue import KINDS
from lab.nbi.engine import Engine
from lab.nbi.params import InstanceRequest, load_mapping
from lab.nbi.slice_requests import Slices
from lab.records.journal import events
from lab.records.operations import operation_folder
from lab.records.store import NSDS, NSIOPS, NSIS, NSRS, NSTS, OPS, VIMS, VNFDS, Document
from lab.vca.charm import read_charm

EXAMPLE = ("vpn_endpoint_vnf", "vpn_basic_ns")
"""Packages of the service with which a new user begins."""
PAUSE = 0.3  # Seconds between two looks at an operation.


@dataclass(frozen=True)
class Sample:
    """Counters of a link of a VNF at a moment."""

    at: float  # Seconds since the epoch.
    received: int  # Bytes from all peers.
    sent: int  # Bytes to all peers.
    handshake: int | None  # Age of the oldest handshake in seconds, None where there was none.


@dataclass(frozen=True)
class Summary:
    """A slice or a service in the list."""

    key: str  # Its id.
    name: str
    # Its operational and its config status, and its state if that is another one.
    states: tuple[str, ...]
    problem: str = ""  # What is wrong with it, "" for nothing.
    links: str = field(default="", compare=False)  # The worst state of its links, with its age.


class Data:
    """The lab behind the page."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slices = Slices(engine)
        self.home: Path = engine.store.home

    def overview(self) -> tuple[list[Summary], list[Summary]]:
        """Return the slices, and the services that are in none."""
        slices = self.slices.all()
        inside = {n["nsrId"] for nsi in slices for n in nsi["_admin"]["nsrs-detailed-list"]}
        self.engine.reap()
        services = {n["_id"]: n for n in self.engine.store.all(NSRS)}

        def summary(record: Document, ids: Iterable[str]) -> Summary:
            mine = [services[each] for each in ids if each in services]
            return _summary(record, links_of(self.engine.store, *mine))

        def damaged(kind: str) -> list[Summary]:
            return [summary(line, []) for line in self.engine.store.damaged(kind)]

        return (
            [summary(n, [e["nsrId"] for e in n["_admin"]["nsrs-detailed-list"]]) for n in slices]
            + damaged(NSIS),
            [summary(n, [key]) for key, n in services.items() if key not in inside] + damaged(NSRS),
        )

    def watched(self) -> None:
        """Note that somebody looks at the page: the lab's timer then looks at the links often."""
        looking.watch(self.home)
        if self.engine.store.has(NSRS):
            heartbeat.ensure(self.home)

    def links(self, services: Collection[str] | None = None) -> list[Link]:
        """Return the links of services by their ids, or of all, as the last look found them."""
        if services is None:
            services = [nsr["_id"] for nsr in self.engine.store.all(NSRS)]
        found: list[Link] = []
        for key in services:
            found += table(*looking.looks(self.home, key), time.time())
        return found

    def in_force(self, ns: str, member: str) -> dict[str, Mapping[str, Any]]:
        """Return the parameters of `configure` that are in force, by link."""
        key = self.engine.ns(ns)["_id"]
        answers, _ = looking.looks(self.home, key)
        # An operation may have changed what an older look found.
        changed = max((op["statusEnteredTime"] for op in self.engine.operations(key)), default=0)
        mine = (a for a in answers if a.member == member and not a.problem and a.at > changed)
        shown = next((answer.shown for answer in mine), None)
        if shown is None:
            shown = self.press(ns, member, "show-status", {})
        links = shown.items() if isinstance(shown, Mapping) else ()
        return {link: details["configured"] for link, details in links if "configured" in details}

    def graph(self, key: str) -> model.Graph:
        """Return the picture of a service or slice, by its id or name."""
        return model.find(self.engine, key)

    def primitives(self, ns: str, member: str) -> dict[str, Mapping[str, Any]]:
        """Return the day-2 primitives of a VNF by name, with what its charm declares of each.

        A parameter has the keys of the descriptor, and `description`, `enum`, `minimum` and
        `maximum` where the charm declares them.
        """
        svc, env = self._charm(ns, member)
        if env is None:
            return {}
        # A chart has its declarations in its image.
        folder = None if env.helm else charm_folder(svc, self.engine.store, env)
        actions: Mapping[str, Action] = {}
        if folder:
            with suppress(LcmError):  # a charm that cannot be read did not come up either
                actions = read_charm(folder).actions
        found: dict[str, Mapping[str, Any]] = {}
        for each in env.config:
            action = actions.get(
                each.get("execution-environment-primitive", each["name"]), Action()
            )
            parameters = each.get("parameter") or ()
            merged = [{**action.params.get(given["name"], {}), **given} for given in parameters]
            found[each["name"]] = {
                "description": action.description,
                **each,
                "parameter": merged,
            }
        return found

    def _charm(self, ns: str, member: str) -> tuple[Service, Environment | None]:
        """Return a service and the first execution environment of a VNF of it."""
        svc = service(self.engine.ns(ns), self.engine.store)
        mine = (each for each in svc.environments if each.member_vnf_index == member)
        return svc, next(mine, None)

    def press(self, ns: str, member: str, primitive: str, given: Mapping[str, Any]) -> Any:
        """Run a primitive to its end; return its answer, parsed if it is JSON."""
        _, env = self._charm(ns, member)
        body = {"primitive": primitive, "primitive_params": given, "member_vnf_index": member}
        body |= {"vdu_id": env.vdu_id} if env is not None and env.vdu_id else {}
        started = self.engine.ns_run(ns, "action", body)
        op_id = started.operation["_id"]
        while (done := self.engine.operation(op_id))["operationState"] == "PROCESSING":
            time.sleep(PAUSE)
        if done["operationState"] != "COMPLETED":
            raise NbiError(spoken(done["errorMessage"] or done["detailed-status"]))
        detail = done["detailed-status"]
        output = detail.get("output", "") if isinstance(detail, Mapping) else detail
        try:
            return json.loads(str(output))
        except ValueError:
            return output

    # -- packages, accounts, and what is made of them -----------------------------------------

    def stock(self, *collections: str) -> list[dict[str, str]]:
        """Return a row for each package, or for each VIM account."""
        rows = []
        for collection in collections:
            store = self.engine.store
            for record in [*store.all(collection), *store.damaged(collection)]:
                state = record.get("detailed-status") or record["_admin"].get("detailed-status")
                rows.append(
                    {
                        "key": str(record["_id"]),
                        "collection": collection,
                        "kind": str(KINDS.get(collection) or record.get("vim_type") or ""),
                        "name": str(record.get("id") or record["name"]),
                        "state": str(state or "ready"),
                    }
                )
        return rows

    def onboard(self, files: Iterable[Path]) -> list[str]:
        """Take packages, each after those that it names; return the warnings.

        A package whose id is there becomes its next revision.
        """
        from builder.validate import PackageError, body_of, read  # It loads slowly.

        found: list[tuple[str, str, Path]] = []
        order = list(KINDS)
        for file in files:
            collection, key = VNFDS, ""
            with suppress(PackageError):  # the catalogue refuses it
                package = read(file)
                collection = next((c for c in order if KINDS[c] == package.kind), VNFDS)
                key = str((body_of(package) or {}).get("id"))
            found.append((collection, key, file))
        warnings: list[str] = []
        catalogue = self.engine.catalogue
        for collection, key, file in sorted(found, key=lambda each: order.index(each[0])):
            if any(key == each["id"] for each in self.engine.store.all(collection)):
                warnings += catalogue.update(collection, key, file)[1]
            else:
                warnings += catalogue.onboard(collection, file)[1]
        return warnings

    def create(self, name: str, package: str, account: str, text: str) -> tuple[str, list[str]]:
        """Make a service or slice; return the path of its page and the warnings.

        Args:
            package: `_id` of an NS package or a slice template.
            text: instantiation parameters, YAML.
        """
        asked = InstanceRequest(name, package, account, load_mapping(text, "The parameters"))
        of_slice = self.engine.store.find(NSTS, package) is not None
        started = self.slices.create(asked) if of_slice else self.engine.ns_create(asked)
        path = f"/{'slice' if of_slice else 'service'}/{started.nsr['_id']}"
        return path, list(started.warnings)

    def example(self) -> tuple[str, list[str]]:
        """Make a service of two VNFs and a tunnel, with all it needs; return as `create`."""
        built = Tree.find().packages
        files = [built / f"{name}.tar.gz" for name in EXAMPLE]
        config = built / "params" / "vpn_basic.yaml"
        if missing := [file.name for file in (*files, config) if not file.exists()]:
            raise NbiError(
                f"{', '.join(missing)} not found in {built}; `./run build {' '.join(EXAMPLE)}` "
                "makes them, or `vpnaas-build packages` of an installed wheel"
            )
        self.onboard(files)
        accounts_there = [row["name"] for row in self.stock(VIMS)]
        if not accounts_there:
            accounts.create(self.engine, "lab", "lab", {})
        text, account = config.read_text(encoding="utf-8"), [*accounts_there, "lab"][0]
        nsd = self.engine.store.resolve(NSDS, EXAMPLE[1])["_id"]
        return self.create("example", nsd, account, text)

    def delete(self, key: str) -> None:
        """Begin to delete a service or slice, a package or a VIM account, by its id."""
        store = self.engine.store
        for collection in KINDS:
            if store.find(collection, key) is not None or store.is_damaged(collection, key):
                return self.engine.catalogue.delete(collection, key)
        if store.find(VIMS, key) is not None or store.is_damaged(VIMS, key):
            return accounts.delete(self.engine, key)
        kind, found = store.instance(key)
        (self.slices.delete if kind == NSIS else self.engine.ns_delete)(found["_id"])
        return None

    def sample(self, ns: str, member: str) -> dict[str, Sample]:
        """Return the counters of each link of a VNF, as the last look found them."""
        answers, _ = looking.looks(self.home, self.engine.ns(ns)["_id"])
        # The answer also has an entry for the network function, which has no peers.
        return {
            link: _sample(details, answer.at)
            for answer in answers
            if answer.member == member
            for link, details in answer.shown.items()
            if isinstance(details, Mapping) and details.get("peers")
        }

    def operations(self, key: str) -> list[Document]:
        """Return the operations of a slice and of its services, or of a service, latest first."""
        store = self.engine.store
        kind, found = store.instance(key)
        if kind != NSIS:
            operations = self.engine.operations(found["_id"])
        else:
            operations = self.slices.operations(found["_id"])
            services = {entry["nsrId"] for entry in found["_admin"]["nsrs-detailed-list"]}
            operations += [o for o in store.all(OPS) if o["nsInstanceId"] in services]
        return sorted(operations, key=lambda operation: -float(operation["startTime"]))

    def log(self, op_id: str) -> str:
        """Return what an operation did, what it returned, and what its worker printed."""
        store = self.engine.store
        operation = store.find(OPS, op_id) or store.find(NSIOPS, op_id)
        if operation is None:
            raise NbiError(f"operation {op_id} is gone, with its service")
        folder = operation_folder(self.home, op_id)
        lines = []
        for event in events(folder / "events.jsonl"):
            at = time.strftime("%H:%M:%S", time.localtime(event["time"]))
            lines.append(f"{at} {event['kind']} {event['subject']}: {event['text']}")
        detail = operation["detailed-status"]
        if isinstance(detail, Mapping):
            detail = detail.get("output", json.dumps(detail))
        lines += [str(operation["errorMessage"] or detail or "")]
        if (folder / "worker.log").exists():
            lines.append((folder / "worker.log").read_text(encoding="utf-8", errors="replace"))
        return "\n".join(lines).strip()


def default(parameter: Mapping[str, Any]) -> str:
    """Return the text that the field of a parameter shows first."""
    text = str(parameter.get("default-value", ""))
    if parameter.get("data-type") == "BOOLEAN":
        # As LCM reads it: all but "false", in any case, is true.
        return "false" if text.lower() in ("", "false") else "true"
    return text


def text(value: object) -> str:
    """Return what a field shows of a parameter's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(parameter: Mapping[str, Any], text: str) -> Any:
    """Return a parameter's value from the text of its field."""
    if parameter.get("data-type") == "INTEGER":
        try:
            return int(text)
        except ValueError:
            raise NbiError(f"{parameter['name']} is '{text}'; allowed: a whole number") from None
    return text


def _summary(record: Mapping[str, Any], links: str) -> Summary:
    told = ("operational-status", "config-status")  # a damaged record has none
    states = [str(record[key]) for key in told if key in record]
    if record.get("nsState") in ("DEGRADED", "BROKEN"):
        states.append(record["nsState"])
    problem = str(record.get("errorDetail") or "")
    return Summary(record["_id"], record["name"], tuple(states), problem, links)


def _sample(details: Mapping[str, Any], at: float) -> Sample:
    peers = details["peers"]
    ages = [age for peer in peers if (age := peer.get("last-handshake-s")) is not None]
    return Sample(
        at,
        sum(peer.get("received-bytes", 0) for peer in peers),
        sum(peer.get("sent-bytes", 0) for peer in peers),
        max(ages, default=None),
    )
