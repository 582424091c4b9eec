"""Packages in a wheel: each file once, though all charms carry the same libraries."""

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from builder import archive

INDEX = "index.json"


def store(archives: Iterable[Path], folder: Path) -> None:
    """Write the files of packages below ``folder``, named by their digests, and an index."""
    folder.mkdir(parents=True)
    index: dict[str, list[tuple[str, int, str]]] = {}
    for package in sorted(archives):
        rows = index[package.name] = []
        with tarfile.open(package) as packed:
            for member in packed:
                content = packed.extractfile(member)
                digest = ""
                if content is not None:
                    data = content.read()
                    digest = hashlib.sha256(data).hexdigest()
                    (folder / digest).write_bytes(data)
                rows.append((member.name, member.mode, digest))
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def restore(folder: Path, target: Path) -> None:
    """Make the archives that ``store`` read; those that are in ``target`` stay."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    target.mkdir(parents=True, exist_ok=True)
    for name, rows in index.items():
        if (target / name).exists():
            continue
        with tempfile.TemporaryDirectory(dir=target, prefix=".restore-") as scratch:
            for path, mode, digest in rows:
                place = Path(scratch, path)
                if digest:
                    place.write_bytes((folder / digest).read_bytes())
                    place.chmod(mode)
                else:
                    place.mkdir(parents=True, exist_ok=True)
            archive.write(Path(scratch, name.removesuffix(".tar.gz")), target / name)
