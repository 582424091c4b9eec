"""Rules for NSDs: connections, and the names of Juju applications."""

from collections.abc import Iterator

from builder.documents import DAY12
from builder.naming import LENGTH, application_name, is_refused
from builder.validate.context import Context, day12_of, ids, rule
from builder.validate.problem import Problem


@rule("nsd")
def connections(ctx: Context) -> Iterator[Problem]:
    """Virtual links of constituent VNFs must exist, and their ends are those of the profile."""
    key = "df[]/vnf-profile[]/virtual-link-connectivity[]"
    described = ids(ctx.body.get("virtual-link-desc"))
    for place, link, (flavour, *_) in ctx.each(f"{key}/virtual-link-profile-id"):
        known = described | ids(flavour.get("virtual-link-profile"))
        if link not in known:
            yield ctx.tell("ns-link", place, link=link, may=known)
    seen: set[tuple[int, str]] = set()
    for place, end, (_, profile, *_) in ctx.each(f"{key}/constituent-cpd-id[]"):
        element, point = end["constituent-base-element-id"], end["constituent-cpd-id"]
        if element != profile["id"]:
            spot = f"{place}/constituent-base-element-id"
            yield ctx.tell("cpd-member", spot, element=element, profile=profile)
        elif (id(profile), point) in seen:
            yield ctx.tell("cpd-twice", f"{place}/constituent-cpd-id", point=point, profile=profile)
        seen.add((id(profile), point))


@rule("nsd")
def links(ctx: Context) -> Iterator[Problem]:
    """A management network has no protocol data."""
    management = {
        link["id"] for link in ctx.body.get("virtual-link-desc") or () if link.get("mgmt-network")
    }
    for place, _, way in ctx.each("df[]/virtual-link-profile[]/virtual-link-protocol-data?"):
        flavour, profile = way
        link = profile.get("virtual-link-desc-id")
        if link in management:
            yield ctx.tell("mgmt-protocol-data", place, link=link, flavour=flavour, profile=profile)


@rule("vnfd")
def application_names_of_vdus(ctx: Context) -> Iterator[Problem]:
    """Names can collide in one VNF too, whose VDUs have charms of their own."""
    seen: dict[str, list[str]] = {}
    for place, ee_id, (_, entry, environment) in ctx.each(
        f"{DAY12}[]/execution-environment-list[]/id"
    ):
        vdu_id = None if entry["id"] == ctx.body["id"] else entry["id"]
        own = [ee_id] if vdu_id is None else [vdu_id, ee_id]
        for id in own:
            if environment.get("juju") and is_refused(id):
                yield ctx.tell("app-name/letters", place, id=id, length=LENGTH)
        name = application_name(ee_id=ee_id, member_vnf_index="vnf", vdu_id=vdu_id)
        other = seen.setdefault(name, own)
        if other != own and environment.get("juju"):
            ends = " and ".join(repr("/".join(end)) for end in (other, own))
            yield ctx.tell("app-name", place, ends=ends, length=LENGTH)


@rule("nsd")
def application_names(ctx: Context) -> Iterator[Problem]:
    """Juju applications are named after the first characters of ids, so names can collide."""
    seen: dict[str, str] = {}
    for place, profile, _ in ctx.each("df[]/vnf-profile[]"):
        index = profile["id"]
        vnfd = ctx.catalog.vnfds.get(profile["vnfd-id"])
        if vnfd is None:
            continue
        for _, entry in day12_of("", vnfd["df"][0]):
            vdu_id = None if entry["id"] == vnfd["id"] else entry["id"]
            for environment in entry.get("execution-environment-list") or ():
                if environment.get("juju") and is_refused(index):
                    yield ctx.tell("app-name/letters", f"{place}/id", id=index, length=LENGTH)
                name = application_name(
                    ee_id=environment["id"], member_vnf_index=index, vdu_id=vdu_id
                )
                other = seen.setdefault(name, index)
                if other != index:
                    ends = f"{other!r} and {index!r}"
                    yield ctx.tell("app-name", f"{place}/id", ends=ends, length=LENGTH)
