"""CQL: what the HSS and its provisioning say to Cassandra, and what that answers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from oai import cql as operator
from oai import provision

from simulators.epc import cassandra, cqlstore
from simulators.epc.cassandra import CqlError, Database, Server
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError
from simulators.programs import cqlsh
from simulators.shared.identity import tbcd

K, OPC = "449c4b91aeacd0ace182cf3a5a72bfa1", "9245cd6283cc53ce24ac1186a60dee6b"
DOCUMENT = {
    "first_imsi": "242881234500000",
    "first_msisdn": "24288880000000",
    "subscribers": 3,
    "subscription": {
        "key": K,
        "opc": OPC,
        "mmes": ["mme.simula.nornet"],
        "mme_id": 3,
        "realm": "simula.nornet",
        "apns": ["internet", "ims"],
    },
}


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "rows")


@contextlib.asynccontextmanager
async def served(database: Database) -> AsyncIterator[tuple[Server, cqlstore.Cassandra]]:
    server = Server(database)
    port = await server.start("127.0.0.1", 0)
    try:
        yield server, cqlstore.Cassandra("127.0.0.1", port)
    finally:
        await server.stop()


def test_what_the_charm_fills_in_is_what_the_hss_reads(database: Database, tmp_path: Path) -> None:
    for statement in provision.statements(DOCUMENT):
        database.execute(statement)

    async def go() -> None:
        async with served(database) as (_, store):
            one = await store.get("242881234500002")
            assert one == Subscriber(
                "242881234500002",
                bytes.fromhex(K),
                bytes.fromhex(OPC),
                96,
                tbcd("24288880000002"),
                ("internet", "ims"),
                50_000_000,
                100_000_000,
                "",
            )
            assert await store.get("242881234500003") is None
            await store.set_sqn("242881234500002", 1 << 40)
            await store.set_mme("242881234500002", "mme2.simula.nornet")
            found = await store.get("242881234500002")
            assert found is not None
            assert (found.sqn, found.mme) == (1 << 40, "mme2.simula.nornet")

    asyncio.run(go())
    database.close()
    again = Database(tmp_path / "rows")  # a restart keeps tables and rows
    assert len(again.execute("SELECT imsi FROM vhss.users_imsi;").rows) == 3
    for statement in provision.statements(DOCUMENT):
        again.execute(statement)
    [row] = again.execute("SELECT sqn FROM vhss.users_imsi WHERE imsi = '242881234500002';").rows
    assert row == [1 << 40], "IF NOT EXISTS leaves what is there"


def test_the_operators_statements(database: Database) -> None:
    for statement in provision.statements(DOCUMENT):
        database.execute(statement)

    def rows(statement: str) -> list[dict[str, str]]:
        return operator.table(cqlsh.draw(database.execute(statement)))

    assert rows(operator.select("242881234500001")) == [
        {"imsi": "242881234500001", "msisdn": "24288880000001", "mmehost": "mme.simula.nornet"}
    ]
    assert len(rows(operator.select(limit=2))) == 2
    [add, _] = provision.subscriber("242881234500009", "9", DOCUMENT["subscription"])  # type: ignore
    assert rows(add) == [{"[applied]": "True"}]
    assert rows(add) == [{"[applied]": "False"}]
    for statement in operator.deletions("242881234500009", "9"):
        assert cqlsh.draw(database.execute(statement)) == ""
    assert rows(operator.select("242881234500009")) == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DROP TABLE vhss.users_imsi;", cassandra.SYNTAX_ERROR),
        ("SELECT imsi FROM vhss.nothing;", cassandra.INVALID),
        ("SELECT nothing FROM vhss.users_imsi;", cassandra.INVALID),
        ("SELECT imsi FROM users_imsi;", cassandra.SYNTAX_ERROR),
        ("SELECT imsi FROM vhss.users_imsi WHERE imsi = 'x' OR 1 = 1;", cassandra.SYNTAX_ERROR),
        ('SELECT imsi FROM vhss."users_imsi";', cassandra.SYNTAX_ERROR),
        ("DELETE FROM vhss.users_imsi;", cassandra.SYNTAX_ERROR),
        ("INSERT INTO vhss.users_imsi (msisdn) VALUES (1);", cassandra.INVALID),
        ("INSERT INTO vhss.users_imsi (imsi, msisdn) VALUES ('1');", cassandra.INVALID),
        ("INSERT INTO vhss.users_imsi (imsi) VALUES (1);", cassandra.INVALID),
        ("", cassandra.SYNTAX_ERROR),
    ],
)
def test_wrong_statements(database: Database, statement: str, code: int) -> None:
    for one in provision.schema():
        database.execute(one)
    with pytest.raises(CqlError) as caught:
        database.execute(statement)
    assert caught.value.code == code


def test_a_slow_and_an_absent_server(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cqlstore, "TIMEOUT", 0.3)
    for statement in provision.statements(DOCUMENT):
        database.execute(statement)

    async def go() -> None:
        async with served(database) as (server, store):
            server.delay = 0.1
            assert await store.get("242881234500000") is not None
            server.delay = 1.0
            with pytest.raises(EpcError, match=r"no answer in 0\.3 s"):
                await store.get("242881234500000")
            server.delay = 0.0
            assert await store.get("242881234500000") is not None
        with pytest.raises(EpcError, match="Cassandra at"):
            await store.get("242881234500000")

    asyncio.run(go())


def test_cqlsh(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def go(text: str) -> int:
        async with served(database) as (_, store):
            monkeypatch.setattr(sys, "stdin", io.StringIO(text))
            return await cqlsh.run("127.0.0.1", store.port)

    fill = "\n".join(provision.statements(DOCUMENT))
    assert asyncio.run(go(fill)) == 0
    assert capsys.readouterr().out.count("[applied]") == 3
    text = "SELECT imsi, sqn FROM vhss.users_imsi\n  LIMIT 1;\n-- remark\nSELECT;\n"
    assert asyncio.run(go(text)) == 2
    out, err = capsys.readouterr()
    assert operator.table(out) == [{"imsi": "242881234500000", "sqn": "96"}]
    assert "code=2000" in err
    assert asyncio.run(cqlsh.run("127.0.0.1", 1)) == 1


def test_subscription_data_that_cannot_be_read() -> None:
    with pytest.raises(EpcError, match="cannot be read"):
        cqlstore.subscription("{")
    assert cqlstore.subscription(json.dumps({}))[0] == ()


@pytest.mark.parametrize("msisdn", ["24288880000000", "4712345678901", "49151"])
def test_msisdns_of_any_length_are_octets(msisdn: str) -> None:
    text = provision.subscription_data(msisdn, ["internet"])
    assert cqlstore.subscription(text)[3] == tbcd(msisdn)
    # As it was written once: digits as they are, which freeDiameter takes for text when odd.
    assert cqlstore.octets("0x4712345678901") == b"0x4712345678901"
