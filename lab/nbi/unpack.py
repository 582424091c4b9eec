"""Unpack a package archive into a directory, trusting nothing in it.

OSM keeps packages as trees in its file store; LCM reads charms and cloud-init from there.
"""

import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from lab.errors import NbiError

MAX_BYTES = 1 << 30
"""Largest size of an unpacked package, in bytes."""
MAX_FILES = 20_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of the others zipfile decompresses a whole block at once, whatever size the archive says."""


def unpack(source: Path, target: Path) -> Path:
    """Copy or extract ``source`` into the new directory ``target``; return the package folder.

    Args:
        source: directory, ``.tar.gz``, ``.zip`` or a descriptor alone.
        target: must not exist; removed again after an error.
    """
    target.mkdir(parents=True)
    try:
        if source.is_dir():
            shutil.copytree(source, target / source.resolve().name, symlinks=True)
        elif source.suffix in (".yaml", ".yml", ".json"):
            shutil.copyfile(source, target / source.name)
        elif zipfile.is_zipfile(source):
            _unzip(source, target)
        else:
            _untar(source, target)
        # Only now: a link may lead elsewhere by another one that comes after it.
        for path in target.rglob("*"):
            if path.is_symlink():
                _inside(path, target, source)
        entries = list(target.iterdir())
        if len(entries) == 1 and entries[0].is_dir():
            return entries[0]
        return target
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise NbiError(f"invalid file content: {source.name} cannot be unpacked: {error}") from None
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _untar(source: Path, target: Path) -> None:
    total = 0
    with tarfile.open(source, "r:gz") as archive:
        for number, member in enumerate(archive):
            path = target / _safe(member.name, source)
            total += member.size
            if number >= MAX_FILES or total > MAX_BYTES:
                raise NbiError(f"{source.name} is too large when unpacked")
            _inside(path.parent, target, source)
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.isdir():
                path.mkdir(exist_ok=True)
            elif member.issym():
                path.symlink_to(member.linkname)
            elif member.isreg():
                stream = archive.extractfile(member)
                if stream is None or path.is_symlink():
                    raise NbiError(f"{source.name}: {member.name} cannot be read")
                with stream, path.open("wb") as out:
                    shutil.copyfileobj(stream, out)
                path.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
            else:
                raise NbiError(f"{source.name}: {member.name} is no file, directory or symlink")


def _unzip(source: Path, target: Path) -> None:
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        if len(infos) > MAX_FILES or sum(info.file_size for info in infos) > MAX_BYTES:
            raise NbiError(f"{source.name} is too large when unpacked")
        for info in infos:
            path = target / _safe(info.filename, source)
            if info.compress_type not in _METHODS:
                raise NbiError(f"{source.name}: {info.filename} is neither stored nor deflated")
            if info.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as stream, path.open("wb") as out:
                shutil.copyfileobj(stream, out)
            path.chmod(0o755 if (info.external_attr >> 16) & stat.S_IXUSR else 0o644)


def _safe(name: str, source: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise NbiError(
            f"{source.name}: absolute path or '..' are not allowed for package descriptor "
            f"files ({name})"
        )
    return path


def _inside(path: Path, target: Path, source: Path) -> None:
    root = target.resolve()
    # Path.resolve fails on links that lead in a circle.
    resolved = Path(os.path.realpath(path))
    if resolved != root and root not in resolved.parents:
        raise NbiError(f"{source.name}: {path.name} leads out of the package")
