"""Shared state of the threads of one instantiation, with waiting.

OSM keeps this in its database and polls; here a condition variable wakes the waiters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lab.descriptors.environments import Environment
from lab.errors import LcmError


class Board:
    """Which units have an address, an installed charm, and a finished configuration."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._addresses: dict[tuple[str, str | None, int], str] = {}
        self._installed: set[str] = set()
        self._related: set[str] = set()
        self._outcome: dict[str, str] = {}
        self._vim_failed = False

    def set_address(self, index: str, vdu_id: str | None, count: int, address: str) -> None:
        """Record the address of a VDU instance, or with ``vdu_id=None`` of the VNF."""
        with self._changed:
            self._addresses[index, vdu_id, count] = address
            self._changed.notify_all()

    def set_installed(self, application: str) -> None:
        """Record that an application is deployed and ready for relations."""
        with self._changed:
            self._installed.add(application)
            self._changed.notify_all()

    def claim_relation(self, name: str) -> bool:
        """Return whether the caller is the first to add this relation (both ends try)."""
        with self._changed:
            first = name not in self._related
            self._related.add(name)
            return first

    def set_outcome(self, application: str, outcome: str) -> None:
        """Record ``READY`` or ``BROKEN`` for an environment."""
        with self._changed:
            self._outcome[application] = outcome
            self._changed.notify_all()

    def set_vim_failed(self) -> None:
        """Wake those who wait for an address that will not come."""
        with self._changed:
            self._vim_failed = True
            self._changed.notify_all()

    def wait_address(self, env: Environment, timeout: float) -> str:
        """Return the address a charm manages.

        Raises:
            LcmError: the VIM failed or time is over.
        """
        index = env.member_vnf_index or ""
        key = (index, env.vdu_id, env.count_index if env.vdu_id else 0)
        self._wait(lambda: key in self._addresses or self._vim_failed, timeout)
        with self._changed:
            if key in self._addresses:
                return self._addresses[key]
            if self._vim_failed:
                raise LcmError("Cannot inject ssh-key because target VM is in error state")
        raise LcmError("Not found the management address of the VM in time")

    def wait_installed(self, applications: tuple[str, ...], timeout: float) -> bool:
        """Wait until all these applications are installed; ``False`` when time is over.

        It gives up as soon as one of them is broken before it was installed.
        """

        def decided() -> bool:
            return all(a in self._installed for a in applications) or any(
                self._outcome.get(a) == "BROKEN" and a not in self._installed for a in applications
            )

        self._wait(decided, timeout)
        with self._changed:
            return all(a in self._installed for a in applications)

    def wait_outcomes(self, applications: tuple[str, ...], timeout: float) -> None:
        """Wait until these environments are ready.

        Raises:
            LcmError: one is broken or time is over; with LCM's words.
        """

        def decided() -> bool:
            return all(a in self._outcome for a in applications) or any(
                self._outcome.get(a) == "BROKEN" for a in applications
            )

        self._wait(decided, timeout)
        with self._changed:
            if any(self._outcome.get(a) == "BROKEN" for a in applications):
                raise LcmError("Configuration aborted because dependent charm/s has failed")
            if not all(a in self._outcome for a in applications):
                raise LcmError("Timeout waiting for dependent charm/s")

    def _wait(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)
