"""Common ground of the models: strict keys, YANG's scalars, and errors as sentences."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builder.validate.problem import Problem, Severity


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class Model(BaseModel):
    """A YANG container or list entry: keys in kebab case, unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", alias_generator=_kebab, frozen=True)


def _text(value: Any) -> Any:
    # `version: 1.0` is common and pyangbind takes it; a mapping, list or boolean is a mistake.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")
    return value


def _flag(value: Any) -> Any:
    if not isinstance(value, (bool, str)) or (
        isinstance(value, str) and value not in ("true", "false")
    ):
        raise ValueError("must be true or false")
    return value


Text = Annotated[str, BeforeValidator(_text)]
Identifier = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=255)]
Natural = Annotated[int, BeforeValidator(_number), Field(ge=0)]
Positive = Annotated[int, BeforeValidator(_number), Field(ge=1)]
Decimal = Annotated[float, BeforeValidator(_number), Field(ge=0)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Free = dict[str, Any]
"""Parts of SOL006 that neither OSM nor this project reads; any content is let through."""


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    where: str,
    root: str,
    severity: Severity = "refused",
) -> list[Problem]:
    """Turn pydantic's errors into sentences with a path in the document."""
    found = []
    for item in error.errors():
        place = path_of(root, item["loc"])
        code, sentence = _sentence(item, model)
        message = "Error in pyangbind validation: " + sentence
        found.append(Problem(f"{where}: {place}", severity, code, sentence, message))
    return found


def path_of(root: str, location: tuple[int | str, ...]) -> str:
    """Return "vnfd/df[0]/id" for ("df", 0, "id")."""
    text = root
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f"/{part}"
    return text.lstrip("/")


def _sentence(item: Any, model: type[BaseModel]) -> tuple[str, str]:
    location, kind = item["loc"], item["type"]
    name = location[-1] if location else ""
    if kind == "extra_forbidden":
        allowed = _allowed(model, location[:-1])
        close = difflib.get_close_matches(str(name), allowed, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; allowed: {', '.join(allowed)}"
        return "unknown-key", f"unknown key {str(name)!r}{hint if allowed else ''}"
    if kind == "missing":
        return "missing-key", f"mandatory key {str(name)!r} is missing"
    shown = repr(item.get("input"))
    shown = shown if len(shown) < 60 else shown[:56] + "..."
    return "wrong-value", f"{shown} is not allowed: {item['msg'][:1].lower()}{item['msg'][1:]}"


def _allowed(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the keys a place of the model knows, [] where it is not a mapping of ours."""
    for part in location:
        if isinstance(part, int):
            continue
        match = [f for f in model.model_fields.values() if (f.alias or "") == part]
        inner = _inner(match[0].annotation) if match else None
        if inner is None:
            return []
        model = inner
    return sorted(f.alias or name for name, f in model.model_fields.items())


def _inner(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner(argument)
        if found is not None:
            return found
    return None
