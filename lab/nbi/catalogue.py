"""VNF and NS packages and slice templates: onboarding, listing, deletion."""

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builder.documents import DocumentError, load
from lab.errors import ConflictError, NbiError
from lab.nbi import validation
from lab.nbi.unpack import unpack
from lab.records.ids import admin, new_id
from lab.records.operations import discard
from lab.records.packages import ARCHIVE, drop_package, prune_revisions
from lab.records.store import NSDS, NSIS, NSRS, NSTS, VNFDS, VNFRS, Document, Store

KINDS = {VNFDS: "vnfd", NSDS: "nsd", NSTS: "nst"}


class Catalogue:
    """The packages of a lab."""

    def __init__(self, store: Store) -> None:
        self.store = store

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
        with self._unpacked(kind, source, strict, key) as (folder, descriptor, warnings):
            document = {
                "_id": key,
                "id": descriptor["id"],
                "name": descriptor.get("product-name") or descriptor.get("name"),
                "descriptor": descriptor,
                "folder": str(folder.relative_to(self.store.root)),
                "_admin": {**admin(), "revision": 1, "revisions": {}},
            }
            document["_admin"]["revisions"]["1"] = _revision(document)
            with self.store.lock(kind):
                if any(d["id"] == descriptor["id"] for d in self.store.all(kind)):
                    raise ConflictError(
                        f"{KINDS[kind]} with id '{descriptor['id']}' already exists for this "
                        "project"
                    )
                if kind != VNFDS:
                    self._check_references(kind, descriptor)
                self.store.put(kind, document)
        return document, warnings

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
        place = f"{key}-{new_id()}"
        with self._unpacked(kind, source, strict, place, key) as (folder, descriptor, warnings):
            if descriptor["id"] != document["id"]:
                raise NbiError(
                    f"{KINDS[kind]} '{document['id']}' cannot become '{descriptor['id']}'; "
                    "allowed: a package with the same id"
                )
            if kind != VNFDS:
                self._check_references(kind, descriptor)
            elif any(r["vnfd-id"] == key for r in self.store.all(VNFRS)):
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
        """Check and unpack a package; yield its folder, its descriptor and the warnings.

        If the block fails, nothing of the package stays.

        ``place`` names the folder below ``packages``; ``replaced`` is the ``_id`` of the package
        of which this is a new revision.
        """
        if not source.exists():
            raise NbiError(f"package '{source}' does not exist")
        vnfds = [d for d in self.store.all(VNFDS) if d["_id"] != replaced]
        warnings = validation.package(
            source,
            {d["id"]: d["descriptor"] for d in vnfds},
            {d["id"]: d["descriptor"] for d in self.store.all(NSDS) if d["_id"] != replaced},
            {d["id"]: self.folder(d) for d in vnfds},
            strict,
        )
        target = self.store.root / "packages" / place
        folder = unpack(source, target)
        try:
            descriptor = read_descriptor(folder, KINDS[kind])
            if source.is_file():  # for downloads
                shutil.copyfile(source, target.with_name(target.name + ARCHIVE))
            yield folder, descriptor, warnings
        except BaseException:
            drop_package(target)
            raise

    def delete(self, kind: str, name_or_id: str, force: bool = False) -> None:
        """Remove a package that nothing uses.

        Raises:
            NbiError: it is unknown, or in use and not ``force``. Nobody can tell who uses one with
                a damaged record; its ``_id`` deletes it.
        """
        if discard(self.store, kind, name_or_id):
            key = name_or_id
        else:
            document = self.store.resolve(kind, name_or_id)
            key = document["_id"]
            with self.store.lock(kind):
                if not force:
                    self._check_unused(kind, document)
                self.store.delete(kind, key)
        for place in (self.store.root / "packages").glob(f"{key}*"):
            drop_package(place.with_name(place.name.removesuffix(ARCHIVE)))

    def folder(self, document: Document) -> Path:
        """Return the unpacked folder of a package."""
        return self.store.root / str(document["folder"])

    def archive(self, document: Document) -> Path | None:
        """Return the archive a package came in, None if it came as a folder."""
        top = Path(str(document["folder"])).parts[1]
        path = self.store.root / "packages" / f"{top}{ARCHIVE}"
        return path if path.exists() else None

    def _check_references(self, kind: str, descriptor: Document) -> None:
        if kind == NSTS:
            known = {d["id"] for d in self.store.all(NSDS)}
            for subnet in descriptor.get("netslice-subnet") or ():
                if subnet["nsd-ref"] not in known:
                    raise ConflictError(
                        f"Descriptor error at 'netslice-subnet':'nsd-ref'='{subnet['nsd-ref']}' "
                        "references a non existing nsd"
                    )
            return
        known = {d["id"] for d in self.store.all(VNFDS)}
        for vnfd_id in descriptor.get("vnfd-id") or ():
            if vnfd_id not in known:
                raise ConflictError(
                    f"Descriptor error at 'vnfd-id'='{vnfd_id}' references a non existing vnfd"
                )

    def _check_unused(self, kind: str, document: Document) -> None:
        key = document["_id"]
        if kind == VNFDS:
            if any(r["vnfd-id"] == key for r in self.store.all(VNFRS)):
                raise ConflictError("There is at least one VNF instance using this descriptor")
            for nsd in self.store.all(NSDS):
                if document["id"] in (nsd["descriptor"].get("vnfd-id") or ()):
                    raise ConflictError(
                        "There is at least one NS package referencing this descriptor"
                    )
        elif kind == NSTS:
            if any(r["_admin"]["nst-id"] == key for r in self.store.all(NSIS)):
                raise ConflictError("there is at least one Netslice Instance using this descriptor")
        elif any(r["nsd-id"] == key for r in self.store.all(NSRS)):
            raise ConflictError("There is at least one NS instance using this descriptor")
        else:
            for nst in self.store.all(NSTS):
                subnets = nst["descriptor"].get("netslice-subnet") or ()
                if any(s["nsd-ref"] == document["id"] for s in subnets):
                    raise ConflictError(
                        "There is at least one NetSlice Template referencing this descriptor"
                    )


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
        operations = flavour.get("lcm-operations-configuration") or {}
        for entry in (operations.get("operate-vnf-op-config") or {}).get("day1-2") or ():
            for key in [k for k in entry if k.endswith("config-primitive")]:
                del entry[key]
    return fixed


def read_descriptor(folder: Path, kind: str) -> Document:
    """Return the descriptor of an unpacked package, without its envelope."""
    file = descriptor_file(folder)
    try:
        document = load(file.read_bytes())
    except DocumentError as error:
        raise NbiError(f"Invalid yaml format exception in {file.name}: {error}") from None
    descriptor = _open_envelope(document, kind)
    if descriptor is None:
        raise NbiError(f"{file.name} is no {kind} descriptor")
    from pydantic import ValidationError

    from builder.validate.context import checked  # slow to import, as in validation

    try:
        return checked(kind, descriptor)  # with text where numbers stand for text, as NBI's model
    except ValidationError as error:
        raise NbiError(f"{file.name}: {error.errors()[0]['msg']}") from None


def descriptor_file(folder: Path) -> Path:
    """Return the file of the descriptor in an unpacked package."""
    files: list[Path] = []
    for place in (folder, folder / "Definitions"):
        files = [
            p
            for p in sorted(place.glob("*"))
            if p.suffix in (".yaml", ".yml", ".json") and p.is_file()
        ]
        if files:
            break
    if not files:
        raise NbiError("Not found any descriptor file at package descriptor tar.gz")
    if len(files) > 1:
        names = ", ".join(p.name for p in files)
        raise NbiError(f"Found more than one descriptor file at package descriptor: {names}")
    return files[0]


def _open_envelope(document: Any, kind: str) -> Document | None:
    if not isinstance(document, dict):
        return None
    # NBI takes a descriptor without envelope, too, and `nsd: {...}` without the inner list.
    if kind == "vnfd":
        inner = document.get("vnfd", document.get("etsi-nfv-vnfd:vnfd", document))
    elif kind == "nst":
        inner = document.get("nst", document.get("nst:nst", document))
    else:
        inner = document.get("nsd", document.get("etsi-nfv-nsd:nsd", document))
        if isinstance(inner, dict):
            inner = inner.get("nsd", inner)
    if isinstance(inner, list):
        inner = inner[0] if len(inner) == 1 and kind != "vnfd" else None
    if not isinstance(inner, dict) or not {"df", "netslice-subnet"} & set(inner):
        return None
    return inner
