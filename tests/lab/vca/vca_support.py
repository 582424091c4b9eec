"""Charms written in place, and a look at what they lived through."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.vca.controller import Controller
from lab.vca.model import Model
from lab.vca.runtime import Settings

QUICK = Settings(retry_start=0.05, retry_max=0.4, lock_timeout=10, stop_timeout=10)
WAIT = 60.0
"""Upper bound of waits in tests; they end as soon as what they wait for is there."""


def write_charm(
    folder: Path,
    name: str,
    *,
    script: str = "",
    provides: str = "",
    requires: str = "",
    peers: str = "",
    options: Mapping[str, object] | None = None,
    actions: Mapping[str, object] | None = None,
    interface: str = "link",
) -> Path:
    """Write a charm whose dispatch logs its environment to trace.jsonl, then runs `script` (sh).

    The trace stands in the charm folder, one line per run: the JUJU_* variables and, where the
    run is about a relation, its number.
    """
    folder.mkdir(parents=True)
    metadata: dict[str, object] = {
        "name": name,
        "summary": name,
        "description": name,
        "series": ["bionic"],
    }
    for section, names in (("provides", provides), ("requires", requires), ("peers", peers)):
        if names:
            metadata[section] = {
                word: {"interface": f"{word}-peer" if section == "peers" else interface}
                for word in names.split()
            }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    (folder / "config.yaml").write_text(yaml.safe_dump({"options": dict(options or {})}))
    (folder / "actions.yaml").write_text(yaml.safe_dump(dict(actions or {})))
    write_script(folder, script)
    return folder


def write_script(folder: Path, script: str) -> None:
    path = folder / "dispatch"
    path.write_text(
        "#!/bin/sh\n"
        'env | grep -E "^JUJU_|^PATH=|^HOME=|^CHARM_DIR=" | sort | tr "\\n" "\\001" >> trace\n'
        'printf "\\n" >> trace\n'
        "event=$JUJU_DISPATCH_PATH\n"
        "set -e\n" + script
    )
    path.chmod(0o755)


@dataclass(frozen=True)
class Run:
    environment: dict[str, str]

    @property
    def event(self) -> str:
        """Hook or action, without its folder."""
        return self.environment["JUJU_DISPATCH_PATH"].partition("/")[2]

    @property
    def about(self) -> str:
        """The event with the remote unit or, without one, application it is about."""
        remote = self.environment.get("JUJU_REMOTE_UNIT") or self.environment.get("JUJU_REMOTE_APP")
        return f"{self.event} {remote}" if remote else self.event


def runs(model: Model, unit: str) -> list[Run]:
    path = model.paths.charm(unit) / "trace"
    if not path.exists():
        return []
    result = []
    for line in path.read_text().splitlines():
        pairs = [word.partition("=") for word in line.split("\x01") if word]
        result.append(Run({key: value for key, _, value in pairs}))
    return result


def events(model: Model, unit: str) -> list[str]:
    return [run.event for run in runs(model, unit)]


def about(model: Model, unit: str, prefix: str = "") -> list[str]:
    """Return the hooks of a unit with whom they were about, those that begin with `prefix`."""
    return [run.about for run in runs(model, unit) if run.event.startswith(prefix)]


def log_text(model: Model, unit: str) -> str:
    return model.log_path(unit).read_text()


def logged(model: Model, unit: str, key: str) -> list[str]:
    """Return what a charm said with `echo key=value` or `juju-log key=value`, in order."""
    return re.findall(rf"{re.escape(key)}=(.*)", log_text(model, unit))


def on(hook: str, *commands: str) -> str:
    """Return sh code that runs commands for one hook or action (a `case` pattern)."""
    return f"case $event in */{hook}) {'; '.join(commands)};; esac\n"


def touch_and_wait(own: Path, other: Path) -> str:
    """Return a command that leaves a mark and waits up to 10 s for another."""
    return (
        f"touch {shlex.quote(str(own))}; i=0; "
        f"while [ ! -e {shlex.quote(str(other))} ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); "
        f"done; [ -e {shlex.quote(str(other))} ]"
    )


def databag(model: Model, reader: str, endpoint: str, who: str) -> dict[str, str]:
    """Return a databag as `show_unit(reader)` shows it: of a remote unit or application."""
    for relation in model.show_unit(reader)["relation-info"]:
        if relation["endpoint"] == endpoint:
            if "/" in who:
                return dict(relation["related-units"][who]["data"])
            return dict(relation["application-data"])
    raise AssertionError(f"{reader} has no relation at {endpoint}")


def new_model(home: Path, settings: Settings = QUICK) -> Model:
    return Controller(home, settings=settings).add_model("m")


def as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and has not been asked for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
