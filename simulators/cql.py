"""The CQL binary protocol, version 4, as far as subscribers need it: frames, queries, rows.

Standard library only and quick to import, for ``cqlsh`` is started for each look at the database.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

PORT = 9042

ERROR, STARTUP, READY, OPTIONS, SUPPORTED, QUERY, RESULT = 0, 1, 2, 5, 6, 7, 8
_REQUEST, _RESPONSE = 0x04, 0x84
_VOID, _ROWS, _SET_KEYSPACE, _SCHEMA = 1, 2, 3, 5
SERVER_ERROR, PROTOCOL_ERROR, SYNTAX_ERROR, INVALID = 0x0000, 0x000A, 0x2000, 0x2200
_ONE = 1  # consistency level
_LONGEST = 256 << 20

#: Type codes by CQL name; the others are read as text.
TYPES = {"bigint": 2, "boolean": 4, "counter": 5, "int": 9, "varchar": 13, "text": 13, "varint": 14}
_SIZES = {2: 8, 5: 8, 9: 4}

Value = str | int | bool | None


class CqlError(Exception):
    """The server refused a statement; ``code`` is the protocol's."""

    def __init__(self, code: int, text: str) -> None:
        """Carry the code."""
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Rows:
    """An answer: columns as name and type, and rows; no columns when there is nothing to tell."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: list[tuple[Value, ...]] = field(default_factory=list)

    def dicts(self) -> list[dict[str, Value]]:
        """Each row by column."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def frame(opcode: int, stream: int, body: bytes, response: bool = False) -> bytes:
    """The octets of a frame."""
    version = _RESPONSE if response else _REQUEST
    return struct.pack("!BBhBI", version, 0, stream, opcode, len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """Version, stream, opcode and body of the next frame.

    Raises:
        asyncio.IncompleteReadError: the connection ended.
        CqlError: it is longer than any frame may be.
    """
    version, _, stream, opcode, size = struct.unpack("!BBhBI", await reader.readexactly(9))
    if size > _LONGEST:
        raise CqlError(PROTOCOL_ERROR, "the frame is too long")
    return version, stream, opcode, await reader.readexactly(size)


def text(value: str) -> bytes:
    """A [string]."""
    octets = value.encode()
    return struct.pack("!H", len(octets)) + octets


def query(statement: str) -> bytes:
    """The body of QUERY."""
    octets = statement.encode()
    return struct.pack("!I", len(octets)) + octets + struct.pack("!HB", _ONE, 0)


def statement_of(body: bytes) -> str:
    """The statement of QUERY's body."""
    if len(body) < 4 or len(body) < 4 + (size := struct.unpack_from("!I", body)[0]):
        raise CqlError(PROTOCOL_ERROR, "the query is cut off")
    return body[4 : 4 + size].decode("utf-8", "replace")


def error(code: int, reason: str) -> bytes:
    """The body of ERROR."""
    return struct.pack("!i", code) + text(reason)


def _cell(value: Value, code: int) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    if code == 4:
        octets = b"\1" if value else b"\0"
    elif code in _SIZES:
        octets = int(value).to_bytes(_SIZES[code], "big", signed=True)
    elif code == 14:
        number = int(value)
        octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    else:
        octets = str(value).encode()
    return struct.pack("!i", len(octets)) + octets


def result(answer: Rows, table: str = "answer") -> bytes:
    """The body of RESULT."""
    if not answer.columns:
        return struct.pack("!i", _VOID)
    body = [struct.pack("!iii", _ROWS, 1, len(answer.columns)), text("vhss"), text(table)]
    codes = [TYPES.get(kind, 13) for _, kind in answer.columns]
    for (name, _), code in zip(answer.columns, codes, strict=True):
        body.append(text(name) + struct.pack("!H", code))
    body.append(struct.pack("!i", len(answer.rows)))
    for row in answer.rows:
        body += [_cell(value, code) for value, code in zip(row, codes, strict=True)]
    return b"".join(body)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def number(self, form: str) -> int:
        found = struct.unpack_from(form, self.body, self.at)[0]
        self.at += struct.calcsize(form)
        return int(found)

    def take(self, size: int) -> bytes:
        found = self.body[self.at : self.at + size]
        if len(found) < size:
            raise CqlError(PROTOCOL_ERROR, "the answer is cut off")
        self.at += size
        return found

    def text(self) -> str:
        return self.take(self.number("!H")).decode("utf-8", "replace")


def answer_of(opcode: int, body: bytes) -> Rows:
    """What a response says.

    Raises:
        CqlError: it is an error, or no answer.
    """
    reader = _Reader(body)
    try:
        if opcode == ERROR:
            code = reader.number("!i")
            raise CqlError(code, reader.text())
        if opcode != RESULT:
            return Rows()
        if reader.number("!i") != _ROWS:
            return Rows()
        flags, count = reader.number("!i"), reader.number("!i")
        if flags & 2:
            reader.take(reader.number("!i"))
        if flags & 1:
            reader.text(), reader.text()
        names = {code: name for name, code in TYPES.items()}
        columns = []
        for _ in range(count):
            if not flags & 1:
                reader.text(), reader.text()
            name = reader.text()
            columns.append((name, names.get(reader.number("!H"), "text")))
        rows = []
        for _ in range(reader.number("!i")):
            rows.append(tuple(_value(reader, kind) for _, kind in columns))
    except struct.error:
        raise CqlError(PROTOCOL_ERROR, "the answer is cut off") from None
    return Rows(tuple(columns), rows)


def _value(reader: _Reader, kind: str) -> Value:
    size = reader.number("!i")
    if size < 0:
        return None
    octets = reader.take(size)
    if kind == "boolean":
        return octets != b"\0"
    if kind in ("bigint", "counter", "int", "varint"):
        return int.from_bytes(octets, "big", signed=True)
    return octets.decode("utf-8", "replace")


class Client:
    """A connection that asks one question after another or many at once."""

    def __init__(self) -> None:
        """Not connected yet."""
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._next = 0

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._writer is not None

    async def connect(self, host: str, port: int = PORT) -> None:
        """Connect and begin.

        Raises:
            OSError: that is not possible.
            CqlError: the server does not want us.
        """
        reader, self._writer = await asyncio.open_connection(host, port)
        self._task = asyncio.create_task(self._read(reader))
        options = struct.pack("!H", 1) + text("CQL_VERSION") + text("3.0.0")
        await self._ask(STARTUP, options)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                _, stream, opcode, body = await read_frame(reader)
                waiting = self._waiting.pop(stream, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result((opcode, body))
        except (asyncio.IncompleteReadError, OSError, CqlError):
            self.close()

    def close(self) -> None:
        """Close the connection; what waits for an answer fails."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the connection was closed"))
        self._waiting.clear()

    async def _ask(self, opcode: int, body: bytes) -> Rows:
        if self._writer is None:
            raise ConnectionResetError("not connected")
        while self._next in self._waiting:
            self._next = (self._next + 1) % 0x8000
        stream, self._next = self._next, (self._next + 1) % 0x8000
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[stream] = waiting
        self._writer.write(frame(opcode, stream, body))
        return answer_of(*await waiting)

    async def execute(self, statement: str) -> Rows:
        """The answer to a statement.

        Raises:
            CqlError: it is refused.
            OSError: the connection ended.
        """
        return await self._ask(QUERY, query(statement))


def literal(value: str | int) -> str:
    """A CQL literal."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def draw(answer: Rows) -> str:
    """A table as cqlsh draws it."""
    if not answer.columns:
        return ""
    cells = [[name for name, _ in answer.columns]]
    cells += [["null" if value is None else str(value) for value in row] for row in answer.rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(answer.columns))]

    def line(row: Sequence[str]) -> str:
        return " | ".join(f" {cell:>{width}}"[1:] for cell, width in zip(row, widths, strict=True))

    rule = "-" + "-+-".join("-" * width for width in widths) + "-"
    body = "\n".join(f" {line(row)}" for row in cells[1:])
    many = len(answer.rows)
    return f"\n {line(cells[0])}\n{rule}\n{body}\n\n({many} row{'s' * (many != 1)})\n"
