"""Hook of MkDocs: tables of the documentation that are data of the charms.

A page has a comment `<!-- parameters: FILE ACTION -->`, with a file of actions below `charms`. The
site has a table there: type, default and meaning of each parameter.
"""

from __future__ import annotations

import re
from typing import Any

from builder.charms import declared_actions
from builder.tree import Tree

MARK = re.compile(r"^<!-- parameters: (\S+) (\S+) -->$", re.MULTILINE)
_HEAD = "| Parameter | Type | Default | Meaning |\n|---|---|---|---|\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its tables (an event of MkDocs)."""
    return MARK.sub(lambda found: table(found[1], found[2]), markdown)


def table(file: str, action: str) -> str:
    """Return the table of an action's parameters, a line for each."""
    parameters = declared_actions(Tree.find(), file)[action]["params"]
    return _HEAD + "\n".join(
        f"| `{name}` | {_kind(name, schema)} | {_default(schema)} | {_text(schema)} |"
        for name, schema in parameters.items()
    )


def _kind(name: str, schema: dict[str, Any]) -> str:
    if name == "link" and schema.get("default", "all") == "all":
        return "`LINK`, `all`" if "default" in schema else "`LINK`"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
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
