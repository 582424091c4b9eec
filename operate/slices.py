"""Join the services of slices, as a program that runs beside OSM.

A slice's own links (netslice-vld) connect one of its services to another. OSM makes their networks,
but no relations. This program finds the ends of such a link in OSM's records and joins them. It
repeats that until the network functions at both ends are ready: each end gets the data of the
other network function, and its state, as a relation would carry them.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from operate.client import Client, OperateError
from operate.join import End, State, forget, introduce, state_of, status_of

Pair = tuple[End, End]
_BAR = re.compile("[|\u2502\u2503]")
"""Column separator in the client's tables: ASCII or box-drawing characters."""


Statuses = Callable[[End], Mapping[str, Any]]


def statuses(client: Client) -> Statuses:
    """Return a function that gets the status of a VNF, once for all of its links."""
    known: dict[tuple[object, ...], Mapping[str, Any]] = {}

    def status(end: End) -> Mapping[str, Any]:
        vnf = (end.ns, end.vnf, end.instance)
        if vnf not in known:
            known[vnf] = status_of(client, end)
        return known[vnf]

    return status


def ends_of(client: Client, nsi: Mapping[str, Any], status: Statuses) -> list[Pair]:
    """Return the pairs of ends of a slice's links between its services.

    A link has the name of its netslice-vld. Its ends are the VNFs with an interface there. If one
    of these VNFs has no such link, for example on a data network, there is no pair.
    """
    template = nsi["network-slice-template"]
    services = {e["nss-id"]: str(e["nsrId"]) for e in nsi["_admin"]["nsrs-detailed-list"]}
    pairs: list[Pair] = []
    for vld in template.get("netslice-vld") or ():
        if vld.get("mgmt-network"):
            continue
        points = vld.get("nss-connection-point-ref") or ()
        sides = [
            _ends_at(client, services[p["nss-ref"]], p["nsd-connection-point-ref"], str(vld["id"]))
            for p in points
            if p["nss-ref"] in services  # OSM does not check the references of a template
        ]
        for one, other in itertools.combinations(sides, 2):
            if one and other and all(end.link in status(end) for end in (*one, *other)):
                pairs += itertools.product(one, other)
    return pairs


def _ends_at(client: Client, nsr_id: str, sap: str, link: str) -> list[End]:
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
            ends.append(End(str(record["name"]), member, link, addresses[0]))
    return ends


def ready(state: State) -> bool:
    """Tell whether an end's network function is ready, or the end has no network function."""
    return state.function is None or state.function.get("nf-ready") == "yes"


@dataclass
class Joiner:
    """Joins slices, and remembers which data each end has of the other.

    Attributes:
        client: Client of OSM.
        tell: Prints a line for the operator.
        pairs: Pairs of ends to join, by slice.
        introduced: States of each pair when its ends last got each other's data.
        settled: Slices that are completely joined.
        leaving: Ends that still have a peer of a deleted slice, each with that peer, by slice.
    """

    client: Client
    tell: Callable[[str], None]
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    introduced: dict[Pair, tuple[State, State]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    leaving: dict[str, list[Pair]] = field(default_factory=dict)

    def step(self, name: str) -> bool:
        """Do the next step for one slice; return True if it is completely joined.

        Raises:
            OperateError: there is no such slice, or a primitive failed.
        """
        nsi = self.client.document("nsi-show", name)
        if nsi.get("operational-status") != "running":
            return False
        self.leaving.pop(name, None)  # A new slice has peers of the same names.
        status = statuses(self.client)
        pairs = self.pairs[name] = self.pairs.get(name) or ends_of(self.client, nsi, status)
        done = True
        for pair in pairs:
            states = state_of(pair[0], status(pair[0])), state_of(pair[1], status(pair[1]))
            if (before := self.introduced.get(pair)) != states:
                for line in introduce(self.client, pair, states, before):
                    self.tell(line)
                self.introduced[pair] = states
            done = done and all(ready(state) for state in states)
        if done:
            self.settled.add(name)
            self.tell(f"{name}: joined")
        return done

    def drop(self, name: str) -> None:
        """Forget a deleted slice, and remove its peers at services that other slices share.

        What fails is told, and left for the next call.
        """
        self.settled.discard(name)
        left = self.leaving.pop(name, [])
        for pair in self.pairs.pop(name, ()):
            self.introduced.pop(pair, None)
            left += [pair, (pair[1], pair[0])]
        for here, there in left:
            try:
                if self._there(here.ns):
                    self.tell(forget(self.client, here, there))
            except OperateError as error:
                self.tell(f"error: {error.message}")
                self.leaving.setdefault(name, []).append((here, there))

    def _there(self, service: str) -> bool:
        """Tell whether a service exists; it may have been deleted with its slice."""
        try:
            self.client.document("ns-show", service)
        except OperateError as error:
            said = (f"'{service}' not found", f"'{service}' does not exist")  # osm, osm-lab
            if getattr(error, "status", 0) == 404 or any(one in error.message for one in said):
                return False
            raise
        return True


def names(client: Client) -> list[str]:
    """Return the names of all slices, from the table that the client prints."""
    rows = [_BAR.split(line) for line in client.verb("nsi-list").splitlines()]
    cells = [row[1].strip() for row in rows if len(row) > 2]
    return [cell for cell in cells if cell and cell != "netslice instance name"]


def join_slices(joiner: Joiner, names: Iterable[str], timeout: float, pause: float) -> None:
    """Join slices and wait until all are joined; report errors, and go on with the other slices.

    Raises:
        OperateError: a slice is not joined, because of an error or in time.
    """
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
            present = names(joiner.client)
        except OperateError as error:
            joiner.tell(f"error: {error.message}")
            present = [*joiner.pairs, *joiner.leaving]
        for name in {*joiner.pairs, *joiner.leaving} - {*present}:
            joiner.drop(name)
        for name in present:
            if name not in joiner.settled:
                _try(joiner, lambda name=name: joiner.step(name))  # type: ignore[misc]
        time.sleep(pause)


def _try(joiner: Joiner, act: Callable[[], object]) -> None:
    try:
        act()
    except OperateError as error:
        joiner.tell(f"error: {error.message}")
