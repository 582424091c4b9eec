"""Rules for NSDs: connections, and the names of Juju applications."""

import re
from collections.abc import Iterator

from builder.documents import DAY12
from builder.validate.context import Context, day12_of, ids, rule
from builder.validate.problem import Problem

NAME_LENGTH = 12  # Characters of an id that LCM puts into the name of a Juju application.
NO_NAME = re.compile("[^a-z0-9_ -]", re.IGNORECASE | re.ASCII)
"""What LCM leaves in the name, and Juju refuses."""


@rule("nsd")
def connections(ctx: Context) -> Iterator[Problem]:
    """Virtual links of constituent VNFs must exist, and their ends are those of the profile."""
    key = "df[]/vnf-profile[]/virtual-link-connectivity[]"
    described = ids(ctx.body.get("virtual-link-desc"))
    for place, link, (flavour, *_) in ctx.each(f"{key}/virtual-link-profile-id"):
        known = described | ids(flavour.get("virtual-link-profile"))
        if link not in known:
            yield ctx.tell("ns-link", place, link=link, may=known)
    ends = f"{key}/constituent-cpd-id[]/constituent-base-element-id"
    for place, element, (_, profile, *_) in ctx.each(ends):
        if element != profile["id"]:
            yield ctx.tell("cpd-member", place, element=element, profile=profile)


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
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for place, name, (_, entry, environment) in ctx.each(
        f"{DAY12}[]/execution-environment-list[]/id"
    ):
        own = ("" if entry["id"] == ctx.body["id"] else entry["id"], name)
        for id in own:
            if environment.get("juju") and NO_NAME.search(id[:NAME_LENGTH]):
                yield ctx.tell("app-name/letters", place, id=id, length=NAME_LENGTH)
        other = seen.setdefault((own[0][:NAME_LENGTH], own[1][:NAME_LENGTH]), own)
        if other != own and environment.get("juju"):
            ends = " and ".join(repr("/".join(filter(None, end))) for end in (other, own))
            yield ctx.tell("app-name", place, ends=ends, length=NAME_LENGTH)


@rule("nsd")
def application_names(ctx: Context) -> Iterator[Problem]:
    """Juju applications are named after the first characters of ids, so names can collide."""
    seen: dict[tuple[str, ...], str] = {}
    for place, profile, _ in ctx.each("df[]/vnf-profile[]"):
        vnfd = ctx.catalog.vnfds.get(profile["vnfd-id"])
        if vnfd is None:
            continue
        for _, entry in day12_of("", vnfd["df"][0]):
            level = "" if entry["id"] == vnfd["id"] else entry["id"]  # of the VNF, or a VDU's id
            for environment in entry.get("execution-environment-list") or ():
                if environment.get("juju") and NO_NAME.search(profile["id"][:NAME_LENGTH]):
                    where, id = f"{place}/id", profile["id"]
                    yield ctx.tell("app-name/letters", where, id=id, length=NAME_LENGTH)
                words = (environment["id"], profile["id"], level)
                name = tuple(word[:NAME_LENGTH] for word in words)
                other = seen.setdefault(name, profile["id"])
                if other != profile["id"]:
                    ends = f"{other!r} and {profile['id']!r}"
                    yield ctx.tell("app-name", f"{place}/id", ends=ends, length=NAME_LENGTH)
