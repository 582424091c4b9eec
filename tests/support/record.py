"""What a run of tests leaves in docs/reference/runs: the last of each kind.

python tests/support/record.py     # say which tests no run that is kept there has passed
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.vim.qemu.accelerator import accelerator

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "docs/reference/runs"
SLOWEST = 10
NAMED = 200
"""A record names what passed where there is no more of it."""
PACKAGES = {
    "systemd": "systemd",
    "strongswan": "strongswan-swanctl",
    "openssh": "openssh-server",
    "nftables": "nftables",
    "cloud-init": "cloud-init",
    "qemu": "qemu-system-x86",
    "podman": "podman",
}
Document = dict[str, Any]


def _said(*words: str) -> str:
    """Return what a program prints, "" where it fails or is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def machine() -> Document:
    """Return what counts of the machine: releases, versions and size, no name."""
    release = platform.freedesktop_os_release()
    version = Path("/etc/debian_version")
    number = version.read_text("utf-8").strip() if version.exists() else release["VERSION_ID"]
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    found = {
        "release": f"{release['NAME'].partition(' ')[0]} {number}",
        "kernel": platform.release(),
        "processors": len(os.sched_getaffinity(0)),
        "memory-gib": round(pages * size / 2**30),
        "kvm": accelerator().real,
        "python": platform.python_version(),
    }
    query = ("dpkg-query", "-W", "-f", "${Version}")
    return found | {name: v for name, of in PACKAGES.items() if (v := _said(*query, of))}


class Run:
    """The outcomes of the tests of a run."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.again: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.seconds: dict[str, float] = defaultdict(float)
        self.figures: dict[str, Any] = {}

    def note(self, report: Any) -> None:
        """Take a report of pytest, of which a test has three."""
        name, _, worker = report.nodeid.rpartition("@")  # as xdist writes it
        if not name or "]" in worker:
            name = report.nodeid
        self.seconds[name] += report.duration
        self.figures |= {f"{name}: {key}": value for key, value in report.user_properties}
        if report.failed or (report.skipped and self.outcomes.get(name) != "failed"):
            self.outcomes[name] = report.outcome
        elif report.outcome == "rerun":
            self.again.add(name)
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")
        if report.skipped:
            told = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.reasons[name] = str(told).removeprefix("Skipped: ")

    def named(self, outcome: str) -> list[str]:
        return sorted(name for name, found in self.outcomes.items() if found == outcome)

    def document(self, of: str, took: float) -> Document:
        """Return the record.

        Args:
            of: which tests were asked for.
            took: seconds of the run.
        """
        skipped: dict[str, list[str]] = defaultdict(list)
        for name in self.named("skipped"):
            skipped[self.reasons[name]].append(name)
        passed = self.named("passed")
        slowest = sorted(self.seconds, key=lambda name: -self.seconds[name])[:SLOWEST]
        dirty = _said("git", "status", "--porcelain", "--untracked-files=no")
        return {
            "commit": _said("git", "rev-parse", "--short", "HEAD")
            + (" with changes" * bool(dirty)),
            "date": datetime.datetime.now(datetime.UTC).date(),
            "machine": machine(),
            "of": of,
            "seconds": round(took),
            "passed": passed if len(passed) <= NAMED else len(passed),
            "failed": self.named("failed"),
            "failed-once": sorted(self.again - set(self.named("failed"))),
            "skipped": dict(skipped),
            "slowest": {name: round(self.seconds[name], 1) for name in slowest},
            "figures": self.figures,
        }


def write(name: str, document: Document) -> None:
    RUNS.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    head = f"# Written by `./run test`: the last run of the kind {name}.\n"
    (RUNS / f"{name}.yaml").write_text(head + text, encoding="utf-8")


def never(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the tests that records skip and none has passed, with the reasons."""
    known = [one for one in records if "skipped" in one]

    def passed(other: Mapping[str, Any], name: str, of: str) -> bool:
        if isinstance(other["passed"], list):
            return name in other["passed"]
        left = {each for names in other["skipped"].values() for each in names}
        return of == other["of"] and name not in left | set(other["failed"])

    told: set[str] = set()
    for one in known:
        for reason, names in one["skipped"].items():
            for name in names:
                if name not in told and not any(passed(each, name, one["of"]) for each in known):
                    told.add(name)
                    yield name, reason


def main() -> None:
    files = sorted(RUNS.glob("*.yaml"))
    for name, reason in never(yaml.safe_load(file.read_text("utf-8")) for file in files):
        print(f"{name}: {reason}")


if __name__ == "__main__":
    main()
