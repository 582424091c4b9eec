"""A Juju that knows no order: any event at any time, with whatever answers a test writes.

The lab's controller fires events in Juju's order. A charm must not depend on that: OSM, upgrades,
machine restarts and resolved failures bring others. Here the hook tools are one shell script that
prints prepared files, and dispatch runs as a process, as it does everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

TOOL = r"""#!/bin/sh
# Every hook tool. $BARE holds one file per answer; what the charm says is appended to files.
tool=${0##*/}
printf '%s' "$tool" >> "$BARE/calls"
printf ' %s' "$@" >> "$BARE/calls"
printf '\n' >> "$BARE/calls"
reader() {
    [ ! -e "$BARE/denied" ] || { echo 'ERROR permission denied' >&2; exit 1; }
}
answer() {
    if [ -e "$BARE/$1" ]; then cat "$BARE/$1"; else printf '%s\n' "$2"; fi
}
app= words=
for word in "$@"; do
    case $word in
        --app) app=.app ;;
        -*) ;;
        *) words="$words $(printf '%s' "$word" | tr / -)" ;;
    esac
done
set -f
case $tool in
    config-get) answer config.json '{}' ;;
    is-leader) answer leader.json false ;;
    goal-state) answer goal.json '{"units":{},"relations":{}}' ;;
    action-get) answer action.json '{}' ;;
    relation-ids) set -- $words; answer "ids.$1" '[]' ;;
    relation-list) set -- $words; answer "list.${1##*:}$app" '[]' ;;
    relation-get) reader; set -- $words; answer "data.${1##*:}.$2" '{}' ;;
    relation-set) reader; cat > /dev/null ;;
    status-set)
        while [ "${1#-}" != "$1" ]; do shift; done
        status=$1; shift
        [ "$1" != -- ] || shift
        printf '%s\t%s\n' "$status" "$1" >> "$BARE/status" ;;
    juju-log) shift $(($# - 1)); printf '%s\n' "$1" >> "$BARE/log" ;;
    action-set | action-fail) printf '%s\n' "$*" >> "$BARE/action" ;;
    state-get) exit 0 ;;
esac
"""
TOOLS = (
    *("action-fail", "action-get", "action-log", "action-set", "application-version-set"),
    *("config-get", "goal-state", "is-leader", "juju-log", "network-get"),
    *("relation-get", "relation-ids", "relation-list", "relation-set"),
    *("state-delete", "state-get", "state-set", "status-get", "status-set"),
)
LIMIT = 60.0
"""Seconds a dispatch may take; each waits for a VDU for less."""


@dataclass(frozen=True)
class Run:
    """What one dispatch did."""

    code: int
    seconds: float
    stderr: str
    statuses: tuple[tuple[str, str], ...]
    log: str
    calls: tuple[str, ...]
    action: str


class BareJuju:
    """One unit of an assembled charm, named `hss/0`, say, and the answers it gets."""

    def __init__(self, charm: Path, home: Path, python: Path, prefix: Sequence[str] = ()) -> None:
        """Prepare a unit; `prefix` goes before dispatch, to put it into a namespace."""
        self._charm = charm
        self._prefix = tuple(prefix)
        self._answers = home / "answers"
        self._bin = home / "bin"
        self._folder = home / "charm"
        self._bin.mkdir(parents=True)
        tool = self._bin / ".tool"
        tool.write_text(TOOL)
        tool.chmod(0o755)
        for name in TOOLS:
            (self._bin / name).symlink_to(tool.name)
        (self._bin / "python3").symlink_to(python)
        metadata = yaml.safe_load((charm / "metadata.yaml").read_text())
        self.name = str(metadata["name"])
        self.endpoints = [
            *metadata["peers"],
            *metadata.get("provides", {}),
            *metadata.get("requires", {}),
        ]
        self.fresh()

    def fresh(self) -> None:
        """Forget all the unit ever did, as on a new machine; answers go as well."""
        for folder in (self._answers, self._folder):
            shutil.rmtree(folder, ignore_errors=True)
        self._answers.mkdir()
        self._folder.mkdir()
        # The charm folder itself is written to; what lies in it is not.
        for entry in self._charm.iterdir():
            (self._folder / entry.name).symlink_to(entry)

    def answer(self, name: str, value: object) -> None:
        """Prepare an answer, in a file named as the script in TOOL asks for it."""
        (self._answers / name).write_text(json.dumps(value))

    def deny(self) -> None:
        """Keep all databags out of reach, as Juju does before a unit entered a relation."""
        (self._answers / "denied").touch()

    def relate(
        self, endpoint: str, number: int, remote: str | None, bag: Mapping[str, str]
    ) -> None:
        """Let the unit see a relation with one remote unit, or none, and the remote's data."""
        self.answer(f"ids.{endpoint}", [f"{endpoint}:{number}"])
        if remote is not None:
            app = remote.partition("/")[0]
            self.answer(f"list.{number}", [remote])
            self.answer(f"list.{number}.app", app)
            self.answer(f"data.{number}.{app}", dict(bag))

    def dispatch(self, path: str, **environment: str) -> Run:
        """Run dispatch for `hooks/...` or `actions/...` and return what it did."""
        for name in ("status", "log", "calls", "action"):
            (self._answers / name).unlink(missing_ok=True)
        begun = time.monotonic()
        done = subprocess.run(
            [*self._prefix, str(self._folder / "dispatch")],
            cwd=self._folder,
            env={
                "PATH": f"{self._bin}:/usr/bin:/bin",
                "HOME": str(self._answers),
                "LANG": "C.UTF-8",
                "BARE": str(self._answers),
                "JUJU_VERSION": "2.9.44",
                "JUJU_CHARM_DIR": str(self._folder),
                "JUJU_DISPATCH_PATH": path,
                "JUJU_HOOK_NAME": path.partition("/")[2] if path.startswith("hooks/") else "",
                "JUJU_UNIT_NAME": f"{self.name}/0",
                "JUJU_MODEL_NAME": "bare",
                "JUJU_MODEL_UUID": "0f1f9c6c-6f7b-4d5e-8d0a-000000000000",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        lines = self._said("status").split("\n")[:-1]
        statuses = tuple((a, b) for a, _, b in (line.partition("\t") for line in lines))
        return Run(
            done.returncode,
            time.monotonic() - begun,
            done.stderr,
            statuses,
            self._said("log"),
            tuple(self._said("calls").splitlines()),
            self._said("action"),
        )

    def _said(self, name: str) -> str:
        file = self._answers / name
        return file.read_text() if file.exists() else ""


def relation_event(
    endpoint: str, kind: str, number: int, remote: str
) -> tuple[str, dict[str, str]]:
    """Return dispatch path and environment of a relation hook, as Juju 2.9 sets them."""
    app = remote.partition("/")[0]
    environment = {
        "JUJU_RELATION": endpoint,
        "JUJU_RELATION_ID": f"{endpoint}:{number}",
        "JUJU_REMOTE_APP": app,
        "JUJU_REMOTE_UNIT": "" if kind in ("created", "broken") else remote,
    }
    if kind == "departed":
        environment["JUJU_DEPARTING_UNIT"] = remote
    return f"hooks/{endpoint}-relation-{kind}", environment


def problems(run: Run) -> list[str]:
    """Say what a hook must never do: fail, show a traceback, or set another status than two."""
    found = []
    if run.code != 0:
        found.append(f"exit code {run.code}: {run.stderr[-400:]}")
    for text in (run.stderr, run.log):
        if "Traceback" in text or "Uncaught exception" in text:
            found.append(text[-600:])
    found += [
        f"status {status}" for status, _ in run.statuses if status not in ("active", "blocked")
    ]
    return found


def is_sentence(text: str) -> bool:
    """Whether a text is one line for people: no traceback, no repr of an exception."""
    return bool(text) and "\n" not in text.strip() and "Error(" not in text and len(text) < 600


def charm_pythons() -> dict[str, Path]:
    """Return the interpreters at hand the vendored files are made for, by version."""
    candidates = [Path("/usr/bin/python3")]
    wanted = os.environ.get("OSMLAB_CHARM_PYTHON")
    if wanted:
        candidates.insert(0, Path(wanted))
    for version in ("3.6", "3.8", "3.10", "3.11", "3.12"):
        shim = shutil.which(f"python{version}")
        if shim:
            candidates.append(Path(shim))
            # A pyenv shim runs only the versions switched on; all installed ones lie beside it.
            versions = Path(shim).parent.parent / "versions"
            candidates += sorted(versions.glob(f"{version}.*/bin/python{version}"))
    found: dict[str, Path] = {}
    for candidate in candidates:
        try:
            done = subprocess.run(
                [candidate, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        found.setdefault(done.stdout.strip(), candidate)
    return found
