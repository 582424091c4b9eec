"""Base of all models: strict keys, YANG's scalars, and errors as sentences."""

import difflib
import ipaddress
import reprlib
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builder.errors import allowed
from builder.strict import Strict
from builder.validate.problem import Problem

LOADER = "Error in pyangbind validation: list index out of range"
"""NBI's text for a second list entry with the same key, on which pyangbind's loader fails."""
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxdict = _SHORT.maxlist = 3
_SHORT.maxlevel = 2


def shown(value: Any) -> str:
    """Return a value as a short text for a sentence."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        return "a number too long to print"


class Model(Strict):
    """A YANG container or list entry."""

    model_config = ConfigDict(allow_inf_nan=False)


def _text(value: Any) -> Any:
    # `version: 1.0` is common and pyangbind accepts it; a mapping, list or boolean is a mistake.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return shown(value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _flag(value: Any) -> Any:
    if not isinstance(value, bool) and value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value


def _scalar(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)):
        return value
    raise ValueError("must be text, a number or a boolean")


def _address(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be an IP address")
    try:
        ipaddress.ip_address(value.partition("%")[0])
    except ValueError:
        raise ValueError("must be an IP address") from None
    return value


def _addresses(value: Any) -> Any:
    for item in value if isinstance(value, list) else [value]:
        _address(item)
    return value


Text = Annotated[str, BeforeValidator(_text)]
Identifier = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=255)]
Natural = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=1 << 64)]
Short = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=1 << 16)]
Decimal = Annotated[float, BeforeValidator(_number), Field(ge=0)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Texts = Annotated[list[Text], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)]
"""A list of texts; pyangbind turns a single text into a list."""
Scalar = Annotated[Any, BeforeValidator(_scalar)]
Address = Annotated[str, BeforeValidator(_address)]
Addresses = Annotated[Any, BeforeValidator(_addresses)]
"""One address or a list; not a union, because pydantic reports one error for each of its types."""
Free = dict[str, Any]
"""Parts of SOL006 that neither OSM nor this project reads; any content is allowed."""
LENGTHS = {
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most 255 characters",
    "too_short": "a list with an entry",
    "too_long": "a list with one entry",
}
"""The lengths that SOL006 has, by pydantic's types of errors."""


def problems_of(
    error: ValidationError, model: type[BaseModel], where: str, root: str
) -> list[Problem]:
    """Turn pydantic's errors into sentences with a path in the document."""
    result = []
    for item in error.errors(include_url=False, include_context=False):
        place = path_of(root, item["loc"])
        code, sentence = _sentence(item, model)
        message = "Error in pyangbind validation: " + (
            f"JSON object contained a key that did not exist ({item['loc'][-1]})"
            if code == "unknown-key"
            else sentence
        )
        result.append(Problem(f"{where}: {place}", "refused", code, sentence, message))
    return sorted(set(result))


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
        keys = _keys(model, location[:-1])
        close = difflib.get_close_matches(str(name), keys, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; allowed: {', '.join(keys)}"
        return "unknown-key", f"unknown key {shown(str(name))}{hint if keys else ''}"
    if kind == "missing":
        return "missing-key", f"mandatory key {str(name)!r} is missing"
    may = LENGTHS.get(kind) or allowed(item)
    return "wrong-value", f"{shown(item.get('input'))} is not allowed; allowed: {may}"


def _keys(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that are known at a place of the model, [] if it has no model."""
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
        inner = _inner(argument)
        if inner is not None:
            return inner
    return None
