"""Rules for VNFDs: NBI's checks beyond the schema, and causes of later failures in LCM and RO."""

import re
from collections.abc import Iterator

from builder.documents import DAY12, NICS, initial_values, nics_at, walk
from builder.validate.context import Context, Document, day12_of, ids, numbered, rule
from builder.validate.problem import Problem
from builder.validate.schema import LOADER, shown
from builder.validate.tables import LEVELS, named

KERNEL = re.compile(r"(?:ens|eno|eth|enp[0-9]+s)[0-9]+")
"""Names that Linux gives to NICs in the order of their slots."""
ENS = re.compile(r"ens([0-9]+)")
"""The same on a machine of OpenStack, where the first NIC is in slot 3."""
DISK = re.compile("(.*:)?(root|persistent)-storage|etsi-nfv-descriptors:(ephemeral|swap)-storage")

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
                case = "loader" if name in KEYS else "name"
                words = {"key": key, "value": str(value), "place": osm_at, "osm": LOADER}
                yield ctx.tell(f"duplicate-id/{case}", f"{at}/{key}", **words)
            seen.add(value)


@rule("vnfd")
def connection_points(ctx: Context) -> Iterator[Problem]:
    """An external connection point leads to one of a VDU."""
    vdus = {vdu["id"]: ids(vdu.get("int-cpd")) for _, vdu in ctx.vdus()}
    for place, target, (point,) in ctx.each("ext-cpd[]/int-cpd?"):
        own = vdus.get(target["vdu-id"])
        if own is None:
            yield ctx.tell("ext-cpd/vdu", place, target=target, point=point, may=vdus)
        elif target["cpd"] not in own:
            yield ctx.tell("ext-cpd/cpd", place, target=target, point=point, may=own)


@rule("vnfd")
def names_and_sizes(ctx: Context) -> Iterator[Problem]:
    """OSM heals a VDU by its name, and RO makes a flavor of its memory and disks."""
    for place, name, (vdu,) in ctx.each("vdu[-pdu-type]/name"):
        if name != vdu["id"]:
            yield ctx.tell("vdu-name", place, name=name, vdu=vdu)
    for place, size, _ in ctx.each("virtual-compute-desc[]/virtual-memory/size"):
        if not float(size) > 0:
            yield ctx.tell("compute-size", place, size=size)
    for place, kind, _ in ctx.each("virtual-storage-desc[]/type-of-storage"):
        if not DISK.fullmatch(kind):
            yield ctx.tell("storage-type", place, kind=kind)


@rule("vnfd")
def interfaces(ctx: Context) -> Iterator[Problem]:
    """`position` on only some NICs, or the same on two, gives an unexpected order."""
    for place, vdu in ctx.vdus():
        nics = [nic for _, nic, _ in walk(vdu, NICS)]
        positions = [nic["position"] for nic in nics if nic.get("position") is not None]
        if positions and len(positions) != len(nics):
            yield ctx.tell(
                "nic-position/some", f"{place}/int-cpd", given=len(positions), all=len(nics)
            )
        if len(set(positions)) != len(positions):
            yield ctx.tell("nic-position/same", f"{place}/int-cpd")
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
            yield ctx.tell(
                "nic-order/names", f"{place}/int-cpd", names=", ".join(names), wrong=wrong
            )
    managed = nics_at(ctx.body, [ctx.body.get("mgmt-cp")])
    own = [name for of, name in managed if of == vdu["id"]]
    for where, value, (*_, parameter) in initial_values(ctx.body):
        match = ENS.fullmatch(str(value))
        if parameter["name"] != "underlay-interface" or not match:
            continue
        index = int(match.group(1)) - 3
        if own and index >= len(names):
            yield ctx.tell(
                "nic-order/number", where, value=value, number=index + 1, vdu=vdu, count=len(names)
            )
        if not as_linux and len(names) > 1 and 0 <= index < len(names) and names[index] in own:
            yield ctx.tell(
                "nic-order/management", where, value=value, number=index + 1, nic=names[index]
            )


@rule("vnfd", "nsd")
def flavours(ctx: Context) -> Iterator[Problem]:
    """OSM deploys df[0]."""
    if len(ctx.body["df"]) > 1:
        yield ctx.tell("df-count", "/df")


@rule("vnfd")
def charts(ctx: Context) -> Iterator[Problem]:
    """Names of Helm charts; NBI checks only those of KDUs."""
    for place, name, _ in ctx.each("kdu[]/helm-chart?"):
        if not isinstance(name, str) or not (CHART.fullmatch(name) or "://" in name):
            yield ctx.tell("helm-chart", place, value=shown(name))
    present = ctx.package.names("helm-charts")
    for place, name, _ in ctx.each(f"{DAY12}[]/execution-environment-list[]/helm-chart?"):
        folder = ctx.package.folder("helm-charts") + name
        if not FOLDER.fullmatch(name):
            yield ctx.tell("helm-folder", place, value=shown(name))
        elif name not in present:
            yield ctx.tell("helm-missing/folder", place, folder=folder, may=present)
        elif ctx.package.data(f"{folder}/Chart.yaml") is None:
            yield ctx.tell("helm-missing/chart", place, folder=folder)


@rule("vnfd")
def monitoring(ctx: Context) -> Iterator[Problem]:
    """Monitoring parameters have ids of their own across the VNFD."""
    seen: set[str] = set()
    sections = [
        (f"int-virtual-link-desc[id='{link['id']}']:monitoring-parameters", at, link)
        for at, link in numbered("/int-virtual-link-desc", ctx.body.get("int-virtual-link-desc"))
    ]
    sections += [(f"vdu[id='{v['id']}']:monitoring-parameter", at, v) for at, v in ctx.vdus()]
    sections += [
        (f"df[id='{f['id']}']:monitoring-parameter", at, f)
        for at, f in numbered("/df", ctx.body["df"])
    ]
    for whose, at, section in sections:
        key = whose.rsplit(":", 1)[1]
        own: set[str] = set()  # unique_ids reports ids that repeat in one list
        for place, item in numbered(f"{at}/{key}", section.get(key)):
            value = str(item.get("id") or "")
            if value and value in seen - own:
                yield ctx.tell("monitoring-id", f"{place}/id", value=value, whose=whose)
            own.add(value)
            seen.add(value)


@rule("vnfd")
def scaling(ctx: Context) -> Iterator[Problem]:
    """Scaling aspects name VDUs with Day-0, and primitives."""
    for place, aspect, _ in ctx.each("df[]/scaling-aspect[]"):
        if aspect.get("name") != aspect["id"]:
            yield ctx.tell("scaling-name", place, aspect=aspect)
    yield from _scaling_actions(ctx)
    levels = named(ctx.body, LEVELS)
    day0 = {
        vdu["id"] for _, vdu in ctx.vdus() if vdu.get("cloud-init-file") or vdu.get("cloud-init")
    }
    configured = {entry["id"] for _, entry in ctx.day12()}
    deltas = "df[]/scaling-aspect[]/aspect-delta-details/deltas[]/vdu-delta[]/id"
    for place, vdu, _ in ctx.each(deltas):
        if configured and vdu in levels - day0:
            yield ctx.tell("scaling-day0", place, vdu=vdu)


def _scaling_actions(ctx: Context) -> Iterator[Problem]:
    for at, action, way in ctx.each("df[]/scaling-aspect[]/scaling-config-action[]"):
        flavour, aspect, _ = way
        whose = f"df[id='{flavour['id']}']:scaling-aspect[id='{aspect['id']}']"
        entries = [entry for _, entry in day12_of("", flavour)]
        name = action["vnf-config-primitive-name-ref"]
        if not any(entry["id"] == ctx.body["id"] for entry in entries):
            yield ctx.tell("scaling-action/entry", at, body=ctx.body, whose=whose)
            continue
        for entry in entries:
            listed = {primitive["name"] for primitive in entry.get("config-primitive") or ()}
            if name not in listed:
                yield ctx.tell(
                    "scaling-action/primitive",
                    f"{at}/vnf-config-primitive-name-ref",
                    name=name,
                    entry=entry,
                    may=listed,
                    whose=whose,
                )
