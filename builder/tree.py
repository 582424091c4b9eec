"""Paths of files in the repository, or in an installed wheel."""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.errors import BuildError

BIONIC, JAMMY = "bionic", "jammy"
"""Oldest series of the charms' proxy machines: that of OSM's LCM, and one with current wheels."""
MARK = "charms/common/actions.yaml"
SOURCES = (
    *("pyproject.toml", "LICENSE", "charms", "cloud-init", "ns-packages", "nst-packages", "params"),
    *("vnf-packages", "experiments/vdu"),
)
"""Sources of the packages, relative to the root of the tree."""
RELEASED = Path(__file__).resolve().parent / "released"
"""In an installed wheel only: `sources`, with the paths above; `packages`, what was built beside
archives; and `files`, from which the archives are made when they are first asked for."""


@dataclass(frozen=True)
class Tree:
    """The source tree."""

    root: Path  # Its folder.
    # Declarations of charms that the tree does not have, by name.
    own: dict[str, Any] = field(default_factory=dict)
    base: str = BIONIC  # Oldest series that charms run on.

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
        """Return the shared charm library."""
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
