"""Folders of onboarded packages: one for each revision, with the archive that it came in.

Files with the same content are the same file in all packages (a hard link): the charms of a lab
have the same Python packages.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from lab.records.store import NSDS, NSTS, VNFDS, VNFRS, Document, Store

ARCHIVE = ".archive"  # Ends the name of the archive beside a folder.


def write_shared(root: Path, target: Path, data: bytes, mode: int) -> None:
    """Write a new file that nobody changes in place; ``root`` is the folder of the records."""
    kept = _shared(root) / f"{hashlib.sha256(data).hexdigest()}-{mode:o}"
    with suppress(OSError):  # it is new, or a file system allows no more links
        if kept.stat().st_size == len(data):  # else cut by a power failure
            os.link(kept, target)
            return
        kept.unlink()
    target.write_bytes(data)
    target.chmod(mode)
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        os.link(target, kept)


def _shared(root: Path) -> Path:
    return root / "files"


def drop_package(target: Path) -> None:
    """Remove the folder of a package's revision, with the archive that it came in."""
    shutil.rmtree(target, ignore_errors=True)
    target.with_name(target.name + ARCHIVE).unlink(missing_ok=True)
    prune_files(target.parents[1])


def prune_files(root: Path) -> None:
    """Remove the shared files that no package and no charm has."""
    for path in _shared(root).glob("*"):
        with suppress(FileNotFoundError):  # another process does the same
            if path.stat().st_nlink == 1:
                path.unlink()


def prune_revisions(store: Store) -> None:
    """Remove the revisions of packages that no VNF has; the latest ones stay."""
    prune_files(store.root)
    if store.damaged(VNFRS):
        return  # Nobody can tell which revision these VNFs have.
    for kind in (VNFDS, NSDS, NSTS):
        for package in store.all(kind):
            revisions: Document = package["_admin"].get("revisions") or {}
            used = {str(package["_admin"].get("revision", 1))}
            if len(revisions) > 1:
                used |= {
                    str(vnfr.get("revision", 1))
                    for vnfr in store.all(VNFRS)
                    if vnfr["vnfd-id"] == package["_id"]
                }
            for number in sorted(set(revisions) - used):
                with store.edit(kind, package["_id"]) as document:
                    document["_admin"]["revisions"].pop(number, None)
                top = Path(str(revisions[number]["folder"])).parts[1]
                drop_package(store.root / "packages" / top)
