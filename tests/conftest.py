"""Settings of all tests; import paths are set in pyproject.toml.

Tests marked `lab` are skipped with the reason where they cannot run, and fail where they must.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from support import changed, clock, keep, record, spent
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from lab.errors import VimError
from lab.vim import registry
from lab.vim.dataplane import probe
from lab.vim.qemu.accelerator import accelerator
from lab.vim.qemu.bake import check_tools

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

#: `update-status` comes when a test says so, not in the middle of it.
os.environ.setdefault("OSMLAB_UPDATE_STATUS_INTERVAL", "0")

#: Where the mark `schedule` of a test names no order: that of its folder, of the longest name that
#: fits. What takes longest begins first, so that workers end together. What needs a machine that
#: does little else comes last: gateways that act within milliseconds, and emulated processors.
FOLDERS = {"lab/e2e/": 0, "gateway/": 0.1, "charm/": 0.2, "lab/": 0.3, "simulators/": 0.4, "": 0.5}
TESTS = Path(__file__).parent
TOOLS = ("cloud-init", "ip", "iperf3", "nft", "nsenter", "ping", "sshd", "tcpdump", "wg")


@functools.cache
def missing_capability() -> str:
    """Return what this machine lacks for a lab, "" where nothing."""
    if os.geteuid() != 0:
        return "needs root: makes network namespaces and mounts"
    absent = [
        tool for tool in TOOLS if not shutil.which(tool, path=f"{os.defpath}:/usr/sbin:/sbin")
    ]
    if absent:
        return f"needs {', '.join(absent)}"
    try:
        probe()
    except VimError as error:
        return str(error)
    return ""


def missing_for_machines() -> str:
    """Return what this machine lacks for virtual machines and containers, "" where nothing."""
    try:
        check_tools()
        registry.check("docker-registry", "skopeo", "umoci")
    except VimError as error:
        return str(error)
    return ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--emulated",
        action="store_true",
        help="run tests marked kvm also where processors are emulated: hours",
    )
    parser.addoption(
        "--keep",
        action="store_true",
        help="end at the first red test and leave its lab; the report says how to enter it",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what needs a lab, all packages, or seconds",
    )
    parser.addoption(
        "--record",
        metavar="KIND",
        help="keep what came out as the last run of a kind, in docs/reference/runs/KIND.yaml",
    )
    parser.addoption(
        "--changed",
        metavar="REVISION",
        help="only tests that files reach which differ from a revision",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("keep"):
        config.option.maxfail = 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    keep.note(item, report)
    return report


def schedule(item: pytest.Item) -> dict[str, Any]:
    """Return when and where a test runs: what its marks `schedule` say, the closest first."""
    name = item.path.relative_to(TESTS).as_posix()
    settings: dict[str, Any] = {"order": FOLDERS[max(filter(name.startswith, FOLDERS), key=len)]}
    for mark in reversed(list(item.iter_markers("schedule"))):
        settings |= mark.kwargs
    return settings


def takes_long(item: pytest.Item) -> bool:
    """Say whether a test is none of the quick run: by its marks, or as it needs all packages."""
    needs = {"dist", "unpacked"} & set(getattr(item, "fixturenames", ()))
    return bool({"lab", "slow"} & set(item.keywords) or needs)


@functools.cache
def reached(base: str) -> set[Path]:
    """Return the test modules that files reach which differ from a revision."""
    files = changed.changed_files(TESTS.parent, base)
    return {TESTS / module for module in changed.reached(TESTS.parent, files)}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what a change does not reach."""
    base = config.getoption("changed")
    if base and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return collection_path not in reached(base) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the collector of garbage from what stays: thousands of tests and their modules."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long value by its begin: pytest puts names into the environment, which is limited."""
    if isinstance(val, str | bytes) and len(val) > 100:
        text = val if isinstance(val, str) else repr(val)
        return f"{text[:60].encode('unicode_escape').decode()}...{len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose tests, order them for several workers, and tell xdist which belong to one worker."""
    if config.getoption("quick"):
        left_out = {item for item in items if takes_long(item)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: schedule(item)["order"])
    for item in items:
        if worker := schedule(item).get("worker"):
            item.add_marker(pytest.mark.xdist_group(worker))
        # Beside others a test may get no processor for a second. The summary names it.
        if "PYTEST_XDIST_WORKER" in os.environ:
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))


class _Workers(LoadFileScheduling):
    """Gives a worker whole modules, or all tests of one name in the mark `schedule`."""

    def _split_scope(self, nodeid: str) -> str:
        # xdist writes the name behind the test.
        _, at, worker = nodeid.rpartition("@")
        if at and "]" not in worker:
            return worker
        scope: str = super()._split_scope(nodeid)
        return scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Let one worker run the tests of a module, or of a name, one after another."""
    return _Workers(config, log) if config.getoption("dist") == "loadgroup" else None


@functools.cache
def stand_behind() -> None:
    """Let all others come first from now on, in a session of its own.

    Where Linux groups processes by session (sched_autogroup), the priority of a process counts
    within its session only.
    """
    os.nice(19)
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Judge before any fixture or mark does, so that nothing turns a failure into a skip."""
    if "PYTEST_XDIST_WORKER" in os.environ and schedule(item).get("idle"):
        stand_behind()
    if item.get_closest_marker("lab") is None:
        return
    reason = missing_capability()
    if not reason and item.get_closest_marker("vm") is not None:
        reason = missing_for_machines()
    if not reason and item.get_closest_marker("clock") is not None:
        reason = "" if clock.library() else "needs libfaketime"
    if not reason:
        if (
            item.get_closest_marker("kvm") is not None
            and not item.config.getoption("emulated")
            and not accelerator().real
        ):
            pytest.skip("takes minutes on emulated processors (no KVM here): --emulated runs it")
        return
    if os.environ.get("CI") or os.environ.get("VPNAAS_REQUIRE_LAB") == "1":
        pytest.fail(f"lab tests must run here, but this machine {reason}", pytrace=False)
    pytest.skip(reason)


#: Seconds by module; with several workers all reports come to the process that prints.
_SPENT: dict[str, float] = {}
#: A shorter run needs no account, in seconds of all workers.
_WORTH_TELLING = 60.0
_RUN = record.Run()
_BEGAN, _BUSY_BEFORE = time.monotonic(), spent.processor_seconds()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what a test and its fixtures took."""
    _RUN.note(report)
    path = report.nodeid.partition("::")[0]
    _SPENT[path] = _SPENT.get(path, 0.0) + report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    # `./run test` collects once beside its static checks, with the same arguments.
    kind = "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("record")
    if kind and not config.getoption("collectonly"):
        of = " ".join([config.getoption("markexpr"), *config.getoption("file_or_dir")])
        record.write(kind, _RUN.document(of, time.monotonic() - _BEGAN))
    # What failed first is often the cause, and the second failure its result.
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}", red=True, bold=True)
        report.toterminal(terminalreporter._tw)
    if sum(_SPENT.values()) < _WORTH_TELLING:
        return
    workers = int(config.getoption("numprocesses", None) or 1)
    terminalreporter.section("where the time went")
    for line in spent.table(_SPENT, workers):
        terminalreporter.line(line)
    share = (spent.processor_seconds() - _BUSY_BEFORE) / (time.monotonic() - _BEGAN)
    terminalreporter.line(f"processors busy: {share:.2f} of {os.cpu_count()}, as a mean")
