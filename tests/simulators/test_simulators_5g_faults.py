"""5G simulators, one part at a time: peers that leave, repeat, or send what is malformed."""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from core_5g_support import AMF, ONE, PLMN, TAI, UDR, UU, config, imsi
from simulators_support import OPC, K, in_a_loop

from simulators.core5g import amf, nas, ngap, sbi, sessions, smf, udm_ausf, ue
from simulators.core5g.registration import Ue
from simulators.errors import ProtocolError
from simulators.shared import pfcp_control
from simulators.shared.addresses import Pdn
from simulators.shared.usim import Usim
from simulators.transport.sctp import userspace

#: An NG Setup Request whose gNB-ID is an extension.
EXTENDED = bytes.fromhex(
    "00150037000004001b00090042f288d000000e00005240050100676e6200660015000000a0000042f288000110"
    "0800000110100000020015400140"
)


class Wire:
    """In place of an SCTP association."""

    peer = "192.0.2.1"

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, stream: int, octets: bytes) -> None:
        self.sent.append(octets)


def amf_with_gnb() -> tuple[amf.Amf, amf.Gnb]:
    guami = amf.Guami(PLMN, 1, 1, 1)
    made = amf.Amf(amf.Config("amf", AMF, config("AMF", AMF), (guami,), {TAI: frozenset((ONE,))}))
    node = made.node_type(Wire())  # type: ignore[arg-type]
    node.slices = {TAI: frozenset((ONE,))}
    return made, node


# -- AMF and SMF ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("octets", "name"),
    [
        ("7e004179000b6642f2880100410000004d2e02a020", "5GSID"),
        ("7e005c0001be", "5GSID"),
        ("7e004179000d0142f288f0ff000021430500002e02a0202f051d01000001", "NSSAI"),
    ],
)
def test_an_element_that_cannot_be_read_counts_as_absent(octets: str, name: str) -> None:
    with pytest.raises(ProtocolError, match=f"lacks {name}"):
        nas.decode(bytes.fromhex(octets)).need(name)


@in_a_loop
async def test_a_gnb_with_an_identifier_of_another_form_gets_an_error_indication() -> None:
    made, node = amf_with_gnb()
    made._received(node, EXTENDED)
    assert not node.ready
    assert [ngap.PROTOCOL.decode(one).name for one in node.association.sent] == ["ErrorIndication"]  # type: ignore[attr-defined]


@in_a_loop
async def test_an_initial_message_without_nas_leaves_no_ue() -> None:
    made, node = amf_with_gnb()
    node.ready = True
    values = {"RAN-UE-NGAP-ID": 1, "UserLocationInformation": ngap.place(PLMN, 1, TAI.tac)}
    made._received(node, ngap.PROTOCOL.encode("InitialUEMessage", values))
    assert not made.ues
    assert not node.ues


class Smf:
    """In place of an SMF at the AMF's client: it creates sessions and notes what it is asked."""

    def __init__(self, served: Ue) -> None:
        self.served = served
        self.calls: list[str] = []
        self.status: list[str] = []
        self.meanwhile = lambda: None

    async def url(self, kind: str, **query: Any) -> str:
        return "http://smf"

    async def call(self, method: str, url: str, document: Any = None, **options: Any) -> Any:
        self.calls.append(url.removeprefix("http://smf/nsmf-pdusession/v1/sm-contexts"))
        if options:
            created, _ = sbi.parts_of(options["headers"]["content-type"], options["content"])
            self.status.append(created["smContextStatusUri"])
        self.meanwhile()
        location = f"/nsmf-pdusession/v1/sm-contexts/{len(self.status)}"
        return SimpleNamespace(headers={"location": location})


def asks(monkeypatch: pytest.MonkeyPatch) -> tuple[amf.Amf, Ue, Smf, nas.Message]:
    """An AMF with a registered UE, its SMF, and the UE's request for PDU session 1."""
    made, node = amf_with_gnb()
    served = Ue(core_id=1, access_id=1, node=node, tai=TAI, cell=1, offered=frozenset((ONE,)))
    served.imsi, served.allowed = imsi(0), (ONE,)
    made.by_imsi[served.imsi] = served
    function = Smf(served)
    monkeypatch.setattr(made.node, "url", function.url)
    monkeypatch.setattr(made.node, "call", function.call)
    values = {"PayloadContainer": b"request", "PDUSessID": 1, "RequestType": {"Value": 1}}
    return made, served, function, nas.Message("ULNASTransport", values)


@in_a_loop
async def test_a_session_of_a_ue_that_left_meanwhile_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, served, function, request = asks(monkeypatch)
    function.meanwhile = served.sessions.clear
    await sessions.from_ue(made, served, request)
    assert function.calls == ["", "/1/release"]


@in_a_loop
async def test_a_late_notification_ends_no_newer_session(monkeypatch: pytest.MonkeyPatch) -> None:
    made, served, function, request = asks(monkeypatch)
    for _ in range(2):
        await sessions.from_ue(made, served, request)
    assert function.calls == ["", "/1/release", ""]
    released = {"statusInfo": {"resourceStatus": "RELEASED"}}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=made.node._app)) as client:
        for at, rest in ((0, [1]), (1, [])):
            answer = await client.post(function.status[at], json=released)
            assert (answer.status_code, list(served.sessions)) == (204, rest)


@in_a_loop
async def test_a_session_is_released_without_its_upf() -> None:
    made = smf.Smf(smf.Config("", config("SMF", ""), (Pdn("internet", "10.0.0.2", "10.0.0.9"),)))
    user = pfcp_control.Session("imsi-1", "internet", "10.0.0.2", 7, 9)
    made.n4.sessions[7] = user
    one = smf.Context("imsi-1", 1, "internet", ONE, "", 9, ("1 Mbps", "1 Mbps"), 1, user)
    request = nas.decode(nas.encode_sm("PDUSessionReleaseRequest", 1, 5))
    answer = await made._n1("1", one, request)
    _, parts = sbi.parts_of(answer.headers["content-type"], bytes(answer.body))
    assert nas.decode(parts["n1"]).name == "PDUSessionReleaseCommand"


def test_a_restarted_smf_does_not_use_its_references_again() -> None:
    made = [smf.Smf(smf.Config("", config("SMF", ""), ())) for _ in range(2)]
    first, second = ({next(one._references) for _ in range(100)} for one in made)
    assert not first & second


@in_a_loop
async def test_a_subscription_is_that_of_the_serving_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = udm_ausf.Udr(config("UDR", UDR), udm_ausf.Database(UDR, 3306, "", "", ""))
    table = [
        {"ueid": imsi(0), "servingPlmnid": plmn, "nssai": f'{{"of": "{plmn}"}}'}
        for plmn in ("20895", "24288")
    ]

    async def rows(sql: str, *values: str) -> list[dict[str, str]]:
        columns = re.findall(r"(\w+)=%s", sql)
        return [row for row in table if [row[name] for name in columns] == list(values)]

    monkeypatch.setattr(made, "rows", rows)
    base = f"http://udr/nudr-dr/v1/subscription-data/imsi-{imsi(0)}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=made.node._app)) as client:
        answer = await client.get(f"{base}/24288/provisioned-data/am-data")
        assert answer.json() == {"nssai": {"of": "24288"}}
        answer = await client.get(f"{base}/00101/provisioned-data/am-data")
        assert answer.status_code == 404


@in_a_loop
async def test_a_server_that_is_no_nrf_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, calls = sbi.Node(config("AMF", AMF), []), []

    async def call(method: str, url: str, document: Any) -> None:
        calls.append(method)
        await asyncio.sleep(0)
        raise sbi.SbiError(404, "UNSPECIFIED")

    monkeypatch.setattr(made, "call", call)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(made._registered(), 0.1)
    assert len(calls) < 5


# -- the UE ---------------------------------------------------------------------------------------


@in_a_loop
async def test_a_ue_without_sessions_deregisters_at_its_end() -> None:
    made = ue.Terminal(ue.Config(Usim(imsi(0), K, OPC), (PLMN,), UU, ()))
    calls = []

    async def deregister() -> None:
        calls.append("deregister")

    one: Any = SimpleNamespace(
        guti=nas.Guti(PLMN, 1, 1, 1, 7),
        released=asyncio.Event(),
        sessions={},
        deregister=deregister,
    )
    made._ue = one
    await made.switch_off()
    assert calls == ["deregister"]
    one.released.set()
    await made.switch_off()
    assert calls == ["deregister"], "it is no longer registered"


# -- SCTP -----------------------------------------------------------------------------------------


@in_a_loop
async def test_an_error_in_a_handler_does_not_end_the_timers_of_sctp() -> None:
    ticks: list[int] = []

    def ready() -> None:
        raise ValueError("of a handler")

    stack: Any = object.__new__(userspace.Stack)
    stack.library = SimpleNamespace(usrsctp_handle_timers=ticks.append)
    stack._loop, stack.full = asyncio.get_running_loop(), set()
    stack._ready, stack.sockets = {1: None}, {1: SimpleNamespace(ready=ready)}
    stack._ticked = time.monotonic() - 1
    with pytest.raises(ValueError, match="of a handler"):
        stack._tick()
    await asyncio.sleep(5 * userspace._TICK)
    assert len(ticks) > 1
