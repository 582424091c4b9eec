"""The socket for hook tools: one per running hook or action, in its context folder.

The client is `hooktool.pl`. Request: a flag byte (1: standard input follows), lengths of fields
and standard input (4 bytes each, big endian), then both. Fields, joined by NUL: working directory,
tool name and arguments. Answer: exit code (1 byte), lengths of standard output and error (4 bytes
each), then both. After exit code 255 the client repeats the request with standard input.
"""

import contextlib
import logging
import os
import shutil
import socket
import traceback
from pathlib import Path

from builder.errors import of_file
from lab.vca.context import HookContext
from lab.vca.toolcall import Answer, NeedStdinError, Request, refusal
from lab.vca.tools import TOOLS, run_tool

SOCKET = "agent.socket"
CLIENT_TIMEOUT = 10.0
MAX_REQUEST = 64 * 1024 * 1024
CLIENT = Path(__file__).with_name("hooktool.pl")
NEED_STDIN = 255


def install_tools(folder: Path) -> None:
    """Put the client into `folder` under each tool's name."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / ".hooktool"
    content = CLIENT.read_text(encoding="utf-8")
    if not script.is_file() or script.read_text(encoding="utf-8") != content:
        partial = folder / f".hooktool.{os.getpid()}"
        partial.write_text(content, encoding="utf-8")
        partial.chmod(0o755)
        partial.rename(script)
    for name in TOOLS:
        # By this process, or by another service's at this moment.
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(script.name)


class ToolServer:
    """Listens in a folder made for one context; `handle` serves one waiting client."""

    def __init__(self, folder: Path, context: HookContext) -> None:
        self._folder = folder
        self._context = context
        folder.mkdir(parents=True, mode=0o700)
        self.address = folder / SOCKET
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                # Through the descriptor: the path of a socket may have 107 bytes at most.
                self._socket.bind(f"/proc/self/fd/{descriptor}/{SOCKET}")
            finally:
                os.close(descriptor)
            self._socket.listen(64)
            self._socket.setblocking(False)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def handle(self) -> None:
        """Serve one client; give it up if it disconnects or stalls for CLIENT_TIMEOUT seconds."""
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(CLIENT_TIMEOUT)
            head = _receive(connection, 9)
            fields_size = int.from_bytes(head[1:5], "big")
            stdin_size = int.from_bytes(head[5:9], "big")
            if max(fields_size, stdin_size) > MAX_REQUEST:
                connection.sendall(_encode(refusal("bad request: too long")))
                return
            fields = _receive(connection, fields_size).split(b"\0")
            stdin = _receive(connection, stdin_size) if head[:1] == b"\1" else None
            connection.sendall(self._answer(fields, stdin))

    def _answer(self, fields: list[bytes], stdin: bytes | None) -> bytes:
        if len(fields) < 2:
            return _encode(refusal("bad request: command not specified"))
        directory, tool, *arguments = fields
        request = Request(
            # The model's document is UTF-8; it cannot store other bytes.
            tool=tool.decode("utf-8", "replace"),
            arguments=[word.decode("utf-8", "replace") for word in arguments],
            directory=Path(os.fsdecode(directory)),
            stdin=stdin,
        )
        try:
            return _encode(run_tool(self._context, request))
        except NeedStdinError:
            return bytes([NEED_STDIN]) + bytes(8)
        except OSError as error:  # the model cannot be written
            return _encode(refusal(of_file(error)))
        except Exception:
            # Not the agent's end: the charm sees a refusal, and the log says why.
            self._context.log(
                logging.ERROR, f"internal error in {request.tool}: {traceback.format_exc()}"
            )
            return _encode(refusal("internal error"))


def _receive(connection: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 65536))
        if not part:
            raise OSError("the client closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _encode(answer: Answer) -> bytes:
    out, err = answer.stdout.encode(), answer.stderr.encode()
    sizes = len(out).to_bytes(4, "big") + len(err).to_bytes(4, "big")
    return bytes([answer.code]) + sizes + out + err
