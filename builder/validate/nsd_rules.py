"""Rules for NSDs and NSTs: references across packages, and relations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from builder.validate.context import (
    Charm,
    Context,
    Document,
    charm_of,
    ids,
    numbered,
    rule,
)
from builder.validate.problem import Problem


def _profiles(ctx: Context) -> list[tuple[str, Document]]:
    return [
        item
        for index, flavour in enumerate(ctx.body.get("df") or ())
        for item in numbered(f"/df[{index}]/vnf-profile", flavour.get("vnf-profile"))
    ]


@rule("nsd")
def constituents(ctx: Context) -> Iterator[Problem]:
    """Constituent VNFs and their connection points must exist."""
    listed = ctx.body.get("vnfd-id") or []
    for name in listed:
        if name not in ctx.catalog.vnfds:
            yield ctx.problem(
                "refused",
                "vnfd-unknown",
                "/vnfd-id",
                f"VNFD {name!r} is not onboarded; onboard VNFDs before their NSD",
                f"Descriptor error at 'vnfd-id'='{name}' references a non existing vnfd",
            )
    links = ids(ctx.body.get("virtual-link-desc"))
    seen: set[str] = set()
    for place, profile in _profiles(ctx):
        name = profile["vnfd-id"]
        if profile["id"] in seen:
            sentence = f"member {profile['id']!r} is there twice"
            yield ctx.problem("refused", "duplicate-id", f"{place}/id", sentence)
        seen.add(profile["id"])
        if name not in listed:
            yield ctx.problem(
                "refused",
                "vnfd-reference",
                f"{place}/vnfd-id",
                f"{name!r} is not in vnfd-id; allowed: {', '.join(listed) or 'none is listed'}",
                f"Error at df[id='{ctx.flavour().get('id')}']:vnf-profile"
                f"[id='{profile['id']}']:vnfd-id='{name}' does not match any vnfd-id",
            )
        vnfd = ctx.catalog.vnfds.get(name)
        for at, connection in numbered(
            f"{place}/virtual-link-connectivity", profile.get("virtual-link-connectivity")
        ):
            link = connection["virtual-link-profile-id"]
            if link not in links:
                yield ctx.problem(
                    "silent",
                    "ns-link",
                    f"{at}/virtual-link-profile-id",
                    f"{link!r} is no virtual-link-desc; allowed: {', '.join(sorted(links))}",
                )
            for inner, point in numbered(
                f"{at}/constituent-cpd-id", connection["constituent-cpd-id"]
            ):
                cpd = point["constituent-cpd-id"]
                if vnfd is not None and cpd not in ids(vnfd.get("ext-cpd")):
                    yield ctx.problem(
                        "refused",
                        "cpd-unknown",
                        f"{inner}/constituent-cpd-id",
                        f"{name} has no ext-cpd {cpd!r}; allowed: "
                        + ", ".join(sorted(ids(vnfd.get("ext-cpd")))),
                        f"Error at vnf-profile[id='{profile['id']}']:constituent-cpd-id='{cpd}' "
                        f"references a non existing ext-cpd:id inside vnfd '{name}'",
                    )
                if point["constituent-base-element-id"] != profile["id"]:
                    yield ctx.problem(
                        "silent",
                        "cpd-member",
                        f"{inner}/constituent-base-element-id",
                        f"{point['constituent-base-element-id']!r} is not this profile's id "
                        f"{profile['id']!r}",
                    )


@rule("nsd")
def links(ctx: Context) -> Iterator[Problem]:
    """Management networks and protocol data."""
    management = {
        link["id"]
        for link in ctx.body.get("virtual-link-desc") or ()
        if link.get("mgmt-network") in (True, "true")
    }
    for index, flavour in enumerate(ctx.body.get("df") or ()):
        for place, profile in numbered(
            f"/df[{index}]/virtual-link-profile", flavour.get("virtual-link-profile")
        ):
            link = profile.get("virtual-link-desc-id")
            if profile.get("virtual-link-protocol-data") and link in management:
                yield ctx.problem(
                    "refused",
                    "mgmt-protocol-data",
                    place,
                    f"{link!r} is a management network and cannot have protocol data",
                    f"Error at df[id='{flavour['id']}']:virtual-link-profile[id='{profile['id']}']:"
                    "virtual-link-protocol-data You cannot set a virtual-link-protocol-data "
                    "when mgmt-network is True",
                )


@rule("nsd")
def relations(ctx: Context) -> Iterator[Problem]:
    """Relations of an NSD; OSM checks none of this and swallows Juju's errors."""
    members = {profile["id"]: profile["vnfd-id"] for _, profile in _profiles(ctx)}
    listed = (ctx.body.get("ns-configuration") or {}).get("relation")
    for place, relation in numbered("/ns-configuration/relation", listed):
        yield from _relation(ctx, place, relation, members)


@rule("vnfd")
def own_relations(ctx: Context) -> Iterator[Problem]:
    """Relations of a VNFD stand in the entry with the VNFD's id."""
    for where, entry in ctx.day12():
        for place, relation in numbered(f"{where}/relation", entry.get("relation")):
            if entry["id"] != ctx.body["id"]:
                yield ctx.problem(
                    "silent",
                    "relation-place",
                    place,
                    f"OSM reads relations of the entry {ctx.body['id']!r} only",
                )
            yield from _form(ctx, place, relation)


def _form(ctx: Context, place: str, relation: Document) -> Iterator[Problem]:
    new = bool(relation.get("provider")) and bool(relation.get("requirer"))
    old = len(relation.get("entities") or ()) == 2
    half = bool(relation.get("provider")) != bool(relation.get("requirer"))
    if new == old or half:
        yield ctx.problem(
            "silent",
            "relation-form",
            place,
            "allowed: provider and requirer, or exactly two entities, not both",
        )


def _relation(
    ctx: Context, place: str, relation: Document, members: dict[str, str]
) -> Iterator[Problem]:
    yield from _form(ctx, place, relation)
    ends: list[tuple[str, tuple[str, str]]] = []
    for key in ("provider", "requirer"):
        end = relation.get(key)
        if not end:
            continue
        at = f"{place}/{key}"
        member = end.get("vnf-profile-id")
        if member is None:
            continue  # the NS's own charm
        if member not in members:
            yield ctx.problem(
                "silent",
                "relation-member",
                f"{at}/vnf-profile-id",
                f"{member!r} is no vnf-profile; allowed: {', '.join(sorted(members))}",
            )
            continue
        found = _end(ctx, at, end, members[member])
        for item in found:
            if isinstance(item, Problem):
                yield item
            else:
                ends.append((key, item))
    roles = {"provider": "provides", "requirer": "requires"}
    for key, (role, _) in ends:
        if role != roles[key]:
            yield ctx.problem(
                "silent",
                "relation-role",
                f"{place}/{key}/endpoint",
                f"the charm {role} this endpoint; a {key} needs one it {roles[key]}",
            )
    if len(ends) == 2 and ends[0][1][1] != ends[1][1][1]:
        yield ctx.problem(
            "silent",
            "relation-interface",
            place,
            f"the ends have the interfaces {ends[0][1][1]!r} and {ends[1][1][1]!r}; "
            "allowed: the same one",
        )


def _end(ctx: Context, at: str, end: Document, vnfd_id: str) -> list[Any]:
    """Return problems of an end and, where it is good, (role, interface)."""
    vnfd = ctx.catalog.vnfds.get(vnfd_id)
    if vnfd is None:
        return []
    entry = _entry(vnfd, end.get("vdu-profile-id"))
    environments = (entry or {}).get("execution-environment-list") or []
    reference = end.get("execution-environment-ref")
    chosen = next(
        (e for e in environments if reference in (None, e.get("id")) and e.get("juju")), None
    )
    if chosen is None:
        known = ", ".join(str(e.get("id")) for e in environments) or "none is defined"
        return [
            ctx.problem(
                "silent",
                "relation-ee",
                f"{at}/execution-environment-ref",
                f"{vnfd_id} has no such execution environment {reference!r}; allowed: {known}",
            )
        ]
    package = ctx.catalog.packages.get(vnfd_id)
    name = str((chosen["juju"] or {}).get("charm"))
    charm: Charm | None = charm_of(package, name) if package else None
    if charm is None:
        return []
    found = charm.endpoint(end["endpoint"])
    if found is None:
        ends = sorted(
            {*(charm.metadata.get("provides") or ()), *(charm.metadata.get("requires") or ())}
        )
        return [
            ctx.problem(
                "silent",
                "relation-endpoint",
                f"{at}/endpoint",
                f"charm {name} has no endpoint {end['endpoint']!r}, and OSM would count the "
                f"relation as added; allowed: {', '.join(ends)}",
            )
        ]
    return [found]


def _entry(vnfd: Document, vdu: str | None) -> Document | None:
    try:
        config = vnfd["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"]
        return next((dict(e) for e in config if e.get("id") == (vdu or vnfd["id"])), None)
    except (KeyError, IndexError, TypeError):
        return None


@rule("nst")
def subnets(ctx: Context) -> Iterator[Problem]:
    """Network services of a slice and the links between them."""
    known = {}
    for place, subnet in numbered("/netslice-subnet", ctx.body.get("netslice-subnet")):
        reference = subnet["nsd-ref"]
        known[subnet["id"]] = reference
        if reference not in ctx.catalog.nsds:
            yield ctx.problem(
                "refused",
                "nsd-unknown",
                f"{place}/nsd-ref",
                f"NSD {reference!r} is not onboarded",
                f"Descriptor error at 'nsd-ref'='{reference}' references a non existing nsd",
            )
        if not subnet.get("description"):
            sentence = "description is missing, which NBI demands when a slice is instantiated"
            yield ctx.problem("silent", "subnet-description", place, sentence)
    for place, link in numbered("/netslice-vld", ctx.body.get("netslice-vld")):
        for at, point in numbered(
            f"{place}/nss-connection-point-ref", link.get("nss-connection-point-ref")
        ):
            nss = point["nss-ref"]
            if nss not in known:
                yield ctx.problem(
                    "silent",
                    "nss-reference",
                    f"{at}/nss-ref",
                    f"{nss!r} is no netslice-subnet; allowed: {', '.join(sorted(known))}",
                )
                continue
            nsd = ctx.catalog.nsds.get(known[nss])
            sap = point["nsd-connection-point-ref"]
            if nsd is not None and sap not in ids(nsd.get("sapd")):
                yield ctx.problem(
                    "silent",
                    "nss-sap",
                    f"{at}/nsd-connection-point-ref",
                    f"{known[nss]} has no sapd {sap!r}; allowed: "
                    + (", ".join(sorted(ids(nsd.get("sapd")))) or "none is defined"),
                )
    if ctx.body.get("quality-of-service"):
        sentence = "OSM stores 5QI and S-NSSAI and enforces neither"
        yield ctx.problem("silent", "qos-stored", "/quality-of-service", sentence)
