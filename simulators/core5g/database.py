"""Replacement of MySQL: mysql-mimic has its protocol, and sqlglot translates its SQL to SQLite's.

There is one database, of tables that SQLite supports too. The client program is PyMySQL with the
command line of ``mysql``.
"""

import argparse
import configparser
import logging
import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymysql
import sqlglot
from mysql_mimic import IdentityProvider, MysqlServer, NativePasswordAuthPlugin, Session, User
from mysql_mimic.errors import ErrorCode, MysqlError
from sqlglot import exp

PORT = 3306
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # no warnings about unparsed statements


def _translated(expression: Any) -> str:
    """Return a MySQL statement in SQLite's SQL, "" if SQLite has nothing to do."""
    if isinstance(expression, exp.Command):  # sqlglot does not parse REPLACE
        if str(expression.this).upper() != "REPLACE":
            return ""
        expression = sqlglot.parse_one(f"INSERT {expression.text('expression')}", read="mysql")
        expression.set("alternative", "REPLACE")
    if isinstance(expression, exp.Create | exp.Drop) and expression.args["kind"] == "DATABASE":
        return ""
    for left_out in list(expression.find_all(exp.IndexColumnConstraint)):
        left_out.pop()
    for counted in list(expression.find_all(exp.AutoIncrementColumnConstraint)):
        counted.parent.pop()
    for table in expression.find_all(exp.Table):
        table.set("db", None)
    conflict = expression.args.get("conflict")
    if conflict is not None:
        for old in list(conflict.find_all(exp.Anonymous)):  # VALUES(COLUMN)
            old.replace(exp.column(old.expressions[0].name, table="excluded"))
        conflict.set("duplicate", False)
        conflict.set("action", exp.var("DO UPDATE"))
    return str(expression.sql(dialect="sqlite", unsupported_level=sqlglot.ErrorLevel.IGNORE))


class _Session(Session):  # type: ignore[misc]
    def __init__(self, database: sqlite3.Connection) -> None:
        super().__init__()
        self.rows = database

    async def query(self, expression: Any, sql: str, attrs: Any) -> Any:
        text = _translated(expression)
        if not text:
            return [], []
        try:
            done = self.rows.execute(text)
        except sqlite3.Error as error:
            raise MysqlError(str(error), ErrorCode.PARSE_ERROR) from None
        return done.fetchall(), [one[0] for one in done.description or ()]


class _Users(IdentityProvider):  # type: ignore[misc]
    """Users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.passwords = passwords
        self.plugin = NativePasswordAuthPlugin()

    def get_plugins(self) -> list[NativePasswordAuthPlugin]:
        return [self.plugin]

    async def get_user(self, username: str) -> User | None:
        password = self.passwords.get(username)
        if password is None:
            return None
        hidden = NativePasswordAuthPlugin.create_auth_string(password) if password else None
        return User(name=username, auth_string=hidden, auth_plugin=self.plugin.name)


class Server:
    """The database server."""

    def __init__(self, path: Path | str, environment: Mapping[str, str]) -> None:
        """Use a file for the rows, and the users from the image's environment variables."""
        self._sqlite = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=OFF"):
            self._sqlite.execute(f"PRAGMA {pragma}")
        users = {"root": environment.get("MYSQL_ROOT_PASSWORD", "")}
        if "MYSQL_USER" in environment:
            users[environment["MYSQL_USER"]] = environment.get("MYSQL_PASSWORD", "")
        self._server = MysqlServer(
            session_factory=lambda: _Session(self._sqlite), identity_provider=_Users(users)
        )

    def load(self, sql: str) -> None:
        """Run the statements of a file, as the image does at its first start."""
        for one in sqlglot.parse(sql, read="mysql"):
            text = _translated(one) if one is not None else ""
            if text:
                self._sqlite.execute(text)

    async def start(self, address: str, port: int = PORT) -> None:
        await self._server.start_server(host=address, port=port)

    def stop(self) -> None:
        self._server.close()
        self._sqlite.close()


def main(words: list[str]) -> int:
    """``mysql [OPTION]... [DATABASE]``: statements on standard input, rows with tabs."""
    parser = argparse.ArgumentParser(add_help=False, prefix_chars="-")
    parser.add_argument("--defaults-extra-file", dest="defaults")
    parser.add_argument("-u", "--user", default="root")
    parser.add_argument("-p", "--password", nargs="?", default=os.environ.get("MYSQL_PWD", ""))
    parser.add_argument("-h", "--host", default="127.0.0.1")
    parser.add_argument("-P", "--port", type=int, default=PORT)
    parser.add_argument("-N", "--skip-column-names", action="store_true")
    parser.add_argument("-B", "--batch", action="store_true")
    parser.add_argument("-D", "--database")
    parser.add_argument("-e", "--execute")
    parser.add_argument("name", nargs="?")
    given = parser.parse_args(words)
    if given.defaults:
        options = configparser.ConfigParser(interpolation=None)
        options.read(given.defaults)
        for name, value in options["client"].items():
            setattr(given, name, value.strip("\"'"))
    host = "127.0.0.1" if given.host == "localhost" else given.host
    try:
        connection = pymysql.connect(
            host=host,
            port=int(given.port),
            user=given.user,
            password=given.password or "",
            database=given.database or given.name,
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            for one in sqlglot.parse(given.execute or sys.stdin.read(), read="mysql"):
                if one is None:
                    continue
                cursor.execute(one.sql(dialect="mysql"))
                if cursor.description and not given.skip_column_names:
                    print("\t".join(column[0] for column in cursor.description))
                for row in cursor.fetchall() if cursor.description else ():
                    print("\t".join("NULL" if value is None else str(value) for value in row))
    except pymysql.MySQLError as error:
        code, text = (*error.args, "")[:2]
        sys.stderr.write(f"ERROR {code} (HY000): {text}\n")
        return 1
    return 0
