"""A model with an own home per test, run by the test's process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from vca_support import new_model

from lab.vca.model import Model


@pytest.fixture
def idle_model(tmp_path: Path) -> Iterator[Model]:
    model = new_model(tmp_path / "home")
    yield model
    model.stop(kill=True)


@pytest.fixture
def model(idle_model: Model) -> Model:
    idle_model.start()
    return idle_model
