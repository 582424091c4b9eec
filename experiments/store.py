"""A campaign on disk: its description, and one JSON file per run.

    DIR/campaign.json                       profile, seed, environment
    DIR/runs/EXPERIMENT-KEY-REPETITION.json
    DIR/lock                                process and machine of a campaign that runs
    DIR/disturbed/...                       runs that a busy machine disturbed, made again

A run's file is complete or does not exist, so that an interrupted campaign can continue.
"""

import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from builder.files import replace
from experiments.machine import is_locked
from experiments.model import Cell, Run


class Campaign:
    """The runs of one profile on one machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "campaign.json"
        # Lists the other campaigns on this machine, for the record of each run.
        self.others: Callable[[], list[str]] = list

    def begin(self, profile: str, seed: int, environment: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make a campaign, or continue an existing one; return its description."""
        campaign = {"profile": profile, "seed": seed, "environment": dict(environment)}
        if not self._file.exists():
            self._write(self._file, json.dumps(campaign, indent=1, sort_keys=True) + "\n")
            return campaign
        there = self.describe()
        for name in ("profile", "environment"):
            if there[name] != campaign[name]:
                raise click.ClickException(
                    f"{self.directory} holds a campaign with another {name}: "
                    f"{difference(there[name], campaign[name])}; take another --out"
                )
        return there

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other campaigns out of the folder."""
        file, machine = self.directory / "lock", platform.node()
        own = json.dumps({"pid": os.getpid(), "machine": machine})
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            stream = file.open("a+", encoding="utf-8")
        except OSError as error:
            reason = error.strerror
            raise click.ClickException(f"{file} cannot be written: {reason}") from None
        with stream:
            held = is_locked(stream)
            stream.seek(0)
            try:
                holder = json.loads(stream.read() or own)
                who, where = int(holder["pid"]), str(holder["machine"])
            except (ValueError, KeyError, TypeError):
                who, where = 0, machine
            # The kernel frees the lock of a process that ended, on this machine only.
            if held or where != machine:
                ended = "" if held else f"; if it has ended, delete {file}"
                raise click.ClickException(
                    f"{self.directory} is used by a campaign, process {who} on {where}; wait for"
                    f" its end, or take another --out{ended}"
                )
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.truncate(0)
            stream.write(own)
            stream.flush()
            try:
                yield
            finally:
                file.unlink(missing_ok=True)

    def describe(self) -> Mapping[str, Any]:
        """Return profile, seed and environment."""
        try:
            document = json.loads(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise click.ClickException(f"{self.directory} holds no campaign") from None
        except ValueError as error:
            raise click.ClickException(f"{self._file} describes no campaign: {error}") from None
        needed = {"profile", "seed", "environment"}
        if not isinstance(document, dict) or not needed <= document.keys():
            raise click.ClickException(
                f"{self._file} describes no campaign: it needs profile, seed and environment"
            )
        return document

    def runs(self) -> list[Run]:
        """Return all runs in the order in which they were made."""
        runs = []
        for file in sorted((self.directory / "runs").glob("*.json")):
            try:
                runs.append(Run.from_json(file.read_text(encoding="utf-8")))
            except ValueError as error:
                raise click.ClickException(f"{file} is not a run: {error}") from None
        return sorted(runs, key=lambda run: (run.started, run.order))

    def has(self, cell: Cell, repetition: int) -> bool:
        return self._run_file(cell.experiment, cell.key, repetition).exists()

    def add(self, run: Run) -> None:
        self._write(self._run_file(run.experiment, run.key, run.repetition), run.to_json())

    def set_aside(self, run: Run) -> bool:
        """Move a run's file to `disturbed/`; tell whether there was none of it.

        A run is made again only once.
        """
        file = self._run_file(run.experiment, run.key, run.repetition)
        aside = self.directory / "disturbed" / file.name
        if aside.exists():
            return False
        self._write(aside, run.to_json())
        file.unlink()
        return True

    def cpus(self) -> int:
        """Return the number of processors of the VDUs' machine, 0 if they are on others."""
        if not self._file.exists():
            return 0
        return int(self.describe()["environment"].get("host", {}).get("cpus") or 0)

    def _run_file(self, experiment: str, key: str, repetition: int) -> Path:
        return self.directory / "runs" / f"{experiment}-{key}-{repetition}.json"

    @staticmethod
    def _write(path: Path, text: str) -> None:
        """Write a file, all of it or nothing."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text)
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None


def difference(one: Any, other: Any) -> str:
    """Return the first place where two descriptions differ, for a sentence."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}):
            if one.get(name) != other.get(name):
                return f"{name} {difference(one.get(name), other.get(name))}"
    return f"{one!r} there, {other!r} here"
