"""The fast loop: which tests a change reaches, and that tests stand alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import changed
from xdist.remote import WorkerInteractor

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


@pytest.mark.parametrize(
    ("file", "reached", "not_reached"),
    [
        ("charms/lib/vpnaas/peers/admission.py", "core/test_reconcile.py", "docs/test_readmes.py"),
        (
            "charms/lib/vpnaas/peers/admission.py",
            "charm/test_dispatch.py",
            "lab/e2e/test_e2e_basic.py",
        ),
        (
            "charms/common/actions.yaml",
            "builder/test_build_charms.py",
            "simulators/test_simulators_5g.py",
        ),
        ("tests/support/model.py", "core/test_convergence.py", "builder/test_build_cli.py"),
        ("tests/lab/e2e/conftest.py", "lab/e2e/test_e2e_basic.py", "core/test_reconcile.py"),
        ("docs/index.md", "docs/test_docs.py", "core/test_reconcile.py"),
        ("pyproject.toml", "lab/e2e/test_e2e_basic.py", None),
    ],
)
def test_a_changed_file_reaches(file: str, reached: str, not_reached: str | None) -> None:
    modules = changed.reached(ROOT, [file])
    assert reached in modules
    assert not_reached not in modules
    assert {reached, not_reached or reached} <= {
        path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")
    }


def test_data_of_a_package_reaches_the_tests_of_the_package() -> None:
    rules = next(path for path in (ROOT / "operate").rglob("*") if path.suffix in (".yml", ".yaml"))
    modules = changed.reached(ROOT, [rules.relative_to(ROOT).as_posix()])
    assert any(module.startswith("operate/") for module in modules)


def test_a_change_of_nothing_reaches_nothing() -> None:
    assert changed.reached(ROOT, []) == set()


def test_xdist_tells_which_tests_belong_to_one_worker(request: pytest.FixtureRequest) -> None:
    """Where it does not, each worker brings up the services that modules share, in silence."""
    item: Any = pytest.Function.from_parent(request.node.parent, name="other", callobj=lambda: None)
    item.add_marker(pytest.mark.xdist_group("basic"))
    config: Any = SimpleNamespace(getvalue=lambda name: name == "loadgroup")
    worker: Any = SimpleNamespace()
    WorkerInteractor.pytest_collection_modifyitems(worker, config, [item])
    assert item.nodeid.endswith("::other@basic")
