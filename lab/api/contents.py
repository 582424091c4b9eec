"""Files of packages, by the Accept header, as NBI gives them (``DescriptorTopic.get_file``)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from lab.errors import NbiError
from lab.nbi.catalogue import Catalogue, descriptor_file
from lab.records.store import Document

TEXT, ZIP, GZIP = "text/plain", "application/zip", "application/gzip"


@dataclass(frozen=True)
class File:
    """A file to send."""

    path: Path
    media_type: str


def _accepted(accept: str) -> tuple[bool, str]:
    """Return whether a client accepts text, and the archive type it accepts ("": none)."""
    anything = "*/*" in accept
    text = anything or TEXT in accept
    archive = ""
    if anything or ZIP in accept:
        archive = ZIP
    elif GZIP in accept:
        archive = GZIP
    if not text and not archive:
        raise NbiError(
            "provide request header 'Accept' with 'application/zip' or 'text/plain'",
            HTTPStatus.NOT_ACCEPTABLE,
        )
    return text, archive


def descriptor(catalogue: Catalogue, document: Document, accept: str) -> File:
    """Return the descriptor, or the whole package if the client does not accept text."""
    text, _ = _accepted(accept)
    if not text:
        return package(catalogue, document, accept)
    return File(descriptor_file(catalogue.folder(document)), TEXT)


def package(catalogue: Catalogue, document: Document, accept: str) -> File:
    """Return the archive as it was uploaded; if the package has one file, that file as text."""
    text, archive = _accepted(accept)
    folder = catalogue.folder(document)
    names = {path.name for path in folder.iterdir()}
    many = len(names - {"checksums.txt"}) > 1
    if text and not many:
        return File(descriptor_file(folder), TEXT)
    if many and not archive:
        raise NbiError(
            "Packages that contains several files need to be retrieved with 'application/zip'"
            "Accept header",
            HTTPStatus.NOT_ACCEPTABLE,
        )
    source = catalogue.archive(document)
    if source is None:
        raise NbiError(
            "Only allowed 'text/plain' Accept header for this descriptor. To be solved in future "
            "versions",
            HTTPStatus.NOT_ACCEPTABLE,
        )
    return File(source, archive)


def artifact(
    catalogue: Catalogue, document: Document, parts: Sequence[str], accept: str
) -> File | list[str]:
    """Return a file of a package, or the names in one of its folders."""
    _accepted(accept)
    folder = catalogue.folder(document).resolve()
    with suppress(OSError, ValueError):  # no file can have this name
        path = folder.joinpath(*parts).resolve()
        inside = path == folder or folder in path.parents
        if inside and path.is_dir():
            return sorted(entry.name for entry in path.iterdir())
        if inside and path.is_file():
            return File(path, "application/octet-stream")
    raise NbiError(f"File {'/'.join(parts)} does not exist", HTTPStatus.NOT_FOUND)
