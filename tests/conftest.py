"""Settings of all tests; import paths are set in pyproject.toml.

Tests marked `lab` are skipped with the reason where they cannot run, and fail where they must.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
from pathlib import Path

import hypothesis
import pytest
from support import clock, spent
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from lab.vim import VimError, probe, registry
from lab.vim.qemu.accelerator import accelerator
from lab.vim.qemu.bake import check_tools

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

#: `update-status` comes when a test says so, not in the middle of it.
os.environ.setdefault("OSMLAB_UPDATE_STATUS_INTERVAL", "0")

#: Modules by prefix, in their order; the longest prefix counts, and "" stands for all others. What
#: takes longest begins first, so that workers end together. What needs a machine that does little
#: else comes last: a pair of gateways that act within milliseconds, and emulated processors. Beside
#: it runs what BEHIND names.
ORDER = (
    "kernel/test_kernel_abilities",
    "lab/e2e/test_e2e_slices_5g",
    "lab/e2e/test_e2e_shipped",
    "lab/e2e/test_e2e_basic",
    "lab/e2e/test_e2e_oai",
    "experiments/test_fiveg_on_the_lab",
    "lab/e2e/test_e2e_small_cell",
    "lab/e2e/test_e2e_access",
    "lab/e2e/test_e2e_5g",
    "experiments/test_matrix_on_the_lab",
    "lab/e2e/test_e2e_n3iwf",
    "lab/e2e",
    "gateway",
    "charm",
    "lab",
    "simulators",
    "builder",
    "",
    "lab/e2e/test_e2e_secgw_ha",
    "kernel",
    "lab/e2e/test_e2e_containers",
    "lab/e2e/test_e2e_machines",
    "charm/test_charm_events",
    "charm/test_dispatch",
    "charm/test_frameworks",
    "core/test_running_peers",
)
#: Tests that only calculate. They take what time of the processors all others leave.
BEHIND = r"charm/test_(charm_events|dispatch|frameworks)\.py|core/test_running_peers\.py"
#: Tests that one worker runs, by a name: it makes once what they share, or runs one after another
#: what is to be alone. The first pattern counts.
GROUPS = {
    "alone": r"kernel/|lab/e2e/test_e2e_(containers|machines|secgw_ha)\.py",
    "epc": (
        r"lab/e2e/(test_e2e_(guard|oai)\.py"
        r"|test_e2e_evidence\.py::\w+_of_an_epc$|test_e2e_secrets\.py.*\[epc\]$)"
    ),
    "basic": (r"lab/e2e/test_e2e_(basic|clear|evidence|peers|refusals|secrets|troubles)\.py"),
}
#: Tests that share nothing with others of their module, and are long: each is given on its own.
APART = "core/test_running_peers.py::test_no_running_peer_loses_anything_in_100000_cases"
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order modules for several workers; the tests of one stay as they are."""
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(tests).as_posix()
        return ORDER.index(max(filter(path.startswith, ORDER), key=len))

    items.sort(key=place)


class _Workers(LoadFileScheduling):
    """Gives a worker whole modules, but for GROUPS and APART."""

    def _split_scope(self, nodeid: str) -> str:
        name = nodeid.removeprefix("tests/")
        if name.startswith(APART):
            return nodeid
        path: str = super()._split_scope(nodeid)
        return next((group for group, of in GROUPS.items() if re.match(of, name)), path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Let one worker run the tests of a group, one after another."""
    return _Workers(config, log) if config.getoption("dist") == "loadfile" else None


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
    name = item.path.relative_to(Path(__file__).parent).as_posix()
    if "PYTEST_XDIST_WORKER" in os.environ and re.match(BEHIND, name):
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what a test and its fixtures took."""
    path = report.nodeid.partition("::")[0]
    _SPENT[path] = _SPENT.get(path, 0.0) + report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if sum(_SPENT.values()) < _WORTH_TELLING:
        return
    workers = int(config.getoption("numprocesses", None) or 1)
    terminalreporter.section("where the time went")
    for line in spent.table(_SPENT, workers):
        terminalreporter.line(line)
