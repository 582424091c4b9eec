"""Paths of files in the repository, or in an installed wheel."""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.errors import BuildError

MARK = "charms/common/actions.yaml"
SOURCES = (
    *("pyproject.toml", "LICENSE", "charms", "cloud-init", "ns-packages", "nst-packages", "params"),
    *("vnf-packages", "experiments/vdu"),
)
"""Sources of the packages, relative to the root of the tree."""
RELEASED = Path(__file__).resolve().parent / "released"
"""In an installed wheel only: `sources`, with the paths above; `packages`, what was built beside
archives; and `files`, from which the archives are made when they are first asked for."""


_OLD = ("manylinux2014", "manylinux_2_17", "manylinux_2_12", "manylinux2010", "manylinux1")


@dataclass(frozen=True)
class Base:
    """The oldest proxy machines that charms run on."""

    series: dict[str, str]  # Its series and newer ones, with the channel that newer Jujus read.
    python: str  # Its Python.
    abi: str  # That Python's ABI tag.
    platforms: tuple[str, ...]  # Platform tags of wheels that its libc takes (PEP 600).


BIONIC = "bionic"  # The base of OSM's LCM.
BASES = {
    BIONIC: Base({"bionic": "18.04", "focal": "20.04", "jammy": "22.04"}, "3.6", "cp36m", _OLD),
    "jammy": Base(
        {"jammy": "22.04", "noble": "24.04"},
        "3.10",
        "cp310",
        (*_OLD, "manylinux_2_26", "manylinux_2_28"),
    ),
}
"""Bases by their series; each but the first has pins of its own in `charms/common`."""


@dataclass(frozen=True)
class Tree:
    """The source tree."""

    root: Path  # Its folder.
    # Declarations of charms that the tree does not have, by name.
    own: dict[str, Any] = field(default_factory=dict)
    base: str = BIONIC  # Of BASES.

    @classmethod
    def find(cls, start: Path | None = None) -> "Tree":
        """Return the tree around `start` (default: this file, then the working directory)."""
        places = [start] if start else [Path(__file__).resolve().parent, Path.cwd()]
        for place in places:
            for folder in [place, *place.parents]:
                if (folder / MARK).is_file():
                    return cls(folder)
        if start is None and (RELEASED / "sources" / MARK).is_file():
            return cls(RELEASED / "sources")
        raise BuildError(f"{places[-1]}: not inside the osm-vpnaas source tree ({MARK} is missing)")

    @property
    def common(self) -> Path:
        """Return the folder of the files that all charms share."""
        return self.root / "charms" / "common"

    @property
    def pins(self) -> Path:
        """Return the folder of what pins the wheels in charms."""
        return self.common if self.base == BIONIC else self.common / self.base

    @property
    def library(self) -> Path:
        return self.root / "charms" / "lib" / "vpnaas"

    @property
    def installed(self) -> bool:
        """Say whether this is the tree in a wheel; nothing is written there."""
        return self.root == RELEASED / "sources"

    @property
    def cache(self) -> Path:
        """Return the folder for downloads: in the repository (git ignores it), else the user's."""
        if not self.installed:
            return self.root / ".cache"
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "osm-vpnaas"

    @property
    def dist(self) -> Path:
        return (Path.cwd() if self.installed else self.root) / "dist"

    @property
    def packages(self) -> Path:
        """Return the folder of the built packages, in the user's cache for an installed wheel."""
        return self.cache / f"packages-{self.version}" if self.installed else self.dist

    @property
    def version(self) -> str:
        """Return the version of the project, which packages and charms carry."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text)["project"]["version"])

    def charms(self) -> list[str]:
        return sorted(path.parent.name for path in self.root.glob("charms/*/charm.yaml"))
