"""Reading packages the way OSM's northbound interface does, without trusting them."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from builder.validate.problem import Problem

MAX_FILES = 20_000
MAX_BYTES = 512 << 20
DESCRIPTOR_ENDINGS = (".yaml", ".yml", ".json")


class PackageError(Exception):
    """The package cannot be read at all; carries the Problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.sentence)
        self.problem = problem


@dataclass(frozen=True)
class Entry:
    """A file of a package."""

    data: bytes
    mode: int = 0o644
    mtime: float = 1.7e9
    link: str = ""


@dataclass
class Package:
    """A package in memory.

    Attributes:
        name: Name of archive or folder, for messages.
        layout: "tar" (one top folder, charms/, cloud_init/) or "zip" (SOL004, Scripts/...).
        files: By path below the package's top.
        descriptor_path: The one descriptor.
        document: Its content.
    """

    name: str
    layout: str
    files: dict[str, Entry]
    descriptor_path: str = ""
    document: Any = None
    kind: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Find out what the descriptor describes."""
        if isinstance(self.document, dict):
            for key, kind in KINDS.items():
                if key in self.document:
                    self.kind = kind

    def folder(self, what: str) -> str:
        """Return where this layout keeps "charms" or "cloud_init"."""
        return f"Scripts/{what}/" if self.layout == "zip" else f"{what}/"

    def names(self, what: str) -> set[str]:
        """Return the first path components below a folder."""
        top = self.folder(what)
        return {path[len(top) :].split("/")[0] for path in self.files if path.startswith(top)}

    def text(self, path: str) -> str | None:
        """Return a text file, None where missing."""
        entry = self.files.get(path)
        return None if entry is None else entry.data.decode("utf-8", "replace")

    def yaml(self, path: str) -> Any:
        """Return a YAML file, None where missing or broken."""
        text = self.text(path)
        try:
            return None if text is None else yaml.safe_load(text)
        except yaml.YAMLError:
            return None


KINDS = {
    "vnfd": "vnfd",
    "etsi-nfv-vnfd:vnfd": "vnfd",
    "nsd": "nsd",
    "etsi-nfv-nsd:nsd": "nsd",
    "nst": "nst",
}


def read(path: Path) -> Package:
    """Read a folder, tar.gz or zip.

    Raises:
        PackageError: It is none of these, unsafe, too large, or has not exactly one descriptor.
    """
    if path.is_dir():
        return _finish(path.name, "tar", _from_folder(path))
    try:
        if zipfile.is_zipfile(path):
            return _finish(path.name, "zip", _from_zip(path))
        return _finish(path.name, "tar", _from_tar(path))
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
        raise PackageError(
            Problem(
                path.name,
                "refused",
                "archive-unreadable",
                f"not a readable tar.gz or zip ({type(error).__name__}); allowed: tar.gz as "
                "vnfpkg-create takes it",
                "invalid file content",
            )
        ) from None


def _refuse(name: str, code: str, sentence: str, message: str = "") -> PackageError:
    return PackageError(Problem(name, "refused", code, sentence, message))


def _safe(name: str, path: str) -> PurePosixPath:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise _refuse(
            name,
            "archive-path",
            f"{path!r} leaves the package; allowed: relative paths without '..'",
            "Absolute path or '..' are not allowed for package descriptor tar.gz",
        )
    return pure


def _from_folder(path: Path) -> dict[str, Entry]:
    files = {}
    for item in sorted(path.rglob("*")):
        relative = item.relative_to(path).as_posix()
        if item.is_symlink():
            files[relative] = Entry(b"", link=str(item.readlink()))
        elif item.is_file():
            status = item.stat()
            files[relative] = Entry(
                item.read_bytes(), stat.S_IMODE(status.st_mode), status.st_mtime
            )
    return files


def _from_tar(path: Path) -> dict[str, Entry]:
    files: dict[str, Entry] = {}
    tops = set()
    size = 0
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            pure = _safe(path.name, member.name)
            if pure.parts:
                tops.add(pure.parts[0])
            inside = "/".join(pure.parts[1:])
            size += member.size
            _limit(path.name, len(files), size)
            if member.isfile():
                stream = archive.extractfile(member)
                data = stream.read() if stream else b""
                if not inside:
                    tops.add("")
                files[inside or member.name] = Entry(data, member.mode, member.mtime)
            elif member.issym() or member.islnk():
                files[inside] = Entry(b"", member.mode, member.mtime, member.linkname)
    if len(tops) != 1:
        raise _refuse(
            path.name,
            "archive-top",
            f"{len(tops)} entries at the top; allowed: one folder that holds everything",
            "All files must be under the same folder",
        )
    return files


def _from_zip(path: Path) -> dict[str, Entry]:
    files: dict[str, Entry] = {}
    size = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            pure = _safe(path.name, info.filename)
            size += info.file_size
            _limit(path.name, len(files), size)
            if not info.is_dir():
                year = info.date_time[0]
                mode = (info.external_attr >> 16) & 0o7777 or 0o644
                files[pure.as_posix()] = Entry(
                    archive.read(info), mode, 1.7e9 if year > 1980 else 0
                )
    return files


def _limit(name: str, count: int, size: int) -> None:
    if count > MAX_FILES or size > MAX_BYTES:
        raise _refuse(
            name,
            "archive-size",
            f"more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB unpacked",
        )


def _finish(name: str, layout: str, files: dict[str, Entry]) -> Package:
    places = ("", "Definitions/") if layout == "zip" else ("",)
    found = [
        path
        for path in sorted(files)
        for place in places
        if path.startswith(place)
        and "/" not in path[len(place) :]
        and path.endswith(DESCRIPTOR_ENDINGS)
    ]
    if len(found) != 1:
        many = "Found more than one descriptor file at package descriptor tar.gz"
        raise _refuse(
            name,
            "descriptor-count",
            f"{len(found)} descriptors ({', '.join(found) or 'no YAML file'} at the top); "
            "allowed: exactly one",
            many if found else "Not found any descriptor file at package descriptor tar.gz",
        )
    text = files[found[0]].data.decode("utf-8", "replace")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise _refuse(
            f"{name}: {found[0]}", "descriptor-yaml", f"not YAML: {reason}", "invalid YAML"
        ) from None
    return Package(name, layout, files, found[0], document)
