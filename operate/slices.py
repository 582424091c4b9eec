"""Join the services of slices, as a program that runs beside OSM.

A slice's own links (netslice-vld) connect one of its services to another. OSM makes their networks,
but no relations. This program finds the ends of such a link in OSM's records and joins them. It
repeats that until the network functions at both ends are ready: each end gets the data of the
other network function, and its state, as a relation would carry them.
"""

import fcntl
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from builder.files import replace
from operate.client import OperateError, understood
from operate.join import End, State, forget, introduce, state_of, status_of
from operate.osm import Driver

AGAIN = 600.0
"""Seconds after which a joined slice is looked at again: a healed VNF has another key."""
Pair = tuple[End, End]
Statuses = Callable[[End], Mapping[str, Any]]


def statuses(client: Driver) -> Statuses:
    """Return a function that gets the status of a VNF, once for all of its links."""
    known: dict[tuple[object, ...], Mapping[str, Any]] = {}

    def status(end: End) -> Mapping[str, Any]:
        vnf = (end.service, end.vnf, end.instance)
        if vnf not in known:
            known[vnf] = status_of(client, end)
        return known[vnf]

    return status


def ends_of(client: Driver, nsi: Mapping[str, Any], status: Statuses) -> list[Pair]:
    """Return the pairs of ends of a slice's links between its services.

    A link has the name of its netslice-vld. Its ends are the VNFs with an interface there. If one
    of these VNFs has no such link, for example on a data network, there is no pair.
    """
    pairs: list[Pair] = []
    for one, other in _sides(client, nsi):
        if all(end.link in status(end) for end in (*one, *other)):
            pairs += itertools.product(one, other)
    return pairs


def _sides(client: Driver, nsi: Mapping[str, Any]) -> list[tuple[list[End], list[End]]]:
    """Return the VNFs at both sides of each netslice-vld, whether or not they have the link."""
    services = {e["nss-id"]: str(e["nsrId"]) for e in nsi["_admin"]["nsrs-detailed-list"]}
    found = []
    for link, vld in _vlds(nsi).items():
        points = vld.get("nss-connection-point-ref") or ()
        sides = [
            _ends_at(client, services[p["nss-ref"]], p["nsd-connection-point-ref"], link)
            for p in points
            if p["nss-ref"] in services  # OSM does not check the references of a template
        ]
        found += [pair for pair in itertools.combinations(sides, 2) if all(pair)]
    return found


def _vlds(nsi: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a slice's netslice-vlds, besides that of management, by id."""
    vlds = nsi["network-slice-template"].get("netslice-vld") or ()
    return {str(vld["id"]): vld for vld in vlds if not vld.get("mgmt-network")}


def _nothing(client: Driver, name: str, nsi: Mapping[str, Any], status: Statuses) -> str:
    """Return why a slice has no pair of ends: its netslice-vlds, and the links of its VNFs."""
    vlds = ", ".join(sorted(_vlds(nsi)))
    ends = [end for sides in _sides(client, nsi) for side in sides for end in side]
    there = {
        f"{end.ns}/{end.vnf} has {', '.join(sorted(_links(status(end)))) or 'none'}": None
        for end in ends
    }
    return (
        f"nothing of {name} was joined: no netslice-vld of its template has the id of a link that"
        f" the VNFs at both of its sides have; netslice-vlds: {vlds or 'none'}"
        f"; links: {'; '.join(there) or 'none'}"
    )


def _links(status: Mapping[str, Any]) -> list[str]:
    return [name for name, shown in status.items() if isinstance(shown, dict) and "state" in shown]


def _ends_at(client: Driver, nsr_id: str, sap: str, link: str) -> list[End]:
    record = client.document("ns-show", nsr_id)
    sapds = record["nsd"].get("sapd") or ()
    networks = [str(s.get("virtual-link-desc")) for s in sapds if s["id"] == sap]
    ends = []
    for id in record.get("constituent-vnfr-ref") or ():
        vnf = client.document("vnf-show", str(id))
        addresses = [
            str(interface["ip-address"]).split(";")[0]
            for vdur in vnf.get("vdur") or ()
            for interface in vdur.get("interfaces") or ()
            if interface.get("ns-vld-id") in networks and interface.get("ip-address")
        ]
        if addresses:
            member = str(vnf["member-vnf-index-ref"])
            ends.append(End(str(record["name"]), member, link, addresses[0], id=nsr_id))
    return ends


def ready(state: State) -> bool:
    """Tell whether an end's network function is ready, or the end has no network function."""
    return state.function is None or state.function.get("nf-ready") == "yes"


@dataclass(frozen=True)
class Joined:
    """What was joined of a slice: its id, and its pairs."""

    id: str
    pairs: list[Pair]


_RECORD = TypeAdapter(dict[str, Joined])


@dataclass(frozen=True)
class Record:
    """A file with the pairs that were joined, by slice: what a restarted joiner must know.

    Several processes may use it at once.
    """

    path: Path

    def read(self) -> dict[str, Joined]:
        """Return what was joined of each slice, by its name; empty without a file."""
        try:
            return _RECORD.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error) from None
        except ValueError:
            raise OperateError(
                f"{self.path} is no record of join-slices; remove it, and delete-peer what"
                " deleted slices left at shared services"
            ) from None

    def write(self, name: str, id: str, pairs: Iterable[Pair]) -> None:
        """Replace what is known of a slice; without pairs, forget it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = {**self.read(), name: Joined(id, list(pairs))}
                left = {key: joined for key, joined in known.items() if joined.pairs}
                replace(self.path, _RECORD.dump_json(left, indent=1).decode() + "\n")
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> OperateError:
        return OperateError(
            f"{self.path}, the record of what is joined: {error.strerror}; allowed: --record with"
            " a file that can be written"
        )


@dataclass
class Joiner:
    """Joins slices, and remembers which data each end has of the other."""

    client: Driver  # Client of OSM.
    tell: Callable[[str], None]  # Prints a line for the operator.
    record: Record | None = None  # Keeps what was joined for the next start.
    pairs: dict[str, list[Pair]] = field(default_factory=dict)  # Pairs of ends to join, by slice.
    # Id of each of these slices, as another slice may get the name.
    ids: dict[str, str] = field(default_factory=dict)
    # States of each pair when its ends last got each other's data.
    introduced: dict[Pair, tuple[State, State]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)  # Slices that are completely joined.
    # Ends that still have a peer of a deleted slice, each with that peer, by slice.
    leaving: dict[str, list[Pair]] = field(default_factory=dict)
    # When the ends of a slice were last looked for.
    _looked: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what an earlier process joined."""
        for name, joined in (self.record.read() if self.record else {}).items():
            self.ids[name], self.pairs[name] = joined.id, joined.pairs

    @understood("OSM")
    def step(self, name: str) -> bool:
        """Do the next step for one slice; return True if it is completely joined."""
        nsi = self.client.document("nsi-show", name)
        if nsi.get("operational-status") != "running":
            return False
        id = str(nsi.get("_id") or self.ids.get(name, ""))
        if self.ids.setdefault(name, id) != id:
            self.drop(name)
            self.ids[name] = id
        status = statuses(self.client)
        told = name in self.settled
        if name not in self._looked or told:
            joined, found = self.pairs.get(name, []), ends_of(self.client, nsi, status)
            self._check_names(name, _peers(found))
            self.pairs[name] = found
            # An earlier process joined it, or could not remove it, under this name.
            self._leave(name, [pair for pair in joined if pair not in self.pairs[name]])
            self._looked[name] = time.monotonic()
            rest = _vlds(nsi).keys() - {one.link for one, _ in self.pairs[name]}
            if rest and self.pairs[name] and not told:
                listed = ", ".join(sorted(rest))
                self.tell(f"{name}: not joined, as VNFs at both sides have no such link: {listed}")
        pairs = self.pairs[name]
        if not pairs:
            self.settled.add(name)
            raise OperateError(_nothing(self.client, name, nsi, status))
        # Its peers have the names of those of a deleted slice, and take their places.
        ours = _peers(pairs)
        left = [p for p in self.leaving.pop(name, ()) if (*_place(p[0]), p[1].name) not in ours]
        if left:
            self.leaving[name] = left
        self._keep(name)
        done = True
        for pair in pairs:
            states = state_of(pair[0], status(pair[0])), state_of(pair[1], status(pair[1]))
            if (before := self.introduced.get(pair)) != states:
                for line in introduce(self.client, pair, states, before):
                    self.tell(line)
                self.introduced[pair], told = states, False
            done = done and all(ready(state) for state in states)
        if done and not told:
            self.tell(f"{name}: joined")
        if done:
            self.settled.add(name)
        else:
            self.settled.discard(name)
        return done

    def due(self, name: str) -> bool:
        """Tell whether a slice needs a step now, and note when: a joined one needs one at times."""
        now = time.monotonic()
        if name not in self.settled:
            return True
        if not self.pairs.get(name) or now - self._looked[name] < AGAIN:
            return False
        self._looked[name] = now  # Also if the step fails.
        return True

    def _check_names(self, name: str, ours: Mapping[tuple[object, ...], End]) -> None:
        """Refuse a slice whose peer would take the place of another slice's at a shared service.

        Names of peers have neither upper case nor other signs than `-`.
        """
        for other, pairs in self.pairs.items():
            for place, end in _peers(pairs).items() if other != name else ():
                same = ours.get(place, end)
                if same.service != end.service and self._there(end):
                    raise OperateError(
                        f"{same} and {end} of {other} would be one peer {end.name} of a shared"
                        f" service; allowed: a name that differs more from {other}"
                    )

    def drop(self, name: str) -> None:
        """Forget a deleted slice, and remove its peers at services that other slices share.

        What fails is told, and left for the next call.
        """
        self.settled.discard(name)
        self._looked.pop(name, None)
        self._leave(name, self.pairs.pop(name, ()))
        self.retry(name)

    def _leave(self, name: str, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self.introduced.pop(pair, None)
            self.leaving.setdefault(name, []).extend([pair, (pair[1], pair[0])])

    def retry(self, name: str) -> None:
        """Remove what is left of a deleted slice of this name."""
        for here, there in self.leaving.pop(name, ()):
            try:
                if self._there(here):
                    self.tell(forget(self.client, here, there))
            except OperateError as error:
                if f"no manual peer '{there.name}'" not in error.message:
                    self.tell(f"error: {error.message}")
                    self.leaving.setdefault(name, []).append((here, there))
        self._keep(name)

    def _keep(self, name: str) -> None:
        """Write what a restarted joiner must know of a slice, before anything is joined."""
        if self.record is not None:
            pairs = [*self.pairs.get(name, ()), *self.leaving.get(name, ())]
            self.record.write(name, self.ids.get(name, ""), pairs)

    def _there(self, end: End) -> bool:
        """Tell whether the service of an end exists; it may have been deleted with its slice."""
        service = end.service
        try:
            self.client.document("ns-show", service)
        except OperateError as error:
            said = (f"'{service}' not found", f"'{service}' does not exist")  # osm, osm-lab
            if getattr(error, "status", 0) == 404 or any(one in error.message for one in said):
                return False
            raise
        return True


def _place(end: End) -> tuple[object, ...]:
    return end.service, end.vnf, end.instance, end.link


def _peers(pairs: Iterable[Pair]) -> dict[tuple[object, ...], End]:
    """Return the end that is a peer of another, by the place and name that it has there."""
    return {
        (*_place(here), there.name): there for pair in pairs for here, there in (pair, pair[::-1])
    }


def join_slices(joiner: Joiner, names: Iterable[str], timeout: float, pause: float) -> None:
    """Join slices and wait until all are joined; report errors, and go on with the other slices."""
    deadline = time.monotonic() + timeout
    left, failed = list(names), list[str]()
    while left:
        for name in [*left]:
            try:
                if joiner.step(name):
                    left.remove(name)
            except OperateError as error:
                joiner.tell(f"error: {name}: {error.message}")
                left.remove(name)
                failed.append(name)
        if left and time.monotonic() > deadline:
            both = ", ".join([*failed, *left])
            raise OperateError(f"{both}: not joined after {timeout:.0f} s")
        if left:
            time.sleep(pause)
    if failed:
        raise OperateError(f"{', '.join(failed)}: not joined")


def follow(joiner: Joiner, pause: float, rounds: Iterable[int] = itertools.count()) -> None:
    """Join all present and future slices; report errors, and try again in the next round."""
    for _ in rounds:
        try:
            present = joiner.client.slice_ids()
        except OperateError as error:
            joiner.tell(f"error: {error.message}")
            present = {name: joiner.ids.get(name, "") for name in (*joiner.pairs, *joiner.leaving)}
        late = [*joiner.leaving]
        for name in sorted({*joiner.pairs} | joiner.settled):
            if name not in present or joiner.ids.get(name) not in ("", None, present[name]):
                joiner.drop(name)
                joiner.ids.pop(name, None)
        for name, id in present.items():
            joiner.ids[name] = joiner.ids.get(name) or id
            if joiner.due(name):
                try:
                    joiner.step(name)
                except OperateError as error:
                    joiner.tell(f"error: {error.message}")
        for name in late:
            joiner.retry(name)
        time.sleep(pause)
