"""Reading untrusted packages in the same way as OSM's northbound interface (NBI)."""

import gzip
import lzma
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from builder.documents import DocumentError, load
from builder.errors import BuildError
from builder.validate.problem import Problem, problem

MAX_FILES = 20_000
MAX_BYTES = 256 << 20
DEFLATED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of other methods zipfile decompresses a whole block at once, whatever size the archive says."""
DESCRIPTOR_ENDINGS = (".yaml", ".yml", ".json")
UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    # zipfile: encrypted members and unknown compression; odd headers.
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
)


class PackageError(BuildError):
    """The package cannot be read; carries the Problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.path}: {problem.sentence}")
        self.problem = problem


@dataclass(frozen=True)
class Entry:
    """A file of a package."""

    data: bytes  # Content, empty for a link.
    mode: int = 0o644  # Permission bits.
    mtime: float = 1.7e9  # Seconds since 1970.
    link: str = ""  # Target of a symbolic link, "" for a file.


@dataclass
class Package:
    """A package in memory."""

    name: str  # Name of archive or folder, for messages.
    layout: str  # "tar" (one top folder, charms/, cloud_init/) or "zip" (SOL004, Scripts/...).
    files: dict[str, Entry]  # By path below the package's top.
    descriptor_path: str = ""  # The one descriptor.
    document: Any = None  # Its content.
    # Problems of the archive that do not prevent OSM from reading it.
    notes: list[Problem] = field(default_factory=list)
    # Cache of the charms that were read, because many rules need them.
    charms: dict[str, Any] = field(default_factory=dict, repr=False)
    # "vnfd", "nsd" or "nst", or "" if it cannot be recognised.
    kind: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Set `kind` from the descriptor."""
        if isinstance(self.document, dict):
            self.kind = next((kind for key, kind in KINDS.items() if key in self.document), "")
            if not self.kind and "id" in self.document:
                # Without an envelope NBI gets the kind from its client; here the keys show it.
                self.kind = next((kind for key, kind in BARE.items() if key in self.document), "")

    def folder(self, what: str) -> str:
        """Return the folder of this layout for "charms" or "cloud_init"."""
        return f"Scripts/{what}/" if self.layout == "zip" else f"{what}/"

    def other_folder(self, what: str) -> str:
        """Return the folder of the other layout; NBI also looks there, LCM does not."""
        return f"{what}/" if self.layout == "zip" else f"Scripts/{what}/"

    def names(self, what: str) -> set[str]:
        """Return the folders below "charms" or "cloud_init"."""
        top = self.folder(what)
        return {
            path[len(top) :].split("/")[0]
            for path in self.files
            if path.startswith(top) and "/" in path[len(top) :]
        }

    def text(self, path: str) -> str | None:
        """Return the content of a text file, also through links; None if it is missing."""
        data = self.data(path)
        return None if data is None else data.decode("utf-8", "replace")

    def data(self, path: str) -> bytes | None:
        """Return the content of a file, also through links; None if it is missing."""
        entry = self.entry(path)
        return None if entry is None else entry.data

    def entry(self, path: str) -> Entry | None:
        """Return a file, or the one to which links lead; None if it is missing."""
        for _ in range(8):
            entry = self.files.get(path)
            if entry is None or not entry.link:
                return entry
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.link))
        return None


def is_utf8(package: Package, path: str) -> bool:
    try:
        (package.data(path) or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


KINDS = {
    "vnfd": "vnfd",
    "etsi-nfv-vnfd:vnfd": "vnfd",
    "nsd": "nsd",
    "etsi-nfv-nsd:nsd": "nsd",
    "nst": "nst",
    "nst:nst": "nst",
}
"""Envelopes that NBI removes (its _remove_envelop), and the kind of each."""
BARE = {"netslice-subnet": "nst", "vnfd-id": "nsd", "df": "vnfd"}
"""Keys that show the kind of a descriptor without envelope."""


def read(path: Path, shallow: bool = False) -> Package:
    """Read a folder, tar.gz, zip or single descriptor.

    Args:
        shallow: Whether files in folders of charms may stay unread; rules about parameters need
            the charms' declarations only. Archives are read as a whole.

    Raises:
        PackageError: It is another type of file, unsafe, too large, or has no single descriptor.
    """
    path = path if path.name not in ("", "..") else path.resolve()
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise _refuse(path.name, "archive-unreadable/whole", cause="neither a file nor a folder")
    reader = _reader(path)
    try:
        return _from_folder(path, shallow) if path.is_dir() else reader(path)
    except UNREADABLE as error:
        cause = isinstance(error, OSError) and error.strerror
        cause = cause or f"it is no {'zip' if reader is _from_zip else 'tar.gz'}, or damaged"
        raise _refuse(path.name, "archive-unreadable/whole", cause=cause) from None


def _reader(path: Path) -> Callable[[Path], Package]:
    if path.suffix in DESCRIPTOR_ENDINGS:
        return _from_descriptor
    # OSM's client derives the type of archive from the file's name.
    if path.suffix == ".zip" or (path.suffix not in (".gz", ".tgz") and zipfile.is_zipfile(path)):
        return _from_zip
    return _from_tar


def place_of(name: str, file: str) -> str:
    """Return a file of a package, or a place inside, with the package's name unless it is that."""
    return file if file.partition(":")[0] == name else f"{name}: {file}"


def _refuse(where: str, code: str, /, **words: Any) -> PackageError:
    return PackageError(problem(where, code, **words))


def _from_descriptor(path: Path) -> Package:
    if path.stat().st_size > MAX_BYTES:
        raise _too_large(path.name)
    return _finish(path.name, "tar", {path.name: Entry(path.read_bytes())})


def _from_folder(path: Path, shallow: bool = False) -> Package:
    files: dict[str, Entry] = {}
    notes = []
    size = 0
    for item in sorted(path.rglob("*")):
        relative = item.relative_to(path).as_posix()
        if item.is_symlink():
            files[relative] = Entry(b"", link=str(item.readlink()))
        elif item.is_file():
            status = item.stat()
            size += status.st_size
            _limit(path.name, len(files), size)
            data = b"" if shallow and relative.count("/") > 2 else item.read_bytes()
            files[relative] = Entry(data, stat.S_IMODE(status.st_mode), status.st_mtime)
        elif not item.is_dir():
            notes.append(_odd_member(path.name, relative))
    return _finish(path.name, "tar", files, notes)


class _Bounded:
    """A stream that raises an error when an archive unpacks to more than the limit."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name, self._left = stream, name, MAX_BYTES + (64 << 20)

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._name)
        return data


def _from_tar(path: Path) -> Package:
    members: dict[str, Entry] = {}
    notes: list[Problem] = []
    seen: set[str] = set()
    # Read as a stream, because a header can also claim any size.
    with gzip.open(path) as unpacked:
        stream = cast("IO[bytes]", _Bounded(cast("IO[bytes]", unpacked), path.name))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for name, entry in _members(path.name, archive, notes):
                notes += _spelling(path.name, name, seen)
                members[name] = entry
            # Up to gzip's checksum at the end, which tarfile does not read.
            rest = cast("IO[bytes]", archive.fileobj)
            hidden = False
            while block := rest.read(1 << 16):
                hidden = hidden or any(block)
    if hidden:
        notes.append(problem(path.name, "archive-member/after-end"))
    if not members:
        raise _no_descriptor(path.name, "tar.gz", [])
    descriptors = [name for name in sorted(members) if _descriptor(name) and name.count("/") == 1]
    if len(descriptors) != 1:
        raise _no_descriptor(path.name, "tar.gz", descriptors, members)
    top = descriptors[0].split("/")[0]
    others = sorted({name.split("/")[0] for name in members} - {top})
    if others:
        notes.append(problem(path.name, "archive-folders", folders=", ".join([top, *others])))
    files = {name[len(top) + 1 :]: e for name, e in members.items() if name.startswith(top + "/")}
    return _finish(path.name, "tar", files, notes)


def _members(
    name: str, archive: tarfile.TarFile, notes: list[Problem]
) -> Iterator[tuple[str, Entry]]:
    """Yield (path, entry) of files and links; check names as NBI does, with NBI's messages."""
    size = count = 0
    read: dict[str, Entry] = {}
    for member in archive:
        parts = member.name.split("/")
        if not parts[0] or ".." in parts:
            raise _unsafe(name, member.name, "tar.gz")
        if len(parts) == 1 and not member.isdir():
            raise _refuse(name, "archive-top", member=member)
        size += member.size
        count += 1
        _limit(name, count, size)
        if member.isfile():
            stream = archive.extractfile(member)
            entry = Entry(stream.read() if stream else b"", member.mode, member.mtime)
        elif member.issym():
            entry = Entry(b"", member.mode, member.mtime, member.linkname)
        elif member.islnk() and member.linkname in read:
            entry = read[member.linkname]  # a hard link to an earlier file
        elif member.isdir():
            continue
        else:
            notes.append(_odd_member(name, member.name))
            continue
        read[member.name] = entry
        yield member.name, entry


def _from_zip(path: Path) -> Package:
    files: dict[str, Entry] = {}
    notes: list[Problem] = []
    seen: set[str] = set()
    size = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.startswith("/") or ".." in info.filename:
                raise _unsafe(path.name, info.filename, "zip")
            size += info.file_size
            _limit(path.name, len(files), size)
            if info.compress_type not in DEFLATED:
                raise _refuse(path.name, "archive-unreadable/compression", info=info)
            if not info.is_dir():
                notes += _spelling(path.name, info.filename, seen)
                year = info.date_time[0]
                full_mode = info.external_attr >> 16
                data = archive.read(info)
                link = data.decode("utf-8", "replace") if stat.S_ISLNK(full_mode) else ""
                files[info.filename] = Entry(
                    b"" if link else data,
                    full_mode & 0o7777 or 0o644,
                    # ZIP has no dates before 1980, so 1980 means an earlier or unknown date.
                    1.7e9 if year > 1980 else 0,
                    link,
                )
    descriptors = [
        name
        for name in sorted(files)
        if _descriptor(name) and ("/" not in name or "Definitions" in name)
    ]
    if len(descriptors) != 1:
        raise _no_descriptor(path.name, "zip", descriptors, files)
    return _finish(path.name, "zip", files, notes, descriptors[0])


def _descriptor(name: str) -> bool:
    return name.endswith(DESCRIPTOR_ENDINGS)


def _unsafe(name: str, path: str, kind: str) -> PackageError:
    return _refuse(name, "archive-path", path=path, kind=kind)


def _odd_member(name: str, path: str) -> Problem:
    return problem(f"{name}: {path}", "archive-member/odd")


def _spelling(name: str, path: str, seen: set[str]) -> list[Problem]:
    """Return the problem of a path that stands twice, or is not written in the shortest way."""
    plain = posixpath.normpath(path.replace("\\", "/"))
    where = f"{name}: {path}"
    if plain in seen:
        return [problem(where, "archive-twice")]
    seen.add(plain)
    if plain == path:
        return []
    return [problem(where, "archive-member/spelling", plain=plain)]


def _no_descriptor(
    name: str, kind: str, names: list[str], files: dict[str, Entry] | None = None
) -> PackageError:
    if any(b"tosca_definitions_version" in entry.data for entry in (files or {}).values()):
        return _refuse(name, "old-format/archive")
    where = "at the top or in Definitions/" if kind == "zip" else "directly in the top folder"
    if not names:
        return _refuse(name, "descriptor-count/none", where=where, kind=kind)
    words = {"count": len(names), "files": ", ".join(names[:5]), "where": where, "kind": kind}
    folded = [path for path in names if "\\" in path]
    if folded:
        return _refuse(name, "descriptor-count/backslash", name=folded[0], **words)
    return _refuse(name, "descriptor-count/many", **words)


def _too_large(name: str) -> PackageError:
    return _refuse(name, "archive-size", files=MAX_FILES, mebibytes=MAX_BYTES >> 20)


def _limit(name: str, count: int, size: int) -> None:
    if count > MAX_FILES or size > MAX_BYTES:
        raise _too_large(name)


def _finish(
    name: str,
    layout: str,
    files: dict[str, Entry],
    notes: list[Problem] | None = None,
    descriptor: str = "",
) -> Package:
    if not descriptor:
        descriptors = [path for path in sorted(files) if _descriptor(path) and "/" not in path]
        if len(descriptors) != 1:
            raise _no_descriptor(name, "tar.gz", descriptors)
        descriptor = descriptors[0]
    told = list(notes or [])
    for path in files:
        for parent in map(str, PurePosixPath(path).parents):
            if parent in files and not files[parent].link:
                told.append(problem(f"{name}: {path}", "archive-member/both", parent=parent))
    where = place_of(name, descriptor)
    if descriptor.endswith(".json"):
        # NBI calls json.load() with text instead of a file, which always fails.
        raise _refuse(where, "descriptor-json")
    entry = files[descriptor]
    text = entry.data if not entry.link else (Package(name, layout, files).text(descriptor) or "")
    try:
        document = load(text)
    except DocumentError as error:
        raise _refuse(where, "descriptor-yaml", error=error) from None
    return Package(name, layout, files, descriptor, document, told)
