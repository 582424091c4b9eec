"""VNF and NS packages and slice templates: onboarding, listing, deletion."""

import copy
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from builder.documents import day_1_2, walk
from builder.errors import of_file
from lab import files
from lab.errors import ConflictError, NbiError, unknown
from lab.nbi import validation
from lab.records.ids import admin, new_id
from lab.records.operations import discard
from lab.records.packages import ARCHIVE, drop_package, prune_revisions, write_shared
from lab.records.store import NSDS, NSIS, NSRS, NSTS, VNFDS, VNFRS, Document, Store

if TYPE_CHECKING:
    from builder.validate import Package

KINDS = {VNFDS: "vnfd", NSDS: "nsd", NSTS: "nst"}
_INSTANCE = {
    VNFDS: "There is at least one VNF instance",
    NSDS: "There is at least one NS instance",
    NSTS: "there is at least one Netslice Instance",
}
_NAMED_BY = {
    VNFDS: (NSDS, "vnfd-id[]", "NS package"),
    NSDS: (NSTS, "netslice-subnet[]/nsd-ref", "NetSlice Template"),
}
"""Which packages name those of a kind, where, and how NBI calls them."""


class Catalogue:
    """The packages of a lab."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def _alone(self) -> AbstractContextManager[None]:
        """Keep others from changing packages, so that what a descriptor names stays."""
        return files.locked(self.store.root / ".packages.lock")

    def onboard(
        self, kind: str, source: Path, strict: bool = False, key: str | None = None
    ) -> tuple[Document, list[str]]:
        """Add a package to the catalogue; return its document and the warnings.

        Args:
            kind: ``VNFDS``, ``NSDS`` or ``NSTS``.
            source: archive, directory or descriptor alone.
            strict: refuse also what OSM accepts now and fails on later.
            key: the ``_id`` of the document; by default a new one.
        """
        key = key or new_id()
        with self._alone(), self._unpacked(kind, source, strict, key) as (folder, descriptor, told):
            document = {
                "_id": key,
                "id": descriptor["id"],
                "name": descriptor.get("product-name") or descriptor.get("name"),
                "descriptor": descriptor,
                "folder": str(folder.relative_to(self.store.root)),
                "_admin": {**admin(), "revision": 1, "revisions": {}},
            }
            document["_admin"]["revisions"]["1"] = _revision(document)
            if any(d["id"] == descriptor["id"] for d in self.store.all(kind)):
                raise ConflictError(
                    f"{KINDS[kind]} with id '{descriptor['id']}' already exists for this project"
                )
            self.store.put(kind, document)
        return document, told

    def update(
        self, kind: str, name_or_id: str, source: Path, strict: bool = False
    ) -> tuple[Document, list[str]]:
        """Replace the content of a package by a new revision; charms that run do not change.

        In a VNF package in use with an unchanged software version, only these may change:
        charms, primitives, scaling and healing aspects, alarms. Return the document and the
        warnings.
        """
        document = self.store.resolve(kind, name_or_id)
        key = document["_id"]
        unpacked = self._unpacked(kind, source, strict, f"{key}-{new_id()}", key)
        with self._alone(), unpacked as (folder, descriptor, warnings):
            if descriptor["id"] != document["id"]:
                raise NbiError(
                    f"{KINDS[kind]} '{document['id']}' cannot become '{descriptor['id']}'; "
                    "allowed: a package with the same id"
                )
            if kind == VNFDS and key in self.used(VNFDS):
                _check_modified(document["descriptor"], descriptor)
            with self.store.edit(kind, key) as document:
                document["descriptor"] = descriptor
                document["folder"] = str(folder.relative_to(self.store.root))
                number = document["_admin"]["revision"] = document["_admin"]["revision"] + 1
                document["_admin"]["revisions"][str(number)] = _revision(document)
        prune_revisions(self.store)
        return document, warnings

    @contextmanager
    def _unpacked(
        self, kind: str, source: Path, strict: bool, place: str, replaced: str = ""
    ) -> Iterator[tuple[Path, Document, list[str]]]:
        """Check and write a package; yield its folder, its descriptor and the warnings.

        If the block fails, nothing of the package stays.

        ``place`` names the folder below ``packages``; ``replaced`` is the ``_id`` of the package
        of which this is a new revision.
        """
        if not source.exists():
            text, there = f"package '{source}' does not exist", source.parent.glob("*.tar.gz")
            archives = [path.name for path in there]
            raise unknown(text, source.name, archives) if archives else NbiError(text)
        others = (
            [d for d in self.store.all(each) if d["_id"] != replaced] for each in (VNFDS, NSDS)
        )
        known = validation.catalog(self.store.root, *others)
        package, warnings = validation.package(source, known, strict)
        target = self.store.root / "packages" / place
        try:
            descriptor = _descriptor(package, KINDS[kind])
            _write(package, self.store.root, target)
            if source.is_file():  # for downloads
                shutil.copyfile(source, target.with_name(target.name + ARCHIVE))
            yield target, descriptor, warnings
        except BaseException as error:
            drop_package(target)
            if isinstance(error, OSError):
                error.filename = error.filename or target
                raise NbiError(f"{source.name} cannot be unpacked: {of_file(error)}") from None
            if isinstance(error, ValueError):  # a name that no file can have, say
                raise NbiError(f"{source.name} cannot be unpacked: {error}") from None
            raise

    def delete(self, kind: str, name_or_id: str, force: bool = False) -> None:
        """Remove a package that nothing uses, or with ``force`` any.

        Nobody can tell who uses one with a damaged record; its ``_id`` deletes it.
        """
        if discard(self.store, kind, name_or_id):
            key = name_or_id
        else:
            document = self.store.resolve(kind, name_or_id)
            key = document["_id"]
            with self._alone(), self.store.lock(kind):
                if not force:
                    self._check_unused(kind, document)
                self.store.delete(kind, key)
        for place in (self.store.root / "packages").glob(f"{key}*"):
            drop_package(place.with_name(place.name.removesuffix(ARCHIVE)))

    def folder(self, document: Document) -> Path:
        return self.store.root / str(document["folder"])

    def archive(self, document: Document) -> Path | None:
        """Return the archive a package came in, None if it came as a folder."""
        top = Path(str(document["folder"])).parts[1]
        path = self.store.root / "packages" / f"{top}{ARCHIVE}"
        return path if path.exists() else None

    def used(self, kind: str) -> set[str]:
        """Return the ids of the packages of a kind that have instances."""
        if kind == NSTS:
            return {nsi["_admin"]["nst-id"] for nsi in self.store.all(NSIS)}
        records, key = (VNFRS, "vnfd-id") if kind == VNFDS else (NSRS, "nsd-id")
        return {record[key] for record in self.store.all(records)}

    def _check_unused(self, kind: str, document: Document) -> None:
        if document["_id"] in self.used(kind):
            raise ConflictError(f"{_INSTANCE[kind]} using this descriptor")
        if kind in _NAMED_BY:
            others, path, what = _NAMED_BY[kind]
            for other in self.store.all(others):
                if document["id"] in [id_ for _, id_, _ in walk(other["descriptor"], path)]:
                    raise ConflictError(f"There is at least one {what} referencing this descriptor")


def _revision(document: Document) -> Document:
    """Return the data that LCM reads of an earlier revision."""
    return {
        "folder": document["folder"],
        "software-version": document["descriptor"].get("software-version", "1.0"),
    }


def _check_modified(old: Document, new: Document) -> None:
    """Refuse a change of a VNFD in use that NBI refuses."""
    if old.get("software-version") != new.get("software-version"):
        return
    before, after = _fixed(_in_form(old)), _fixed(new)
    keys = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
    if keys:
        raise NbiError(
            f"vnfd '{old['id']}' is in use and {', '.join(keys)} cannot be modified; allowed: "
            "charms, primitives, scaling-aspect, healing-aspect, alarm, monitoring-parameter, or "
            "another software-version; for all else delete its services first, or onboard the "
            "package with another id"
        )


def _in_form(descriptor: Document) -> Document:
    """Return a VNFD of an earlier lab in the form of today: it may have 1.0 where text belongs."""
    from pydantic import ValidationError

    from builder.validate.context import checked

    try:
        return checked("vnfd", copy.deepcopy(descriptor))
    except ValidationError:
        return descriptor


def _fixed(descriptor: Document) -> Document:
    """Return a copy of a VNFD without the fields that may change."""
    fixed: Document = copy.deepcopy(descriptor)
    for vdu in fixed.get("vdu") or ():
        vdu.pop("alarm", None)
        vdu.pop("monitoring-parameter", None)
    for flavour in fixed.get("df") or ():
        flavour.pop("scaling-aspect", None)
        flavour.pop("healing-aspect", None)
    for entry in day_1_2(fixed):
        for key in [k for k in entry if k.endswith("config-primitive")]:
            del entry[key]
    return fixed


def _descriptor(package: "Package", kind: str) -> Document:
    """Return the descriptor of a package that was accepted, without its envelope."""
    from builder.validate import body_of
    from builder.validate.context import checked

    if package.kind != kind:
        verb = {"vnfd": "vnfpkg-create", "nsd": "nspkg-create"}.get(package.kind, "nst-create")
        raise NbiError(f"{package.descriptor_path} is no {kind} descriptor; {verb} takes it")
    return checked(kind, body_of(package))  # with text where numbers stand for text


def _write(package: "Package", root: Path, folder: Path) -> None:
    """Write the files of a package into a new folder, trusting nothing in it.

    OSM keeps packages as trees in its file store; LCM reads charms and cloud-init from there.
    """
    folder.mkdir(parents=True)
    # Links come last, so nothing is written through one. Of a zip OSM makes files of them.
    links = {}
    for path, entry in package.files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.link and package.layout == "tar":
            links[place] = entry.link
            continue
        mode = 0o755 if entry.mode & stat.S_IXUSR else 0o644
        write_shared(root, place, entry.data or entry.link.encode(), mode)
    for place, target in links.items():
        place.symlink_to(target)
    for place in links:
        # Path.resolve fails on links that lead in a circle.
        if not Path(os.path.realpath(place)).is_relative_to(folder.resolve()):
            raise NbiError(f"{package.name}: {place.relative_to(folder)} leads out of the package")


def descriptor_file(folder: Path) -> Path:
    return next(
        path
        for place in (folder.glob("*"), (folder / "Definitions").rglob("*"))
        for path in sorted(place)
        if path.suffix in (".yaml", ".yml", ".json") and path.is_file()
    )
