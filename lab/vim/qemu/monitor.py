"""Calls to one virtual machine: QEMU's monitor (QMP) and the guest agent inside.

Both are JSON over a Unix socket in the server's directory (QEMU's docs/interop/qmp-spec.txt and
qemu-ga-ref). Each serves one client at a time, so a client holds a lock file.
"""

import base64
import contextlib
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.errors import VimError
from lab.vim.store import locked
from lab.vim.vdu import MOST_READ

MONITOR, AGENT = "qmp.sock", "agent.sock"
_PATIENCE = 20.0  # seconds for an answer of QEMU
_GUEST_PATIENCE = 120.0  # of the agent; a guest without hardware virtualisation is slow
#: Bytes of an answer: what a command wrote to both its outputs, 16 MiB each as base64.
_MOST = 48 << 20
_ids = itertools.count(1)


class SilentError(VimError):
    """QEMU or the guest agent does not run, or does not answer."""


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Refuse an answer of the wrong shape: root of a guest may answer in the agent's place."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise VimError("The guest agent's answer is not what an agent answers.") from None


class _Channel:
    """Lines of JSON over a Unix socket."""

    def __init__(self, directory: Path, name: str, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = b""
        self._left = _MOST
        self._end = time.monotonic() + timeout
        self._name = name
        self._socket.settimeout(timeout)
        try:
            # By the directory's descriptor: the path itself may be too long for a socket's name.
            handle = os.open(directory, os.O_PATH)
            try:
                self._socket.connect(f"/proc/self/fd/{handle}/{name}")
            finally:
                os.close(handle)
        except OSError as error:
            self._socket.close()
            raise SilentError(f"{name} does not answer: {error.strerror or error}.") from None

    def __enter__(self) -> "_Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _more(self) -> None:
        try:
            self._socket.settimeout(max(0.01, self._end - time.monotonic()))
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        self._left -= len(data)
        if not data or self._left < 0 or time.monotonic() > self._end:
            raise SilentError(f"{self._name} does not answer.")
        self._buffer += data

    def take(self, end: bytes = b"\n") -> bytes:
        """Return the bytes before the next `end`."""
        while end not in self._buffer:
            self._more()
        line, _, self._buffer = self._buffer.partition(end)
        return line

    def send(self, command: str, arguments: dict[str, Any], prefix: bytes = b"") -> None:
        document = {"execute": command, "arguments": arguments}
        try:
            self._socket.sendall(prefix + json.dumps(document).encode() + b"\n")
        except OSError:
            raise SilentError(f"{self._name} does not answer.") from None

    def answer(self) -> Any:
        """Return the answer to the last command; skip QEMU's events."""
        while True:
            document = json.loads(self.take())
            if "error" in document:
                raise VimError(f"QEMU says: {document['error'].get('desc', 'no reason given')}.")
            if "return" in document:
                return document["return"]


def monitor(directory: Path, command: str, /, **arguments: Any) -> Any:
    """Give QEMU a command; SilentError if it does not run."""
    with locked(directory / "qmp.lock"), _Channel(directory, MONITOR, _PATIENCE) as channel:
        channel.take()  # its greeting
        channel.send("qmp_capabilities", {})
        channel.answer()
        channel.send(command, {key.replace("_", "-"): value for key, value in arguments.items()})
        return channel.answer()


def agent_there(directory: Path) -> bool:
    """True when an agent in the guest has opened its end of the channel."""
    try:
        rows = monitor(directory, "query-chardev")
    except VimError:
        return False
    return any(row["label"] == "agent" and row["frontend-open"] for row in rows)


def agent(directory: Path, command: str, /, **arguments: Any) -> Any:
    """Give the guest agent a command; SilentError if none answers."""
    with locked(directory / "agent.lock"):
        if not agent_there(directory):
            raise SilentError("The guest agent does not run in the server, or not yet.")
        with _Channel(directory, AGENT, _GUEST_PATIENCE) as channel, understood():
            # Answers to an earlier client may still come; 0xFF precedes the answer to this sync.
            number = os.getpid() << 20 | next(_ids)
            channel.send("guest-sync-delimited", {"id": number}, b"\xff")
            while True:
                channel.take(b"\xff")
                if json.loads(channel.take()).get("return") == number:
                    break
            channel.send(command, {k.replace("_", "-"): v for k, v in arguments.items()})
            return channel.answer()


def read_file(directory: Path, path: str) -> bytes | None:
    """Return the first `MOST_READ` bytes of a file of the guest, or None if it is missing."""
    try:
        handle = agent(directory, "guest-file-open", path=path, mode="r")
    except VimError as error:
        if "No such file" in str(error):
            return None
        raise
    content = b""
    try:
        while True:
            part = agent(directory, "guest-file-read", handle=handle, count=MOST_READ)
            with understood():
                data, at_end = base64.b64decode(part["buf-b64"]), part["eof"]
            content += data
            if at_end or not data or len(content) >= MOST_READ:
                return content[:MOST_READ]
    finally:
        agent(directory, "guest-file-close", handle=handle)
