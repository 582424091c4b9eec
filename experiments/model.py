"""A run: its parameters, the key derived from them, and its record on disk."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.machine import disturbance, late_ms

SCHEMA = 1

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One point of the parameter space: an experiment and the values of its parameters."""

    experiment: str
    params: Params = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Digest of experiment and parameters; equal cells have equal keys on any machine."""
        text = json.dumps([self.experiment, self.params], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


Result = tuple[dict[str, Any], bool | None]  # Figures of a run, and its verdict.


@dataclass(frozen=True)
class Experiment:
    """An experiment."""

    make: Callable[..., Result]  # makes a run on a test bed, with the parameters of a cell.
    # The most important figures of a result: a form that takes them, or a function.
    headline: str | Callable[[Mapping[str, Any]], str] = ""
    _: KW_ONLY
    title: str = ""  # heading of its verdict in the report, "" if it only measures.
    claim: str = ""  # sentence that its verdict is about.
    # Whether it needs a queue in the network, or UEs that the lab simulates.
    lab_only: bool = False

    def told(self, result: Mapping[str, Any]) -> str:
        """Return the most important figures of a result."""
        form = self.headline
        return form.format_map(result) if isinstance(form, str) else form(result)

    def __call__(self, *bed: Any, **params: Any) -> Result:
        return self.make(*bed, **params)


@dataclass(frozen=True)
class Run:
    """One repetition of a cell and its result."""

    experiment: str
    params: Params
    key: str  # key of the cell.
    repetition: int  # counted from 0.
    order: int  # position in the order in which the runs of the campaign were made.
    started: float  # seconds since the epoch.
    seconds: float  # duration of the run.
    load: float  # load average of the machine over a minute, before the run began.
    result: Mapping[str, Any]  # figures, with the experiment's names.
    passed: bool | None = None  # the experiment's verdict, None if it only measures.
    # Number of busy processors of the machine just before the run began; None if it was not
    # measured.
    busy: float | None = None
    # Other campaigns that ran on the machine, by process and folder.
    beside: list[str] = field(default_factory=list)
    schema: int = SCHEMA

    def disturbance(self, cpus: int) -> str:
        """Return why the run tells nothing, "" if the machine, with so many processors, kept up.

        Only a failure can be the machine's fault, or that a control showed what it should. Without
        processors the VDUs were on other machines.
        """
        if self.passed is None or (self.passed and self.params.get("enforced") is not False):
            return ""
        if self.beside and cpus:
            return f"another campaign ran on it ({self.beside[0]})"
        return disturbance(self.busy, cpus, late_ms(self.result))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Run":
        """Read a run's file."""
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema {document.get('schema')!r} is not {SCHEMA}")
        try:
            run = cls(**document)
        except TypeError as error:
            raise ValueError(str(error)) from None
        for name in ("repetition", "order", "started", "seconds", "load"):
            if not isinstance(document[name], int | float):
                raise ValueError(f"{name} {document[name]!r} is not a number")
        if not isinstance(run.result, dict):
            raise ValueError("its result is not a JSON object")
        if run.key != Cell(run.experiment, run.params).key:
            raise ValueError("its key is not that of its parameters")
        return run


def first_line(*argv: str) -> str:
    """Return the first line that a program prints, or the reason why there is none."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except FileNotFoundError:
        return "missing"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def _cpuinfo(name: str) -> str:
    """Return a field of the first processor (proc_cpuinfo(5)), "" where there is none."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""


def environment(root: Path) -> dict[str, Any]:
    """Return the environment that is the same with any OSM and in the whole campaign."""
    # git refuses a tree of another user: root runs experiments in a user's clone.
    trust = ("-c", f"safe.directory={root}")
    commit = first_line("git", *trust, "-C", str(root), "describe", "--always", "--dirty")
    return {
        "versions": {
            "python": platform.python_version(),
            "commit": "unknown" if commit.startswith("fatal") else commit,
        },
    }


def host() -> dict[str, Any]:
    """Return the data of this machine, for a campaign that runs on it alone."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpuinfo("model name") or platform.machine(),
        "cpus": os.cpu_count(),
        "mhz": round(float(_cpuinfo("cpu MHz") or 0)),
        "memory-gib": round(memory / 2**30),
        "kernel": platform.release(),
    }
