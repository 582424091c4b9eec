"""The YAML files of a charm, checked for what Juju 2.9 requires."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    model_validator,
)

from builder.documents import DocumentError, load
from builder.errors import sentence

METADATA, ACTIONS, CONFIG = "metadata.yaml", "actions.yaml", "config.yaml"
NAME = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*$")
ACTION_NAME = re.compile(r"^[a-z](?:[a-z-]*[a-z0-9])?(?:[a-z0-9-]*[a-z0-9])?$")
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
INT64 = range(-(2**63), 2**63)
Role = Literal["provider", "requirer", "peer"]
OptionValue = str | int | float | bool


class _Open(BaseModel):
    """A mapping that may have further keys, which are not checked."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)


def _reserved(name: str) -> bool:
    """Tell whether Juju keeps a name for itself."""
    return name == "juju" or name.startswith("juju-")


def _interface(value: Any) -> Any:
    # In Juju `website: http` is short for `website: {interface: http}`.
    return {"interface": value} if isinstance(value, str) else value


def _charm_name(value: str) -> str:
    if not NAME.match(value):
        raise ValueError(f'"{value}" is no charm name')
    return value


class Endpoint(_Open):
    """End of a relation."""

    interface: str
    limit: int | None = None
    scope: Literal["global", "container"] = "global"


Endpoints = dict[str, Annotated[Endpoint, BeforeValidator(_interface)]]


class Metadata(_Open):
    """metadata.yaml. Juju 2.9 takes no charm without a summary and a description."""

    name: Annotated[str, AfterValidator(_charm_name)]
    summary: str
    description: str
    series: list[str] = Field(default_factory=list)
    subordinate: bool = False
    provides: Endpoints = Field(default_factory=dict)
    requires: Endpoints = Field(default_factory=dict)
    peers: Endpoints = Field(default_factory=dict)

    def endpoints(self) -> Iterator[tuple[Role, str, Endpoint]]:
        sections: dict[Role, Endpoints] = {
            "provider": self.provides,
            "requirer": self.requires,
            "peer": self.peers,
        }
        for role, section in sections.items():
            for name, end in section.items():
                yield role, name, end

    @model_validator(mode="after")
    def check_names(self) -> "Metadata":
        seen: set[str] = set()
        for role, name, end in self.endpoints():
            if name in seen:
                raise ValueError(f"endpoint {name} is declared twice")
            if _reserved(name) or (role == "provider" and end.interface.startswith("juju-")):
                raise ValueError(f"endpoint {name} uses a name that is reserved to Juju")
            seen.add(name)
        return self


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in ("$ref", "$schema") or _refers(item) for key, item in value.items())
    return isinstance(value, list) and any(_refers(item) for item in value)


class Action(_Open):
    """Entry of actions.yaml."""

    description: str = ""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)
    additional: bool = Field(default=True, alias="additionalProperties")

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema a set of parameters must meet (Juju: JSON Schema draft 4)."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": self.params,
            "additionalProperties": self.additional,
        }
        return {**schema, "required": self.required} if self.required else schema

    @model_validator(mode="after")
    def check_schema(self) -> "Action":
        import jsonschema  # It loads slowly.

        if _refers(self.params):
            raise ValueError("$ref and $schema are not allowed by Juju")
        try:
            jsonschema.Draft4Validator.check_schema(self.json_schema)
        except jsonschema.SchemaError as error:
            where = "/".join(map(str, error.absolute_path))
            raise ValueError(f"no JSON schema at {where}: {error.message[:200]}") from None
        return self


def _action_names(actions: dict[str, Action | None]) -> dict[str, Action]:
    for name in actions:
        if not ACTION_NAME.match(name):
            raise ValueError(f"action {name} has a name Juju does not take")
        if _reserved(name):
            raise ValueError(f"action {name} uses a name that is reserved to Juju")
    return {name: action or Action() for name, action in actions.items()}


class Actions(RootModel):  # type: ignore[type-arg]  # with an argument it is built at once
    """actions.yaml."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)
    root: Annotated[dict[str, Action | None], AfterValidator(_action_names)]


def _parsed(kind: str, value: object) -> OptionValue | None:
    """Return what an option of a type becomes, None if the value is of another type."""
    if kind == "string":
        return value if isinstance(value, str) else None
    if kind == "boolean":
        known = BOOLEANS.get(value) if isinstance(value, str) else value
        return known if isinstance(known, bool) else None
    taken = (str, int, float) if kind == "float" else (str, int)
    if isinstance(value, bool) or not isinstance(value, taken):
        return None
    try:
        if kind == "float":
            return float(value)
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if number in INT64 else None


class Option(_Open):
    """Entry of config.yaml."""

    type: Literal["string", "int", "float", "boolean"] = "string"
    default: Any = None
    description: str = ""
    form: Any = Field(default=None, alias="x-form")  # What Juju ignores and our validator checks.

    def parse(self, name: str, value: object) -> OptionValue:
        """Convert a value as Juju does: text by the option's type, other values by their own.

        Raises ValueError with Juju's wording.
        """
        parsed = _parsed(self.type, value)
        if parsed is None:
            shown = f'"{value}"' if isinstance(value, str) else value
            raise ValueError(f'option "{name}" expected {self.type}, got {shown}')
        return parsed


def _defaults(options: dict[str, Option]) -> dict[str, Option]:
    """Return the options with their defaults as Juju takes them."""
    parsed = dict(options)
    for name, option in options.items():
        if option.default is not None:
            try:
                default = option.parse(name, option.default)
            except ValueError as error:
                raise ValueError(f"invalid default: {error}") from None
            parsed[name] = option.model_copy(update={"default": default})
    return parsed


class Config(_Open):
    """config.yaml."""

    options: Annotated[dict[str, Option], AfterValidator(_defaults)] = Field(default_factory=dict)


MODELS: dict[str, type[BaseModel]] = {METADATA: Metadata, ACTIONS: Actions, CONFIG: Config}


def read(file: str, text: str | bytes | None) -> Any:
    """Return the declarations in one of the files; None is for a file that is not there.

    Raises:
        DocumentError: What is wrong with it, and where in it.
    """
    if text is None and file == METADATA:
        raise DocumentError("is missing: this is not a charm folder")
    try:
        document = load(text or "")
    except DocumentError as error:
        raise DocumentError(f"is not usable as YAML: {error}") from None
    try:
        return MODELS[file].model_validate({} if document is None else document)
    except ValidationError as error:
        raise DocumentError(sentence(error)) from None
