"""Hook of MkDocs: the navigation, and tables that are data of charms and packages.

A page has a comment `<!-- action: FILE ACTION -->`, with a file of actions below `charms`. The site
has there what the action does, and type, default and meaning of each parameter. `<!-- table: NAME
-->` becomes a table of `pages.yaml`, `<!-- data: FILE KEY -->` one that stands in a file of YAML:
a list of rows, of which the first is the head, and `<!-- verbs: MODULE GROUP -->` the verbs of a
command.
"""

import ast
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, StrictUndefined
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
    *("features", "features/gateway", "features/measure", "features/pair", "", "kinds"),
)
"""Packages of the charm library, from the lowest layer up; the last are its own modules."""
TABLE = re.compile(r"^<!-- table: (\S+) -->$", re.MULTILINE)
DATA = re.compile(r"^<!-- data: (\S+) (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")
VERBS = re.compile(r"^<!-- verbs: (\S+) (\S+) -->$", re.MULTILINE)


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


def _modules(tree: Tree, library: str) -> dict[str, str]:
    """Return the first sentence of each module of a library of charms, by its path there."""
    folder = tree.library.with_name(library)
    return {
        f"{path.relative_to(folder).with_suffix('')}": _first_line(path)
        for package in (LAYERS if library == "vpnaas" else [""])
        for path in sorted((folder / package).glob("*.py"))
        if path.stem != "__init__"
    }


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def _packages(tree: Tree, kind: str) -> list[Package]:
    """Return the written packages of a kind: variants have the same content."""
    found = (each for each in catalogue(tree).values() if each.kind == kind)
    return sorted(
        (each for each in found if each.folder.name == each.name), key=lambda each: each.name
    )


def _decisions(tree: Tree) -> list[list[str]]:
    """Return file, number and title of each decision."""
    found = sorted((tree.root / "docs/adr").glob("*.md"))
    titles = (path.read_text(encoding="utf-8").partition("\n")[0] for path in found)
    return [
        [path.name, *title.removeprefix("# ").split(" ", 1)]
        for path, title in zip(found, titles, strict=True)
    ]


def _table(columns: Mapping[str, str], tree: Tree) -> str:
    """Return a table of pages.yaml, with a heading above each where it has sections."""
    environment = Environment(undefined=StrictUndefined)  # noqa: S701  # no HTML
    environment.filters |= {
        "words": _words,
        "meaning": _text,
        "day_1_2": lambda body: next(documents.day_1_2(body)),
        "nics": lambda vdu: documents.walk(vdu, documents.NICS),
    }
    environment.globals |= {
        "read": lambda file: documents.read(tree.root / file),
        "charms": lambda: [charms.load(tree, name) for name in tree.charms()],
        "packages": partial(_packages, tree),
        "modules": partial(_modules, tree),
        "decisions": partial(_decisions, tree),
        "images": images,
        "exporter": exporter,
    }

    def value(expression: str, **words: Any) -> Any:
        return environment.compile_expression(expression)(**words)

    cells = {
        head: environment.from_string(text)
        for head, text in columns.items()
        if head not in ("rows", "sections")
    }
    tables = []
    for heading, section in value(columns.get("sections", "{'': none}")).items():
        found = value(columns["rows"], section=section)
        named = found.items() if isinstance(found, Mapping) else (("", row) for row in found)
        rows = [
            tuple(cell.render(name=name, row=row) for cell in cells.values()) for name, row in named
        ]
        tables.append(f"### {heading}\n\n" * bool(heading) + _rows(tuple(cells), rows))
    return "\n\n".join(tables)


TABLES: dict[str, Callable[[Tree], str]] = {
    name: partial(_table, columns)
    for name, columns in documents.read(Path(documents.__file__).with_name("pages.yaml")).items()
}
