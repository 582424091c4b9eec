"""Where things lie in the repository."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError

MARK = "charms/common/actions.yaml"


@dataclass(frozen=True)
class Tree:
    """The source tree."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Tree:
        """Return the tree `start` (default: this file, then the working directory) lies in."""
        places = [start] if start else [Path(__file__).resolve().parent, Path.cwd()]
        for place in places:
            for folder in [place, *place.parents]:
                if (folder / MARK).is_file():
                    return cls(folder)
        raise BuildError(f"{places[-1]}: not inside the osm-vpnaas source tree ({MARK} is missing)")

    @property
    def common(self) -> Path:
        """Return the folder of what all charms share."""
        return self.root / "charms" / "common"

    @property
    def library(self) -> Path:
        """Return the shared charm library."""
        return self.root / "charms" / "lib" / "vpnaas"

    @property
    def cache(self) -> Path:
        """Return the git-ignored folder for downloads."""
        return self.root / ".cache"

    @property
    def version(self) -> str:
        """Return the version of the project, which packages and charms carry."""
        text = (self.root / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text)["project"]["version"])

    def charms(self) -> list[str]:
        """Return the names of the charms."""
        return sorted(path.parent.name for path in self.root.glob("charms/*/charm.yaml"))
