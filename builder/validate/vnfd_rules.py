"""Rules for VNFDs: NBI's checks beyond the schema, and causes of later failures in LCM and RO."""

import re
from collections.abc import Iterator

from builder.documents import DAY12, NICS, nics_at, walk
from builder.validate.context import Context, Document, choices, day12_of, ids, numbered, rule
from builder.validate.problem import Problem
from builder.validate.schema import LOADER, shown
from builder.validate.tables import LEVELS, named

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
def connection_points(ctx: Context) -> Iterator[Problem]:
    """An external connection point leads to one of a VDU."""
    vdus = {vdu["id"]: ids(vdu.get("int-cpd")) for _, vdu in ctx.vdus()}
    for place, target, (point,) in ctx.each("ext-cpd[]/int-cpd?"):
        if target["vdu-id"] not in vdus:
            known = f"vdu {target['vdu-id']!r} does not exist; allowed: {choices(vdus)}"
        elif target["cpd"] not in vdus[target["vdu-id"]]:
            known = (
                f"vdu {target['vdu-id']!r} has no int-cpd {target['cpd']!r}; "
                f"allowed: {choices(vdus[target['vdu-id']])}"
            )
        else:
            continue
        yield ctx.refused(
            "ext-cpd",
            place,
            known,
            f"ext-cpd[id='{point['id']}']:int-cpd must match an existing vdu int-cpd",
        )


@rule("vnfd")
def names_and_sizes(ctx: Context) -> Iterator[Problem]:
    """OSM heals a VDU by its name, and RO makes a flavor of its memory."""
    for place, name, (vdu,) in ctx.each("vdu[-pdu-type]/name"):
        if name != vdu["id"]:
            sentence = (
                f"{name!r} differs from the id, so OSM cannot heal the VDU; allowed: {vdu['id']!r}"
            )
            yield ctx.silent("vdu-name", place, sentence)
    for place, size, _ in ctx.each("virtual-compute-desc[]/virtual-memory/size"):
        if not float(size) > 0:
            yield ctx.silent("compute-size", place, f"size is {size}; allowed: GiB, above 0")


@rule("vnfd")
def interfaces(ctx: Context) -> Iterator[Problem]:
    """`position` on only some NICs, or the same on two, gives an unexpected order."""
    for place, vdu in ctx.vdus():
        nics = [nic for _, nic, _ in walk(vdu, NICS)]
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
    managed = nics_at(ctx.body, [ctx.body.get("mgmt-cp")])
    own = [name for of, name in managed if of == vdu["id"]]
    values = f"{DAY12}[]/initial-config-primitive[]/parameter[]/value"
    for where, value, (*_, parameter) in ctx.each(values):
        match = ENS.fullmatch(str(value))
        if parameter["name"] != "underlay-interface" or not match:
            continue
        index = int(match.group(1)) - 3
        if own and index >= len(names):
            sentence = (
                f"{value} would be NIC number {index + 1} of VDU {vdu['id']!r}, "
                f"which has {len(names)}; allowed: a NIC that it has"
            )
            yield ctx.silent("nic-order", where, sentence)
        if not as_linux and len(names) > 1 and 0 <= index < len(names) and names[index] in own:
            sentence = (
                f"{value} is the VDU's NIC number {index + 1}, {names[index]!r}, "
                "and the tunnel would run over the management network; allowed: another NIC"
            )
            yield ctx.silent("nic-order", where, sentence)


@rule("vnfd")
def flavours(ctx: Context) -> Iterator[Problem]:
    """OSM deploys df[0]."""
    if len(ctx.body["df"]) > 1:
        sentence = "only df[0] is used, the others never are; allowed: one"
        yield ctx.silent("df-count", "/df", sentence)


@rule("vnfd")
def charts(ctx: Context) -> Iterator[Problem]:
    """Names of Helm charts; NBI checks only those of KDUs."""
    for place, name, _ in ctx.each("kdu[]/helm-chart?"):
        if isinstance(name, str) and not (CHART.fullmatch(name) or "://" in name):
            yield ctx.refused(
                "helm-chart",
                place,
                f"{shown(name)} is no name of a chart; allowed: a-z, 0-9 and '-', as [REPO/]NAME, "
                "or a URL",
            )
    present = ctx.package.names("helm-charts")
    for place, name, _ in ctx.each(f"{DAY12}[]/execution-environment-list[]/helm-chart?"):
        folder = ctx.package.folder("helm-charts") + name
        if not FOLDER.fullmatch(name):
            sentence = f"{shown(name)} is no folder below helm-charts; allowed: a-z, 0-9 and '-'"
            yield ctx.silent("helm-folder", place, sentence)
        elif name not in present:
            sentence = f"the package has no folder {folder}; allowed: {choices(present)}"
            yield ctx.silent("helm-missing", place, sentence)
        elif ctx.package.data(f"{folder}/Chart.yaml") is None:
            sentence = (
                f"the package has no {folder}/Chart.yaml, so Helm takes the folder for no chart"
            )
            yield ctx.silent("helm-missing", place, sentence)


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
    for place, aspect, _ in ctx.each("df[]/scaling-aspect[]"):
        if aspect.get("name") != aspect["id"]:
            sentence = (
                "NBI looks up the id and LCM the name, so they must be equal; "
                f"allowed: name {aspect['id']!r}"
            )
            yield ctx.silent("scaling-name", place, sentence)
    yield from _scaling_actions(ctx)
    levels = named(ctx.body, LEVELS)
    day0 = {
        vdu["id"] for _, vdu in ctx.vdus() if vdu.get("cloud-init-file") or vdu.get("cloud-init")
    }
    configured = {entry["id"] for _, entry in ctx.day12()}
    deltas = "df[]/scaling-aspect[]/aspect-delta-details/deltas[]/vdu-delta[]/id"
    for place, vdu, _ in ctx.each(deltas):
        if configured and vdu in levels - day0:
            sentence = (
                f"vdu {vdu!r} has no cloud-init, so LCM deploys no charm for each instance that it "
                "adds; allowed: a VDU with cloud-init-file"
            )
            yield ctx.silent("scaling-day0", place, sentence)


def _scaling_actions(ctx: Context) -> Iterator[Problem]:
    for at, action, way in ctx.each("df[]/scaling-aspect[]/scaling-config-action[]"):
        flavour, aspect, _ = way
        whose = f"df[id='{flavour['id']}']:scaling-aspect[id='{aspect['id']}']"
        entries = [entry for _, entry in day12_of("", flavour)]
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
