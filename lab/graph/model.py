"""VNFs and links of a service or a slice, with their states, from the records and the charms."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.link_table import STATES, UNKNOWN, span
from builder.parameters import agreement
from lab.descriptors.service import Service, service
from lab.nbi.engine import Engine
from lab.records.store import NSIS, NSRS, Document
from lab.vca.status import UnitStatus, severity, status_of

#: States of a link in the message of a charm's unit, worst first.
LINK_STATES = (*STATES, UNKNOWN)
#: Colour of each state of a link and of a unit.
COLOURS = {
    **dict.fromkeys(("up", "active"), "#2e7d32"),
    "clear": "#1565c0",
    **dict.fromkeys(
        ("pending", "waiting", "maintenance"), "#a85000"
    ),  # white on each has AA contrast
    **dict.fromkeys(("down", "blocked", "error"), "#c62828"),
    **dict.fromkeys(("off", "unconfigured", "unknown"), "#757575"),
}
_STATED = re.compile(rf"(?:^|, )([a-z0-9-]+) ({'|'.join(LINK_STATES)})\b")


@dataclass(frozen=True)
class Node:
    """A VNF."""

    id: str  # Unique in the picture, "<service>/<member-vnf-index>".
    service: str  # Name of the service.
    member: str  # Its member-vnf-index.
    vnfd: str  # Id of its VNFD.
    state: str  # Workload status of its charm, as in `juju status`, or "unknown".
    message: str  # The charm's message.
    looked: float = 0.0  # When the charm looked last, seconds since the epoch; 0 for never.
    service_id: str = ""  # Id of the service; another one may get its name.

    @property
    def seen(self) -> str:
        """The age of the state as people say it after the state, "" without a look."""
        return f", seen {span(round(time.time() - self.looked))} ago" if self.looked else ""


@dataclass(frozen=True)
class Edge:
    """A relation between two VNFs, or a network that services of a slice share."""

    source: str  # Id of the provider's node.
    target: str  # Id of the requirer's node.
    name: str  # Name of the relation, or of the network.
    # The operator's choice ("wireguard", "ipsec", "none"), "" for a relation without a tunnel.
    technology: str
    state: str  # One of `LINK_STATES`; the worse state of the two ends.


@dataclass(frozen=True)
class Graph:
    """The picture of a service or of a slice."""

    name: str
    nodes: tuple[Node, ...] = field(default=())
    edges: tuple[Edge, ...] = field(default=())


def of_service(engine: Engine, nsr: Document) -> Graph:
    svc = service(nsr, engine.store)
    status = status_of(engine.store.home, nsr["_id"])
    units = status.units if status is not None else {}
    by_application = {name.partition("/")[0]: unit for name, unit in sorted(units.items())}
    by_member: dict[str, list[UnitStatus]] = {}
    for env in svc.environments:
        if unit := by_application.get(env.application):
            by_member.setdefault(env.member_vnf_index, []).append(unit)
    nodes = tuple(
        _node(nsr, member, package["id"], by_member.get(member, ()))
        for member, package in svc.vnfds.items()
    )
    return Graph(nsr["name"], nodes, tuple(_edges(svc, by_member, engine)))


def of_slice(engine: Engine, nsi: Document) -> Graph:
    """Return the picture of a slice: its services, and the networks they share."""
    graphs: dict[str, Graph] = {}
    for entry in nsi["_admin"]["nsrs-detailed-list"]:
        nsr = engine.store.readable(NSRS, entry["nsrId"])
        if nsr is not None:
            graphs[entry["nss-id"]] = of_service(engine, nsr)
    nodes = [node for graph in graphs.values() for node in graph.nodes]
    edges = [edge for graph in graphs.values() for edge in graph.edges]
    for link in nsi["_admin"]["netslice-vld"]:
        ends = sorted(
            {
                graphs[point["nss-ref"]].nodes[0].id
                for point in link.get("nss-connection-point-ref") or ()
                if point["nss-ref"] in graphs and graphs[point["nss-ref"]].nodes
            }
        )
        edges += [Edge(ends[0], end, link["name"], "", "unknown") for end in ends[1:]]
    return Graph(nsi["name"], tuple(nodes), tuple(edges))


def find(engine: Engine, name: str) -> Graph:
    """Return the picture of the slice or the service of this name or id."""
    kind, found = engine.store.instance(name)
    return (of_slice if kind == NSIS else of_service)(engine, found)


def stated(message: str) -> dict[str, str]:
    """Return the state of each link that a charm's message names: "s6a up, s11 waiting (...)"."""
    return dict(_STATED.findall(message))


def _node(nsr: Document, member: str, vnfd: str, units: Sequence[UnitStatus]) -> Node:
    """Return a VNF with the state of the worst instance of its VDUs."""
    unit = min(units, key=lambda each: severity(each.workload), default=None)
    state, message = ("unknown", "") if unit is None else (unit.workload, unit.message)
    looked = unit.since if unit is not None else 0.0
    name = nsr["name"]
    return Node(f"{name}/{member}", name, member, vnfd, state, message, looked, nsr["_id"])


def _edges(
    svc: Service, units: Mapping[str, Sequence[UnitStatus]], engine: Engine
) -> Iterable[Edge]:
    members = {env.application: env.member_vnf_index for env in svc.environments}
    params: dict[str, Mapping[str, Any]] = {
        vnfr["member-vnf-index-ref"]: vnfr["additionalParamsForVnf"] or {}
        for vnfr in engine.vnfs(svc.nsr["_id"])
    }
    for relation in svc.relations:
        ends, states, technology = [], [], ""
        for end in (relation.provider, relation.requirer):
            application, _, endpoint = end.partition(":")
            member = members[application]
            if member is None:
                continue
            ends.append(f"{svc.nsr['name']}/{member}")
            unit = next(iter(units.get(member, ())), None)  # Only the first one is related.
            states.append(stated(unit.message if unit else "").get(endpoint, "unknown"))
            given = params.get(member, {})
            if f"{endpoint}_inner_address" in given or "vpn_inner_address" in given:
                technology = technology or agreement.technology(given, endpoint)
        if len(ends) == 2:
            worst = min(states, key=LINK_STATES.index)
            yield Edge(ends[0], ends[1], relation.name, technology, worst)
