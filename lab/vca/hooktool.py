#!/usr/bin/env python3
"""Client of all hook tools; installed under each tool's name with the shebang of the lab's Python.

Runs with -I -S -E and imports nothing but built-in modules: a charm calls tools often, and the
start of Python is most of the time of a call.

Request: a flag byte (1: standard input follows), lengths of fields and standard input (4 bytes
each, big endian), then both. Fields, joined by NUL: context id, working directory, tool name and
arguments. Answer: exit code (1 byte), lengths of standard output and error (4 bytes each), then
both. After exit code 255 the client repeats the request with standard input.
"""

import _socket
import posix
import sys

NEED_STDIN = 255


def read_all(descriptor: int) -> bytes:
    """Read a descriptor to its end."""
    parts: list[bytes] = []
    while True:
        part = posix.read(descriptor, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


def receive(connection: _socket.socket, count: int) -> bytes:
    """Receive exactly `count` bytes."""
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 65536))
        if not part:
            raise OSError("the unit agent closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def call(
    folder: bytes, name: bytes, fields: bytes, stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    """Send one request and return (code, stdout, stderr)."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    directory = posix.open(folder, posix.O_RDONLY)
    try:
        # Through the descriptor: the path of a socket may have 107 bytes at most.
        connection.connect(b"/proc/self/fd/%d/%s" % (directory, name))
        head = b"\1" if stdin is not None else b"\0"
        body = stdin or b""
        connection.sendall(
            head + len(fields).to_bytes(4, "big") + len(body).to_bytes(4, "big") + fields + body
        )
        answer = receive(connection, 9)
        out = int.from_bytes(answer[1:5], "big")
        err = int.from_bytes(answer[5:9], "big")
        return answer[0], receive(connection, out), receive(connection, err)
    finally:
        posix.close(directory)
        connection.close()


def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[posix.write(descriptor, data) :]


def main() -> int:
    """Run the tool this file is named after."""
    encoding = sys.getfilesystemencoding()
    arguments = [a.encode(encoding, "surrogateescape") for a in sys.argv]
    tool = arguments[0].rpartition(b"/")[2]
    context = posix.environ.get(b"JUJU_CONTEXT_ID")
    address = posix.environ.get(b"JUJU_AGENT_SOCKET_ADDRESS")
    if not context or not address:
        write(2, b"ERROR JUJU_CONTEXT_ID not set\n")
        return 1
    folder, _, name = address.rpartition(b"/")
    fields = b"\0".join([context, posix.getcwdb(), tool, *arguments[1:]])
    try:
        code, out, err = call(folder, name, fields, None)
        if code == NEED_STDIN:
            code, out, err = call(folder, name, fields, read_all(0))
    except OSError as error:
        write(2, b"ERROR the unit agent does not answer: %s\n" % str(error).encode())
        return 1
    write(1, out)
    write(2, err)
    return code


if __name__ == "__main__":
    posix._exit(main())  # no clean-up: there is nothing to clean, and it takes time
