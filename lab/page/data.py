"""What the page shows and does, without any display: records, pictures, primitives."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.link_table import Link
from builder.link_table import links as table
from lab.descriptors.environments import day12
from lab.descriptors.service import service
from lab.errors import LcmError, NbiError
from lab.graph import model
from lab.graph.states import links_of
from lab.lcm import keeper, looking
from lab.lcm.backends import Backends
from lab.nbi.engine import Engine
from lab.nbi.slices import Slices
from lab.records.journal import Tail
from lab.records.operations import operation_folder
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, Document

REFUSALS = (NbiError, LcmError)
"""Errors of the engines; the text of each is one sentence."""
PAUSE = 0.3
"""Seconds between two looks at an operation."""


@dataclass(frozen=True)
class Sample:
    """Counters of a link of a VNF at a moment.

    Attributes:
        at: Seconds since the epoch.
        received: Bytes from all peers.
        sent: Bytes to all peers.
        handshake: Age of the oldest handshake in seconds, None where there was none.
    """

    at: float
    received: int
    sent: int
    handshake: int | None


@dataclass(frozen=True)
class Summary:
    """A slice or a service in the list.

    Attributes:
        key: Its id.
        states: Its operational and its config status, and its state if that is another one.
        problem: What is wrong with it, "" for nothing.
        links: The worst state of its links, with its age.
    """

    key: str
    name: str
    states: tuple[str, ...]
    problem: str = ""
    links: str = field(default="", compare=False)


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
            return _summary(record, links_of(self.home, *mine))

        def damaged(kind: str) -> list[Summary]:
            return [summary(line, []) for line in self.engine.store.damaged(kind)]

        return (
            [summary(n, [e["nsrId"] for e in n["_admin"]["nsrs-detailed-list"]]) for n in slices]
            + damaged(NSIS),
            [summary(n, [key]) for key, n in services.items() if key not in inside] + damaged(NSRS),
        )

    def watched(self) -> None:
        """Note that somebody looks at the page: the lab's keeper then looks at the links often."""
        looking.watch(self.home)
        if self.engine.store.has(NSRS):
            keeper.ensure(self.home)

    def links(self) -> list[Link]:
        """Return the links of all services, as the last look found them."""
        found: list[Link] = []
        for nsr in self.engine.store.all(NSRS):
            found += table(*looking.looks(self.home, nsr["_id"]), time.time())
        return found

    def in_force(self, ns: str, member: str) -> dict[str, Mapping[str, Any]]:
        """Return the parameters of `configure` that are in force, by link."""
        answers, _ = looking.looks(self.home, self.engine.ns(ns)["_id"])
        shown = next((a.shown for a in answers if a.member == member and not a.problem), None)
        if shown is None:
            shown = self.press(ns, member, "show-status", {})
        links = shown.items() if isinstance(shown, Mapping) else ()
        return {link: details["configured"] for link, details in links if "configured" in details}

    def graph(self, key: str) -> model.Graph:
        """Return the picture of a service or slice, by its id or name."""
        return model.find(self.engine, Backends(self.home).controller(), key)

    def primitives(self, ns: str, member: str) -> dict[str, Mapping[str, Any]]:
        """Return the day-2 primitives of a VNF, by name."""
        _, entry = self._charm(ns, member)
        return {each["name"]: each for each in entry.get("config-primitive") or ()}

    def _charm(self, ns: str, member: str) -> tuple[str | None, Mapping[str, Any]]:
        """Return the VDU of a VNF's charm (None: the VNF itself) and the charm's day1-2 entry."""
        svc = service(self.engine.ns(ns), self.engine.store)
        descriptor = svc.vnfds[member]["descriptor"]
        entry = day12(descriptor, descriptor["id"])
        if entry is not None:
            return None, entry
        vdus = [str(vdu["id"]) for vdu in descriptor["vdu"]]
        entries = [(vdu, day12(descriptor, vdu)) for vdu in vdus]
        return next(((vdu, entry) for vdu, entry in entries if entry), (None, {}))

    def press(self, ns: str, member: str, primitive: str, given: Mapping[str, Any]) -> Any:
        """Run a primitive to its end; return its answer, parsed if it is JSON."""
        vdu, _ = self._charm(ns, member)
        body = {"primitive": primitive, "primitive_params": given, "member_vnf_index": member}
        body |= {"vdu_id": vdu} if vdu is not None else {}
        started = self.engine.ns_run(ns, "action", body)
        op_id = started.operation["_id"]
        while (done := self.engine.operation(op_id))["operationState"] == "PROCESSING":
            time.sleep(PAUSE)
        if done["operationState"] != "COMPLETED":
            raise NbiError(str(done["errorMessage"] or done["detailed-status"]))
        detail = done["detailed-status"]
        output = detail.get("output", "") if isinstance(detail, Mapping) else detail
        try:
            return json.loads(str(output))
        except ValueError:
            return output

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
        if (folder / "events.jsonl").exists():
            tail = Tail(folder / "events.jsonl")
            for event in tail.new_events():
                at = time.strftime("%H:%M:%S", time.localtime(event["time"]))
                lines.append(f"{at} {event['kind']} {event['subject']}: {event['text']}")
            tail.close()
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
    ages = [peer["last-handshake-s"] for peer in peers if peer.get("last-handshake-s") is not None]
    return Sample(
        at,
        sum(peer.get("received-bytes", 0) for peer in peers),
        sum(peer.get("sent-bytes", 0) for peer in peers),
        max(ages, default=None),
    )
