"""Join the services of slices, as a program that goes on beside OSM.

A slice's own links (netslice-vld) lead from one of its services to another. OSM makes their
networks and relates nobody. This program finds the ends of such a link in OSM's records, joins
them, and repeats that until the network functions at both ends are ready: each is told of the
other, and that it is ready, as a relation would tell it.
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
"""What stands between the columns of a table, drawn with letters or with lines."""


Statuses = Callable[[End], Mapping[str, Any]]


def statuses(client: Client) -> Statuses:
    """Return what asks a VNF for its status, once however many links it has."""
    known: dict[tuple[object, ...], Mapping[str, Any]] = {}

    def status(end: End) -> Mapping[str, Any]:
        vnf = (end.ns, end.vnf, end.instance)
        if vnf not in known:
            known[vnf] = status_of(client, end)
        return known[vnf]

    return status


def ends_of(client: Client, nsi: Mapping[str, Any], status: Statuses) -> list[Pair]:
    """Return the pairs of ends that the links of a slice have between its services.

    A link has the name of its netslice-vld; its ends are the VNFs that have an interface there.
    Where a VNF has no such link, as on a data network, there is nothing to join.
    """
    template = nsi["network-slice-template"]
    services = {e["nss-id"]: str(e["nsrId"]) for e in nsi["_admin"]["nsrs-detailed-list"]}
    pairs: list[Pair] = []
    for vld in template.get("netslice-vld") or ():
        if vld.get("mgmt-network"):
            continue
        points = vld.get("nss-connection-point-ref") or ()
        sides = [
            _on(client, services[p["nss-ref"]], p["nsd-connection-point-ref"], str(vld["id"]))
            for p in points
        ]
        for one, other in itertools.combinations(sides, 2):
            if one and other and all(end.link in status(end) for end in (*one, *other)):
                pairs += itertools.product(one, other)
    return pairs


def _on(client: Client, nsr_id: str, sap: str, link: str) -> list[End]:
    """Return the ends that a service has at one of its SAPs."""
    record = client.document("ns-show", nsr_id)
    sapds = record["nsd"].get("sapd") or ()
    networks = [str(s["virtual-link-desc"]) for s in sapds if s["id"] == sap]
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
    """Tell whether an end's network function can be used, or there is none to wait for."""
    return state.function is None or state.function.get("nf-ready") == "yes"


@dataclass
class Joiner:
    """Joins slices, and remembers which end has heard of which.

    Attributes:
        client: Of OSM.
        tell: Takes a line for the operator.
        pairs: Ends that were joined, by slice.
        introduced: States of each pair when its ends last heard of each other.
        settled: Slices with nothing left to do.
    """

    client: Client
    tell: Callable[[str], None]
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    introduced: dict[Pair, tuple[State, State]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)

    def step(self, name: str) -> bool:
        """Bring one slice further; return whether nothing is left to do.

        Raises:
            OperateError: there is no such slice, or a primitive failed.
        """
        nsi = self.client.document("nsi-show", name)
        if nsi.get("operational-status") != "running":
            return False
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
        """Forget a slice that is gone, also at the services that it shared with others."""
        for pair in self.pairs.pop(name, ()):
            self.introduced.pop(pair, None)
            for here, there in (pair, pair[::-1]):
                try:
                    self.client.document("ns-show", here.ns)
                except OperateError:
                    continue  # it went with its slice
                self.tell(forget(self.client, here, there))
        self.settled.discard(name)


def names(client: Client) -> list[str]:
    """Return the names of all slices, from the table that the client prints."""
    rows = [_BAR.split(line) for line in client.verb("nsi-list").splitlines()]
    cells = [row[1].strip() for row in rows if len(row) > 2]
    return [cell for cell in cells if cell and cell != "netslice instance name"]


def join_slices(joiner: Joiner, names: Iterable[str], timeout: float, pause: float) -> None:
    """Join slices and wait until all are.

    Raises:
        OperateError: one is not joined in time, or a primitive failed.
    """
    deadline = time.monotonic() + timeout
    left = list(names)
    while left:
        left = [name for name in left if not joiner.step(name)]
        if left and time.monotonic() > deadline:
            raise OperateError(f"{', '.join(left)}: not joined after {timeout:.0f} s")
        if left:
            time.sleep(pause)


def follow(joiner: Joiner, pause: float, rounds: Iterable[int] = itertools.count()) -> None:
    """Join every slice there is and will be; a failure is reported, and tried again."""
    for _ in rounds:
        try:
            present = names(joiner.client)
        except OperateError as error:
            joiner.tell(f"error: {error.message}")
            present = list(joiner.pairs)
        for name in [name for name in joiner.pairs if name not in present]:
            _try(joiner, lambda name=name: joiner.drop(name))  # type: ignore[misc]
        for name in present:
            if name not in joiner.settled:
                _try(joiner, lambda name=name: joiner.step(name))  # type: ignore[misc]
        time.sleep(pause)


def _try(joiner: Joiner, act: Callable[[], object]) -> None:
    try:
        act()
    except OperateError as error:
        joiner.tell(f"error: {error.message}")
