"""Rules for charm folders, execution environments and key injection."""

import re
from collections.abc import Iterator

from builder.documents import DAY12, EVERY_DAY12
from builder.validate.charm_files import Charm
from builder.validate.context import Context, Document, ids, rule
from builder.validate.problem import Problem
from builder.validate.reader import Entry

ENVIRONMENTS = f"{DAY12}[]/execution-environment-list[]"
STARTED = ("hooks/", "actions/")
MARK = b"\xef\xbb\xbf"  # Byte order mark of UTF-8.
LOST = Entry(b"", 0)
HANDLER = re.compile("(hooks|actions)/[a-z0-9-]+")
"""Names of hooks and actions; other files there are modules or texts."""
INTERPRETER = re.compile(rb"#![ \t]*/[!-~]+([ \t][ -~\t]*)?")
ENV_WORDS = re.compile(rb"#![ \t]*/\S*/env[ \t]+[^-\s]\S*[ \t]+\S")
PUBLIC_KEY = "get-ssh-public-key"
EARLIEST, LATEST = 315532800, 4354819200  # 1980-01-01 to 2108-01-01, the dates in a ZIP file


@rule("vnfd")
def folders(ctx: Context) -> Iterator[Problem]:
    """Charm folders must be there under the right name."""
    yield from _refused_folders(ctx)
    for place, name, _ in ctx.each(f"{ENVIRONMENTS}/juju/charm?"):
        yield from named_charm(ctx, place, name)


def _refused_folders(ctx: Context) -> Iterator[Problem]:
    """NBI requires a `charms` folder, of either layout, but does not look for charms inside."""
    places = (ctx.package.folder("charms"), ctx.package.other_folder("charms"))
    if any(path.startswith(places) for path in ctx.package.files):
        return
    every = f"{EVERY_DAY12}[]/execution-environment-list"
    for place, listed, (flavour, entry) in ctx.each(every):
        looked_at = {ctx.body["id"]} | ids(flavour.get("vdu-profile"))
        if entry["id"] in looked_at and any("juju" in item for item in listed):
            yield ctx.tell(
                "charm-missing", place, folder=ctx.package.folder("charms"), body=ctx.body
            )


def named_charm(ctx: Context, place: str, name: str) -> Iterator[Problem]:
    """Report a charm that the descriptor names and LCM does not find at its place."""
    present = ctx.package.names("charms")
    elsewhere = ctx.package.other_folder("charms")
    if name in present:
        return
    if any(path.startswith(f"{elsewhere}{name}/") for path in ctx.package.files):
        yield ctx.tell(
            "charm-place", place, elsewhere=elsewhere, folder=ctx.package.folder("charms")
        )
    elif present:
        yield ctx.tell("charm-name/other", place, name=name, may=present)


@rule("vnfd", "nsd")
def charm_folder(ctx: Context) -> Iterator[Problem]:
    """Charm folders that libjuju or Juju cannot use, or change."""
    for name in sorted(ctx.package.names("charms")):
        charm = ctx.charm(name)
        if charm is None:
            continue
        files = {
            path[len(charm.folder) :]: entry
            for path, entry in ctx.package.files.items()
            if path.startswith(charm.folder)
        }
        yield from _declarations(ctx, charm)
        yield from _start(ctx, charm, files)
        yield from _members(ctx, charm, files)


def _declarations(ctx: Context, charm: Charm) -> Iterator[Problem]:
    for file, reason in charm.broken:
        yield ctx.in_file("charm-file", f"{charm.folder}{file}", file=file, reason=reason)
    if charm.metadata is None:
        return
    where = f"{charm.folder}metadata.yaml"
    if charm.metadata.name != charm.name:
        yield ctx.in_file("charm-metadata", where, charm=charm)
    if "bionic" not in charm.metadata.series:
        yield ctx.in_file("charm-series", where)


def _start(ctx: Context, charm: Charm, files: dict[str, Entry]) -> Iterator[Problem]:
    reached = {path: ctx.package.entry(charm.folder + path) or LOST for path in files}
    starts = [path for path in files if path == "dispatch" or path.startswith("hooks/")]
    startable = any(reached[path].mode & 0o111 for path in starts)
    if not startable:
        yield ctx.in_file("charm-dispatch/none", charm.folder.rstrip("/"))
    for path, entry in sorted(files.items()):
        started = path == "dispatch" or path.startswith(STARTED) or entry.mode & 0o111
        if started and not entry.link and entry.data.startswith((b"#!", MARK)):
            if _breaks(entry.data):
                case = "mark" if entry.data.startswith(MARK) else "carriage"
                yield ctx.in_file(f"charm-line-ends/{case}", f"{charm.folder}{path}")
                continue
        # Beside `dispatch` Juju starts nothing else; what is executable was meant to start.
        used = "dispatch" not in files or reached[path].mode & 0o111
        handler = path == "dispatch" or (HANDLER.fullmatch(path) and used)
        if handler and startable and (what := _unstartable(reached[path])):
            yield ctx.in_file(f"charm-dispatch/{what}", f"{charm.folder}{path}")


def _unstartable(entry: Entry) -> str:
    """Return the case of charm-dispatch why Linux cannot start a file, "" if it can."""
    first = entry.data.partition(b"\n")[0]
    if entry is LOST:
        return "lost"
    if not entry.mode & 0o111:
        return "mode"
    if not entry.data:
        return "empty"
    if not entry.data.startswith(b"\x7fELF") and not INTERPRETER.fullmatch(first):
        return "interpreter"
    return "env" if ENV_WORDS.match(first) else ""


def _breaks(data: bytes) -> bool:
    """Tell whether Linux or a shell stumbles over the line ends or first bytes of a script."""
    first, _, rest = data.partition(b"\n")
    return data.startswith(MARK) or first.endswith(b"\r") or (b"sh" in first and b"\r\n" in rest)


def _members(ctx: Context, charm: Charm, files: dict[str, Entry]) -> Iterator[Problem]:
    where = charm.folder
    skipped = sorted(
        {f"{path.split('/')[0]}" for path in files if path.startswith(("build/", "."))}
    )
    for name in skipped:
        yield ctx.in_file("charm-skipped", f"{where}{name}")
    for path, entry in sorted(files.items()):
        if not entry.link:
            continue
        if _leaves(files, path):
            yield ctx.in_file("charm-link", f"{where}{path}")
        elif ctx.package.layout == "zip":
            yield ctx.in_file("zip-link", f"{where}{path}")
    old = [path for path, entry in sorted(files.items()) if not EARLIEST <= entry.mtime < LATEST]
    if old:
        yield ctx.in_file("charm-date", f"{where}{old[0]}", count=len(old))


def _leaves(files: dict[str, Entry], path: str) -> bool:
    """Tell whether a link leads out of the top of some files, also by way of other links."""
    left = path.split("/")[::-1]
    at: list[str] = []
    links = 40  # as many as Linux follows
    while left and links:
        part = left.pop()
        if part == "..":
            if not at:
                return True
            at.pop()
        elif part not in ("", "."):
            at.append(part)
            entry = files.get("/".join(at))
            if entry is not None and entry.link:
                if entry.link.startswith("/"):
                    return True
                at.pop()
                left += entry.link.split("/")[::-1]
                links -= 1
    return False


@rule("vnfd", "nsd", "nst")
def links_out(ctx: Context) -> Iterator[Problem]:
    """Symbolic links outside of charms that point out of the package."""
    charms = ctx.package.folder("charms")
    for path, entry in sorted(ctx.package.files.items()):
        in_charm = path.startswith(charms) and "/" in path[len(charms) :]
        if entry.link and not in_charm:
            if _leaves(ctx.package.files, path):
                yield ctx.in_file("archive-link", path, entry=entry)


@rule("vnfd")
def environments(ctx: Context) -> Iterator[Problem]:
    """Execution environments and key injection."""
    for place, environment, _ in ctx.each(ENVIRONMENTS):
        charm = (environment.get("juju") or {}).get("charm")
        if not charm and not environment.get("helm-chart"):
            yield ctx.tell("ee-kind", place)
    for place, access, (_, entry) in ctx.each(f"{DAY12}[]/config-access/ssh-access"):
        if access.get("required") and not access.get("default-user"):
            yield ctx.tell("ssh-user", place)
        elif access.get("required"):
            yield from _public_key(ctx, place, entry)


def _public_key(ctx: Context, place: str, entry: Document) -> Iterator[Problem]:
    """LCM asks every proxy charm of the entry for its key."""
    for environment in entry.get("execution-environment-list") or ():
        juju = environment.get("juju") or {}
        charm = ctx.charm(juju["charm"]) if juju.get("charm") else None
        listed = charm.actions if charm is not None else None
        if listed is not None and juju.get("proxy") is not False and PUBLIC_KEY not in listed:
            yield ctx.tell("action-missing/key", place, juju=juju, action=PUBLIC_KEY)


@rule("vnfd")
def references(ctx: Context) -> Iterator[Problem]:
    """A primitive names the execution environment in which it runs."""
    kinds = ("initial-config-primitive", "terminate-config-primitive", "config-primitive")
    listed = [found for kind in kinds for found in ctx.each(f"{DAY12}[]/{kind}[]")]
    for place, primitive, (_, entry, _) in listed:
        known = ids(entry.get("execution-environment-list"))
        reference = primitive.get("execution-environment-ref")
        if reference is None and known:
            yield ctx.tell("ee-reference/missing", place, may=known)
        elif reference is not None and reference not in known:
            spot = f"{place}/execution-environment-ref"
            yield ctx.tell("ee-reference/unknown", spot, reference=reference, may=known)
