"""Live progress: events from the agents to subscribers."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "hook-started",
    "hook-failed",
    "hook-retried",
    "status",  # workload status or message of a unit
    "action-started",
]


@dataclass(frozen=True)
class Event:
    """One thing that happened in a model."""

    kind: EventKind
    app: str
    unit: str
    name: str  # Hook, action or status word.
    message: str = ""


Callback = Callable[[Event], None]


class Publisher:
    """Hands events to the subscribers, one after another.

    It runs in the thread of the agent, which waits for it. So a subscriber may read the model, but
    not change or stop it.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._callbacks: list[Callback] = []

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with each event; return a function that ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def publish(self, event: Event) -> None:
        with self._lock:
            for callback in list(self._callbacks):
                try:
                    callback(event)
                except Exception:  # a display that breaks must not break the model
                    self._log.exception("a subscriber failed at %s", event)
