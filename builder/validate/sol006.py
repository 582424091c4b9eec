"""Models of documents, made from tables; those of descriptors from sol006.yaml."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, Field, create_model

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
LEAST = "at least"


class _Table:
    """A table, with the types of its words."""

    def __init__(self, words: Mapping[str, Any], null: bool) -> None:
        self.words, self.null = words, null

    def model(self, name: str, rows: dict[str, Any]) -> type[BaseModel]:
        fields: dict[str, Any] = {}
        for keys, kind in rows.items():
            for key in keys.split(", ") if keys != LEAST else ():
                # The names of fields are never used: documents have the keys of the table.
                fields[f"f{len(fields)}"] = self._field(key.rstrip("!?"), kind, key[-1])
        return create_model(name, __base__=schema.Model, **fields)

    def _field(self, key: str, kind: Any, mark: str) -> tuple[Any, Any]:
        """Return the type of a key, and pydantic's field with its default."""
        mandatory, null = mark == "!", self.null or mark == "?"
        word, _, text = kind.partition(" = ") if isinstance(kind, str) else ("", "", "")
        default = yaml.safe_load(text) if text else None
        made = self._type(key, word or kind)
        if isinstance(kind, list) and mark not in ("!", "?"):
            default = []
        if default is None and not mandatory and null and word not in NEVER_NULL:
            made = made | None if made is not Any else Any
        return made, Field(... if mandatory else default, alias=key)

    def _type(self, key: str, kind: Any) -> Any:
        if isinstance(kind, dict):
            made = self.model(key, kind)
            return Annotated[made, _enough(kind[LEAST])] if LEAST in kind else made
        if isinstance(kind, list):
            inner: Any = list[self._type(key, kind[0])]  # type: ignore[misc]
            lengths = [LENGTHS[flag] for flag in kind[1:] if flag in LENGTHS]
            return Annotated[inner, Field(**lengths[0])] if lengths else inner
        return Literal[tuple(kind.split("|"))] if "|" in kind else self.words[kind]


def _enough(need: int) -> AfterValidator:
    """Refuse a mapping with fewer keys."""

    def check(made: BaseModel) -> BaseModel:
        if len(made.model_fields_set) < need:
            raise ValueError(f"a mapping of at least {need} keys")
        return made

    return AfterValidator(check)


def models(
    file: str, kinds: Iterable[str], words: Mapping[str, Any] = WORDS, null: bool = True
) -> dict[str, type[BaseModel]]:
    """Return the models of the documents in a table of this package."""
    rows = documents.load(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    table = _Table(words, null)
    return {kind: table.model(kind, rows[kind]) for kind in kinds}


MODELS = models("sol006.yaml", ("vnfd", "nsd", "nst"))
