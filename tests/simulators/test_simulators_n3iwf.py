"""Access by Wi-Fi: IKEv2 with EAP-5G, NAS and PDU sessions over it, and what goes wrong."""

from __future__ import annotations

import asyncio
import datetime
import hmac
import itertools
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from core_5g_support import AMF, DNNS, HOST, ONE, PLMN, TAI, TWO, Core, Run, imsi, shared, wanted
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID
from scapy.layers.inet import IP, UDP
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.layers.l2 import GRE
from scapy.utils import wrpcap
from simulators_support import OPC, K

from simulators.core5g import keys
from simulators.core5g.ue import Ue
from simulators.errors import EpcError, ProtocolError
from simulators.shared.identity import Plmn
from simulators.shared.terminal import RefusedError
from simulators.shared.usim import Usim
from simulators.transport import gtpu, radio_link
from simulators.wifi import eap5g, esp, ikev2, n3iwf, n3ue, nwu

NWU, N3 = f"{HOST}.6.1", f"{HOST}.4.31"
QFI = 9
POOL, INNER = f"{HOST}.7.0/24", f"{HOST}.7.1"
FQDN = "n3iwf.5gc.mnc088.mcc242.pub.3gppnetwork.org"


def certificate(
    issuer: str, issuer_key: rsa.RSAPrivateKey, key: rsa.RSAPrivateKey, name: str, days: int = 1
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(named(issuer), named(name[:64]), key.public_key(), 1)
    builder = builder.not_valid_before(now - datetime.timedelta(days=2))
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    extension = x509.SubjectAlternativeName([x509.DNSName(name)])
    return builder.add_extension(extension, False).sign(issuer_key, SHA256())


KEY, ROOT_KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(3))
ROOT = certificate("root", ROOT_KEY, ROOT_KEY, "root")
LEAF = certificate("root", ROOT_KEY, KEY, FQDN)


#: The far ends of the UPFs' TUN devices, by slice.
PDNS: list[socket.socket] = []


def open_tun(name: str) -> int:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in (near, far):
        end.setblocking(False)
    PDNS.append(far)
    return near.detach()


class Device:
    """In place of the TUN devices: on loopback inner addresses are there anyway."""

    def __init__(self, *_: object) -> None:
        self.written: list[bytes] = []

    def write(self, packet: bytes) -> None:
        self.written.append(packet)

    def close(self) -> None:
        pass


class Town:
    """A core, an N3IWF and UEs."""

    def __init__(self) -> None:
        self.core = Core()
        self.numbers = itertools.count(2)
        self.n3iwf = n3iwf.N3iwf(
            n3iwf.Config(
                *("n3iwf", 135, (PLMN,), TAI.tac, AMF, N3, N3),
                slices=(ONE, TWO), nwu=NWU, inner=INNER, pool=POOL, fqdn=FQDN,
                key=KEY, certificate=LEAF, liveness=0,
            )
        )  # fmt: skip

    async def start(self) -> None:
        await self.core.start()
        await self.n3iwf.start()
        await asyncio.wait_for(self.n3iwf.ready.wait(), 20)

    async def stop(self) -> None:
        self.n3iwf.stop()
        await self.core.stop()

    def config(self, number: int = 0, **changes: Any) -> n3ue.Config:
        usim = Usim(imsi(number), K, OPC)
        address = f"{HOST}.6.{next(self.numbers)}"
        plain = n3ue.Config(usim, (PLMN,), NWU, (), address=address, root=ROOT, liveness=0)
        return replace(plain, **changes)

    async def ue(self, number: int = 0, **changes: Any) -> Ue:
        """A UE with an IKE SA in which NAS can be exchanged."""
        config = self.config(number, **changes)
        radio = n3ue.Radio(config)
        await radio.connect(NWU)
        assert radio.link is not None
        made = Ue(config.usim, radio.link, 1, PLMN, access=keys.ACCESS_NON_3GPP)
        radio.ues[1] = made
        return made

    async def gone(self, one: Ue) -> None:
        """Nothing of a UE may stay."""
        await self.core.until(lambda: not self.n3iwf._ues and not self.n3iwf._half)
        await self.core.until(lambda: not self.core.amf.ues)
        assert not self.n3iwf.nwu.associations
        assert not self.n3iwf.nwu.children
        assert not link_of(one).endpoint.associations


@pytest.fixture(scope="module")
def town() -> Iterator[Run]:
    if os.geteuid():
        pytest.skip("ports of IKE and raw sockets need root")
    PDNS.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nwu, "Device", Device)
        patch.setattr(nwu, "REPEAT", 0.1)
        yield from shared(Town, open_tun, 60)


def link_of(one: Ue) -> n3ue.Access:
    assert isinstance(one.link, n3ue.Access)
    return one.link


def test_a_ue_registers_by_wifi_and_is_in_two_slices(town: Run) -> None:
    async def go(town: Town) -> None:
        one = await town.ue()
        await one.register()
        (served,) = town.core.amf.by_imsi.values()
        assert served.access == keys.ACCESS_NON_3GPP
        assert one.allowed == (ONE, TWO)
        for number, snssai in ((1, ONE), (2, TWO)):
            session = await one.establish(wanted(snssai, number))
            assert session.dnn == DNNS[snssai]
        link = link_of(one)
        assert sorted(child.session for child in link.ike.children) == [0, 1, 2]
        await one.deregister(off=False)
        await town.gone(one)

    town(go)


def user_packet(source: str, destination: str, text: bytes) -> bytes:
    return bytes(IP(src=source, dst=destination) / UDP(sport=7, dport=7) / text)


async def arrived(far: socket.socket) -> bytes:
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(far, 65535), 5)


async def in_session(town: Town, **changes: Any) -> tuple[Ue, str]:
    one = await town.ue(0, **changes)
    await one.register()
    session = await one.establish(wanted(ONE, 1))
    await town.core.until(lambda: town.core.upfs[ONE]._down)  # the SMF told it where the UE is
    return one, session.address


async def passes(one: Ue, address: str, text: bytes) -> None:
    """A packet passes up and another down."""
    packet, back = (
        user_packet(address, "192.0.2.1", text),
        user_packet("192.0.2.1", address, text),
    )
    number = radio_link.numbered(1, 1)
    one.link.send_packets([(number, packet)])
    assert await arrived(PDNS[0]) == packet
    came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    link_of(one).radio.packets[number] = came.set_result
    PDNS[0].send(back)
    assert await asyncio.wait_for(came, 5) == back


async def left(town: Town, one: Ue) -> None:
    await one.deregister(off=False)
    await town.gone(one)


def test_packets_are_in_gre_with_their_qfi_and_reach_n3_with_it(
    town: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[tuple[int, bytes]] = []
    qfis: list[int] = []
    inside, outside = n3iwf.UeLink.packet, gtpu.flow_header

    def seen(self: n3iwf.UeLink, child: nwu.Child, packet: bytes) -> None:
        inner.append((child.session, packet))
        inside(self, child, packet)

    def marked(kind: int, size: int, teid: int, qfi: int) -> bytes:
        qfis.append(qfi)
        return outside(kind, size, teid, qfi)

    monkeypatch.setattr(n3iwf.UeLink, "packet", seen)
    monkeypatch.setattr(gtpu, "flow_header", marked)

    async def go(town: Town) -> None:
        one, address = await in_session(town)
        await passes(one, address, b"through GRE")
        ((_, packet),) = [row for row in inner if row[0] == 1]
        gre = IP(packet)[GRE]
        assert (gre.proto, gre.key_present, gre.key >> 24) == (0x0800, 1, QFI)
        assert qfis == [QFI, QFI]
        # A packet of another QoS flow than its child SA's goes nowhere.
        link = link_of(one)
        child = link.child_of(1)
        assert child is not None
        made = eap5g.encapsulate(user_packet(address, "192.0.2.1", b"x"), QFI + 1, *link.inner)
        before = town.n3iwf.nwu.dropped
        link.endpoint.send_esp(child.outbound.seal(made), link.ike.peer)
        await town.core.until(lambda: town.n3iwf.nwu.dropped == before + 1)
        assert len(qfis) == 2
        await left(town, one)

    town(go)


def test_what_a_ue_may_not_create_is_refused(town: Run) -> None:
    async def go(town: Town) -> None:
        one, _ = await in_session(town)
        ike = link_of(one).ike
        draft = ike.draft(*link_of(one).inner)
        with pytest.raises(EpcError, match="NO_ADDITIONAL_SAS"):
            await ike.create_child(draft, ikev2.notify(ikev2.REKEY_SA, b"", ikev2.ESP, draft.spi))
        # User data is the N3IWF's to ask for.
        with pytest.raises(EpcError, match="NO_PROPOSAL_CHOSEN"):
            await ike.create_child(ike.draft(*link_of(one).inner))
        await left(town, one)

    town(go)


OF_ANOTHER_NAME = certificate("root", ROOT_KEY, KEY, "n3iwf.5gc.mnc001.mcc001.example")
TOO_OLD = certificate("root", ROOT_KEY, KEY, FQDN, days=-1)
OF_ANOTHER_ROOT = certificate("root", OTHER_KEY, KEY, FQDN)
OF_ANOTHER_KEY = certificate("root", ROOT_KEY, OTHER_KEY, FQDN)


@pytest.mark.parametrize(
    ("leaf", "why"),
    [
        (OF_ANOTHER_NAME, "does not name"),
        (TOO_OLD, "is not valid now"),
        (OF_ANOTHER_ROOT, "is not trusted"),
        (OF_ANOTHER_KEY, "does not have the key"),
    ],
    ids=["another name", "expired", "another authority", "another key"],
)
def test_a_wrong_certificate_ends_with_authentication_failed(
    town: Run, leaf: x509.Certificate, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def go(town: Town) -> None:
        good, town.n3iwf.config = town.n3iwf.config, replace(town.n3iwf.config, certificate=leaf)
        try:
            with pytest.raises(EpcError, match=why):
                await town.ue()
        finally:
            town.n3iwf.config = good
        await town.core.until(lambda: not town.n3iwf.nwu.associations)
        assert "The peer says AUTHENTICATION_FAILED" in caplog.text
        assert not town.core.amf.ues, "no NAS message was sent"

    town(go)


def test_an_unknown_subscriber_is_refused_by_nas_and_eap_fails(town: Run) -> None:
    async def go(town: Town) -> None:
        one = await town.ue(9999)
        with pytest.raises(RefusedError, match="Illegal UE") as caught:
            await one.register()
        assert caught.value.final
        answers: list[eap5g.Eap] = []
        link = link_of(one)
        read = link._eap

        def noted(message: ikev2.Message) -> eap5g.Eap:
            answers.append(read(message))
            return answers[-1]

        link._eap = noted  # type: ignore[method-assign]
        link.close()  # EAP-Response/5G-Stop
        await town.gone(one)
        assert [one.code for one in answers] == [eap5g.FAILURE]

    town(go)


def test_a_wrong_subscriber_key_is_refused(town: Run) -> None:
    async def go(town: Town) -> None:
        one = await town.ue(usim=Usim(imsi(0), bytes(16), OPC))
        with pytest.raises(RefusedError, match="Authentication"):
            await one.register()
        one.link.close()
        await town.gone(one)

    town(go)


def test_who_does_not_have_kn3iwf_gets_no_signalling_sa(town: Run) -> None:
    async def go(town: Town) -> None:
        one = await town.ue()
        real = keys.access_key

        async def registering() -> None:
            with pytest.raises(EpcError):
                await one.register()

        with pytest.MonkeyPatch.context() as patch:
            # The UE derives another key than the AMF, as one in the middle would have.
            patch.setattr(
                "simulators.core5g.ue.keys.access_key",
                lambda key, count, access: real(
                    key, count + (1 if not one.access_key else 0), access
                ),
            )
            await registering()
        await town.gone(one)

    town(go)


def test_a_ue_that_is_gone_is_released(town: Run) -> None:
    async def go(town: Town) -> None:
        plain = town.n3iwf.config
        town.n3iwf.config = replace(plain, liveness=0.2, retries=2)
        try:
            one, _ = await in_session(town)
            (served,) = town.core.amf.by_imsi.values()
            await asyncio.sleep(0.5)
            assert served.connected, "it answers"
            link_of(one).endpoint._send = lambda *_: None  # type: ignore[method-assign]
            await town.core.until(lambda: not served.connected)
            assert served.registered, "it may come back (TS 23.502 clause 4.12.4.2)"
            assert not town.n3iwf.nwu.associations
        finally:
            town.n3iwf.config = plain
        link_of(one).ike.end("")
        await town.gone(one)

    town(go)


def test_who_begins_and_does_not_go_on_is_forgotten(
    town: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(n3iwf, "HALF_OPEN", 2.0)

    async def go(town: Town) -> None:
        one = await town.ue()
        assert len(town.n3iwf.nwu.associations) == 1
        await town.core.until(lambda: not town.n3iwf.nwu.associations)
        link_of(one).ike.end("")
        await town.gone(one)

    town(go)


def test_only_who_has_authenticated_makes_further_sas(
    town: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(n3iwf, "HALF_OPEN", 2.0)

    async def go(town: Town) -> None:
        one = await town.ue()
        link = link_of(one)
        with pytest.raises(EpcError, match="lacks IKEv2_SA|INVALID_SYNTAX"):
            await link.ike.create_child(link.ike.draft(bytes(4), bytes(4)))
        assert len(town.n3iwf.nwu.associations) == 1
        await town.core.until(lambda: not town.n3iwf.nwu.associations)
        for left in list(link.endpoint.associations.values()):
            left.end("")
        await town.gone(one)

    town(go)


def test_a_ue_notices_that_the_n3iwf_is_gone(town: Run) -> None:
    async def go(town: Town) -> None:
        one, _ = await in_session(town, liveness=0.2)
        (served,) = town.n3iwf._by_address.values()
        served.ike.end("")  # as a restart does
        await asyncio.wait_for(one.released.wait(), 5)
        await town.gone(one)

    town(go)


def test_behind_a_nat_esp_goes_in_udp(town: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    located = nwu.Association._hashed
    monkeypatch.setattr(
        nwu.Association,
        "_hashed",
        lambda self, host, port: (
            located(self, "192.0.2.7" if host != NWU else host, port)
            if self.initiator
            else located(self, host, port)
        ),
    )

    async def go(town: Town) -> None:
        one, address = await in_session(town)
        assert link_of(one).ike.peer.encapsulated
        await passes(one, address, b"in UDP")
        await left(town, one)

    town(go)


def test_noise_on_nwu_changes_nothing(town: Run) -> None:
    async def go(town: Town) -> None:
        one, address = await in_session(town)
        link = link_of(one)
        child = link.child_of(1)
        assert child is not None
        made = eap5g.encapsulate(user_packet(address, "192.0.2.1", b"x"), QFI, *link.inner)
        sealed = child.outbound.seal(made)
        before = town.n3iwf.nwu.dropped
        peer = link.ike.peer
        for octets in (sealed[:-1] + b"\0", sealed[:20], b"\0\0\0\1" + sealed[4:]):
            link.endpoint.send_esp(octets, peer)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            spis = link.ike.spi + link.ike.other_spi
            for octets in (b"", bytes(28), spis + bytes(12), spis + os.urandom(200)):
                other.sendto(octets, (NWU, ikev2.PORT))
        await town.core.until(lambda: town.n3iwf.nwu.dropped >= before + 6)
        link.endpoint.send_esp(sealed, peer)
        assert await arrived(PDNS[0])
        link.endpoint.send_esp(sealed, peer)  # a replay
        await passes(one, address, b"goes on")
        await left(town, one)

    town(go)


def test_an_n3iwf_of_another_network_is_refused(town: Run) -> None:
    async def go(town: Town) -> None:
        config = replace(town.n3iwf.config, plmns=(Plmn("001", "01"),), control=f"{HOST}.4.32")
        other = n3iwf.N3iwf(replace(config, user=f"{HOST}.4.32", nwu=f"{HOST}.6.9", nas_port=20001))
        association = await other._associate()
        other._answer = asyncio.get_running_loop().create_future()
        association.on_message = other._received
        with pytest.raises(EpcError, match="refuses NG Setup: unknown-PLMN"):
            await other._set_up(association)
        association.close()

    town(go)


# -- other decoders -------------------------------------------------------------------------------


def test_esp_is_what_scapy_makes_and_reads() -> None:
    keys = os.urandom(32), os.urandom(32)
    outside = IP(src="192.0.2.1", dst="192.0.2.2")
    algorithms = {"crypt_algo": "AES-CBC", "auth_algo": "SHA2-256-128", "tunnel_header": outside}
    given = {"crypt_key": keys[0], "auth_key": keys[1], **algorithms}
    other = SecurityAssociation(ESP, spi=0x1234, **given)
    for size in (0, 1, 13, 14, 15, 16, 1300):
        packet = user_packet("10.45.0.2", "10.45.0.1", bytes(size))
        made = esp.Outbound(0x1234, *keys).seal(packet)
        assert (len(made) - 24 - esp.ICV) % 16 == 0
        read = other.decrypt(outside / ESP(made))
        assert bytes(read) == packet
        sealed = other.encrypt(IP(packet))
        assert esp.Inbound(0x1234, *keys).open(bytes(sealed[ESP])) == packet


def test_a_replay_window_takes_each_number_once() -> None:
    keys = os.urandom(32), os.urandom(32)
    out, inside = esp.Outbound(0x1234, *keys), esp.Inbound(0x1234, *keys)
    made = [out.seal(user_packet("10.45.0.2", "10.45.0.1", b"x")) for _ in range(1200)]
    for number in (5, 3, 4, 1100, 1000, 80):
        inside.open(made[number])
        with pytest.raises(ProtocolError, match="replay"):
            inside.open(made[number])
    with pytest.raises(ProtocolError, match="replay"):
        inside.open(made[70])  # behind the window


def test_kn3iwf_is_that_of_annex_a_9() -> None:
    """By the KDF of TS 33.220 spelled out: FC 0x6E, uplink NAS COUNT, access type 2."""
    key = bytes(range(32))
    text = bytes.fromhex("6e 00000003 0004 02 0001".replace(" ", ""))
    assert keys.access_key(key, 3, keys.ACCESS_NON_3GPP) == hmac.digest(key, text, "sha256")
    assert keys.access_key(key, 3, keys.ACCESS_3GPP) != keys.access_key(key, 3, 2)


def test_eap_5g_is_laid_out_as_in_ts_24_502() -> None:
    start = eap5g.Eap(eap5g.REQUEST, 7, eap5g.START)
    assert start.encode().hex() == "0107000efe0028af000000030100"
    asked = eap5g.Parameters(PLMN, (ONE,)).encode()
    assert asked.hex() == "020342f28804010303050401000001"
    made = eap5g.Eap(eap5g.RESPONSE, 7, eap5g.NAS, b"\x7e\x00", asked)
    assert made.encode()[12:16].hex() == "0200000f"
    assert eap5g.Eap.decode(made.encode()) == made
    assert eap5g.Parameters.decode(asked) == eap5g.Parameters(PLMN, (ONE,))
    for octets in (b"", made.encode()[:-1], start.encode()[:8] + bytes(6), b"\x01\x07\x00\x05\x01"):
        with pytest.raises(ProtocolError):
            eap5g.Eap.decode(octets)
    info = eap5g.qos_info(5, 6, 9)
    assert info.hex() == "060502060902"
    assert eap5g.qos_info_of(info) == (5, (6, 9))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_ike_and_esp_with_their_keys(
    town: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It derives nothing itself: the keys are right if what it decrypts is well formed."""
    wire: list[Any] = []
    send = nwu.Endpoint._send

    def sent(self: nwu.Endpoint, port: int, octets: bytes, to: tuple[str, int]) -> None:
        ends = IP(src=self.address, dst=to[0])
        inside = UDP(sport=500, dport=500) / octets if port else octets
        wire.append(ends / inside if port else IP(src=self.address, dst=to[0], proto=50) / octets)
        send(self, port, octets, to)

    monkeypatch.setattr(nwu.Endpoint, "_send", sent)
    made: dict[int, tuple[bytes, bytes]] = {}
    begin = esp.Outbound.__init__

    def noted(self: esp.Outbound, spi: int, encryption: bytes, integrity: bytes) -> None:
        made[spi] = encryption, integrity
        begin(self, spi, encryption, integrity)

    monkeypatch.setattr(esp.Outbound, "__init__", noted)
    rows: list[str] = []

    async def go(town: Town) -> None:
        one, address = await in_session(town)
        await passes(one, address, b"judged")
        ike = link_of(one).ike
        assert ike.keys is not None
        ends = (ike.spi, ike.other_spi, ike.keys.ei, ike.keys.er)
        words = [*(one.hex() for one in ends), '"AES-CBC-256 [RFC3602]"']
        words += [ike.keys.ai.hex(), ike.keys.ar.hex(), '"HMAC_SHA2_256_128 [RFC4868]"']
        rows.append(",".join(words))
        await left(town, one)

    town(go)
    file = tmp_path / "nwu.pcap"
    wrpcap(str(file), wire)
    options = [
        "-o",
        f"uat:ikev2_decryption_table:{rows[0]}",
        "-o",
        "esp.enable_encryption_decode:TRUE",
    ]
    for spi, (encryption, integrity) in made.items():
        sa = ["IPv4", "*", "*", f"0x{spi:08x}", "AES-CBC [RFC3602]", f"0x{encryption.hex()}"]
        sa += ["HMAC-SHA-256-128 [RFC4868]", f"0x{integrity.hex()}"]
        options += ["-o", "uat:esp_sa:" + ",".join(f'"{word}"' for word in sa)]
    argv = ["tshark", "-r", str(file), *options]
    shown = subprocess.run([*argv, "-V"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "shown.txt").write_text(shown)
    shown = re.sub(r"\(0x0+(?=[0-9a-f])", "(0x", shown)  # Wireshark's releases pad numbers or not
    assert "Malformed" not in shown
    assert "Integrity Checksum Data: " in shown
    assert "[correct]" in shown
    assert "[incorrect" not in shown
    for text in (
        *("EAP-EXT Vendor Id: Unknown (0x28af)", "EAP-EXT Vendor Type: Unknown (0x3)"),
        *("Success (3)", "NAS_IP4_ADDRESS (55502)", "NAS_TCP_PORT (55506)"),
        *("5G_QOS_INFO (55501)", "UP_IP4_ADDRESS (55504)", "Version: GRE (0)"),
    ):
        assert text in shown, text
