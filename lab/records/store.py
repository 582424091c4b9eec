"""Documents on disk: the lab uses a directory of JSON files where OSM uses MongoDB.

Every verb and every operation of the lab is a separate process. So each change holds a lock file
and replaces the document by rename. A reader sees the document before or after a change, never half
of it. A killed writer leaves the old document.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lab import files
from lab.errors import ConflictError, NbiError, unknown
from lab.records import kinds

Document = dict[str, Any]

VIMS = "vim_accounts"
VNFDS = "vnfds"
NSDS = "nsds"
NSRS = "nsrs"
VNFRS = "vnfrs"
OPS = "nslcmops"
NSTS = "nsts"
NSIS = "nsis"
NSIOPS = "nsilcmops"
VCAS = "vca"
CREATED = "created_packages"  # Packages without content yet.
DAMAGED = "(damaged)"  # In place of the name of a document that cannot be read.
_NAMES = ("id", "name", "vnfd-ref", "lcmOperationType")
"""Fields by which lists and clients name a document."""
_NAMELESS = (OPS, NSIOPS, VNFRS)  # What is known by ids only.
_SENTENCES = ("detailed-status", "errorDetail", "errorMessage")  # Where lists show why.
COLLECTIONS = tuple(kinds.KINDS)


VERSION = 3
"""Version of the form of a lab's home. A home without a version is of the ones before 3.

Records of earlier versions can be read: new fields have defaults, and fields that went are ignored.
Raise it if an earlier lab cannot read what this one writes.
"""


PLACE = "place"
"""File with the path at which a home was made. Names on the machine follow from the path."""


def check_home(home: Path) -> None:
    """Refuse a home of a later version, a copy of another one, a new one that breaks charms."""
    if not (home / "nbi").exists():
        _check_place(home)
    with suppress(OSError, UnicodeDecodeError):
        place = (home / PLACE).read_text(encoding="utf-8")
        if place.startswith("/") and place != str(home.resolve()):
            raise NbiError(
                f"the lab's home {home} is a copy of {place}, or was moved: its records name the "
                f"VDUs and processes of {place}; use that one, or another home (--home)"
            )
    try:
        text = (home / "version").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    except UnicodeDecodeError:
        text = ""
    if not text.isdecimal() or int(text[:9]) > VERSION:
        raise NbiError(
            f"the lab's home {home} is of version '{text[:20]}', and this lab reads homes up to"
            f" version {VERSION}: use the lab that made it, or another home (--home)"
        )


def _check_place(home: Path) -> None:
    """Refuse a new home where no charm can run."""
    path, wrong = home.resolve(), ""
    folder = next(each for each in (path, *path.parents) if each.exists())
    if ":" in str(path):
        wrong = "has a ':' in its path, by which Python divides the folders of charms"
    elif os.statvfs(folder).f_flag & os.ST_NOEXEC:
        wrong = "is on a file system that starts no programs (noexec), such as charms"
    if wrong:
        raise NbiError(f"the lab's home {home} {wrong}; use another home (--home)")


class Store:
    """All records of one lab, below ``<home>/nbi``."""

    def __init__(self, home: Path) -> None:
        """Open the store of the lab in ``home``; directories are made on the first write."""
        self.home = home
        self.root = home / "nbi"
        #: While a verb watches: the id that each name had at the first look. Later another document
        #: may get the name.
        self.pins: dict[tuple[str, str], str] | None = None
        check_home(home)

    def _path(self, collection: str, key: str) -> Path:
        if collection not in COLLECTIONS:
            raise ValueError(f"no such collection: {collection}")
        return self.root / collection / f"{key}.json"

    def exists(self) -> bool:
        """Return whether a lab has written here, or locked something to write it."""
        names = [name for kind in COLLECTIONS for name in (kind, f".{kind}.lock")]
        return any((self.root / name).exists() for name in names)

    def lock(self, collection: str) -> Any:
        """Return a context manager that keeps other writers of ``collection`` out.

        Look-ups that decide about a write ("is this name in use?") belong inside it.
        """
        return files.locked(self.root / f".{collection}.lock")

    def put(self, collection: str, document: Document) -> None:
        """Write a whole document under its ``_id``."""
        path = self._path(collection, document["_id"])
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            files.replace(self.home / "version", f"{VERSION}\n", synced=True)
            files.replace(self.home / PLACE, str(self.home.resolve()), synced=True)
        files.replace(path, json.dumps(document, indent=1, sort_keys=True), synced=True)

    def find(self, collection: str, key: str) -> Document | None:
        """Return the document with that ``_id``, or ``None``."""
        if not _is_key(key):
            return None
        try:
            text = self._path(collection, key).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            text = ""
        return self._parsed(collection, key, text)

    def readable(self, collection: str, key: str) -> Document | None:
        """Return the document with that ``_id``, or ``None``, also if it is damaged.

        For what looks at a document beside its own: that one may be shown or ended without it.
        """
        try:
            return self.find(collection, key)
        except NbiError:
            return None

    def _parsed(self, collection: str, key: str, text: str) -> Document:
        wrong = "is damaged"
        try:
            document: Document = json.loads(text)
            wrong = kinds.fault(document, collection)
            if not wrong and document["_id"] == key and float(document["_admin"]["created"]) >= 0:
                return document
        except (ValueError, TypeError, RecursionError):
            pass
        raise NbiError(
            f"the lab's record {self._path(collection, key)} {wrong or 'is damaged'}: delete it "
            f"by its id {key} (osm-lab lab discard {key}), or clean the lab",
            HTTPStatus.INTERNAL_SERVER_ERROR,
        )

    def get(self, collection: str, key: str) -> Document:
        """Return the document with that ``_id``."""
        document = self.find(collection, key)
        if document is None:
            raise NbiError(f"{_SINGULAR[collection]} '{key}' does not exist", HTTPStatus.NOT_FOUND)
        return document

    def all(self, collection: str) -> list[Document]:
        """Return all documents, oldest first (by ``_admin.created``), without damaged ones."""
        documents, _ = self._read(collection)
        return sorted(documents, key=lambda d: (d["_admin"]["created"], d["_id"]))

    def damaged(self, collection: str) -> list[Document]:
        """Return a line for lists in place of each damaged document: its ``_id``, and why."""
        return self._read(collection)[1]

    def _read(self, collection: str) -> tuple[list[Document], list[Document]]:
        documents, lines = [], []
        for path in sorted((self.root / collection).glob("*.json")):
            try:
                document = self.find(collection, path.stem)
            except NbiError as error:
                why = dict.fromkeys(_SENTENCES, str(error))
                lines.append({"_id": path.stem, **dict.fromkeys(_NAMES, DAMAGED), **why})
            else:
                documents += [document] if document is not None else []  # deleted since
        return documents, lines

    def is_damaged(self, collection: str, key: str) -> bool:
        """Say whether there is such a document and it cannot be read."""
        return any(key == line["_id"] for line in self.damaged(collection))

    def has(self, collection: str) -> bool:
        """Tell whether there is a document, whatever is in it."""
        return any((self.root / collection).glob("*.json"))

    @contextmanager
    def edit(self, collection: str, key: str) -> Iterator[Document]:
        """Yield a document to be changed in place; the lock is held, and it is written at the end.

        Nothing is written if the block raises.
        """
        with self.lock(collection):
            document = self.get(collection, key)
            yield document
            self.put(collection, document)

    def delete(self, collection: str, key: str) -> None:
        """Remove a document; a missing one is no error."""
        self._path(collection, key).unlink(missing_ok=True)

    def resolve(self, collection: str, name_or_id: str, id_field: str = "id") -> Document:
        """Return the document that an operator names by ``_id``, ``name`` or ``id``."""
        pins = self.pins if self.pins is not None else {}
        pinned = pins.get((collection, name_or_id))
        if pinned is not None and self.find(collection, pinned) is None:
            raise NbiError(
                f"{_SINGULAR[collection]} '{name_or_id}' was deleted", HTTPStatus.NOT_FOUND
            )
        document = self._resolved(collection, pinned or name_or_id, id_field)
        pins[collection, name_or_id] = str(document["_id"])
        return document

    def instance(self, name_or_id: str) -> tuple[str, Document]:
        """Return the slice of this name or id, else the service, with its collection."""
        first = NSRS if (NSRS, name_or_id) in (self.pins or {}) else NSIS
        try:
            return first, self.resolve(first, name_or_id, id_field="_id")
        except NbiError as error:
            pinned = (first, name_or_id) in (self.pins or {})
            if first == NSRS or pinned or error.status != HTTPStatus.NOT_FOUND:
                raise
        return NSRS, self.resolve(NSRS, name_or_id, id_field="_id")

    def _resolved(self, collection: str, name_or_id: str, id_field: str) -> Document:
        exact = self.find(collection, name_or_id)
        if exact is not None:
            return exact
        there = self.all(collection)
        matches = [d for d in there if name_or_id in (d.get("name"), d.get(id_field))]
        if len(matches) > 1:
            raise ConflictError(
                f"{_SINGULAR[collection]} '{name_or_id}' is not unique, use one of the ids "
                + ", ".join(d["_id"] for d in matches)
            )
        if not matches:
            text = f"{_SINGULAR[collection]} '{name_or_id}' not found"
            if collection in _NAMELESS:
                raise NbiError(text, HTTPStatus.NOT_FOUND)
            names = [str(d.get("name") or d[id_field]) for d in there]
            raise unknown(text, name_or_id, names, HTTPStatus.NOT_FOUND)
        return matches[0]


_KEY_LENGTH = 36  # Characters of a UUID.


def _is_key(text: str) -> bool:
    """Say whether ``text`` may be a document's key, and so a file name: no path, and not too long.

    Users give names and other text where an id is expected.
    """
    return 0 < len(text) <= _KEY_LENGTH and all(c.isalnum() or c == "-" for c in text)


_SINGULAR = {
    VIMS: "vim account",
    VNFDS: "vnfd",
    NSDS: "nsd",
    NSRS: "ns",
    VNFRS: "vnf",
    OPS: "ns operation",
    NSTS: "nst",
    NSIS: "nsi",
    NSIOPS: "nsi operation",
    CREATED: "package",
    VCAS: "vca",
}
