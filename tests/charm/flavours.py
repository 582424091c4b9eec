"""What the tests of charms share: flavours of charms, and how long they may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.vca.controller import Controller
from lab.vca.model import Model
from lab.vca.runtime import Settings

WAIT = 90.0
"""Upper bound in seconds of waits; they end as soon as what they wait for is there."""
QUICK = Settings(retry_start=0.05, retry_max=0.4, lock_timeout=10, stop_timeout=20)

once = pytest.mark.parametrize("flavour", ["ops-1.5.5"], indirect=True, scope="session")
"""For tests that mostly wait and in which the release of ops plays no part."""


@dataclass(frozen=True)
class Flavour:
    """A set of assembled charms and the interpreter they run on."""

    name: str
    folder: Path
    python: Path

    def charm(self, name: str) -> Path:
        return self.folder / name

    @contextmanager
    def model(self, home: Path, prefix: tuple[str, ...] = ()) -> Iterator[Model]:
        """Give a running model whose charms run on this flavour's interpreter."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OSMLAB_CHARM_PYTHON", str(self.python))
            controller = Controller(home, exec_prefix=prefix, settings=QUICK)
            model = controller.add_model("charm-tests")
        model.start()
        try:
            yield model
        finally:
            model.stop(kill=True)
