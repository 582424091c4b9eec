"""Rules for VNFDs: what NBI checks beyond the schema, and what LCM and RO trip over later."""

from __future__ import annotations

from collections.abc import Iterator

from builder.validate.context import Context, ids, numbered, rule
from builder.validate.problem import Problem

DESCRIPTOR_LISTS = {
    "ext-cpd": "id",
    "vdu": "id",
    "virtual-compute-desc": "id",
    "virtual-storage-desc": "id",
    "sw-image-desc": "id",
    "int-virtual-link-desc": "id",
    "df": "id",
}


@rule("vnfd")
def unique_ids(ctx: Context) -> Iterator[Problem]:
    """Ids repeat."""
    for name, key in DESCRIPTOR_LISTS.items():
        seen: set[str] = set()
        for place, item in numbered(f"/{name}", ctx.body.get(name)):
            value = str(item[key])
            if value in seen:
                yield ctx.problem(
                    "refused",
                    "duplicate-id",
                    f"{place}/{key}",
                    f"id {value!r} is used twice; allowed: unique ids",
                    f"Error: identifier id '{value}' is not unique and repeats at '{place[1:]}'",
                )
            seen.add(value)


@rule("vnfd")
def management(ctx: Context) -> Iterator[Problem]:
    """mgmt-cp is missing or leads nowhere."""
    if not ctx.body.get("vdu"):
        return
    value = ctx.body.get("mgmt-cp")
    if not value:
        message = "'mgmt-cp' is a mandatory field and it is not defined"
        yield ctx.problem("refused", "mgmt-cp", "", "mgmt-cp is missing", message)
    elif value not in ids(ctx.body.get("ext-cpd")):
        known = ", ".join(sorted(ids(ctx.body.get("ext-cpd")))) or "none, there is no ext-cpd"
        yield ctx.problem(
            "refused",
            "mgmt-cp",
            "/mgmt-cp",
            f"{value!r} is no ext-cpd; allowed: {known}",
            f"mgmt-cp='{value}' must match an existing ext-cpd",
        )


@rule("vnfd")
def connection_points(ctx: Context) -> Iterator[Problem]:
    """Connection points and virtual links must exist."""
    vdus = {vdu["id"]: ids(vdu.get("int-cpd")) for _, vdu in ctx.vdus()}
    links = ids(ctx.body.get("int-virtual-link-desc"))
    for place, point in numbered("/ext-cpd", ctx.body.get("ext-cpd")):
        target = point.get("int-cpd")
        if target and target["cpd"] not in vdus.get(target["vdu-id"], set()):
            yield ctx.problem(
                "refused",
                "ext-cpd",
                f"{place}/int-cpd",
                f"vdu {target['vdu-id']!r} has no int-cpd {target['cpd']!r}",
                f"ext-cpd[id='{point['id']}']:int-cpd must match an existing vdu int-cpd",
            )
        link = point.get("int-virtual-link-desc")
        if link and link not in links:
            yield _no_link(
                ctx, f"{place}/int-virtual-link-desc", link, f"ext-cpd[id='{point['id']}']"
            )
    for place, vdu in ctx.vdus():
        for inner, point in numbered(f"{place}/int-cpd", vdu.get("int-cpd")):
            link = point.get("int-virtual-link-desc")
            if link and link not in links:
                whose = f"vdu[id='{vdu['id']}']:int-cpd[id='{point['id']}']"
                yield _no_link(ctx, f"{inner}/int-virtual-link-desc", link, whose)
    for place, profile in numbered(
        "/df[0]/virtual-link-profile", ctx.flavour().get("virtual-link-profile")
    ):
        if profile["id"] not in links:
            whose = f"df[id='{ctx.flavour()['id']}']:virtual-link-profile='{profile['id']}'"
            yield _no_link(ctx, f"{place}/id", profile["id"], whose)


def _no_link(ctx: Context, place: str, link: str, whose: str) -> Problem:
    return ctx.problem(
        "refused",
        "virtual-link",
        place,
        f"{link!r} is no int-virtual-link-desc",
        f"{whose}:int-virtual-link-desc='{link}' must match an existing int-virtual-link-desc",
    )


@rule("vnfd")
def vdu_references(ctx: Context) -> Iterator[Problem]:
    """A VDU needs compute, storage and image descriptions that exist."""
    for place, vdu in ctx.vdus():
        if vdu.get("pdu-type"):
            continue
        for key in ("virtual-compute-desc", "sw-image-desc"):
            value = vdu.get(key)
            if value not in ids(ctx.body.get(key)):
                yield ctx.problem(
                    "refused",
                    "vdu-reference",
                    f"{place}/{key}",
                    f"{value!r} is no {key}; allowed: "
                    + (", ".join(sorted(ids(ctx.body.get(key)))) or "none is defined"),
                    f"vdu[{key}='{value}']not defined in vnfd",
                )
        storages = vdu.get("virtual-storage-desc")
        if not storages:
            yield ctx.problem(
                "refused",
                "vdu-storage",
                place,
                "virtual-storage-desc is missing, which NBI fails on; allowed: a list of ids",
            )
        for value in storages or ():
            if value not in ids(ctx.body.get("virtual-storage-desc")):
                yield ctx.problem(
                    "refused",
                    "vdu-reference",
                    f"{place}/virtual-storage-desc",
                    f"{value!r} is no virtual-storage-desc",
                    f"vdu[virtual-storage-desc='{value}']not defined in vnfd",
                )
        name = vdu.get("name")
        if name is not None and name != vdu["id"]:
            yield ctx.problem(
                "silent",
                "vdu-name",
                f"{place}/name",
                f"{name!r} differs from the id {vdu['id']!r}, so OSM cannot heal the VDU",
            )
    for place, storage in numbered("/virtual-storage-desc", ctx.body.get("virtual-storage-desc")):
        if not storage.get("size-of-storage"):
            yield ctx.problem(
                "silent", "storage-size", place, "size-of-storage is missing; allowed: GB, from 1"
            )
    for place, image in numbered("/sw-image-desc", ctx.body.get("sw-image-desc")):
        if not image.get("image"):
            sentence = "image is missing, so RO finds no image; allowed: its name in the VIM"
            yield ctx.problem("silent", "image-name", place, sentence)


@rule("vnfd")
def interfaces(ctx: Context) -> Iterator[Problem]:
    """`position` on some NICs only, or twice, gives an order nobody meant."""
    for place, vdu in ctx.vdus():
        nics = [
            nic
            for point in vdu.get("int-cpd") or ()
            for nic in point.get("virtual-network-interface-requirement") or ()
        ]
        positions = [nic["position"] for nic in nics if "position" in nic]
        if positions and len(positions) != len(nics):
            yield ctx.problem(
                "silent",
                "nic-position",
                f"{place}/int-cpd",
                f"{len(positions)} of {len(nics)} interfaces have a position; allowed: all or none",
            )
        if len(set(positions)) != len(positions):
            yield ctx.problem(
                "silent", "nic-position", f"{place}/int-cpd", "two interfaces have one position"
            )


@rule("vnfd")
def flavours(ctx: Context) -> Iterator[Problem]:
    """OSM deploys df[0]; its VDU references must exist."""
    known = ids(ctx.body.get("vdu"))
    if len(ctx.body.get("df") or ()) > 1:
        yield ctx.problem("silent", "df-count", "/df", "only df[0] is used, the others never are")
    flavour = ctx.flavour()
    for place, profile in numbered("/df[0]/vdu-profile", flavour.get("vdu-profile")):
        if profile["id"] not in known:
            yield ctx.problem(
                "silent", "vdu-profile", f"{place}/id", f"{profile['id']!r} is no vdu"
            )
    for place, level in numbered("/df[0]/instantiation-level", flavour.get("instantiation-level")):
        for inner, entry in numbered(f"{place}/vdu-level", level.get("vdu-level")):
            if entry["vdu-id"] not in known:
                yield ctx.problem(
                    "silent", "vdu-level", f"{inner}/vdu-id", f"{entry['vdu-id']!r} is no vdu"
                )


@rule("vnfd")
def operations(ctx: Context) -> Iterator[Problem]:
    """`operate-vnf-op-config` and day1-2 ids."""
    config = (ctx.flavour().get("lcm-operations-configuration") or {}).get("operate-vnf-op-config")
    place = "/df[0]/lcm-operations-configuration/operate-vnf-op-config"
    if config is not None and "day1-2" not in config:
        sentence = "day1-2 is missing, which NBI fails on (KeyError)"
        yield ctx.problem("refused", "day1-2", place, sentence)
    names = {str(ctx.body["id"])} | ids(ctx.body.get("vdu")) | ids(ctx.body.get("kdu"), "name")
    for where, entry in ctx.day12():
        if entry["id"] not in names:
            yield ctx.problem(
                "silent",
                "day1-2-id",
                f"{where}/id",
                f"{entry['id']!r} is ignored; allowed: {', '.join(sorted(names))}",
            )


@rule("vnfd")
def scaling(ctx: Context) -> Iterator[Problem]:
    """Scaling aspects name VDUs, monitoring parameters and primitives."""
    flavour = ctx.flavour()
    levels = {
        entry["vdu-id"]
        for level in flavour.get("instantiation-level") or ()
        for entry in level.get("vdu-level") or ()
    }
    monitored = {
        str(item.get("id"))
        for vdu in ctx.body.get("vdu") or ()
        for item in vdu.get("monitoring-parameter") or ()
    } | {str(item.get("id")) for item in flavour.get("monitoring-parameter") or ()}
    primitives = [
        {p["name"] for p in entry.get("config-primitive") or ()} for _, entry in ctx.day12()
    ]
    for place, aspect in numbered("/df[0]/scaling-aspect", flavour.get("scaling-aspect")):
        if aspect.get("name") != aspect["id"]:
            yield ctx.problem(
                "silent",
                "scaling-name",
                place,
                "id and name must be equal: NBI looks up the id and LCM the name",
            )
        for delta in (aspect.get("aspect-delta-details") or {}).get("deltas") or ():
            for entry in delta.get("vdu-delta") or ():
                if entry["id"] not in levels:
                    yield ctx.problem(
                        "refused",
                        "scaling-delta",
                        place,
                        f"{entry['id']!r} has no vdu-level in the instantiation-level",
                        f"df[id='{flavour['id']}']:scaling-aspect[id='{aspect['id']}']"
                        f":aspect-delta-details[delta='{delta['id']}']: "
                        f"vdu-id='{entry['id']}' not defined in vdu",
                    )
        for policy in aspect.get("scaling-policy") or ():
            for criterion in policy.get("scaling-criteria") or ():
                reference = criterion.get("vnf-monitoring-param-ref")
                if reference and reference not in monitored:
                    yield ctx.problem(
                        "refused",
                        "scaling-criteria",
                        place,
                        f"monitoring parameter {reference!r} does not exist",
                        f"vnf-monitoring-param-ref='{reference}' not defined in any "
                        "monitoring-param",
                    )
        for action in aspect.get("scaling-config-action") or ():
            name = action["vnf-config-primitive-name-ref"]
            own = [entry for _, entry in ctx.day12() if entry["id"] == ctx.body["id"]]
            if not own:
                yield ctx.problem(
                    "refused",
                    "scaling-action",
                    place,
                    "a scaling-config-action needs a day1-2 entry with the VNFD's id",
                    "'day1-2 configuration' not defined in the descriptor but it is referenced by "
                    "'df:scaling-aspect:scaling-config-action'",
                )
            elif not all(name in listed for listed in primitives):
                yield ctx.problem(
                    "refused",
                    "scaling-action",
                    place,
                    f"{name!r} must be a config-primitive of every day1-2 entry",
                    f"vnf-config-primitive-name-ref='{name}' does not match any "
                    "day1-2 configuration:config-primitive:name",
                )
