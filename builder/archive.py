"""Reproducible tar.gz archives: same files, same bytes."""

import functools
import hashlib
import struct
import tarfile
import zlib
from pathlib import Path
from typing import IO, cast

TIMESTAMP = 1640995200
"""2022-01-01 00:00 UTC; any constant after 1980 serves (libjuju zips charms, ZIP starts there)."""
_PIECE = 1 << 20
_SMALL = 1 << 12  # Bytes of a piece that is compressed with its neighbours.


@functools.lru_cache(maxsize=2048)
def _deflated(piece: bytes) -> bytes:
    """Compress a piece by itself (RFC 1951), so that it may stand anywhere in a stream.

    Cached, because charms share their largest files.
    """
    # Level 6 takes 1.7 times as long for 1 % fewer bytes.
    packer = zlib.compressobj(5, wbits=-zlib.MAX_WBITS)
    return packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)


class _Gzip:
    """A gzip file (RFC 1952) of what is written, without a name and with a constant date."""

    def __init__(self) -> None:
        self._packed = [b"\x1f\x8b\x08\0" + struct.pack("<L", TIMESTAMP) + b"\0\xff"]
        self._small = bytearray()
        self._sum = self._size = 0

    def tell(self) -> int:
        return self._size

    def write(self, piece: bytes) -> int:
        self._sum = zlib.crc32(piece, self._sum)
        self._size += len(piece)
        if len(piece) < _SMALL:
            self._small += piece
        else:
            self._settle()
            self._packed.append(_deflated(piece))
        return len(piece)

    def _settle(self) -> None:
        self._packed.append(_deflated(bytes(self._small)))
        self._small.clear()

    def whole(self) -> bytes:
        """Return the file; nothing may be written afterwards."""
        self._settle()
        end = zlib.compressobj(wbits=-zlib.MAX_WBITS).flush()
        return b"".join((*self._packed, end, struct.pack("<LL", self._sum, self._size % (1 << 32))))


def checksums(folder: Path) -> str:
    """Return checksums.txt as `osm package-build` writes it: MD5 and path of every file."""
    rows = []
    for path in _files(folder):
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        rows.append(f"{digest}\t{path.relative_to(folder).as_posix()}\n")
    return "".join(rows)


def digest(folder: Path) -> str:
    """Return a digest of names, modes and contents of a file, or of all below a folder.

    Files that Python compiled do not count.
    """
    result = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        if path.is_file() and path.suffix != ".pyc":
            result.update(f"{path.relative_to(folder)}\0{path.stat().st_mode:o}\0".encode())
            result.update(hashlib.sha256(path.read_bytes()).digest())
    return result.hexdigest()


def write(folder: Path, target: Path) -> None:
    """Pack `folder` as the one top folder of `target`, atomically."""
    packed = _Gzip()
    form = tarfile.PAX_FORMAT
    # All that tarfile asks of a file when it writes is `write` and `tell`.
    file = cast(IO[bytes], packed)
    with tarfile.TarFile(fileobj=file, mode="w", format=form, copybufsize=_PIECE) as archive:
        for path in [folder, *sorted(folder.rglob("*"), key=lambda p: p.parts)]:
            name = Path(folder.name, path.relative_to(folder)).as_posix()
            archive.dereference = not path.is_symlink()  # Pack hard links as files.
            entry = archive.gettarinfo(str(path), name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = TIMESTAMP
            executable = path.is_dir() or path.stat().st_mode & 0o100
            entry.mode = 0o755 if executable else 0o644
            if path.is_file():
                with path.open("rb") as stream:
                    archive.addfile(entry, stream)
            else:
                archive.addfile(entry)
    staging = target.with_suffix(".tmp")
    staging.write_bytes(packed.whole())
    staging.replace(target)


def _files(folder: Path) -> list[Path]:
    result = [path for path in folder.rglob("*") if path.is_file() and path.name != "checksums.txt"]
    return sorted(result, key=lambda p: p.relative_to(folder).parts)
