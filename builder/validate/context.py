"""The input of a rule, and the table of rules."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from builder.documents import DAY12, Found, walk
from builder.validate.charm_files import Charm, charm_of
from builder.validate.problem import Problem, Reporter, problem
from builder.validate.reader import Package, PackageError, place_of, read
from builder.validate.sol006 import MODELS

Document = dict[str, Any]


def checked(kind: str, body: Any) -> Document:
    """Return a descriptor with the types of the schema, for example numbers as text.

    pyangbind does the same in OSM. Keys without a value are left out.
    Rules get only this form, so they need not check types.
    """
    model = MODELS[kind].model_validate({"nsd": [body]} if kind == "nsd" else body)
    document: Document = model.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    return dict(document["nsd"][0]) if kind == "nsd" else document


@dataclass
class Catalog:
    """Descriptors that are onboarded, or packages that will be."""

    # VNFD bodies by id, without those that do not have the form of the schema, because OSM does not
    # accept them either.
    vnfds: dict[str, Document] = field(default_factory=dict)
    nsds: dict[str, Document] = field(default_factory=dict)  # NSD bodies by id, likewise.
    # Packages by VNFD id, if their charms are available.
    packages: dict[str, Package] = field(default_factory=dict)
    nsts: dict[str, Document] = field(default_factory=dict)  # NST bodies by id, likewise.
    # Unpacked packages by VNFD id; each is read when a rule first needs it.
    folders: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert the descriptors to the form that rules expect."""
        self.vnfds = _all_checked("vnfd", self.vnfds)
        self.nsds = _all_checked("nsd", self.nsds)
        self.nsts = _all_checked("nst", self.nsts)

    def package(self, vnfd_id: str) -> Package | None:
        """Return the package of a VNFD, None if its charms are not available."""
        folder = self.folders.pop(vnfd_id, None)
        if folder is not None:
            # An onboarded package was accepted once; it is no problem here if it cannot be read.
            with suppress(PackageError):
                self.packages[vnfd_id] = read(folder, shallow=True)
        return self.packages.get(vnfd_id)

    def add(self, package: Package) -> None:
        """Add a package, unless it has no usable descriptor."""
        name = self.add_descriptor(package.kind, body_of(package))
        if name and package.kind == "vnfd":
            self.packages[name] = package

    def add_descriptor(self, kind: str, body: Any) -> str:
        """Add a VNFD, NSD or NST if its id is new; return its id, "" if it is unusable."""
        table = {"vnfd": self.vnfds, "nsd": self.nsds, "nst": self.nsts}.get(kind)
        if table is None:
            return ""
        for name, document in _all_checked(kind, {"": body}).items():
            table.setdefault(name, document)
            return name
        return ""


def _all_checked(kind: str, bodies: dict[str, Any]) -> dict[str, Document]:
    result = {}
    for body in bodies.values():
        if not isinstance(body, dict):
            continue
        # If the body is a database record, it also has OSM's own keys (_id, _admin).
        own = {key: value for key, value in body.items() if str(key).startswith("_")}
        rest = {key: value for key, value in body.items() if key not in own}
        try:
            document = checked(kind, rest)
        except ValidationError:
            continue
        result[str(document["id"])] = {**document, **own}
    return result


@dataclass
class Context(Reporter):
    """One package under validation; its document already has the form of the schema."""

    package: Package
    catalog: Catalog
    body: Document
    root: str

    def at(self, place: str) -> str:
        """Return a place of the descriptor, for messages."""
        return f"{place_of(self.package.name, self.package.descriptor_path)}: {self.root}{place}"

    def in_file(self, code: str, file: str, /, **words: Any) -> Problem:
        """Make a problem of another file of the package; OSM names none of them."""
        return problem(place_of(self.package.name, file), code, **words)

    def day12(self) -> list[tuple[str, Document]]:
        """Return (place, entry) of each day1-2 entry of the flavour that OSM uses."""
        return day12_of("/df[0]", self.body["df"][0])

    def each(self, path: str) -> Iterator[Found]:
        """Return what is at a path of the descriptor; see `walk`."""
        return walk(self.body, path)

    def vdus(self) -> list[tuple[str, Document]]:
        return numbered("/vdu", self.body.get("vdu"))

    def charm(self, name: str) -> Charm | None:
        """Return a charm of the package, None if it has no such folder."""
        return charm_of(self.package, name)


Rule = Callable[[Context], Iterator[Problem]]
RULES: dict[str, list[Rule]] = {"vnfd": [], "nsd": [], "nst": []}


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a function as a rule for these kinds of descriptor."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind].append(function)
        return function

    return register


def envelope_of(package: Package) -> str:
    """Return the key around the descriptor; if there are several, the one that NBI uses."""
    order = {"vnfd": ("etsi-nfv-vnfd:vnfd", "vnfd"), "nsd": ("nsd", "etsi-nfv-nsd:nsd")}
    keys = order.get(package.kind, ("nst", "nst:nst"))
    return next((key for key in keys if key in package.document), "")


def body_of(package: Package) -> Any:
    """Return the descriptor inside its envelope, None if OSM does not know the envelope."""
    if not package.kind:
        return None
    key = envelope_of(package)
    if not key:
        return package.document  # NBI also accepts a descriptor without an envelope
    inner = package.document[key]
    if package.kind == "vnfd":
        return inner
    if package.kind == "nsd":
        if not isinstance(inner, dict):
            return None
        if "nsd" not in inner:
            return inner  # NBI accepts this too
        inner = inner["nsd"]
    return inner[0] if isinstance(inner, list) and len(inner) == 1 else None


def day12_of(place: str, flavour: Document) -> list[tuple[str, Document]]:
    """Return (place, entry) of each day1-2 entry of a flavour."""
    path = f"{DAY12.removeprefix('df[0]/')}[]"
    return [(at, entry) for at, entry, _ in walk(flavour, path, place)]


def numbered(place: str, items: Any) -> list[tuple[str, Document]]:
    """Return (place[i], item) of a list that may be missing."""
    return [(f"{place}[{index}]", item) for index, item in enumerate(items or [])]


def ids(items: Any, key: str = "id") -> set[str]:
    """Return the ids in a list that may be missing."""
    return {str(item[key]) for item in items or [] if key in item}
