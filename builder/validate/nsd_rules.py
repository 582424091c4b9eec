"""Rules for NSDs: references to VNFDs and virtual links."""

from collections.abc import Iterator

from builder.validate.context import Context, Document, choices, day12_of, ids, numbered, rule
from builder.validate.problem import Problem

NAME_LENGTH = 12  # Characters of an id that LCM puts into the name of a Juju application.


def _profiles(ctx: Context) -> list[tuple[str, Document, Document]]:
    """Return (place, vnf-profile, its flavour)."""
    return [
        (place, profile, flavour)
        for at, flavour in ctx.flavours()
        for place, profile in numbered(f"{at}/vnf-profile", flavour.get("vnf-profile"))
    ]


@rule("nsd")
def constituents(ctx: Context) -> Iterator[Problem]:
    """Constituent VNFs must be onboarded."""
    for index, name in enumerate(ctx.body.get("vnfd-id") or ()):
        if name not in ctx.catalog.vnfds:
            yield ctx.refused(
                "vnfd-unknown",
                f"/vnfd-id[{index}]",
                f"VNFD {name!r} is not onboarded, VNFDs come before their NSD; "
                f"allowed: {choices(ctx.catalog.vnfds)}",
                f"Descriptor error at 'vnfd-id'='{name}' references a non existing vnfd",
            )


@rule("nsd")
def connections(ctx: Context) -> Iterator[Problem]:
    """Connection points and virtual links of constituent VNFs must exist."""
    for at, flavour in ctx.flavours():
        links = ids(ctx.body.get("virtual-link-desc")) | ids(flavour.get("virtual-link-profile"))
        for place, profile in numbered(f"{at}/vnf-profile", flavour.get("vnf-profile")):
            key = "virtual-link-connectivity"
            for inner, connection in numbered(f"{place}/{key}", profile.get(key)):
                link = connection["virtual-link-profile-id"]
                if link not in links:
                    sentence = f"{link!r} is no virtual-link-desc; allowed: {choices(links)}"
                    spot = f"{inner}/virtual-link-profile-id"
                    yield ctx.silent("ns-link", spot, sentence)
                yield from _points(ctx, inner, connection, profile, flavour)


def _points(
    ctx: Context, place: str, connection: Document, profile: Document, flavour: Document
) -> Iterator[Problem]:
    vnfd = ctx.catalog.vnfds.get(profile["vnfd-id"])
    points = numbered(f"{place}/constituent-cpd-id", connection.get("constituent-cpd-id"))
    for at, point in points:
        cpd = point["constituent-cpd-id"]
        known = ids((vnfd or {}).get("ext-cpd"))
        if vnfd is not None and cpd not in known:
            yield ctx.refused(
                "cpd-unknown",
                f"{at}/constituent-cpd-id",
                f"{profile['vnfd-id']} has no ext-cpd {cpd!r}; allowed: {choices(known)}",
                f"Error at df[id='{flavour['id']}']:vnf-profile[id='{profile['id']}']:"
                "virtual-link-connectivity[virtual-link-profile-id="
                f"'{connection['virtual-link-profile-id']}']:constituent-cpd-id='{cpd}' "
                f"references a non existing ext-cpd:id inside vnfd '{profile['vnfd-id']}'",
            )
        if point["constituent-base-element-id"] != profile["id"]:
            yield ctx.silent(
                "cpd-member",
                f"{at}/constituent-base-element-id",
                f"{point['constituent-base-element-id']!r} is another VNF's; "
                f"allowed: {profile['id']!r}, the id of this profile",
            )


@rule("nsd")
def links(ctx: Context) -> Iterator[Problem]:
    """A management network has no protocol data."""
    management = {
        link["id"] for link in ctx.body.get("virtual-link-desc") or () if link.get("mgmt-network")
    }
    for at, flavour in ctx.flavours():
        key = "virtual-link-profile"
        for place, profile in numbered(f"{at}/{key}", flavour.get(key)):
            link = profile.get("virtual-link-desc-id")
            if profile.get("virtual-link-protocol-data") and link in management:
                yield ctx.refused(
                    "mgmt-protocol-data",
                    f"{place}/virtual-link-protocol-data",
                    f"{link!r} is a management network; allowed: without protocol data",
                    f"Error at df[id='{flavour['id']}']:virtual-link-profile"
                    f"[id='{profile['id']}']:virtual-link-protocol-data You cannot set a "
                    "virtual-link-protocol-data when mgmt-network is True",
                )


@rule("vnfd")
def application_names_of_vdus(ctx: Context) -> Iterator[Problem]:
    """Names can collide in one VNF too, whose VDUs have charms of their own."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for where, entry in ctx.day12():
        level = "" if entry["id"] == ctx.body["id"] else entry["id"]
        key = "execution-environment-list"
        for place, environment in numbered(f"{where}/{key}", entry.get(key)):
            own = (level, environment["id"])
            other = seen.setdefault((own[0][:NAME_LENGTH], own[1][:NAME_LENGTH]), own)
            if other != own and environment.get("juju"):
                ends = " and ".join(repr("/".join(filter(None, end))) for end in (other, own))
                sentence = (
                    f"the charms of {ends} get one Juju application, as OSM looks at {NAME_LENGTH} "
                    "characters; allowed: ids that differ in these"
                )
                yield ctx.silent("app-name", f"{place}/id", sentence)


@rule("nsd")
def application_names(ctx: Context) -> Iterator[Problem]:
    """Juju applications are named after the first characters of ids, so names can collide."""
    seen: dict[tuple[str, ...], str] = {}
    for place, profile, _ in _profiles(ctx):
        vnfd = ctx.catalog.vnfds.get(profile["vnfd-id"])
        if vnfd is None:
            continue
        for _, entry in day12_of("", vnfd["df"][0]):
            level = "" if entry["id"] == vnfd["id"] else entry["id"]  # of the VNF, or a VDU's id
            for environment in entry.get("execution-environment-list") or ():
                words = (environment["id"], profile["id"], level)
                name = tuple(word[:NAME_LENGTH] for word in words)
                other = seen.setdefault(name, profile["id"])
                if other != profile["id"]:
                    sentence = (
                        f"the charms of {other!r} and {profile['id']!r} get one Juju application, "
                        f"as OSM looks at {NAME_LENGTH} characters; "
                        "allowed: ids that differ in these"
                    )
                    yield ctx.silent("app-name", f"{place}/id", sentence)
