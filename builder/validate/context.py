"""What a rule sees, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.validate.problem import Problem, Severity
from builder.validate.reader import Package, PackageError, read

Document = dict[str, Any]


@dataclass
class Catalog:
    """Descriptors that are onboarded, or packages that will be.

    Attributes:
        vnfds: VNFD bodies by id.
        nsds: NSD bodies by id.
        packages: Packages by VNFD id, where their charms can be looked into.
    """

    vnfds: dict[str, Document] = field(default_factory=dict)
    nsds: dict[str, Document] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)

    @classmethod
    def from_packages(cls, paths: Iterable[Path]) -> Catalog:
        """Read what can be read of the packages; broken ones are left out."""
        catalog = cls()
        for path in paths:
            try:
                package = read(path)
            except PackageError:
                continue
            body = body_of(package)
            name = body.get("id") if isinstance(body, dict) else None
            if not isinstance(body, dict) or not isinstance(name, str):
                continue
            if package.kind == "vnfd":
                catalog.vnfds[name] = body
                catalog.packages[name] = package
            elif package.kind == "nsd":
                catalog.nsds[name] = body
        return catalog


@dataclass
class Context:
    """One package under validation; its document already has the form of the schema."""

    package: Package
    catalog: Catalog
    body: Document
    root: str

    def problem(
        self,
        severity: Severity,
        code: str,
        place: str,
        sentence: str,
        osm_message: str = "",
    ) -> Problem:
        """Make a problem at a place of the descriptor."""
        where = f"{self.package.descriptor_path}: {self.root}{place}"
        return Problem(where, severity, code, sentence, osm_message)

    def in_file(self, severity: Severity, code: str, file: str, sentence: str) -> Problem:
        """Make a problem of another file of the package."""
        return Problem(f"{self.package.name}: {file}", severity, code, sentence)

    def flavour(self) -> Document:
        """Return df[0], the one OSM uses."""
        flavours = self.body.get("df") or [{}]
        return dict(flavours[0])

    def day12(self) -> list[tuple[str, Document]]:
        """Return (place, entry) of each day1-2 entry."""
        operations = (self.flavour().get("lcm-operations-configuration") or {}).get(
            "operate-vnf-op-config"
        ) or {}
        base = "/df[0]/lcm-operations-configuration/operate-vnf-op-config/day1-2"
        entries = operations.get("day1-2") or []
        return [(f"{base}[{index}]", entry) for index, entry in enumerate(entries)]

    def vdus(self) -> list[tuple[str, Document]]:
        """Return (place, vdu)."""
        return numbered("/vdu", self.body.get("vdu"))

    def charm(self, name: str) -> Charm | None:
        """Return a charm of the package, None where there is no such folder."""
        return charm_of(self.package, name)


@dataclass(frozen=True)
class Charm:
    """What a charm folder declares."""

    name: str
    folder: str
    metadata: Document
    actions: Document
    config: Document

    def endpoint(self, name: str) -> tuple[str, str] | None:
        """Return (role, interface) of a relation endpoint, None where it has none."""
        for role in ("provides", "requires", "peers"):
            ends = self.metadata.get(role)
            if isinstance(ends, dict) and name in ends:
                return role, str((ends[name] or {}).get("interface", ""))
        return None

    def options(self) -> Mapping[str, Document]:
        """Return the options of config.yaml."""
        options = self.config.get("options")
        return options if isinstance(options, dict) else {}


def charm_of(package: Package, name: str) -> Charm | None:
    """Return a charm of a package."""
    folder = package.folder("charms") + name + "/"
    if not any(path.startswith(folder) for path in package.files):
        return None

    def mapping(file: str) -> Document:
        document = package.yaml(folder + file)
        return document if isinstance(document, dict) else {}

    return Charm(
        name, folder, mapping("metadata.yaml"), mapping("actions.yaml"), mapping("config.yaml")
    )


Rule = Callable[[Context], Iterator[Problem]]
RULES: dict[str, list[Rule]] = {"vnfd": [], "nsd": [], "nst": []}


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a function as a rule for these kinds of descriptor."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind].append(function)
        return function

    return register


def body_of(package: Package) -> Any:
    """Return the descriptor inside its envelope, None where the envelope is not OSM's."""
    document = package.document
    if not isinstance(document, dict):
        return None
    inner = document.get(next((key for key in document if key.endswith(package.kind)), ""))
    if package.kind == "vnfd":
        return inner
    if package.kind == "nsd":
        listed = inner.get("nsd") if isinstance(inner, dict) else None
        return listed[0] if isinstance(listed, list) and len(listed) == 1 else None
    if package.kind == "nst":
        return inner[0] if isinstance(inner, list) and len(inner) == 1 else None
    return None


def numbered(place: str, items: Any) -> list[tuple[str, Document]]:
    """Return (place[i], item) of a list that may be missing."""
    return [(f"{place}[{index}]", item) for index, item in enumerate(items or [])]


def ids(items: Any, key: str = "id") -> set[str]:
    """Return the ids in a list that may be missing."""
    return {str(item[key]) for item in items or [] if key in item}
