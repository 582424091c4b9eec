"""Replaces Cassandra: CQL tables in SQLite, served by the binary protocol on port 9042.

It accepts the statements that the HSS, its provisioning and its operators use. It refuses others
with Cassandra's syntax error. It is one node without replication and consistency levels.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from simulators import cql
from simulators.cql import INVALID, SYNTAX_ERROR, CqlError, Rows, Value

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+)|(?P<word>\w+)|(?P<sign>[(),.=;{}:]))"
)
_APPLIED = (("[applied]", "boolean"),)


class Statement:
    """The words of a statement, taken one after another."""

    def __init__(self, text: str) -> None:
        """Cut a statement.

        Raises:
            CqlError: it has an unknown sign.
        """
        self.tokens: list[str] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise CqlError(SYNTAX_ERROR, f"line 1: no viable alternative at '{text[at]}'")
            self.tokens.append(match.group().strip())
            at = match.end()
        if self.tokens and self.tokens[-1] == ";":
            self.tokens.pop()

    def take(self) -> str:
        """The next word.

        Raises:
            CqlError: there is none.
        """
        if not self.tokens:
            raise CqlError(SYNTAX_ERROR, "line 1: mismatched input '<EOF>'")
        return self.tokens.pop(0)

    def expect(self, *words: str) -> None:
        """Take these words.

        Raises:
            CqlError: others come.
        """
        for word in words:
            found = self.take()
            if found.upper() != word:
                raise CqlError(SYNTAX_ERROR, f"line 1: mismatched input '{found}', not {word}")

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        found = [token.upper() for token in self.tokens[: len(words)]]
        if found != list(words):
            return False
        del self.tokens[: len(words)]
        return True

    def name(self) -> str:
        """A table or column."""
        found = self.take()
        if not re.fullmatch(r"[A-Za-z]\w*", found):
            raise CqlError(SYNTAX_ERROR, f"line 1: '{found}' is not a name")
        return found.lower()

    def table(self) -> tuple[str, str]:
        """Keyspace and table."""
        keyspace = self.name()
        self.expect(".")
        return keyspace, self.name()

    def value(self) -> Value:
        """A literal."""
        found = self.take()
        if found.startswith("'"):
            return found[1:-1].replace("''", "'")
        if re.fullmatch(r"-?\d+", found):
            return int(found)
        if found.upper() in ("NULL", "TRUE", "FALSE"):
            return {"NULL": None, "TRUE": True, "FALSE": False}[found.upper()]
        raise CqlError(SYNTAX_ERROR, f"line 1: '{found}' is not a literal")

    def names(self) -> list[str]:
        """Names with commas."""
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        return found

    def end(self) -> None:
        """Nothing may follow."""
        if self.tokens:
            raise CqlError(SYNTAX_ERROR, f"line 1: extraneous input '{self.tokens[0]}'")


class Database:
    """Keyspaces and tables in a file."""

    def __init__(self, path: Path | str) -> None:
        """Open or make it."""
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS _keyspaces (name TEXT PRIMARY KEY)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS _columns (tbl TEXT, name TEXT, kind TEXT, key INTEGER)"
        )
        self._tables: dict[tuple[str, str], dict[str, tuple[str, bool]]] = {}
        for table, name, kind, key in self._db.execute("SELECT * FROM _columns"):
            keyspace, _, short = table.partition("__")
            self._tables.setdefault((keyspace, short), {})[name] = (kind, bool(key))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def execute(self, text: str) -> Rows:
        """Run a statement.

        Raises:
            CqlError: it is wrong.
        """
        statement = Statement(text)
        verbs = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "SELECT": self._select,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "TRUNCATE": self._truncate,
        }
        verb = statement.take().upper()
        if verb not in verbs:
            raise CqlError(SYNTAX_ERROR, f"line 1: no viable alternative at input '{verb}'")
        try:
            return verbs[verb](statement)
        except sqlite3.Error as error:
            raise CqlError(INVALID, str(error)) from None

    # The names in the statements below are of tables and columns that were checked to be there.

    def _columns(self, table: tuple[str, str]) -> dict[str, tuple[str, bool]]:
        if table not in self._tables:
            raise CqlError(INVALID, f"unconfigured columnfamily {table[1]}")
        return self._tables[table]

    def _checked(self, table: tuple[str, str], names: list[str]) -> list[str]:
        known = self._columns(table)
        for name in names:
            if name not in known:
                raise CqlError(INVALID, f"Unknown identifier {name}")
        return names

    def _create(self, statement: Statement) -> Rows:
        if statement.accept("KEYSPACE"):
            statement.accept("IF", "NOT", "EXISTS")
            self._db.execute("INSERT OR IGNORE INTO _keyspaces VALUES (?)", [statement.name()])
            return Rows()
        statement.expect("TABLE")
        once = statement.accept("IF", "NOT", "EXISTS")
        table = statement.table()
        known = self._db.execute("SELECT 1 FROM _keyspaces WHERE name = ?", [table[0]])
        if known.fetchone() is None:
            raise CqlError(INVALID, f"Cannot add to a non existing keyspace '{table[0]}'")
        statement.expect("(")
        columns: dict[str, tuple[str, bool]] = {}
        while True:
            if statement.accept("PRIMARY", "KEY", "("):
                for name in statement.names():
                    if name not in columns:
                        raise CqlError(INVALID, f"Unknown definition {name} in PRIMARY KEY")
                    columns[name] = (columns[name][0], True)
                statement.expect(")")
            else:
                name, kind = statement.name(), statement.name()
                columns[name] = (kind, statement.accept("PRIMARY", "KEY"))
            if not statement.accept(","):
                break
        statement.expect(")")
        if not any(key for _, key in columns.values()):
            raise CqlError(INVALID, "No PRIMARY KEY specified (exactly one required)")
        if table in self._tables:
            if once:
                return Rows()
            raise CqlError(INVALID, f"Cannot add already existing table '{table[1]}'")
        keys = ", ".join(f'"{name}"' for name, (_, key) in columns.items() if key)
        fields = ", ".join(f'"{name}"' for name in columns)
        full = "__".join(table)
        self._db.execute(f'CREATE TABLE "{full}" ({fields}, PRIMARY KEY ({keys}))')
        rows = [(full, name, kind, int(key)) for name, (kind, key) in columns.items()]
        self._db.executemany("INSERT INTO _columns VALUES (?, ?, ?, ?)", rows)
        self._tables[table] = columns
        return Rows()

    def _insert(self, statement: Statement) -> Rows:
        statement.expect("INTO")
        table = statement.table()
        statement.expect("(")
        names = self._checked(table, statement.names())
        statement.expect(")", "VALUES", "(")
        values = [statement.value()]
        while statement.accept(","):
            values.append(statement.value())
        statement.expect(")")
        once = statement.accept("IF", "NOT", "EXISTS")
        statement.end()
        if len(names) != len(values):
            raise CqlError(INVALID, "Unmatched column names/values")
        known = self._columns(table)
        keys = [name for name, (_, key) in known.items() if key]
        missing = [name for name in keys if name not in names]
        if missing:
            raise CqlError(INVALID, f"Missing mandatory PRIMARY KEY part {missing[0]}")
        for name, value in zip(names, values, strict=True):
            if (known[name][0] in ("text", "varchar")) != isinstance(value, str | None):
                raise CqlError(INVALID, f"Invalid constant for {name} of type {known[name][0]}")
        fields = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" * len(names))
        changes = ", ".join(f'"{n}" = excluded."{n}"' for n in names if n not in keys)
        conflict = f"DO UPDATE SET {changes}" if changes and not once else "DO NOTHING"
        target = ", ".join(f'"{name}"' for name in keys)
        sql = f'INSERT INTO "{"__".join(table)}" ({fields}) VALUES ({marks}) '  # noqa: S608
        done = self._db.execute(f"{sql} ON CONFLICT ({target}) {conflict}", values)
        return Rows(_APPLIED, [(done.rowcount > 0,)]) if once else Rows()

    def _where(self, statement: Statement, table: tuple[str, str]) -> tuple[str, list[Value]]:
        if not statement.accept("WHERE"):
            return "", []
        conditions, values = [], []
        while True:
            [name] = self._checked(table, [statement.name()])
            statement.expect("=")
            conditions.append(f'"{name}" = ?')
            values.append(statement.value())
            if not statement.accept("AND"):
                break
        return " WHERE " + " AND ".join(conditions), values

    def _select(self, statement: Statement) -> Rows:
        counted = statement.accept("COUNT", "(")
        if counted:
            statement.take()
            statement.expect(")")
            names = []
        else:
            names = statement.names()
        statement.expect("FROM")
        table = statement.table()
        known = self._columns(table)
        self._checked(table, names)
        where, values = self._where(statement, table)
        limit = ""
        if statement.accept("LIMIT"):
            limit = f" LIMIT {statement.value()!r}"
        statement.accept("ALLOW", "FILTERING")
        statement.end()
        fields = "count(*)" if counted else ", ".join(f'"{name}"' for name in names)
        sql = f'SELECT {fields} FROM "{"__".join(table)}"{where}{limit}'  # noqa: S608
        found = self._db.execute(sql, values).fetchall()
        columns = [("count", "bigint")] if counted else [(n, known[n][0]) for n in names]
        return Rows(tuple(columns), [tuple(row) for row in found])

    def _update(self, statement: Statement) -> Rows:
        table = statement.table()
        statement.expect("SET")
        changes: dict[str, Value] = {}
        while True:
            [name] = self._checked(table, [statement.name()])
            statement.expect("=")
            changes[name] = statement.value()
            if not statement.accept(","):
                break
        where, values = self._where(statement, table)
        once = statement.accept("IF", "EXISTS")
        statement.end()
        if not where:
            raise CqlError(SYNTAX_ERROR, "line 1: mismatched input '<EOF>', not WHERE")
        marks = ", ".join(f'"{name}" = ?' for name in changes)
        sql = f'UPDATE "{"__".join(table)}" SET {marks}{where}'  # noqa: S608
        done = self._db.execute(sql, [*changes.values(), *values])
        return Rows(_APPLIED, [(done.rowcount > 0,)]) if once else Rows()

    def _delete(self, statement: Statement) -> Rows:
        statement.expect("FROM")
        table = statement.table()
        self._columns(table)
        where, values = self._where(statement, table)
        statement.end()
        if not where:
            raise CqlError(SYNTAX_ERROR, "line 1: mismatched input '<EOF>', not WHERE")
        self._db.execute(f'DELETE FROM "{"__".join(table)}"{where}', values)  # noqa: S608
        return Rows()

    def _truncate(self, statement: Statement) -> Rows:
        statement.accept("TABLE")
        table = statement.table()
        self._columns(table)
        statement.end()
        self._db.execute(f'DELETE FROM "{"__".join(table)}"')  # noqa: S608
        return Rows()


class Server:
    """Serves a database; ``delay`` seconds before each answer make a slow one."""

    def __init__(self, database: Database) -> None:
        """Serve it."""
        self.database = database
        self.delay = 0.0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, address: str, port: int = cql.PORT) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._serve, address, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close all."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                version, stream, opcode, body = await cql.read_frame(reader)
                if self.delay:
                    task = asyncio.create_task(self._later(writer, version, stream, opcode, body))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                else:
                    writer.write(self._answer(version, stream, opcode, body))
                    await writer.drain()
        except (asyncio.IncompleteReadError, OSError, CqlError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _later(
        self, writer: asyncio.StreamWriter, version: int, stream: int, opcode: int, body: bytes
    ) -> None:
        await asyncio.sleep(self.delay)
        with contextlib.suppress(OSError):
            writer.write(self._answer(version, stream, opcode, body))

    def _answer(self, version: int, stream: int, opcode: int, body: bytes) -> bytes:
        kind, octets = self._reply(version, opcode, body)
        made = cql.frame(kind, stream, octets, response=True)
        return bytes([0x80 | (version & 0x7F)]) + made[1:] if version in (3, 4) else made

    def _reply(self, version: int, opcode: int, body: bytes) -> tuple[int, bytes]:
        if version not in (3, 4):
            reason = "Invalid or unsupported protocol version"
            return cql.ERROR, cql.error(cql.PROTOCOL_ERROR, reason)
        if opcode == cql.STARTUP:
            return cql.READY, b""
        if opcode == cql.OPTIONS:
            return cql.SUPPORTED, b"\0\1" + cql.text("CQL_VERSION") + b"\0\1" + cql.text("3.0.0")
        if opcode != cql.QUERY:
            return cql.ERROR, cql.error(cql.PROTOCOL_ERROR, "not supported here")
        try:
            return cql.RESULT, cql.result(self.database.execute(cql.statement_of(body)))
        except CqlError as error:
            return cql.ERROR, cql.error(error.code, str(error))


def statements(lines: Iterator[str]) -> Iterator[str]:
    """Statements out of lines, each of which may hold one, a part, or a comment."""
    text = ""
    for line in lines:
        if not line.strip() or line.strip().startswith(("--", "//")):
            continue
        text += line
        if text.rstrip().endswith(";"):
            yield text.strip()
            text = ""
    if text.strip():
        yield text.strip()
