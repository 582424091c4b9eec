"""Where tests with strongSwan may run: skipped with the reason, failed where they must run."""

from __future__ import annotations

import os

import pytest

from testbed.backends import missing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("lab") is None:
        return
    reason = "needs root: makes network namespaces" if os.geteuid() else missing()
    if not reason:
        return
    if os.environ.get("CI") or os.environ.get("VPNAAS_REQUIRE_LAB") == "1":
        pytest.fail(f"lab tests must run here, but this machine {reason}", pytrace=False)
    pytest.skip(reason)
