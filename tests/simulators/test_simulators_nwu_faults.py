"""NWu, one part at a time: peers that leave, repeat, or send what is malformed."""

from __future__ import annotations

import asyncio
import datetime
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from core_5g_support import AMF, PLMN, TAI
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from scapy.contrib import ikev2 as codec
from simulators_support import in_a_loop

from simulators.errors import ProtocolError
from simulators.wifi import esp, ikev2, n3iwf, n3ue, nwu


def test_a_packet_number_far_ahead_takes_no_memory() -> None:
    inside = esp.Inbound(0x1234, bytes(32), bytes(32))
    inside._check(1)
    tracemalloc.start()
    inside._check(1 << 27)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    with pytest.raises(ProtocolError, match="replay"):
        inside._check(1)
    inside._check((1 << 27) - 1)


@in_a_loop
async def test_a_replayed_request_moves_no_ike_sa(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, answers = nwu.Endpoint("192.0.2.1"), []
    monkeypatch.setattr(endpoint, "send_ike", lambda octets, peer: answers.append(peer))
    first, second, other = (nwu.Peer(f"192.0.2.{number}", 500) for number in (2, 3, 4))
    ends = [nwu.Association(endpoint, first, SimpleNamespace(), one) for one in (True, False)]  # type: ignore[arg-type]
    ends[0].other_spi, ends[1].other_spi = ends[1].spi, ends[0].spi
    ends[0].keys = ends[1].keys = ikev2.Keys(*(bytes([one]) * 32 for one in range(7)))
    made = []
    for number in (0, 1):
        spis = ends[0]._spis()
        message = ikev2.Message(*spis, ikev2.INFORMATIONAL, number, original=True)
        made.append(ends[0]._sealed(message))
    for octets, peer in ((made[0], first), (made[1], second), (made[1], other), (made[0], other)):
        ends[1].received(octets, ikev2.header(octets), peer)
        await asyncio.gather(*ends[1]._tasks)
    assert ends[1].peer == second
    assert answers == [first, second, other], "a repetition is answered where it comes from"


def interworking() -> n3iwf.N3iwf:
    return n3iwf.N3iwf(
        n3iwf.Config(
            "n3iwf", 1, (PLMN,), TAI.tac, AMF, "", "", inner="10.0.0.1", pool="10.0.0.0/24"
        )
    )


@in_a_loop
async def test_a_malformed_first_request_leaves_no_ike_sa() -> None:
    made = interworking()
    payloads = (ikev2.proposal(ikev2.IKE), codec.IKEv2_Nonce(nonce=ikev2.nonce()))
    request = ikev2.Message(b"initiate", bytes(8), ikev2.SA_INIT, 0, True, False, payloads)
    with pytest.raises(ProtocolError, match="lacks IKEv2_KE"):
        made.nwu._received(ikev2.encode(request), "192.0.2.2", 500, ikev2.PORT)
    assert not made.nwu.associations


def test_a_nat_keepalive_is_ignored() -> None:
    endpoint = nwu.Endpoint("192.0.2.1")
    endpoint._received(b"\xff", "192.0.2.2", 4500, ikev2.NAT_PORT)
    with pytest.raises(ProtocolError, match="no child SA"):
        endpoint._received(b"\xfe", "192.0.2.2", 4500, ikev2.NAT_PORT)


class Link(nwu.Link):
    """A link without an IKE SA."""

    async def authenticate(self, message: ikev2.Message) -> tuple[Any, ...]:
        return ()

    def requested_child(self, message: ikev2.Message) -> None:
        return None

    def received(self, kind: int, number: int, content: bytes) -> None:
        pass

    def ended(self, why: str) -> None:
        pass


@in_a_loop
async def test_nas_goes_to_the_newer_connection_when_the_older_one_ends() -> None:
    link, written = Link(), []
    readers = [asyncio.StreamReader(), asyncio.StreamReader()]
    tasks = []
    for number, reader in enumerate(readers):
        writer: Any = SimpleNamespace(
            write=lambda octets, number=number: written.append((number, octets)), close=lambda: None
        )
        tasks.append(asyncio.create_task(link.read_nas(reader, writer)))
        await asyncio.sleep(0)
    readers[0].feed_eof()
    await tasks[0]
    link.write_nas(b"x")
    assert written == [(1, b"\0\1x")]
    readers[1].feed_eof()
    await tasks[1]


def test_a_certificate_of_an_unknown_version_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    octets = builder.sign(key, SHA256()).public_bytes(Encoding.DER)
    octets = octets.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020163"))
    link = object.__new__(n3ue.Access)
    link.plmn = PLMN
    payloads = (
        codec.IKEv2_IDr(IDtype=ikev2.FQDN, ID=n3ue.fqdn(PLMN).encode()),
        codec.IKEv2_AUTH(auth_type=ikev2.RSA_SIGNATURE, load=b"x"),
        codec.IKEv2_CERT(cert_encoding=4, cert_data=octets),
    )
    answer = ikev2.Message(bytes(8), bytes(8), ikev2.AUTH, 1, False, True, payloads)
    with pytest.raises(ProtocolError, match="not a certificate: 99"):
        link._trust(answer)
