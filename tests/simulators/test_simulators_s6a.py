"""S6a between an HSS and an MME's client over TCP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from diameter.message import Message, constants
from diameter.message.commands import DeviceWatchdogRequest, PurgeUeRequest
from simulators_support import Memory

from simulators.epc import diameter, s6a
from simulators.epc.diameter import Client, Connection, Identity
from simulators.epc.hss import Hss
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError
from simulators.shared import keys, milenage
from simulators.shared.identity import Plmn, tbcd

REALM = "simula.nornet"
HOST = f"hss.{REALM}"
ME = Identity(f"mme.{REALM}", REALM, "127.0.0.1")
K, OPC = bytes(range(16)), bytes(range(16, 32))
HOME, ABROAD = Plmn("242", "88"), Plmn("208", "95")
IMSI, UNKNOWN = "242881234500000", "242880000000000"
ONE = Subscriber(IMSI, K, OPC, msisdn=tbcd("24288880000000"), apns=("internet", "ims"))


async def _deny(request: Message, connection: Connection) -> Message:
    raise EpcError("nothing is asked of this end")


@contextlib.asynccontextmanager
async def pair(
    store: Any = None, me: Identity = ME, handler: diameter.Handler = _deny, **options: Any
) -> AsyncIterator[tuple[Hss, Client]]:
    hss = Hss(Identity(HOST, REALM, "127.0.0.1"), store or Memory(ONE), **options)
    port = await hss.server.start("127.0.0.1", 0)
    client = Client(me, handler, HOST)
    running = asyncio.create_task(client.run("127.0.0.1", port))
    try:
        await asyncio.wait_for(client.open.wait(), 10)
        yield hss, client
    finally:
        running.cancel()
        await hss.server.stop()


def air(imsi: str = IMSI, plmn: Plmn = HOME, resync: bytes = b"") -> Message:
    return s6a.authentication_request(ME, HOST, REALM, imsi, plmn, resync)


def ulr(imsi: str = IMSI, plmn: Plmn = HOME) -> Message:
    return s6a.location_request(ME, HOST, REALM, imsi, plmn)


async def refusal(client: Client, message: Message) -> int:
    with pytest.raises(s6a.RefusedError) as caught:
        s6a.check(await client.request(message))
    return caught.value.code


def test_a_registration() -> None:
    async def go() -> None:
        async with pair() as (hss, client):
            vectors = [s6a.vector_of(await client.request(air())) for _ in range(2)]
            sequence = []
            for one in vectors:
                answer = milenage.f2345(K, OPC, one.rand)
                hidden = bytes(a ^ b for a, b in zip(one.autn[:6], answer.ak, strict=True))
                sequence.append(int.from_bytes(hidden, "big"))
                assert one.kasme == keys.kasme(answer.ck, answer.ik, HOME.octets, one.autn[:6])
            assert sequence == [32, 64], "each vector has a sequence number of its own"
            answer: Any = await client.request(ulr())
            profile = answer.subscription_data.apn_configuration_profile
            points = [one.context_identifier for one in profile.apn_configuration]
            assert (points, profile.context_identifier) == ([1, 2], 1), "0 is no identifier"
            assert answer.subscription_data.network_access_mode == 2, "ONLY_PACKET"
            found = s6a.subscription_of(answer)
            assert found == s6a.Subscription(
                "24288880000000", ("internet", "ims"), 50_000_000, 100_000_000
            )
            assert hss.store.by_imsi[IMSI].mme == ME.host  # type: ignore[attr-defined]

    asyncio.run(go())


def test_errors_of_the_subscription() -> None:
    async def go() -> None:
        async with pair(roaming=False) as (_, client):
            unavailable = s6a.AUTHENTICATION_DATA_UNAVAILABLE
            assert await refusal(client, air(UNKNOWN)) == unavailable  # as OAI's HSS
            assert await refusal(client, ulr(UNKNOWN)) == s6a.USER_UNKNOWN
            assert await refusal(client, ulr(plmn=ABROAD)) == s6a.ROAMING_NOT_ALLOWED
            assert await refusal(client, air("12")) == diameter.INVALID_AVP_VALUE
            code = s6a.AUTHENTICATION_DATA_UNAVAILABLE
            assert await refusal(client, air(resync=bytes(30))) == code
            s6a.subscription_of(await client.request(ulr()))
        async with pair(roaming=True) as (_, client):
            s6a.subscription_of(await client.request(ulr(plmn=ABROAD)))

    asyncio.run(go())


def test_a_store_that_is_away_is_an_answer_not_a_silence() -> None:
    class Away(Memory):
        async def get(self, imsi: str) -> Subscriber | None:
            raise EpcError("Cassandra did not answer in 2 s.")

    async def go() -> None:
        async with pair(Away()) as (_, client):
            code = s6a.AUTHENTICATION_DATA_UNAVAILABLE
            assert await refusal(client, air()) == code
            assert await refusal(client, ulr()) == diameter.UNABLE_TO_COMPLY

    asyncio.run(go())


def test_a_peer_of_another_realm_is_unknown() -> None:
    async def go() -> None:
        hss = Hss(Identity(HOST, REALM, "127.0.0.1"), Memory())
        port = await hss.server.start("127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        stranger = Identity("mme.elsewhere", "elsewhere", "127.0.0.1")

        def made() -> Connection:
            return Connection(stranger, _deny, lambda host, realm: True, active=True)

        _, connection = await loop.create_connection(made, "127.0.0.1", port)
        with pytest.raises(EpcError, match=r"refused us with result code 3010"):
            await connection.opened
        await hss.server.stop()

    asyncio.run(go())


def test_who_says_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diameter, "ANSWER", 0.1)

    async def go() -> None:
        hss = Hss(Identity(HOST, REALM, "127.0.0.1"), Memory())
        port = await hss.server.start("127.0.0.1", 0)
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
        await hss.server.stop()

    asyncio.run(go())


def test_the_watchdog_is_answered_and_bytes_that_are_no_diameter_end_the_connection() -> None:
    async def go() -> None:
        async with pair() as (_, client):
            request = DeviceWatchdogRequest()
            request.origin_host, request.origin_realm = ME.host.encode(), REALM.encode()
            answer: Any = await client.request(request)
            assert answer.result_code == constants.E_RESULT_CODE_DIAMETER_SUCCESS
            connection = client.connection
            assert connection is not None
            connection._transport.write(b"GET / HTTP/1.1\r\nHost: hss\r\n\r\n")  # type: ignore
            await asyncio.wait_for(connection.closed, 10)
            with pytest.raises(EpcError, match="closed|no Diameter connection"):
                await connection.request(air())

    asyncio.run(go())


@pytest.mark.parametrize(
    "octets",
    [
        "01000018 80000101 00000000 00000000 00000000 00000108",
        "01000020 80000101 00000000 00000000 00000000 00000104 4000000c 00000000",
    ],
    ids=["an AVP of four octets", "an AVP of no AVPs"],
)
def test_what_cannot_be_decoded_is_a_line_in_the_log(
    octets: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        server = diameter.Server(ME, _deny, lambda host, realm: True)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes.fromhex(octets))
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        await server.stop()

    asyncio.run(go())
    errors = [one for one in caplog.records if one.levelname == "ERROR"]
    assert [one.getMessage().partition(" from ")[0] for one in errors] == [
        "undecodable Diameter message"
    ]


def test_a_silent_peer_is_found_out_and_reached_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diameter, "WATCHDOG", 0.1)
    monkeypatch.setattr(diameter, "RECONNECT", 0.1)

    async def go() -> None:
        async with pair() as (hss, client):
            first = client.connection
            assert first is not None
            await asyncio.sleep(0.5)
            assert client.connection is first, "answered watchdogs keep the connection"
            for end in hss.server.connections:
                end._received = lambda message: None  # type: ignore[method-assign]
            await asyncio.wait_for(first.closed, 10)
            await asyncio.wait_for(client.open.wait(), 10)
            s6a.vector_of(await client.request(air()))

    asyncio.run(go())


async def moved(hss: Hss, timeout: float = diameter.ANSWER) -> None:
    """Let another MME connect and update the subscriber's location."""
    other = Identity(f"mme2.{REALM}", REALM, "127.0.0.1")
    second = Client(other, _deny, HOST)
    port = hss.server._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    running = asyncio.create_task(second.run("127.0.0.1", port))
    await asyncio.wait_for(second.open.wait(), 10)
    request = s6a.location_request(other, HOST, REALM, IMSI, HOME)
    s6a.check(await second.request(request, timeout))
    running.cancel()


def test_a_subscriber_that_moves_is_cancelled_where_it_was() -> None:
    cancelled: list[str] = []

    def canceller(me: Identity) -> Callable[..., Any]:
        async def handle(request: Any, connection: Connection) -> Message:
            cancelled.append(f"{me.host} {request.user_name}")
            return s6a.answer_to(request, me)  # type: ignore[no-any-return]

        return handle

    async def go() -> None:
        async with pair(handler=canceller(ME)) as (hss, client):
            s6a.check(await client.request(ulr()))
            await moved(hss)
            assert cancelled == [f"{ME.host} {IMSI}"]

    asyncio.run(go())


def test_a_location_update_is_answered_though_the_old_mme_goes_away() -> None:
    async def leave(request: Any, connection: Connection) -> Message:
        connection.close()
        return s6a.answer_to(request, ME)  # type: ignore[no-any-return]

    async def go() -> None:
        async with pair(handler=leave) as (hss, client):
            s6a.check(await client.request(ulr()))
            await moved(hss, 3)

    asyncio.run(go())


def test_a_late_purge_by_an_earlier_mme_changes_nothing() -> None:
    async def go() -> None:
        async with pair() as (hss, client):
            s6a.check(await client.request(ulr()))
            for host, left in ((f"mme2.{REALM}", ME.host), (ME.host, "")):
                me = Identity(host, REALM, "127.0.0.1")
                purge = s6a._request(PurgeUeRequest(), me, HOST, REALM, IMSI)
                s6a.check(await client.request(purge))
                one = await hss.store.get(IMSI)
                assert one is not None
                assert one.mme == left

    asyncio.run(go())
