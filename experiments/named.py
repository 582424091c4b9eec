"""Existing slices of an operator, found by name.

Their links are the relations of the NSD, and their addresses come from `show-status`. The
experiments know nothing in advance about their descriptors or parameters.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

import click

from experiments.model import Cell
from experiments.profiles import Profile
from experiments.progress import ticking
from experiments.testbed import Addresses, Link, Slice, Testbed
from operate.nbi import Document
from operate.osm import SERVICES, SLICES

PROFILE = "slices"  # Name of a campaign between named slices.


def adopt(bed: Testbed, name: str) -> list[str]:
    """Add a network slice, or a network service, to the test bed as one or more slices.

    Each network service of a slice becomes a slice, because its relations do not leave it. Return
    the ids of the services: another slice may get the name later.
    """
    instances = _named(bed, SLICES, name)
    services = instances or _named(bed, SERVICES, name)
    if not services:
        raise click.ClickException(f"OSM has no slice and no service {name}")
    if len(services) > 1:
        keys = ", ".join(str(entry["_id"]) for entry in services)
        raise click.ClickException(f"OSM has {name} {len(services)} times; allowed: an id, {keys}")
    ids = [str(services[0]["_id"])]
    if instances:
        ids = [str(entry["nsrId"]) for entry in instances[0]["_admin"]["nsrs-detailed-list"]]
    number = 0
    with ticking(bed.console, lambda: f"asking the VNFs of {name}"):
        for id in ids:
            record = bed.osm.service(id)
            title = name if len(ids) == 1 else str(record["name"])
            made = _read(bed, title, record)
            if made.links:
                bed.slices[title] = made
                number += 1
    if not number:
        raise click.ClickException(f"{name}: none of its links has two ends")
    return ids


def _named(bed: Testbed, place: str, name: str) -> list[Document]:
    return [entry for entry in bed.osm.nbi.get(place) if name in (entry["name"], entry["_id"])]


def _read(bed: Testbed, name: str, record: Document) -> Slice:
    made = bed.read(name, record["instantiate_params"], record["_id"], links={})
    shown = {vnf.name: vnf.action("show-status") for vnf in made.vnfs.values()}
    inner, outer, links = {}, {}, {}
    for link in related(record["nsd"]):
        ends = {
            end: shown.get(end, {}).get(link.endpoint(end), {}) for end in (link.near, link.far)
        }
        if not all("inner-address" in status for status in ends.values()):
            continue  # The relation is not a link, or the link is not configured.
        links[link.name] = link
        for end, other in ((link.near, link.far), (link.far, link.near)):
            own = ipaddress.ip_interface(ends[end]["inner-address"]).ip
            inner[end, link.name] = str(own)
            seen = _seen(ends[other], made.vnfs[end].application)
            if seen:
                outer[end, link.name] = seen
    addresses = Addresses(inner, outer)
    return Slice(name, made.ns_id, addresses, made.vnfs, made.parameters, links, ours=False)


def related(nsd: Mapping[str, Any]) -> Iterator[Link]:
    """Yield the relations of an NSD as links; the requirer starts the traffic."""
    for relation in (nsd.get("ns-configuration") or {}).get("relation") or ():
        ends = relation.get("provider"), relation.get("requirer")
        if not all(end and end.get("vnf-profile-id") for end in ends):
            continue
        far, near = (str(end["vnf-profile-id"]) for end in ends)
        endpoints = {far: str(ends[0]["endpoint"]), near: str(ends[1]["endpoint"])}
        name = str(relation["name"])
        yield Link(name, name, near, far, endpoints)


def _seen(status: Mapping[str, Any], application: str) -> str:
    """Return the outer address of a peer application in the status of an end, or ""."""
    for peer in status.get("peers", ()):
        if peer.get("peer") == application and peer.get("endpoint"):
            return str(peer["endpoint"]).rpartition(":")[0].strip("[]")
    return ""


def profile(bed: Testbed) -> Profile:
    """Return the runs between the slices of a test bed.

    No run sets a link to technology `none`. Only the runs of `dependability` break something, and
    they need `--only`.
    """
    names = list(bed.slices)
    performance = [
        Cell("performance", {"slice": name, "link": link, "path": path, "neighbour": load,
                             "seconds": 2})
        for name, slice_ in bed.slices.items()
        for link in slice_.links
        for path in ("underlay", "tunnel")
        for load in (("", "saturated") if _shared(bed, link) else ("",))
    ]  # fmt: skip
    faults = [
        Cell("dependability", {"victim": victim, "neighbour": other, "fault": fault, "seconds": 4})
        for victim in names
        for other in names
        if other != victim
        for fault in ("vnf", "tunnel", "link")
    ]
    return Profile(
        name=PROFILE,
        first=[
            Cell("confidentiality", {"path": "tunnel"}),
            Cell("reach", {"patience": 0.5}),
        ],
        measured=performance,
        repetitions=1,
        last=faults,
    )


def _shared(bed: Testbed, link: str) -> bool:
    """Tell whether several slices have a link of this name, so that a neighbour can load it."""
    return sum(link in slice_.links for slice_ in bed.slices.values()) > 1
