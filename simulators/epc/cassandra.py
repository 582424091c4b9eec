"""Replacement of Cassandra: the HSS's tables in SQLite, over TCP.

It accepts the statements that the HSS, its provisioning and its operators use, and refuses all
others with Cassandra's syntax error. It does not speak Cassandra's binary protocol, because both
ends are simulators: a request is a statement as a line of JSON, and so is its answer.
"""

import asyncio
import contextlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

PORT = 9042
#: Codes of errors, section 9 of Cassandra's protocol.
SYNTAX_ERROR, INVALID = 0x2000, 0x2200
_LONGEST = 1 << 24  # octets of a line

_NAME = r"[a-z]\w*"
_TABLE = rf"(?P<table>vhss\.{_NAME})"
_VALUE = r"(?:'(?:[^']|'')*'|-?\d+|NULL)"
_CONDITION = rf"{_NAME}\s*=\s*{_VALUE}"
_WHERE = rf"(?:\s+WHERE\s+{_CONDITION}(?:\s+AND\s+{_CONDITION})*)"
_COLUMN = rf"{_NAME}\s+(?:text|int|bigint|varint|counter)(?:\s+PRIMARY\s+KEY)?"
_NAMES = rf"{_NAME}(?:\s*,\s*{_NAME})*"
_KEYSPACE = re.compile(rf"CREATE\s+KEYSPACE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+WITH\s.*", re.S)
_STATEMENTS = [
    re.compile(text, re.IGNORECASE)
    for text in (
        rf"(?P<create>CREATE)\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_TABLE}\s*\(\s*{_COLUMN}"
        rf"(?:\s*,\s*{_COLUMN})*(?:\s*,\s*PRIMARY\s+KEY\s*\(\s*{_NAMES}\s*\))?\s*\)",
        rf"INSERT\s+INTO\s+{_TABLE}\s*\(\s*(?P<names>{_NAMES})\s*\)\s*VALUES\s*"
        rf"\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\)(?P<once>\s+IF\s+NOT\s+EXISTS)?",
        rf"SELECT\s+(?:count\(\*\)|{_NAMES})\s+FROM\s+{_TABLE}{_WHERE}?(?:\s+LIMIT\s+\d+)?"
        r"(?P<filtering>\s+ALLOW\s+FILTERING)?",
        rf"UPDATE\s+{_TABLE}\s+SET\s+{_CONDITION}(?:\s*,\s*{_CONDITION})*{_WHERE}"
        r"(?P<there>\s+IF\s+EXISTS)?",
        rf"DELETE\s+FROM\s+{_TABLE}{_WHERE}",
    )
]


class CqlError(Exception):
    """Cassandra refuses a statement; ``code`` is the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Rows(NamedTuple):
    """The answer to a statement; if it is no SELECT, there are no columns."""

    columns: list[str]
    rows: list[list[Any]]


class Database:
    """The keyspace ``vhss`` in a file."""

    def __init__(self, path: Path | str) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.execute("ATTACH ? AS vhss", [str(path)])
        self._db.execute("PRAGMA vhss.journal_mode=WAL")
        self._db.execute("PRAGMA vhss.synchronous=OFF")

    def close(self) -> None:
        self._db.close()

    def execute(self, text: str) -> Rows:
        """Run a statement.

        Raises:
            CqlError: the statement is wrong.
        """
        text = text.strip().removesuffix(";").strip()
        if _KEYSPACE.fullmatch(text):
            return Rows([], [])
        match = next((matched for one in _STATEMENTS if (matched := one.fullmatch(text))), None)
        if match is None:
            raise CqlError(SYNTAX_ERROR, f"line 1: no viable alternative at input '{text[:60]}'")
        parts = match.groupdict()
        if parts.get("create"):
            # SQLite's STRICT tables check types, but convert a number to text, so text columns
            # get a CHECK. With WITHOUT ROWID SQLite does not generate a missing key.
            text = re.sub(r"\b(?:bigint|varint|counter)\b", "int", text)
            text_only = r"\1 ANY CHECK (typeof(\1) IN ('text', 'null'))"
            text = re.sub(r"(\w+)\s+text\b", text_only, text)
            text += " STRICT, WITHOUT ROWID"
        elif parts.get("once"):
            text = f"{text[: match.start('once')]} ON CONFLICT DO NOTHING"
        elif parts.get("names"):
            names = re.findall(r"\w+", parts["names"])
            changes = ", ".join(f"{name} = excluded.{name}" for name in names)
            text += f" ON CONFLICT DO UPDATE SET {changes}"
        else:
            # SQLite's UPDATE does not make a row that is not there.
            left_out = next((one for one in ("filtering", "there") if parts.get(one)), None)
            text = text[: match.start(left_out)] if left_out else text
        try:
            done = self._db.execute(text)
        except sqlite3.Error as error:
            raise CqlError(INVALID, str(error)) from None
        if parts.get("once") or parts.get("there"):
            return Rows(["[applied]"], [[done.rowcount > 0]])
        columns = [column[0] for column in done.description or ()]
        return Rows(columns, [list(row) for row in done])


class Server:
    """Serves a database; ``delay`` is a wait in seconds before each answer."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.delay = 0.0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, address: str, port: int = PORT) -> int:
        self._server = await asyncio.start_server(self._serve, address, port, limit=_LONGEST)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                await asyncio.sleep(self.delay)
                try:
                    answer: object = self.database.execute(str(json.loads(line)))
                except CqlError as error:
                    answer = {"code": error.code, "reason": str(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


@contextlib.asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[Callable[[str], Awaitable[Rows]]]:
    """Connect; yield a function that runs a statement.

    That function raises CqlError for a refused statement and OSError for a lost connection.

    Raises:
        OSError: the server cannot be reached.
    """
    reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST)

    async def execute(statement: str) -> Rows:
        writer.write(json.dumps(statement).encode() + b"\n")
        line = await reader.readline()
        if not line:
            raise ConnectionResetError("the connection was closed")
        answer = json.loads(line)
        if isinstance(answer, dict):
            raise CqlError(answer["code"], answer["reason"])
        return Rows(*answer)

    try:
        yield execute
    finally:
        writer.close()
