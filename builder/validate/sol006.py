"""Models of descriptors, made from the table sol006.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, Field, create_model

from builder import documents
from builder.validate import schema

WORDS = {
    "id": schema.Identifier,
    "text": schema.Text,
    "texts": schema.Texts,
    "natural": schema.Natural,
    "short": schema.Short,
    "count": Annotated[schema.Short, Field(ge=1)],
    "decimal": schema.Decimal,
    "flag": schema.Flag,
    "scalar": schema.Scalar,
    "address": schema.Address,
    "addresses": schema.Addresses,
    "free": schema.Free,
    "any": Any,
}
NEVER_NULL = ("scalar", "addresses")
LENGTHS: dict[str, dict[str, Any]] = {
    "some": {"min_length": 1},
    "one": {"min_length": 1, "max_length": 1},
}


def _model(name: str, table: dict[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for keys, kind in table.items():
        for key in keys.split(", "):
            alias = key.removesuffix("!")
            # The names of fields are never used: documents have the keys of SOL006.
            fields[f"f{len(fields)}"] = _field(alias, kind, mandatory=key != alias)
    return create_model(name, __base__=schema.Model, **fields)


def _field(key: str, kind: Any, mandatory: bool) -> tuple[Any, Any]:
    """Return the type of a key, and pydantic's field with its default."""
    word, _, text = kind.partition(" = ") if isinstance(kind, str) else ("", "", "")
    default = yaml.safe_load(text) if text else None
    made = _type(key, word or kind)
    if isinstance(kind, list) and "or null" not in kind and not mandatory:
        default = []
    if default is None and not mandatory and word not in NEVER_NULL:
        made = made | None if made is not Any else Any
    return made, Field(... if mandatory else default, alias=key)


def _type(key: str, kind: Any) -> Any:
    if isinstance(kind, dict):
        return _model(key, kind)
    if isinstance(kind, list):
        inner: Any = list[_type(key, kind[0])]  # type: ignore[misc]
        lengths = [LENGTHS[flag] for flag in kind[1:] if flag in LENGTHS]
        return Annotated[inner, Field(**lengths[0])] if lengths else inner
    return Literal[tuple(kind.split("|"))] if "|" in kind else WORDS[kind]


_TABLE = documents.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
MODELS = {kind: _model(kind, _TABLE[kind]) for kind in ("vnfd", "nsd", "nst")}
