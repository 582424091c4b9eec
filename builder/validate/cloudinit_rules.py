"""Rules for Day-0: RO renders every cloud-init file with Jinja2."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables

from builder.documents import FASTEST, DocumentError, repeated
from builder.userdata import (
    BOOTHOOK,
    CONFIG,
    FORMATS,
    MARK,
    SCRIPT,
    TEMPLATE,
    begins,
    environment,
    is_message,
    parts,
)
from builder.validate.context import Context, rule
from builder.validate.login_rules import logins, shut_out
from builder.validate.problem import Problem
from builder.validate.reader import Package, is_utf8
from builder.validate.schema import shown

Users = tuple[set[str], set[str]]
"""Users whom OSM gives its key on a VDU, and all as whom somebody logs in."""

MIME = ("content-type:", "mime-version:")
BYTE_ORDER_MARK = "\ufeff"
UNREAD = {
    FORMATS[each] for each in ("#cloud-config-jsonp", "#include", "#include-once", "#part-handler")
}
"""Types that no rule reads."""
IN_TEMPLATE = ("#cloud-config", "#!")
CLOUD_INIT_KEYS = {"v1", "ds"}
LARGEST = 1 << 20
OSM_KEYS = {
    "ns_id", "vnf_id", "vnfd_id", "vnfd_ref", "vim_account_id", "member_vnf_index", "vdu_id",
    "count_index", "ip_address", "vdu",
}  # fmt: skip


@functools.lru_cache(maxsize=256)  # Files of parameters ask for each service that they fit.
def variables(text: str) -> frozenset[str]:
    """Return the variables that a cloud-init file needs besides OSM's own; none without a template.

    A variable is not needed if the file uses it only after `is defined` or with a default.
    """
    try:
        tree = environment().parse(text)
        needed = find_undeclared_variables(tree) & _needed(tree, frozenset()) - {"OSM"}
    except (TemplateSyntaxError, RecursionError):
        return frozenset()
    return frozenset(needed)


def _needed(node: nodes.Node, guarded: frozenset[str]) -> set[str]:
    """Return the variables below a node that must be defined."""
    if isinstance(node, nodes.Name):
        return {node.name} - guarded
    skipped: list[nodes.Node] = []
    if isinstance(node, (nodes.Filter, nodes.Test)):
        harmless = node.name in ("default", "d", "defined", "undefined")
        skipped = [node.node] if harmless and node.node is not None else []
    elif isinstance(node, (nodes.If, nodes.CondExpr)):
        asked = [test.node for test in node.test.find_all(nodes.Test) if test.name == "defined"]
        if isinstance(node.test, nodes.Test) and node.test.name == "defined":
            asked.append(node.test.node)
        guarded |= {name.name for name in asked if isinstance(name, nodes.Name)}
    result: set[str] = set()
    for child in node.iter_child_nodes():
        if not any(child is left_out for left_out in skipped):
            result |= _needed(child, guarded)
    return result


def files_of(package: Package, body: dict[str, object]) -> dict[str, str]:
    """Return the text of each VDU's cloud-init file, by VDU id."""
    result = {}
    vdus = body.get("vdu")
    for vdu in vdus if isinstance(vdus, list) else ():
        if vdu.get("cloud-init-file"):
            text = package.text(package.folder("cloud_init") + vdu["cloud-init-file"])
            if text is not None:
                result[str(vdu["id"])] = text
        elif vdu.get("cloud-init"):
            result[str(vdu["id"])] = vdu["cloud-init"]
    return result


@rule("vnfd")
def cloud_init(ctx: Context) -> Iterator[Problem]:
    """Check that the file exists, and that OSM's rendering does not change its meaning."""
    done = set()
    of_file: dict[str, tuple[set[str], set[str]]] = {}
    for _, vdu in ctx.vdus():
        known = of_file.setdefault(str(vdu.get("cloud-init-file")), (set(), set()))
        for users, more in zip(known, logins(ctx, vdu["id"]), strict=True):
            users |= more
    for place, vdu in ctx.vdus():
        inline = vdu.get("cloud-init")
        if inline:
            where = f"{ctx.package.descriptor_path}: {ctx.root}{place}/cloud-init"
            yield from _text(ctx, where, inline, logins(ctx, vdu["id"]))
        name = vdu.get("cloud-init-file")
        if name and name not in done:
            done.add(name)
            yield from _file(ctx, place, vdu["id"], name, of_file[name])


def _file(ctx: Context, place: str, vdu: str, name: str, users: Users) -> Iterator[Problem]:
    path = ctx.package.folder("cloud_init") + name
    other = ctx.package.other_folder("cloud_init") + name
    text = ctx.package.text(path)
    spot = f"{place}/cloud-init-file"
    if text is not None and len(text) > LARGEST:
        yield ctx.in_file("cloud-init-size", path, most=LARGEST >> 20)
    elif text is not None:
        if not is_utf8(ctx.package, path):
            yield ctx.in_file("cloud-init-text/utf-8", path)
        elif text.startswith("#!") and "\r" in text.partition("\n")[0]:
            yield ctx.in_file("cloud-init-text/carriage", path)
        elif text.startswith(BYTE_ORDER_MARK):
            yield ctx.in_file("cloud-init-text/mark", path)
        yield from _text(ctx, path, text.lstrip(BYTE_ORDER_MARK), users)
    elif ctx.package.text(other) is not None:
        yield ctx.tell("cloud-init-place", spot, other=other, path=path)
    else:
        have = {
            p[len(path) - len(name) :]
            for p in ctx.package.files
            if p.startswith(path[: -len(name)])
        }
        yield ctx.tell("cloud-init-missing", spot, path=path, may=have, body=ctx.body, vdu=vdu)


def _kind(text: str) -> str:
    """Return the type of a text, "" if cloud-init or the kernel does not take it.

    cloud-init takes blank lines before the first one, and any case, but the kernel reads the first
    line of a script.
    """
    kind = begins(text)
    run = kind in (SCRIPT, BOOTHOOK)
    return "" if run and not text.startswith(("#!", "#cloud-boothook")) else kind


def _is_template(text: str) -> bool:
    """Tell whether cloud-init renders a text as well, on the VDU and after RO."""
    return text.lower().startswith(MARK)


def _text(ctx: Context, path: str, text: str, users: Users) -> Iterator[Problem]:
    if _is_template(text):
        if _kind(text.partition("\n")[2]) not in [FORMATS[each] for each in IN_TEMPLATE]:
            formats = ", ".join(IN_TEMPLATE)
            yield ctx.in_file("cloud-init-header/template", path, line=MARK, formats=formats)
    elif not is_message(text) and text.lower().startswith(MIME):
        yield ctx.in_file("cloud-init-header/mime", path)
    elif not is_message(text) and _kind(text) in ("", TEMPLATE):
        yield ctx.in_file("cloud-init-header/format", path, formats=", ".join(FORMATS))
    try:
        tree = environment().parse(text)
        found = [*_expressions(ctx, path, text, tree), *_config(ctx, path, text, tree, users)]
    except RecursionError:
        yield ctx.in_file("cloud-init-jinja/depth", path)
        return
    except TemplateSyntaxError as error:
        yield ctx.in_file("cloud-init-jinja/syntax", f"{path}:{error.lineno}", error=error)
        return
    # In a raw block the lexer finds no comments.
    lost = next((line for line, kind, _ in environment().lex(text) if kind == "comment_begin"), 0)
    if lost:
        yield ctx.in_file("cloud-init-comment", f"{path}:{lost}")
    yield from found


def _expressions(ctx: Context, path: str, text: str, tree: nodes.Template) -> Iterator[Problem]:
    yield from _unknown(ctx, path, tree)
    early = CLOUD_INIT_KEYS & find_undeclared_variables(tree) if _is_template(text) else set()
    for name in sorted(early):
        yield ctx.in_file("cloud-init-jinja/early", path, name=name)
    uses = [(node.attr, node.node, node.lineno) for node in tree.find_all(nodes.Getattr)]
    for item in tree.find_all(nodes.Getitem):
        if isinstance(item.arg, nodes.Const):
            uses.append((item.arg.value, item.node, item.lineno))
    for name, node, line in uses:
        if isinstance(node, nodes.Name) and node.name == "OSM" and name not in OSM_KEYS:
            yield ctx.in_file("cloud-init-osm", f"{path}:{line}", name=name, may=OSM_KEYS)
    for output in tree.find_all(nodes.Output):
        for node in output.nodes:
            names = {n.name for n in node.find_all(nodes.Name)} - {"OSM"}
            if isinstance(node, nodes.Name):
                names = {node.name}
            safe = isinstance(node, nodes.Filter) and node.name == "safe"
            if names and not isinstance(node, nodes.TemplateData) and not safe:
                yield ctx.in_file("cloud-init-escape", f"{path}:{node.lineno}", may=names)


def _unknown(ctx: Context, path: str, tree: nodes.Template) -> Iterator[Problem]:
    """Report what Jinja2 reads, and on which RO's rendering fails."""
    known = environment()
    for kind, names in ((nodes.Filter, known.filters), (nodes.Test, known.tests)):
        for node in tree.find_all(kind):
            if node.name not in names:
                what = kind.__name__.lower()
                yield ctx.in_file(
                    "cloud-init-jinja/unknown", f"{path}:{node.lineno}", what=what, node=node
                )
    files = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    for other in tree.find_all(files):
        yield ctx.in_file("cloud-init-jinja/file", f"{path}:{other.lineno}")


def _config(
    ctx: Context, path: str, text: str, tree: nodes.Template, users: Users
) -> Iterator[Problem]:
    """Check the possible results of a template: with all conditions true, and with all false."""
    twice = _is_template(text)
    config = text.partition("\n")[2] if twice else text
    if not is_message(config) and _kind(config) in {"", *UNREAD}:
        return
    repeats = []
    for met in (True, False):
        rendered = _outcome(tree.body, met)
        if twice:
            try:
                rendered = _outcome(environment().parse(rendered).body, met)
                rendered = rendered.partition("\n")[2]
            except TemplateSyntaxError as error:
                yield ctx.in_file("cloud-init-jinja/twice", path, error=error)
                return
        found = list(_day0(ctx, path, rendered, users))
        yield from found
        if found:
            return
        configs = [part.text for part in parts(rendered) if part.kind == CONFIG]
        nodes_of = [FASTEST(text).get_single_node() for text in configs]
        repeats.append({name for node in nodes_of for _, name, _ in repeated(node)})
    for name in sorted(set.intersection(*repeats)):  # two branches may have one key each
        yield ctx.in_file("key-twice/cloud-init", path, name=name)


def _outcome(body: list[nodes.Node], met: bool) -> str:
    """Return the text of a template, with the word "value" for each expression."""
    text = ""
    for part in body:
        if isinstance(part, nodes.Output):
            for node in part.nodes:
                text += node.data if isinstance(node, nodes.TemplateData) else "value"
        elif isinstance(part, (nodes.If, nodes.For)):
            text += _outcome(part.body if met else part.else_, met)
        elif isinstance(part, (nodes.With, nodes.FilterBlock, nodes.Scope)):
            text += _outcome(part.body, met)
    return text


def _day0(ctx: Context, path: str, rendered: str, users: Users) -> Iterator[Problem]:
    """Check what cloud-init makes of all parts: a later one replaces keys, or adds to lists."""
    whole: dict[str, Any] = {}
    scripts = []
    merges = re.search("merge[_-](how|type)", rendered, re.IGNORECASE) is not None
    try:
        for part in parts(rendered):
            if part.where and (reason := part.ignored()):
                yield ctx.in_file("cloud-init-header/part", f"{path}{part.where}", reason=reason)
            if part.kind in (SCRIPT, BOOTHOOK):
                lines = part.text.splitlines()
                scripts.append("\n".join(x for x in lines if not x.lstrip().startswith("#")))
            document = part.config() if part.kind == CONFIG else {}
            if _clear_password(document):
                yield ctx.in_file("cloud-init-password", path)
            for key, value in document.items():
                both = merges and isinstance(value, list) and isinstance(whole.get(key), list)
                whole[key] = [*whole[key], *value] if both else value
    except DocumentError as error:
        yield ctx.in_file("cloud-init-yaml", path, error=error)
        return
    for key in ("bootcmd", "runcmd"):
        listed = whole.get(key) or []
        wrong = [listed]
        if isinstance(listed, list):
            wrong = [each for each in listed if not isinstance(each, str | list | None)]
        if wrong:
            words = {"key": key, "command": shown(wrong[0])}
            yield ctx.in_file("cloud-init-yaml/commands", path, **words)
    if scripts:
        listed = whole.get("runcmd")
        whole["runcmd"] = [*(listed if isinstance(listed, list) else []), *scripts]
    for case, words in shut_out(whole, *users):
        yield ctx.in_file(f"cloud-init-login/{case}", path, **words)


def _clear_password(document: dict[str, object]) -> bool:
    change = document.get("chpasswd")
    change = change if isinstance(change, dict) else {}
    lists = [document.get("users"), change.get("users")]
    users = [
        u for listed in lists if isinstance(listed, list) for u in listed if isinstance(u, dict)
    ]
    old = change.get("list") or ""
    lines = old.splitlines() if isinstance(old, str) else old if isinstance(old, list) else []
    return (
        not _hashed(document.get("password"))
        or any(not _hashed(str(line).partition(":")[2]) for line in lines)
        or any("plain_text_passwd" in user for user in users)
        or any(not _hashed(user.get("password")) for user in users)
    )


def _hashed(value: object) -> bool:
    """Tell whether a value is not a clear password; cloud-init makes one for R and RANDOM."""
    return value is None or str(value).startswith("$") or value in ("R", "RANDOM")
