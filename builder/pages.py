"""Hook of MkDocs: the navigation, and tables that are data of charms and packages.

A page has a comment `<!-- action: FILE ACTION -->`, with a file of actions below `charms`. The site
has there what the action does, and type, default and meaning of each parameter. `<!-- table: NAME
-->` becomes one of `TABLES`, `<!-- data: FILE KEY -->` a table that stands in a file of YAML:
a list of rows, of which the first is the head, and `<!-- verbs: MODULE GROUP -->` the verbs of a
command.
"""

import ast
import importlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from oai import images
from vpnaas.vdu.programs import exporter

from builder import charms, documents
from builder.charms import declared_actions
from builder.packages import Package, catalogue
from builder.tree import Tree

MARK = re.compile(r"^<!-- action: (\S+) (\S+) -->$", re.MULTILINE)
LAYERS = (
    *("base", "params", "vdu", "vdu/programs", "peers"),
    *("tunnels", "tunnels/wireguard", "tunnels/ipsec"),
    *("features", "features/gateway", "features/measure", "features/pair", ""),
)
"""Packages of the charm library, from the lowest layer up; the last are its own modules."""
TABLE = re.compile(r"^<!-- table: (\S+) -->$", re.MULTILINE)
DATA = re.compile(r"^<!-- data: (\S+) (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")
VERBS = re.compile(r"^<!-- verbs: (\S+) (\S+) -->$", re.MULTILINE)
CODES = Path("builder/validate/codes.yaml")


def on_config(config: Any) -> Any:
    """Make the navigation of the page `index.md`: its headings, groups and links, in order."""
    index = Path(config["docs_dir"], "index.md").read_text(encoding="utf-8")
    config["nav"] = [{"Home": "index.md"}, *navigation(on_page_markdown(index))]
    return config


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Take our own script for the search from a disk; the theme fetches one from the network."""
    up = "../" * page.url.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{up}worker.js")


def navigation(index: str) -> list[dict[str, Any]]:
    """Return sections of a page of links; a line that ends with a colon begins a group."""
    sections: list[dict[str, Any]] = []
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, *lines = part.splitlines()
        entries: list[Any] = []
        sections.append({heading: entries})
        group = entries
        for line in lines:
            if re.fullmatch(r"[A-Z][^|]*:", line):
                group = []
                entries.append({line.removesuffix(":"): group})
            group += [{title: page} for title, page in LINK.findall(line)]
    return sections


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its tables (an event of MkDocs)."""
    markdown = MARK.sub(lambda found: action(found[1], found[2]), markdown)
    markdown = VERBS.sub(lambda found: verbs(found[1], found[2]), markdown)
    markdown = DATA.sub(lambda found: data(found[1], found[2]), markdown)
    return TABLE.sub(lambda found: TABLES[found[1]](Tree.find()), markdown)


def verbs(module: str, group: str) -> str:
    """Return the verbs of a group of the program `cli` in a module, and what each does."""
    program = importlib.import_module(module).cli
    commands = program.get_command(click.Context(program), group).commands
    return _rows(
        ("Verb", "Does"),
        (
            (f"`{group} {_usage(verb)}`", " ".join(str(verb.help).split()))
            for _, verb in sorted(commands.items())
        ),
    )


def _usage(verb: click.Command) -> str:
    words = (
        str(p.make_metavar(click.Context(verb)))
        for p in verb.params
        if p.param_type_name == "argument"
    )
    return " ".join([str(verb.name), *words])


def data(file: str, key: str) -> str:
    """Return the table that stands below a key of a file of the tree."""
    head, *rows = documents.read(Tree.find().root / file)[key]
    return _rows(head, rows)


def action(file: str, name: str) -> str:
    """Return what an action does, and the table of its parameters, a line for each."""
    declared = declared_actions(Tree.find(), file)[name]
    does = _text(declared) if "description" in declared else ""
    if not declared.get("params"):
        return does
    rows = (
        (f"`{parameter}`", _kind(parameter, schema), _default(schema), _text(schema))
        for parameter, schema in declared["params"].items()
    )
    return f"{does}\n\n{_rows(('Parameter', 'Type', 'Default', 'Meaning'), rows)}"


def _rows(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _kind(name: str, schema: dict[str, Any]) -> str:
    if name == "link" and schema.get("default", "all") == "all":
        return "`LINK`, `all`" if "default" in schema else "`LINK`"
    if "enum" in schema:
        return _words(schema["enum"])
    if "minimum" in schema:
        return f"{schema['minimum']}-{schema['maximum']}"
    return str(schema["type"])


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(schema: dict[str, Any]) -> str:
    return str(schema["description"]).strip().replace("|", "\\|")


def _charms(tree: Tree) -> str:
    def links(name: str, role: str) -> str:
        return _words(link for link, its in charms.load(tree, name).links.items() if its == role)

    return _rows(
        ("Charm", "Provides", "Requires"),
        ((f"`{n}`", links(n, "provider"), links(n, "requirer")) for n in tree.charms()),
    )


def _options(tree: Tree) -> str:
    options = documents.read(tree.common / "config.yaml")["options"]
    return _rows(
        ("Option", "Meaning"), ((f"`{name}`", _text(option)) for name, option in options.items())
    )


def _images(_: Tree) -> str:
    return _rows(
        ("Container and unit", "Image"),
        ((f"`{name}`", f"`{images.Registry().reference(name)}`") for name in images.IMAGES),
    )


def _packages(tree: Tree, kind: str) -> list[Package]:
    """Return the written packages of a kind: variants have the same content."""
    found = (each for each in catalogue(tree).values() if each.kind == kind)
    return sorted(
        (each for each in found if each.folder.name == each.name), key=lambda each: each.name
    )


def _vnfs(tree: Tree) -> str:
    return _rows(
        ("Package", "Charm", "Interfaces", "vCPU", "GiB", "GB"),
        (_vnf(package) for package in _packages(tree, "vnf")),
    )


def _vnf(package: Package) -> tuple[object, ...]:
    body = package.descriptor["vnfd"]
    juju = next(documents.day_1_2(body))["execution-environment-list"][0]["juju"]
    nics = {
        requirement["name"]: cpd["id"].removesuffix("-int")
        for cpd in body["vdu"][0]["int-cpd"]
        for requirement in cpd["virtual-network-interface-requirement"]
    }
    compute = body["virtual-compute-desc"][0]
    return (
        f"`{package.name}`",
        f"`{juju['charm']}`",
        ", ".join(f"{nic} `{network}`" for nic, network in nics.items()),
        compute["virtual-cpu"]["num-virtual-cpu"],
        f"{compute['virtual-memory']['size']:g}",
        body["virtual-storage-desc"][0]["size-of-storage"],
    )


def _services(tree: Tree) -> str:
    return _rows(
        ("Package", "Members", "Networks", "Relations: provider to requirer"),
        (_service(package) for package in _packages(tree, "ns")),
    )


def _service(package: Package) -> tuple[object, ...]:
    body = package.descriptor["nsd"]["nsd"][0]
    relations = body.get("ns-configuration", {}).get("relation", ())
    return (
        f"`{package.name}`",
        _words(profile["id"] for profile in body["df"][0]["vnf-profile"]),
        _words(link["id"] for link in body["virtual-link-desc"]),
        ", ".join(
            f"{end['endpoint']}: `{end['vnf-profile-id']}` to `{other['vnf-profile-id']}`"
            for end, other in ((each["provider"], each["requirer"]) for each in relations)
        ),
    )


def _templates(tree: Tree) -> str:
    return _rows(
        ("Package", "S-NSSAI", "5QI", "Services", "Links"),
        (_template(package) for package in _packages(tree, "nst")),
    )


def _template(package: Package) -> tuple[object, ...]:
    body = package.descriptor["nst"][0]
    services = (
        f"`{each['id']}`{' (shared)' if each['is-shared-nss'] else ''}: `{each['nsd-ref']}`"
        for each in body["netslice-subnet"]
    )
    return (
        f"`{package.name}`",
        body["SNSSAI-identifier"]["slice-service-type"],
        body["quality-of-service"]["id"],
        ", ".join(services),
        _words(link["id"] for link in body["netslice-vld"]),
    )


def _variants(tree: Tree) -> str:
    found = documents.read(tree.root / "params/variants.yaml")
    return _rows(
        ("File", "Of", "What differs"),
        ((f"`{n}.yaml`", f"`{its['of']}.yaml`", _text(its)) for n, its in found.items()),
    )


def _slices(tree: Tree) -> str:
    found = documents.read(tree.root / "params/slices.yaml")
    return _rows(
        ("File", "Template"), ((f"`{n}.yaml`", f"`{its['nst']}`") for n, its in found.items())
    )


def _metrics(_: Tree) -> str:
    return _rows(
        ("Metric", "Labels", "Meaning"),
        (
            (f"`{name}{'_total' if kind is exporter.COUNTER else ''}`", _words(labels), text)
            for name, (kind, labels, text) in exporter.METRICS.items()
        ),
    )


def _modules(folder: Path, packages: Iterable[str]) -> str:
    """Return a line for each module below a folder: the first sentence of its docstring."""
    return _rows(
        ("Module", "What it is"),
        (
            (f"`{path.relative_to(folder).with_suffix('')}`", _first_line(path))
            for package in packages
            for path in sorted((folder / package).glob("*.py"))
            if path.stem != "__init__"
        ),
    )


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def _codes(tree: Tree) -> str:
    head = ("Code", "Severity", "What OSM does, and what to do")
    return "\n\n".join(
        f"### {kind}\n\n{_rows(head, ((f'`{code}`', *its) for code, its in codes.items()))}"
        for kind, codes in documents.read(tree.root / CODES).items()
    )


def _decisions(tree: Tree) -> str:
    found = sorted((tree.root / "docs/adr").glob("*.md"))
    titles = (path.read_text(encoding="utf-8").partition("\n")[0] for path in found)
    parts = (title.removeprefix("# ").split(" ", 1) for title in titles)
    return _rows(
        ("Decision",),
        (
            (f"[{number} {text}](adr/{path.name})",)
            for path, (number, text) in zip(found, parts, strict=True)
        ),
    )


def _alerts(tree: Tree) -> str:
    """Return the alerts of Prometheus: what each says, and for how long it has to be so."""
    rules = [
        rule
        for group in documents.read(tree.root / "operate/prometheus/rules.yaml")["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    return _rows(
        ("Alert", "Says", "After"),
        (
            (
                f"`{rule['alert']}`",
                re.sub(r"{{ \$labels\.(\w+) }}", r"*\1*", rule["annotations"]["summary"]),
                rule.get("for", "at once"),
            )
            for rule in rules
        ),
    )


TABLES: dict[str, Callable[[Tree], str]] = {
    "charms": _charms,
    "options": _options,
    "images": _images,
    "vnf-packages": _vnfs,
    "ns-packages": _services,
    "nst-packages": _templates,
    "variants": _variants,
    "slices": _slices,
    "metrics": _metrics,
    "alerts": _alerts,
    "codes": _codes,
    "decisions": _decisions,
    "library": lambda tree: _modules(tree.library, LAYERS),
    "oai": lambda tree: _modules(tree.library.with_name("oai"), [""]),
}
