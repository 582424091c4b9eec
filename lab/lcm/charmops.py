"""Calls to one charm as n2vc makes them: ready rule, SSH keys, ``config``, actions, error texts."""

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.descriptors.relations import Relation
from lab.errors import LcmError, WaitTimeoutError
from lab.lcm.timeouts import VERIFY_TRIES, Timeouts
from lab.vca.events import Event
from lab.vca.model import Model

READY = ("active", "blocked")


@dataclass(frozen=True)
class CharmOps:
    """n2vc for one application in the model of a network service."""

    model: Model
    application: str
    timeouts: Timeouts

    @property
    def ee_id(self) -> str:
        """LCM's id of the execution environment, ``<model>.<application>.<machine>``."""
        units = self.model.status().units.values()
        machines = [unit.machine for unit in units if unit.name.startswith(f"{self.application}/")]
        if not machines:
            raise LcmError(f"application {self.application} not found")
        return f"{self.model.uuid}.{self.application}.{min(machines)}"

    def deployed(self) -> bool:
        return self.application in self.model.status().applications

    def install(self, charm: Path, units: int) -> None:
        """Deploy and wait until the application is active or blocked.

        After the timeout ``charm_ready`` it returns without an error, as OSM does.
        """
        if not charm.is_dir():
            raise LcmError(f"artifact path does not exist: {charm}")
        self.model.deploy(self.application, charm, num_units=units)
        with contextlib.suppress(WaitTimeoutError):
            self.model.wait_for(
                lambda status: status.applications[self.application].status in READY,
                self.timeouts.charm_ready,
                app=self.application,
            )

    def relate(self, relation: Relation) -> None:
        """Add a relation; "not found" and "already exists" count as added (libjuju)."""
        try:
            self.model.add_relation(relation.provider, relation.requirer)
        except LcmError as error:
            if "not found" not in str(error) and "already exists" not in str(error):
                raise

    def public_key(self) -> str:
        """Make the charm's SSH key and return its public part."""
        # n2vc ignores every error here: a charm may keep the key it has.
        self._action("generate-ssh-key", {}, self.timeouts.primitive, check=False)
        results = self._action("get-ssh-public-key", {}, self.timeouts.primitive)
        key = str(results.get("pubkey", results.get("output", ""))).strip()
        if not key:
            raise LcmError("action get-ssh-public-key returned no 'pubkey'")
        return key

    def primitive(self, name: str, params: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """Run an initial, terminate or day-2 primitive and return its result.

        ``config`` is no action: it sets options, then verifies the SSH login.
        """
        return self.configure(params) if name == "config" else self._action(name, params, timeout)

    def configure(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set options, then run verify-ssh-credentials up to 20 times.

        As in n2vc, the primitive succeeds even if no login works.
        """
        ee = self.ee_id
        bad = [k for k, v in options.items() if not isinstance(v, str)]
        try:
            if bad:
                # python-libjuju sends every value as text and fails on other types.
                raise LcmError(f"option {bad[0]} is no text; set_config takes texts only")
            self.model.set_config(self.application, dict(options))
        except LcmError as error:
            raise LcmError(f"Error configuring application into ee={ee} : {error}") from None
        self.verify()
        return {"output": "CONFIG OK"}

    def verify(self) -> None:
        """Run verify-ssh-credentials until it completes, or the last time."""
        name = "verify-ssh-credentials"
        if name not in self.model.actions(self.application):
            return
        for attempt in range(VERIFY_TRIES):
            if attempt:
                time.sleep(self.timeouts.verify_interval)
            done = self.model.run_action(self.application, name, {}, self.timeouts.primitive)
            if done.status == "completed":
                return

    def _action(
        self, name: str, params: Mapping[str, Any], timeout: float, check: bool = True
    ) -> Mapping[str, Any]:
        prefix = f"Error executing primitive {name} in ee={self.ee_id}: "
        try:
            outcome = self.model.run_action(self.application, name, params, timeout)
        except LcmError as error:
            if check:
                raise LcmError(f"{prefix}{error}") from None
            return {}
        if check and outcome.status != "completed":
            reason = outcome.results.get("output", "No further information received from action")
            raise LcmError(f"{prefix}failed: {reason}")
        return outcome.results


def remove(model: Model, application: str, timeout: float) -> None:
    """Remove an application and wait until its units are gone; a missing one is no error."""
    if application in model.status().applications:
        model.remove_application(application)
        model.wait_for(
            lambda status: application not in status.applications, timeout, app=application
        )


_QUIET = {
    "hook-started": "running {name}",
    "hook-retried": "retrying {name}",
    "action-started": "action {name}",
}


def shown(event: Event, log: Path) -> dict[str, Any]:
    """Return what the journal shows of an event of a unit that writes ``log``.

    ``quiet`` events are for a live display only: there are too many of them for a log.
    """
    if event.kind == "status":
        text = f"{event.name}: {event.message}" if event.message else event.name
        return {"text": text, "status": event.name, "quiet": False}
    if event.kind == "hook-failed":
        # One that was killed does not say why it ended.
        reason = event.message if event.message.startswith("signal") else _last_words(log)
        reason = reason or event.message
        return {"text": f"{event.name} failed: {reason}", "status": "error", "quiet": False}
    return {"text": _QUIET[event.kind].format(name=event.name), "status": None, "quiet": True}


def _last_words(path: Path) -> str:
    """Return the last line a failed hook wrote, which for Python names the exception."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 4096))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    # Skip the line that the controller adds: it has only the exit status.
    own = [line for line in lines if line.strip() and '" failed: ' not in line]
    # Another line of the controller is about a hook before: this one wrote nothing.
    silent = not own or re.match(r"\S+ \S+ [A-Z]+ unit\.\S+/[0-9]+ ", own[-1])
    return "" if silent else own[-1].strip()
