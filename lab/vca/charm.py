"""A charm folder: what its three YAML files declare, and how it is packed and unpacked.

Packing follows libjuju, which OSM's LCM uses (charm archive generator of python-libjuju 2.9):
`build/` and dot entries of the root are left out, so are links to folders. Links that lead out of
the charm are refused here as the controller would refuse them. Onboarding leaves no other faults.

The Python packages of a charm (`venv`) are hard links to the files that it was deployed from: they
are nine tenths of a charm, and pip replaces such files and does not change them in place.
"""

import functools
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import declarations
from builder.declarations import Action, Metadata, Option, OptionValue
from builder.documents import DocumentError
from lab.errors import NotFoundError, VcaError

MANIFEST = ".vpnaas-lab-manifest"
"""In an unpacked charm folder: the paths that came with the charm, one per line."""
FILES = (declarations.METADATA, declarations.ACTIONS, declarations.CONFIG)
SHARED = "venv"  # Folder of a charm with Python packages.
BYTECODE = Path(__file__).resolve().parents[2] / ".cache" / "bytecode"
"""What Python compiled, by the digest of a folder's modules. It takes longer than a hook."""


@dataclass(frozen=True)
class Charm:
    """The declarations of a charm folder."""

    metadata: Metadata
    actions: dict[str, Action]
    options: dict[str, Option]

    def parsed(self, name: str, value: object) -> OptionValue:
        """Return the value of an option as Juju takes it."""
        if name not in self.options:
            raise NotFoundError(f'unknown option "{name}"')
        try:
            return self.options[name].parse(name, value)
        except ValueError as error:
            raise VcaError(str(error)) from None

    def config(self, explicit: Mapping[str, OptionValue]) -> dict[str, OptionValue | None]:
        """Return the effective options: the set value, else the default, else None."""
        return {name: explicit.get(name, option.default) for name, option in self.options.items()}


def complete(action: Action, params: Mapping[str, object]) -> dict[str, object]:
    """Check the parameters of an action and return them with the declared defaults filled in."""
    import jsonschema  # It loads slowly; only processes that run charms need it.

    found = jsonschema.Draft4Validator(action.json_schema).iter_errors(dict(params))
    errors = sorted((".".join(["(root)", *map(str, e.absolute_path)]), e.message) for e in found)
    if errors:
        told = "; ".join(f"{where} : {message}" for where, message in errors)
        raise VcaError(f"validation failed: {told}")
    return _with_defaults(action.params, params)


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


@functools.lru_cache(maxsize=256)
def _cached(folder: Path, stamp: tuple[tuple[int, int, int], ...]) -> Charm:
    found = []
    for name in FILES:
        path = folder / name
        try:
            found.append(declarations.read(name, path.read_bytes() if path.exists() else None))
        except DocumentError as error:
            raise VcaError(f"{path}: {error}") from error
    metadata, actions, config = found
    return Charm(metadata, actions.root, config.options)


def read_charm(folder: Path) -> Charm:
    """Read the declarations of a charm folder; an error names the file and the key."""
    entries = [path.stat() for path in map(folder.joinpath, FILES) if path.exists()]
    stamp = tuple((entry.st_mtime_ns, entry.st_size, entry.st_ino) for entry in entries)
    return _cached(folder, stamp)


def pack(source: Path, target: Path) -> list[str]:
    """Copy the files of a charm folder that libjuju would put into its zip; return warnings.

    `target` must not exist; after an error it may have some files.
    """
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
    if not source.exists():
        raise VcaError(f"{source} links to a file that does not exist")
    if source.is_symlink():
        link = os.readlink(source)
        if not Path(os.path.normpath(source.parent / link)).is_relative_to(root):
            raise VcaError(f"Invalid charm at {source}: Only internal symlinks are allowed")
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
        folders[:] = [name for name in folders if name != "__pycache__"]
        relative = Path(folder).relative_to(packed)
        names += [str(relative / name) for name in [*folders, *files]]
    old = manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else []
    for compiled in list(charm_dir.rglob("__pycache__")):
        if compiled.is_symlink():
            compiled.unlink()
        else:
            shutil.rmtree(compiled)
    # Deepest first, so that a folder's files are removed before the folder.
    for name in sorted(set(old) - set(names), reverse=True):
        path = charm_dir / name
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
    # Keep both lists until the copy is complete, for an upgrade that is interrupted.
    manifest.write_text("\n".join(sorted({*old, *names})), encoding="utf-8")
    for name in names:
        _unpack_entry(packed / name, charm_dir / name, Path(name))
    _share_bytecode(charm_dir, names)
    manifest.write_text("\n".join(names), encoding="utf-8")


def _share_bytecode(charm_dir: Path, names: list[str]) -> None:
    """Let folders with the same modules, of any charms, have the same bytecode.

    Python knows a module by date and size, and an upgrade may leave both as they were.
    """
    digests: dict[Path, Any] = defaultdict(hashlib.sha256)
    for name in sorted(names):
        if name.endswith(".py"):
            content = hashlib.sha256((charm_dir / name).read_bytes()).digest()
            digests[Path(name).parent].update(name.encode() + content)
    for folder, digest in digests.items():
        shared = BYTECODE / digest.hexdigest()
        shared.mkdir(parents=True, exist_ok=True)
        (charm_dir / folder / "__pycache__").symlink_to(shared)


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
