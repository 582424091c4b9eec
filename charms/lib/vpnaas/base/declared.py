"""Parameters of actions as attrs classes: a field says how its value is read and written."""

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Type, TypeVar

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError

At = Callable[[str], str]
"""Place of a parameter for error texts, by the parameter's name."""
D = TypeVar("D", bound="Declared")


def same(value: Any) -> Any:
    return value


def any_text(where: str, text: str) -> str:
    return text


def value_field(
    parse: Callable[[str, Any], Any],
    default: Any = None,
    show: Callable[[Any], Any] = same,
    key: str = "",
    given: Any = None,
    hidden: bool = False,
) -> Any:
    """Return a field that `parse` reads from a parameter; the place is its first argument.

    Args:
        parse: Reads the parameter.
        default: Value of the field in a new object.
        show: Returns the parameter again.
        key: Name of the parameter, if the field has another one.
        given: What `parse` reads where the parameter is not given, if it is not `default`.
        hidden: Whether `repr` leaves it out.
    """
    absent = default if given is None else given
    how = {"parse": parse, "show": show, "key": key, "absent": absent}
    return attr.field(default=default, metadata=how, repr=not hidden)


def text_field(
    parse: Callable[[str, str], Any],
    default: Any = "",
    show: Callable[[Any], Any] = same,
    key: str = "",
    given: Optional[str] = None,
) -> Any:
    """Return a field that is parsed from a text without the spaces around it."""
    return value_field(
        lambda where, text: parse(where, fields.string(where, text).strip(" ")),
        *(default, show, key, given),
    )


def optional_field(
    parse: Callable[[str, str], Any],
    none: Any = "",
    words: Sequence[str] = fields.NOTHING,
    show: Callable[[Any], Any] = same,
) -> Any:
    """Return a field of a parsed text; one of `words` stands for `none`, written as the last."""
    return text_field(
        lambda where, text: none if text in words else parse(where, text),
        none,
        lambda value: words[-1] if value == none else show(value),
        given="",
    )


def number_field(low: int, high: int, default: Optional[int] = None) -> Any:
    return value_field(lambda where, value: fields.integer(where, value, low, high), default)


def or_off_field(low: int, high: int, default: int) -> Any:
    """Return a field of a number from `low` to `high`, or 0."""

    def parse(where: str, value: Any) -> int:
        number = fields.integer(where, value, 0, high)
        if 0 < number < low:
            allowed = "0 or {} to {}".format(low, high)
            raise InputError(where, "{} is too small".format(number), allowed)
        return number

    return value_field(parse, default)


def switch_field(default: bool, key: str = "") -> Any:
    return value_field(fields.boolean, default, key=key)


def choice_field(options: Sequence[str], default: str = "") -> Any:
    """Return a field of one of several words; the first is the default, if no other is named."""
    return text_field(
        lambda where, text: fields.choice(where, text, options), default or options[0]
    )


class Declared:
    """Parameters of an action."""

    action = ""  # Its name, for errors.

    @classmethod
    def parse(cls: Type[D], params: Mapping[str, Any], where: str = "", **more: Any) -> D:
        """Read the parameters; an InputError names `where`, or the action, and the parameter.

        `more` are fields that are no parameters.
        """
        at = fields.Parameters(where or cls.action, params).at
        for key, field in parameters_of(cls).items():
            given = params.get(key, field.metadata["absent"])
            more[field.name] = field.metadata["parse"](at(key), given)
        parsed = cls(**more)
        parsed.check(at)
        return parsed

    def check(self, at: At) -> None:
        """Raise InputError if parameters do not fit together."""

    def to_params(self) -> Dict[str, Any]:
        """Return the parameters that `parse` turns into this object."""
        return {
            key: field.metadata["show"](getattr(self, field.name))
            for key, field in parameters_of(type(self)).items()
        }


def parameters_of(cls: type) -> Dict[str, Any]:
    return {
        field.metadata["key"] or field.name.replace("_", "-"): field
        for field in attr.fields(cls)
        if "parse" in field.metadata
    }
