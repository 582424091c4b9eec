"""A charm folder: what its three YAML files declare, and how it is packed and unpacked.

Packing follows libjuju, which OSM's LCM uses (charm archive generator of python-libjuju 2.9):
`build/` and dot entries of the root are left out, so are links to folders; absolute links and
dates a zip cannot hold are errors. Links that lead out of the charm are refused here as the
controller would refuse them.

The Python packages of a charm (`venv`) are hard links to the files that it was deployed from: they
are nine tenths of a charm, and pip replaces such files and does not change them in place.
"""

import functools
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builder.documents import DocumentError, load
from builder.errors import clause
from lab.errors import InvalidCharmError, InvalidValueError, NotFoundError
from lab.vca.state import OptionValue, Role

MANIFEST = ".vpnaas-lab-manifest"
"""In an unpacked charm folder: the paths that came with the charm, one per line."""
SHARED = "venv"  # Folder of a charm with Python packages.

ZIP_EPOCH = time.mktime((1980, 1, 1, 0, 0, 0, 0, 0, -1))
ACTION_NAME = re.compile(r"^[a-z](?:[a-z-]*[a-z0-9])?(?:[a-z0-9-]*[a-z0-9])?$")
NAME = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*$")
BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
INT64 = range(-(2**63), 2**63)


class Declared(BaseModel):
    """Base of declarations; keys that the lab does not use are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, defer_build=True)


class EndpointSpec(Declared):
    """An endpoint of metadata.yaml."""

    interface: str
    limit: int | None = None
    scope: Literal["global", "container"] = "global"


def _expand_endpoint(value: object) -> object:
    # `db: mysql` is short for `db: {interface: mysql}`.
    return {"interface": value} if isinstance(value, str) else value


EndpointSpecs = dict[str, Annotated[EndpointSpec, BeforeValidator(_expand_endpoint)]]


class Metadata(Declared):
    """metadata.yaml, as far as a relation, an action or a status needs it."""

    name: str
    summary: str
    description: str
    series: list[str] = Field(default_factory=list)
    subordinate: bool = False
    provides: EndpointSpecs = Field(default_factory=dict)
    requires: EndpointSpecs = Field(default_factory=dict)
    peers: EndpointSpecs = Field(default_factory=dict)

    def endpoints(self) -> Iterator[tuple[Role, str, EndpointSpec]]:
        sections: tuple[tuple[Role, EndpointSpecs], ...] = (
            ("provider", self.provides),
            ("requirer", self.requires),
            ("peer", self.peers),
        )
        for role, endpoints in sections:
            for name, spec in endpoints.items():
                yield role, name, spec


class Option(Declared):
    """An option of config.yaml."""

    type: Literal["string", "int", "float", "boolean"]
    default: Any = None
    description: str = ""

    def parse(self, name: str, value: object) -> OptionValue:
        """Convert a value as Juju does: text by the option's type, other values by their own.

        Raises InvalidValueError with Juju's wording.
        """
        parsed = self.from_text(value) if isinstance(value, str) else self.from_value(value)
        if parsed is None:
            shown = f'"{value}"' if isinstance(value, str) else value
            raise InvalidValueError(f'option "{name}" expected {self.type}, got {shown}')
        return parsed

    def from_text(self, text: str) -> OptionValue | None:
        """Return the value that a text means, None for none."""
        if self.type == "string":
            return text
        if self.type == "boolean":
            return BOOLEANS.get(text)
        try:
            if self.type == "float":
                return float(text)
            number = int(text)
        except ValueError:
            return None
        return number if number in INT64 else None

    def from_value(self, value: object) -> OptionValue | None:
        """Return the value as the option's type, None if it is of another."""
        if isinstance(value, bool):
            return value if self.type == "boolean" else None
        if isinstance(value, int):
            return (
                value
                if self.type == "int" and value in INT64
                else (float(value) if self.type == "float" else None)
            )
        return value if isinstance(value, float) and self.type == "float" else None


class Action(Declared):
    """An action of actions.yaml."""

    description: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
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
        if self.required:
            schema["required"] = self.required
        return schema

    def complete(self, params: Mapping[str, object]) -> dict[str, object]:
        """Check parameters and return them with the declared defaults filled in."""
        import jsonschema  # It loads slowly; only processes that run charms need it.

        errors = sorted(
            jsonschema.Draft4Validator(self.json_schema).iter_errors(dict(params)),
            key=lambda error: [str(part) for part in error.absolute_path],
        )
        if errors:
            sentences = []
            for error in errors:
                where = ".".join(["(root)", *(str(part) for part in error.absolute_path)])
                sentences.append(f"{where} : {error.message}")
            raise InvalidValueError(f"validation failed: {'; '.join(sentences)}")
        return _with_defaults(self.params, params)


def _with_defaults(
    properties: Mapping[str, Any], values: Mapping[str, object]
) -> dict[str, object]:
    """Fill in defaults at every depth; a missing map without defaults is not added."""
    result = dict(values)
    for name, schema in properties.items():
        if not isinstance(schema, Mapping):
            continue
        if name not in result and "default" in schema:
            result[name] = schema["default"]
        nested, present = schema.get("properties"), result.get(name)
        if isinstance(nested, Mapping) and (present is None or isinstance(present, Mapping)):
            filled = _with_defaults(nested, present or {})
            if filled:
                result[name] = filled
    return result


class Charm(Declared):
    """The declarations of a charm folder."""

    metadata: Metadata
    options: dict[str, Option] = Field(default_factory=dict)
    actions: dict[str, Action] = Field(default_factory=dict)

    def option(self, name: str) -> Option:
        """Return an option; raises NotFoundError with Juju's wording."""
        try:
            return self.options[name]
        except KeyError:
            raise NotFoundError(f'unknown option "{name}"') from None

    def config(self, explicit: Mapping[str, OptionValue]) -> dict[str, OptionValue | None]:
        """Return the effective options: the set value, else the default, else None."""
        return {name: explicit.get(name, option.default) for name, option in self.options.items()}


def _read_yaml(path: Path, required: bool) -> Any:
    try:
        content = load(path.read_bytes())
    except FileNotFoundError:
        if required:
            raise InvalidCharmError(f"{path} is missing: this is not a charm folder") from None
        return {}
    except DocumentError as error:
        raise InvalidCharmError(f"{path} is not YAML: {error}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InvalidCharmError(f"{path} must hold a map, not {type(content).__name__}")
    return content


@functools.lru_cache(maxsize=256)
def _cached(folder: Path, stamp: tuple[int, ...]) -> Charm:
    options = _read_yaml(folder / "config.yaml", required=False).get("options") or {}
    actions = _read_yaml(folder / "actions.yaml", required=False)
    try:
        charm = Charm.model_validate(
            {
                "metadata": _read_yaml(folder / "metadata.yaml", required=True),
                "options": options,
                "actions": {name: spec or {} for name, spec in actions.items()},
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        section, *rest = (str(part) for part in first["loc"])
        file = {"options": "config.yaml", "actions": "actions.yaml"}.get(section, "metadata.yaml")
        raise InvalidCharmError(
            f"{folder / file}: {'.'.join(rest) or section}: {clause(first)}"
        ) from error
    _check(folder, charm)
    return charm


def _check(folder: Path, charm: Charm) -> None:
    """Check Juju's rules for names, defaults and schemas."""
    if not NAME.match(charm.metadata.name):
        raise InvalidCharmError(
            f'{folder / "metadata.yaml"}: name "{charm.metadata.name}" is no charm name'
        )
    seen: set[str] = set()
    for role, name, spec in charm.metadata.endpoints():
        where = f"{folder / 'metadata.yaml'}: endpoint {name}"
        if name in seen:
            raise InvalidCharmError(f"{where} is declared twice")
        seen.add(name)
        if (
            name == "juju"
            or name.startswith("juju-")
            or (role == "provider" and spec.interface.startswith("juju-"))
        ):
            raise InvalidCharmError(f"{where} uses a name that is reserved to Juju")
    for name, option in charm.options.items():
        if option.default is not None:
            try:
                option.default = option.parse(name, option.default)
            except InvalidValueError as error:
                raise InvalidCharmError(
                    f"{folder / 'config.yaml'}: invalid default: {error}"
                ) from error
    import jsonschema  # as in Action.complete

    for name, action in charm.actions.items():
        where = f"{folder / 'actions.yaml'}: action {name}"
        if not ACTION_NAME.match(name):
            raise InvalidCharmError(f"{where} has a name Juju does not take")
        if name == "juju" or name.startswith("juju-"):
            raise InvalidCharmError(f"{where} uses a name that is reserved to Juju")
        try:
            jsonschema.Draft4Validator.check_schema(action.json_schema)
        except jsonschema.SchemaError as error:
            raise InvalidCharmError(f"{where} has no valid schema: {error.message}") from error


def read_charm(folder: Path) -> Charm:
    """Read the declarations of a charm folder.

    Raises InvalidCharmError, naming the file and the key.
    """
    stamps = []
    for name in ("metadata.yaml", "config.yaml", "actions.yaml"):
        try:
            entry = os.stat(folder / name)
            stamps += [entry.st_mtime_ns, entry.st_size, entry.st_ino]
        except FileNotFoundError:
            stamps += [0, 0, 0]
    return _cached(folder, tuple(stamps))


def pack(source: Path, target: Path) -> list[str]:
    """Copy the files of a charm folder that libjuju would put into its zip; return warnings.

    `target` must not exist; after an error it may have some files. Raises InvalidCharmError.
    """
    if not source.is_dir():
        raise InvalidCharmError(f"{source} is not a folder")
    root = source.resolve()
    read_charm(root)
    warnings: list[str] = []
    target.mkdir(parents=True)
    for folder, folders, files in os.walk(root):
        relative = Path(folder).relative_to(root)
        if relative == Path("."):
            folders[:] = [name for name in folders if name != "build" and not name.startswith(".")]
            files = [name for name in files if name != "build" and not name.startswith(".")]
        for name in list(folders):
            if os.path.islink(os.path.join(folder, name)):
                folders.remove(name)
                warnings.append(f"{relative / name} links to a folder and is left out of the charm")
            else:
                (target / relative / name).mkdir()
        for name in files:
            _pack_file(root, relative / name, target / relative / name)
    return warnings


def _pack_file(root: Path, relative: Path, target: Path) -> None:
    source = root / relative
    try:
        reached = source.stat()
    except FileNotFoundError:
        raise InvalidCharmError(f"{source} links to a file that does not exist") from None
    if not stat.S_ISREG(reached.st_mode):
        raise InvalidCharmError(f"Invalid Charm at {source}: Invalid file type for a charm")
    if source.is_symlink():
        link = os.readlink(source)
        if os.path.isabs(link):
            raise InvalidCharmError(f"Invalid Charm at {source}: Absolute links are invalid")
        if not Path(os.path.normpath(source.parent / link)).is_relative_to(root):
            raise InvalidCharmError(
                f"Invalid charm at {source}: Only internal symlinks are allowed"
            )
        target.symlink_to(link)
        return
    if reached.st_mtime < ZIP_EPOCH:
        raise InvalidCharmError(
            f"Invalid charm at {source}: ZIP does not support timestamps before 1980"
        )
    _place(source, target, relative)


def _place(source: Path, target: Path, relative: Path) -> None:
    """Make a file of a charm; ``relative`` is its path in the charm."""
    if relative.parts[0] == SHARED:
        with suppress(OSError):  # another file system, or one that allows no more links
            os.link(source, target, follow_symlinks=False)
            return
    shutil.copy2(source, target, follow_symlinks=False)


def unpack(packed: Path, charm_dir: Path) -> None:
    """Update a unit's charm folder to the files of `packed`.

    Files of an earlier version that this one does not have are removed. Files that the charm made
    itself (state databases, keys, caches) stay. Safe to repeat after an interruption.
    """
    charm_dir.mkdir(parents=True, exist_ok=True)
    manifest = charm_dir / MANIFEST
    names: list[str] = []
    for folder, folders, files in os.walk(packed):
        relative = Path(folder).relative_to(packed)
        names += [str(relative / name) for name in [*folders, *files]]
    old = manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else []
    # Deepest first, so that a folder's files are removed before the folder.
    for name in sorted(set(old) - set(names), reverse=True):
        path = charm_dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path / "__pycache__", ignore_errors=True)
            if not any(path.iterdir()):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
    # Keep both lists until the copy is complete, for an upgrade that is interrupted.
    manifest.write_text("\n".join(sorted({*old, *names})), encoding="utf-8")
    for name in names:
        _unpack_entry(packed / name, charm_dir / name, Path(name))
    manifest.write_text("\n".join(names), encoding="utf-8")


def _unpack_entry(source: Path, target: Path, relative: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        if target.is_symlink() or target.is_file():
            target.unlink()
        target.mkdir(exist_ok=True)
        return
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        # Do not overwrite it in place: a process may still run the old file.
        target.unlink(missing_ok=True)
    _place(source, target, relative)
