"""Folders of onboarded packages: one for each revision, with the archive that it came in."""

import shutil
from pathlib import Path

from lab.records.store import NSDS, NSTS, VNFDS, VNFRS, Document, Store

ARCHIVE = ".archive"  # Ends the name of the archive beside a folder.


def drop_package(target: Path) -> None:
    """Remove the folder of a package's revision, with the archive that it came in."""
    shutil.rmtree(target, ignore_errors=True)
    target.with_name(target.name + ARCHIVE).unlink(missing_ok=True)


def prune_revisions(store: Store) -> None:
    """Remove the revisions of packages that no VNF has; the latest ones stay."""
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
