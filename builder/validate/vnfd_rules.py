"""Rules for VNFDs: NBI's checks beyond the schema, and causes of later failures in LCM and RO."""

import re
from collections.abc import Iterator
from typing import Any

from builder.validate.context import Context, Document, choices, day12_of, ids, numbered, rule
from builder.validate.problem import Problem
from builder.validate.references import LEVELS, named
from builder.validate.schema import LOADER, shown

KERNEL = re.compile(r"(?:ens|eno|eth|enp[0-9]+s)[0-9]+")
"""Names that Linux gives to NICs in the order of their slots."""
ENS = re.compile(r"ens([0-9]+)")
"""The same on a machine of OpenStack, where the first NIC is in slot 3."""

CHART = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9]/)?[-a-z0-9]*[a-z0-9]|[a-z0-9]")
"""NBI's form of a KDU's helm-chart: [REPO/]NAME."""
FOLDER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

KEYS = {"vdu-level": "vdu-id"}
"""Keys in YANG of lists whose entries have neither id nor name; pyangbind refuses a second one."""


@rule("vnfd", "nsd", "nst")
def unique_ids(ctx: Context) -> Iterator[Problem]:
    """Ids must not repeat in a list."""
    yield from _repeats(ctx, ctx.body, "", "")


def _repeats(ctx: Context, node: Document, place: str, osm_place: str) -> Iterator[Problem]:
    # NBI goes only from list to list. It does not check lists in a mapping, such as day1-2.
    for name, items in node.items():
        if not isinstance(items, list):
            continue
        key = KEYS.get(name, "")
        seen = set()
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                continue
            at, osm_at = f"{place}/{name}[{index}]", f"{osm_place}.{name}[{index}]"
            yield from _repeats(ctx, item, at, osm_at)
            if index == 0 and name not in KEYS:
                key = next((k for k in ("id", "name") if item.get(k)), "")
            value = item.get(key) if key else None
            if not isinstance(value, (str, int)):
                continue
            if value in seen:
                message = (
                    f"Error: identifier {key} '{value}' is not unique and repeats at '{osm_at}'"
                )
                yield ctx.refused(
                    "duplicate-id",
                    f"{at}/{key}",
                    f"{key} {str(value)!r} is used twice; allowed: a {key} of its own",
                    LOADER if name in KEYS else message,
                )
            seen.add(value)


@rule("vnfd")
def management(ctx: Context) -> Iterator[Problem]:
    """mgmt-cp must be there and lead to an existing connection point."""
    if not ctx.body.get("vdu"):
        return
    value = ctx.body.get("mgmt-cp")
    known = ids(ctx.body.get("ext-cpd"))
    if not value:
        message = "'mgmt-cp' is a mandatory field and it is not defined"
        sentence = f"mgmt-cp is missing; allowed: {choices(known)}"
        yield ctx.refused("mgmt-cp", "", sentence, message)
    elif value not in known:
        yield ctx.refused(
            "mgmt-cp",
            "/mgmt-cp",
            f"{value!r} is no ext-cpd; allowed: {choices(known)}",
            f"mgmt-cp='{value}' must match an existing ext-cpd",
        )


@rule("vnfd")
def connection_points(ctx: Context) -> Iterator[Problem]:
    """An external connection point leads to one of a VDU."""
    vdus = {vdu["id"]: ids(vdu.get("int-cpd")) for _, vdu in ctx.vdus()}
    for place, point in numbered("/ext-cpd", ctx.body.get("ext-cpd")):
        target = point.get("int-cpd")
        if target and target["vdu-id"] not in vdus:
            known = f"vdu {target['vdu-id']!r} does not exist; allowed: {choices(vdus)}"
        elif target and target["cpd"] not in vdus[target["vdu-id"]]:
            known = (
                f"vdu {target['vdu-id']!r} has no int-cpd {target['cpd']!r}; "
                f"allowed: {choices(vdus[target['vdu-id']])}"
            )
        else:
            continue
        yield ctx.refused(
            "ext-cpd",
            f"{place}/int-cpd",
            known,
            f"ext-cpd[id='{point['id']}']:int-cpd must match an existing vdu int-cpd",
        )


@rule("vnfd")
def vdu_references(ctx: Context) -> Iterator[Problem]:
    """A VDU needs compute, storage and image descriptions that exist."""
    for place, vdu in ctx.vdus():
        if "pdu-type" in vdu:
            continue
        computes = ids(ctx.body.get("virtual-compute-desc"))
        if not vdu.get("virtual-compute-desc"):
            sentence = (
                "virtual-compute-desc is missing, so RO has no flavor; "
                f"allowed: {choices(computes)}"
            )
            yield ctx.silent("vdu-compute", place, sentence)
        known = ids(ctx.body.get("virtual-storage-desc"))
        if vdu.get("virtual-storage-desc") is None:
            sentence = (
                "virtual-storage-desc is missing, which NBI fails on (TypeError); "
                f"allowed: a list of ids from {choices(known)}"
            )
            yield ctx.refused("vdu-storage", place, sentence)
        images = ids(ctx.body.get("sw-image-desc"))
        if vdu.get("sw-image-desc") not in images:
            yield ctx.silent(
                "vdu-image",
                f"{place}/sw-image-desc",
                f"{vdu.get('sw-image-desc')!r} is no sw-image-desc, so nothing can boot; "
                f"allowed: {choices(images)}",
            )
        name = vdu.get("name")
        if name is not None and name != vdu["id"]:
            yield ctx.silent(
                "vdu-name",
                f"{place}/name",
                f"{name!r} differs from the id, so OSM cannot heal the VDU; allowed: {vdu['id']!r}",
            )


@rule("vnfd")
def resources(ctx: Context) -> Iterator[Problem]:
    """Requirements of RO for disks and images."""
    for place, storage in numbered("/virtual-storage-desc", ctx.body.get("virtual-storage-desc")):
        if not storage.get("size-of-storage"):
            sentence = "size-of-storage is missing or 0; allowed: GB, from 1"
            yield ctx.silent("storage-size", place, sentence)
    for place, compute in numbered("/virtual-compute-desc", ctx.body.get("virtual-compute-desc")):
        size = (compute.get("virtual-memory") or {}).get("size")
        if size is not None and not float(size) > 0:
            sentence = f"size is {size}; allowed: GiB, above 0"
            yield ctx.silent("compute-size", f"{place}/virtual-memory/size", sentence)
    for place, image in numbered("/sw-image-desc", ctx.body.get("sw-image-desc")):
        if not image.get("image"):
            sentence = "image is missing, so RO finds no image; allowed: its name in the VIM"
            yield ctx.silent("image-name", place, sentence)


@rule("vnfd")
def interfaces(ctx: Context) -> Iterator[Problem]:
    """`position` on only some NICs, or the same on two, gives an unexpected order."""
    for place, vdu in ctx.vdus():
        nics = [
            nic
            for point in vdu.get("int-cpd") or ()
            for nic in point.get("virtual-network-interface-requirement") or ()
        ]
        positions = [nic["position"] for nic in nics if nic.get("position") is not None]
        if positions and len(positions) != len(nics):
            yield ctx.silent(
                "nic-position",
                f"{place}/int-cpd",
                f"{len(positions)} of {len(nics)} interfaces have a position; allowed: all or none",
            )
        if len(set(positions)) != len(positions):
            sentence = "two interfaces have the same position; allowed: one position each"
            yield ctx.silent("nic-position", f"{place}/int-cpd", sentence)
        elif len(positions) in (0, len(nics)):
            nics.sort(key=lambda nic: int(nic.get("position") or 0))
            yield from _order(ctx, place, vdu, [str(nic["name"]) for nic in nics])


def _order(ctx: Context, place: str, vdu: Document, names: list[str]) -> Iterator[Problem]:
    """Linux numbers NICs in the order of their positions, whatever the package calls them."""
    as_linux = (
        all(map(KERNEL.fullmatch, names)) and len({re.sub("[0-9]+", "", n) for n in names}) == 1
    )
    if as_linux:
        by_number = sorted(names, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)])
        if names != by_number and len(set(names)) == len(names):
            pairs = zip(names, by_number, strict=True)
            wrong = ", ".join(f"{name} is {real} there" for name, real in pairs if name != real)
            sentence = (
                f"the VDU's NICs come in the order {', '.join(names)}, and Linux names them in "
                f"that order, so {wrong}; allowed: positions in the order of the names"
            )
            yield ctx.silent("nic-order", f"{place}/int-cpd", sentence)
    points = {point["id"]: point.get("int-cpd") or {} for point in ctx.body.get("ext-cpd") or ()}
    managed = points.get(str(ctx.body.get("mgmt-cp")), {})
    own = [
        str(nic["name"])
        for point in vdu.get("int-cpd") or ()
        if managed == {"vdu-id": vdu["id"], "cpd": point["id"]}
        for nic in point.get("virtual-network-interface-requirement") or ()
    ]
    for at, entry in ctx.day12():
        initial = f"{at}/initial-config-primitive"
        for spot, primitive in numbered(initial, entry.get("initial-config-primitive")):
            for where, parameter in numbered(f"{spot}/parameter", primitive.get("parameter")):
                match = ENS.fullmatch(str(parameter.get("value")))
                if parameter["name"] != "underlay-interface" or not match:
                    continue
                index = int(match.group(1)) - 3
                if own and index >= len(names):
                    sentence = (
                        f"{match.group()} would be NIC number {index + 1} of VDU {vdu['id']!r}, "
                        f"which has {len(names)}; allowed: a NIC that it has"
                    )
                    yield ctx.silent("nic-order", f"{where}/value", sentence)
                if (
                    not as_linux
                    and len(names) > 1
                    and 0 <= index < len(names)
                    and names[index] in own
                ):
                    sentence = (
                        f"{match.group()} is the VDU's NIC number {index + 1}, {names[index]!r}, "
                        "and the tunnel would run over the management network; allowed: another NIC"
                    )
                    yield ctx.silent("nic-order", f"{where}/value", sentence)


@rule("vnfd")
def flavours(ctx: Context) -> Iterator[Problem]:
    """OSM deploys df[0]."""
    if len(ctx.body["df"]) > 1:
        sentence = "only df[0] is used, the others never are; allowed: one"
        yield ctx.silent("df-count", "/df", sentence)
    flavour = ctx.flavour()
    if ctx.body.get("vdu") and not flavour.get("instantiation-level"):
        sentence = "instantiation-level is missing, on which LCM fails (IndexError); allowed: one"
        yield ctx.silent("vdu-no-level", "/df[0]", sentence)


@rule("vnfd")
def charts(ctx: Context) -> Iterator[Problem]:
    """Names of Helm charts; NBI checks only those of KDUs."""
    for place, kdu in numbered("/kdu", ctx.body.get("kdu")):
        name = kdu.get("helm-chart")
        if isinstance(name, str) and name and not (CHART.fullmatch(name) or "://" in name):
            yield ctx.refused(
                "helm-chart",
                f"{place}/helm-chart",
                f"{shown(name)} is no name of a chart; allowed: a-z, 0-9 and '-', as [REPO/]NAME, "
                "or a URL",
            )
    for where, entry in ctx.day12():
        listed = numbered(
            f"{where}/execution-environment-list", entry.get("execution-environment-list")
        )
        for place, environment in listed:
            name = environment.get("helm-chart")
            if name and not FOLDER.fullmatch(name):
                sentence = (
                    f"{shown(name)} is no folder below helm-charts; allowed: a-z, 0-9 and '-'"
                )
                yield ctx.silent("helm-folder", f"{place}/helm-chart", sentence)
            elif name and name not in (present := ctx.package.names("helm-charts")):
                folder = ctx.package.folder("helm-charts") + name
                sentence = f"the package has no folder {folder}; allowed: {choices(present)}"
                yield ctx.silent("helm-missing", f"{place}/helm-chart", sentence)
            elif (
                name
                and ctx.package.data(
                    file := f"{ctx.package.folder('helm-charts')}{name}/Chart.yaml"
                )
                is None
            ):
                sentence = f"the package has no {file}, so Helm takes the folder for no chart"
                yield ctx.silent("helm-missing", f"{place}/helm-chart", sentence)


@rule("vnfd")
def operations(ctx: Context) -> Iterator[Problem]:
    """`operate-vnf-op-config` and day1-2 ids."""
    for at, flavour in ctx.flavours():
        operations_config = flavour.get("lcm-operations-configuration")
        config = (operations_config or {}).get("operate-vnf-op-config")
        if config is not None and config.get("day1-2") is None:
            sentence = "day1-2 is missing, which NBI fails on (KeyError); allowed: a list"
            place = f"{at}/lcm-operations-configuration/operate-vnf-op-config"
            yield ctx.refused("day1-2", place, sentence)
    seen = set()
    for where, entry in ctx.day12():
        if entry["id"] in seen:
            sentence = f"a second entry for {entry['id']!r}; allowed: one"
            yield ctx.refused("day1-2-twice", f"{where}/id", sentence, LOADER)
        seen.add(entry["id"])


@rule("vnfd")
def monitoring(ctx: Context) -> Iterator[Problem]:
    """Monitoring parameters have ids of their own across the VNFD."""
    seen: set[str] = set()
    sections = [
        (f"int-virtual-link-desc[id='{link['id']}']:monitoring-parameters", at, link)
        for at, link in numbered("/int-virtual-link-desc", ctx.body.get("int-virtual-link-desc"))
    ]
    sections += [(f"vdu[id='{v['id']}']:monitoring-parameter", at, v) for at, v in ctx.vdus()]
    sections += [(f"df[id='{f['id']}']:monitoring-parameter", at, f) for at, f in ctx.flavours()]
    for whose, at, section in sections:
        key = whose.rsplit(":", 1)[1]
        own: set[str] = set()  # unique_ids reports ids that repeat in one list
        for place, item in numbered(f"{at}/{key}", section.get(key)):
            value = str(item.get("id") or "")
            if value and value in seen - own:
                yield ctx.refused(
                    "monitoring-id",
                    f"{place}/id",
                    f"{value!r} is used twice; allowed: an id of its own across the VNFD",
                    f"Duplicated monitoring-parameter id in {whose}[id='{value}']",
                )
            own.add(value)
            seen.add(value)


@rule("vnfd")
def scaling(ctx: Context) -> Iterator[Problem]:
    """Scaling aspects name VDUs with Day-0, and primitives."""
    for at, flavour in ctx.flavours():
        for place, aspect in numbered(f"{at}/scaling-aspect", flavour.get("scaling-aspect")):
            whose = f"df[id='{flavour['id']}']:scaling-aspect[id='{aspect['id']}']"
            if aspect.get("name") != aspect["id"]:
                sentence = (
                    "NBI looks up the id and LCM the name, so they must be equal; "
                    f"allowed: name {aspect['id']!r}"
                )
                yield ctx.silent("scaling-name", place, sentence)
            if aspect.get("aspect-delta-details") is None:
                sentence = "aspect-delta-details is missing, which NBI fails on (AttributeError)"
                yield ctx.refused("scaling-details", place, sentence)
            yield from _deltas(ctx, place, aspect)
            yield from _scaling_actions(ctx, place, aspect, whose, (at, flavour))


def _deltas(ctx: Context, place: str, aspect: Document) -> Iterator[Problem]:
    levels = named(ctx.body, LEVELS)
    day0 = {
        vdu["id"] for _, vdu in ctx.vdus() if vdu.get("cloud-init-file") or vdu.get("cloud-init")
    }
    configured = {entry["id"] for _, entry in ctx.day12()}
    deltas = (aspect.get("aspect-delta-details") or {}).get("deltas")
    for at, delta in numbered(f"{place}/aspect-delta-details/deltas", deltas):
        for inner, entry in numbered(f"{at}/vdu-delta", delta.get("vdu-delta")):
            if configured and entry["id"] in levels - day0:
                sentence = (
                    f"vdu {entry['id']!r} has no cloud-init, so LCM deploys no charm for each "
                    "instance that it adds; allowed: a VDU with cloud-init-file"
                )
                yield ctx.silent("scaling-day0", f"{inner}/id", sentence)


def _scaling_actions(
    ctx: Context, place: str, aspect: Document, whose: str, owner: tuple[str, Any]
) -> Iterator[Problem]:
    entries = [entry for _, entry in day12_of(*owner)]
    actions = numbered(f"{place}/scaling-config-action", aspect.get("scaling-config-action"))
    for at, action in actions:
        name = action["vnf-config-primitive-name-ref"]
        if not any(entry["id"] == ctx.body["id"] for entry in entries):
            yield ctx.refused(
                "scaling-action",
                at,
                f"it needs a day1-2 entry; allowed: one with the VNFD's id {ctx.body['id']!r}",
                "'day1-2 configuration' not defined in the descriptor but it is referenced by "
                f"{whose}:scaling-config-action",
            )
            continue
        for entry in entries:
            listed = {primitive["name"] for primitive in entry.get("config-primitive") or ()}
            if name not in listed:
                yield ctx.refused(
                    "scaling-action",
                    f"{at}/vnf-config-primitive-name-ref",
                    f"{name!r} is no config-primitive of the day1-2 entry {entry['id']!r}; "
                    f"allowed: {choices(listed)}",
                    f"{whose}:scaling-config-action:vnf-config-primitive-name-ref='{name}' "
                    "does not match any day1-2 configuration:config-primitive:name",
                )
