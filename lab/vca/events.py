"""Live progress: events from the agents to subscribers."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal[
    "hook-started",
    "hook-finished",
    "hook-failed",
    "hook-skipped",  # the charm does not implement it
    "hook-retried",
    "status",  # workload status or message of a unit
    "leader",
    "action-queued",
    "action-started",
    "action-finished",
    "unit-added",
    "unit-removed",
]


@dataclass(frozen=True)
class Event:
    """One thing that happened in a model."""

    kind: EventKind
    app: str
    unit: str = ""
    name: str = ""
    """Hook, action or status word."""
    message: str = ""
    action_id: str = ""
    seconds: float | None = None
    """How long the hook or action ran."""
    at: float = field(default_factory=time.time)


Callback = Callable[[Event], None]


class Publisher:
    """Hands events to the subscribers, in order, from a separate thread.

    So a slow subscriber never delays a hook. A subscriber may read the model but not change it,
    because `stop` waits until the last event is delivered.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._callbacks: list[Callback] = []
        self._thread: threading.Thread | None = None

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with each event; return a function that ends that."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Queue an event."""
        if self._thread is not None:
            self._queue.put(event)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread = threading.Thread(target=self._run, name="vca-events", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Deliver what is queued, then end."""
        if self._thread is not None:
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            for callback in list(self._callbacks):
                try:
                    callback(event)
                except Exception:  # a display that breaks must not break the model
                    self._log.exception("a subscriber failed at %s", event)
