"""Juju's output formats of hook tools: smart, yaml and json (juju/cmd output.go)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import yaml


class _Dumper(yaml.SafeDumper):
    """Block style without anchors, like Go's YAML."""

    def ignore_aliases(self, data: object) -> bool:
        """Write a value again each time it occurs."""
        return True

    def represent_text(self, value: str) -> yaml.ScalarNode:
        """Put text in double quotes if YAML would not read it as text without them."""
        tag: str = self.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
        style = None if tag == "tag:yaml.org,2002:str" else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", value, style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _as_go(value: object) -> object:
    """Write whole floats without a fraction, as Go does."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _as_go(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_go(item) for item in value]
    return value


def _yaml(value: object) -> str:
    if value is None:
        return ""
    text = yaml.dump(
        _as_go(value), Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=2**31
    )
    return text.removesuffix("...\n")


def _json(value: object) -> str:
    return (
        json.dumps(_as_go(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    )


def _smart(value: object) -> str:
    if isinstance(value, bool):
        return f"{value}\n"
    if isinstance(value, str):
        return f"{value}\n" if value else ""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(value) + "\n" if value else ""
    return _yaml(value)


FORMATS: Mapping[str, Callable[[object], str]] = {"smart": _smart, "yaml": _yaml, "json": _json}
