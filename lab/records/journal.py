"""Progress of an operation, written by the worker and read by watchers.

A file with one JSON object per line. A watcher may be another process and may start late.
"""

import json
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Journal:
    """Writer side. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = path.open("a", encoding="utf-8")

    def write(self, kind: str, subject: str, text: str, **more: Any) -> None:
        """Record an event.

        Args:
            kind: ``stage``, ``vm``, ``charm``, ``primitive``, ``relation``, ``note``, ``end``,
                ``settled`` or ``ns`` (a service of a slice).
        """
        event = {"time": time.time(), "kind": kind, "subject": subject, "text": text, **more}
        with self._lock, suppress(OSError):  # a full disk; the operation's record has the result
            if not self._stream.closed:
                self._stream.write(json.dumps(event) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Close the file; later events are lost."""
        with self._lock, suppress(OSError):
            self._stream.close()


class Tail:
    """Reader side: returns events after they are appended.

    The file is opened at once, so its content can be read even when the worker has removed it.
    """

    def __init__(self, path: Path) -> None:
        """Read from the beginning of ``path``, which is made if it is missing."""
        path.touch()
        self._stream = path.open("rb")
        self._rest = b""

    def new_events(self) -> list[Event]:
        """Return the complete lines appended since the last call."""
        *lines, self._rest = (self._rest + self._stream.read()).split(b"\n")
        return _parsed(lines)


def events(path: Path) -> list[Event]:
    """Return all events of a journal; none without a file."""
    try:
        return _parsed(path.read_bytes().splitlines())
    except FileNotFoundError:
        return []


def _parsed(lines: Iterable[bytes]) -> list[Event]:
    result = []
    for line in lines:
        with suppress(ValueError):  # cut by a full disk, or not complete yet
            result.append(json.loads(line))
    return result
