"""Calls to one charm as n2vc makes them: ready rule, SSH keys, ``config``, actions, error texts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.descriptors.relations import Relation
from lab.errors import LcmError
from lab.lcm.backends import Charms
from lab.lcm.timeouts import VERIFY_TRIES, Timeouts

READY = ("active", "blocked")
_POLL = 0.1


class CharmOps:
    """n2vc for one model."""

    def __init__(self, charms: Charms, ns_id: str, timeouts: Timeouts) -> None:
        """Work on the model of network service ``ns_id``."""
        self.charms = charms
        self.ns_id = ns_id
        self.timeouts = timeouts

    def environment(self, application: str) -> str:
        """Return LCM's id of an execution environment, ``<model>.<application>.<machine>``.

        Raises:
            LcmError: there is no such application.
        """
        return f"{self.ns_id}.{application}.{self.charms.machine(application)}"

    def deployed(self, application: str) -> bool:
        """Say whether the model has an application."""
        try:
            self.charms.application_status(application)
        except LcmError as error:
            if "not found" not in str(error):
                raise
            return False
        return True

    def install(self, application: str, charm: Path, units: int) -> None:
        """Deploy and wait until the application is active or blocked.

        After the timeout ``charm_ready`` it returns without an error, as OSM does.

        Raises:
            LcmError: the charm folder is not in the package, or cannot be deployed.
        """
        if not charm.is_dir():
            raise LcmError(f"artifact path does not exist: {charm}")
        self.charms.deploy(application, charm, units)
        deadline = time.monotonic() + self.timeouts.charm_ready
        while time.monotonic() < deadline:
            if self.charms.application_status(application)[0] in READY:
                return
            time.sleep(_POLL)

    def relate(self, relation: Relation) -> None:
        """Add a relation; "not found" and "already exists" count as added (libjuju)."""
        try:
            self.charms.add_relation(relation.provider, relation.requirer)
        except LcmError as error:
            if "not found" not in str(error) and "already exists" not in str(error):
                raise

    def public_key(self, application: str) -> str:
        """Make the charm's SSH key and return its public part.

        Raises:
            LcmError: get-ssh-public-key failed or returned nothing.
        """
        # n2vc ignores every error here: a charm may keep the key it has.
        self._action(application, "generate-ssh-key", {}, self.timeouts.primitive, check=False)
        results = self._action(application, "get-ssh-public-key", {}, self.timeouts.primitive)
        key = str(results.get("pubkey", results.get("output", ""))).strip()
        if not key:
            raise LcmError("action get-ssh-public-key returned no 'pubkey'")
        return key

    def primitive(
        self, application: str, name: str, params: Mapping[str, Any], timeout: float
    ) -> Mapping[str, Any]:
        """Run an initial, terminate or day-2 primitive and return its result.

        ``config`` is no action: it sets options, then verifies the SSH login.

        Raises:
            LcmError: in n2vc's words.
        """
        if name == "config":
            return self.configure(application, params)
        return self._action(application, name, params, timeout)

    def configure(self, application: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set options, then run verify-ssh-credentials up to 20 times.

        As in n2vc, the primitive succeeds even if no login works.

        Raises:
            LcmError: the charm or the model refused the options.
        """
        ee = self.environment(application)
        bad = [k for k, v in options.items() if not isinstance(v, str)]
        try:
            if bad:
                # python-libjuju sends every value as text and fails on other types.
                value = options[bad[0]]
                raise LcmError(
                    f"option {bad[0]} is {type(value).__name__}, set_config takes strings only"
                )
            self.charms.set_config(application, options)
        except LcmError as error:
            raise LcmError(f"Error configuring application into ee={ee} : {error}") from None
        self.verify(application)
        return {"output": "CONFIG OK"}

    def verify(self, application: str) -> bool:
        """Run verify-ssh-credentials until it completes; ``False`` after the last try."""
        if not self.charms.has_action(application, "verify-ssh-credentials"):
            return False
        for attempt in range(VERIFY_TRIES):
            if attempt:
                time.sleep(self.timeouts.verify_interval)
            outcome = self.charms.run_action(
                application, "verify-ssh-credentials", {}, self.timeouts.primitive
            )
            if outcome.completed:
                return True
        return False

    def _action(
        self,
        application: str,
        name: str,
        params: Mapping[str, Any],
        timeout: float,
        check: bool = True,
    ) -> Mapping[str, Any]:
        prefix = f"Error executing primitive {name} in ee={self.environment(application)}: "
        try:
            outcome = self.charms.run_action(application, name, params, timeout)
        except LcmError as error:
            if check:
                raise LcmError(f"{prefix}{error}") from None
            return {}
        if check and not outcome.completed:
            reason = outcome.results.get("output", "No further information received from action")
            raise LcmError(f"{prefix}failed: {reason}")
        return outcome.results
