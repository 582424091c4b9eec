"""The YAML files of a charm, checked for what Juju 2.9 requires."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import jsonschema
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
)

from builder.documents import DocumentError, load
from builder.errors import clause
from builder.validate.reader import Package
from builder.validate.schema import path_of, shown


class _Open(BaseModel):
    """A mapping that may have further keys, which are not checked."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


def _interface(value: Any) -> Any:
    # In Juju `website: http` is short for `website: {interface: http}`.
    return {"interface": value} if isinstance(value, str) else value


class Endpoint(_Open):
    """End of a relation."""

    interface: str


Endpoints = dict[str, Annotated[Endpoint, BeforeValidator(_interface)]]


class Metadata(_Open):
    """metadata.yaml. Juju 2.9 takes no charm without a summary and a description."""

    name: str = Field(min_length=1)
    summary: str
    description: str
    series: list[str] = Field(default_factory=list)
    provides: Endpoints = Field(default_factory=dict)
    requires: Endpoints = Field(default_factory=dict)
    peers: Endpoints = Field(default_factory=dict)


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    if _refers(value):
        raise ValueError("$ref and $schema are not allowed by Juju")
    try:
        jsonschema.Draft4Validator.check_schema(value)
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON schema: {shown(error.message)}") from None
    return value


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in ("$ref", "$schema") or _refers(item) for key, item in value.items())
    return isinstance(value, list) and any(_refers(item) for item in value)


Schema = Annotated[dict[str, Any], AfterValidator(_schema)]


class Action(_Open):
    """Entry of actions.yaml."""

    params: dict[str, Schema] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)


class Actions(RootModel[dict[str, Action | None]]):
    """actions.yaml."""

    model_config = ConfigDict(frozen=True, strict=True)


class Option(_Open):
    """Entry of config.yaml."""

    type: Literal["string", "int", "float", "boolean"] = "string"
    form: Any = Field(None, alias="x-form")  # What Juju ignores and our validator checks.


class Config(_Open):
    """config.yaml."""

    options: dict[str, Option] = Field(default_factory=dict)


@dataclass(frozen=True)
class Charm:
    """Declarations of a charm folder."""

    name: str  # Name of the folder.
    folder: str  # Its path in the package, with a slash at the end.
    # `metadata`, `actions`, `config`: Content of the file. None if the file is invalid, so that its
    # declarations cause no further problems.
    metadata: Metadata | None
    actions: dict[str, Action] | None
    config: Config | None
    # (file, reason) of each invalid file.
    broken: list[tuple[str, str]] = field(default_factory=list)

    def endpoint(self, name: str) -> tuple[str, str] | None:
        """Return (role, interface) of a relation endpoint, None if the charm lacks it."""
        if self.metadata is not None:
            for role in ("provides", "requires", "peers"):
                ends: Endpoints = getattr(self.metadata, role)
                if name in ends:
                    return role, ends[name].interface
        return None


def charm_of(package: Package, name: str) -> Charm | None:
    """Return a charm of a package, None if it has no such folder."""
    if name not in package.charms:
        package.charms[name] = _read(package, name)
    charm: Charm | None = package.charms[name]
    return charm


def _read(package: Package, name: str) -> Charm | None:
    folder = package.folder("charms") + name + "/"
    if not any(path.startswith(folder) for path in package.files):
        return None
    broken: list[tuple[str, str]] = []

    def file(path: str, model: Any, optional: bool) -> Any:
        text = package.text(folder + path)
        if text is None:
            if optional:
                return model.model_validate({})
            broken.append((path, "is missing"))
            return None
        try:
            document = load(text)
            return model.model_validate({} if document is None and optional else document)
        except DocumentError as error:
            broken.append((path, f"is not usable as YAML: {error}"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = path_of("", first["loc"]) or "the file"
            broken.append((path, f"{place}: {clause(first)}"))
        return None

    metadata = file("metadata.yaml", Metadata, False)
    actions = file("actions.yaml", Actions, True)
    config = file("config.yaml", Config, True)
    listed = None
    if actions is not None:
        listed = {name: action or Action() for name, action in actions.root.items()}
    return Charm(name, folder, metadata, listed, config, broken)
