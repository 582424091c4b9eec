"""Progress of an operation, written by the worker and read by watchers.

A file with one JSON object per line. A watcher may be another process and may start late.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Journal:
    """Writer side. Thread-safe; a journal without a path keeps events in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self.events: list[Event] = []
        self._lock = threading.Lock()
        self._stream = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a", encoding="utf-8")

    def write(self, kind: str, subject: str, text: str, **more: Any) -> None:
        """Record an event.

        Args:
            kind: ``stage``, ``vm``, ``charm``, ``primitive``, ``relation``, ``note``, ``end``,
                ``settled`` or ``ns`` (a service of a slice).
            subject: subject of the event (member-vnf-index, relation name, ...).
            text: text for people.
            more: further fields for displays.
        """
        event = {"time": time.time(), "kind": kind, "subject": subject, "text": text, **more}
        with self._lock:
            if self._stream is None:
                self.events.append(event)
            else:
                self._stream.write(json.dumps(event) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Close the file; later events stay in memory only."""
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None


class Tail:
    """Reader side: returns events after they are appended.

    The file is opened at once, so its content can be read even when the worker has removed it.
    """

    def __init__(self, path: Path) -> None:
        """Read from the beginning of ``path``, which is made if it is missing."""
        path.touch()
        self._stream = path.open("rb")
        self._rest = b""

    def new_events(self) -> Iterator[Event]:
        """Yield the complete lines appended since the last call."""
        data = self._rest + self._stream.read()
        complete, newline, self._rest = data.rpartition(b"\n")
        if not newline:
            return
        for line in complete.splitlines():
            event: Event = json.loads(line)
            yield event

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
