"""Keys and algorithms of EPS security (3GPP TS 33.401): KASME, NAS keys, 128-EEA2, 128-EIA2."""

import hashlib
import hmac
import os
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC

from simulators.shared import milenage

#: AMF with the separation bit set, which EPS requires (TS 33.401 section 6.1.2).
EPS_AMF = bytes.fromhex("8000")

_FC_KASME, _FC_KENB, _FC_ALGORITHM = 0x10, 0x11, 0x15  # TS 33.401 annex A
NAS_ENC, NAS_INT = 0x01, 0x02  # algorithm type distinguishers, table A.7-1, in 5G A.8-1

UPLINK, DOWNLINK = 0, 1


@dataclass(frozen=True)
class Vector:
    """An E-UTRAN authentication vector (TS 29.272 section 7.3.18)."""

    rand: bytes
    xres: bytes
    autn: bytes
    kasme: bytes


def kdf(key: bytes, code: int, *parameters: bytes) -> bytes:
    """The key derivation function of TS 33.220 annex B.2, which EPS and 5G share."""
    text = bytes([code])
    for parameter in parameters:
        text += parameter + len(parameter).to_bytes(2, "big")
    return hmac.digest(key, text, hashlib.sha256)


def kasme(ck: bytes, ik: bytes, plmn: bytes, sqn_ak: bytes) -> bytes:
    """KASME for a serving network (annex A.2); ``plmn`` in the 3 octets of TS 24.301."""
    return kdf(ck + ik, _FC_KASME, plmn, sqn_ak)


def kenb(key: bytes, uplink_count: int) -> bytes:
    """KeNB from KASME and the uplink NAS COUNT (annex A.3)."""
    return kdf(key, _FC_KENB, uplink_count.to_bytes(4, "big"))


def nas_key(key: bytes, kind: int, algorithm: int) -> bytes:
    """A NAS key for one algorithm: the last 16 octets of annex A.7's derivation."""
    return kdf(key, _FC_ALGORITHM, bytes([kind]), bytes([algorithm]))[16:]


def challenge(
    k: bytes, opc: bytes, sqn: int, rand: bytes | None = None
) -> tuple[bytes, bytes, milenage.Response]:
    """Return RAND and AUTN of a challenge, and the expected results (TS 33.102 section 6.3.2)."""
    rand = os.urandom(16) if rand is None else rand
    number = sqn.to_bytes(6, "big")
    mac, _ = milenage.f1(k, opc, rand, number, EPS_AMF)
    answer = milenage.f2345(k, opc, rand)
    hidden = bytes(a ^ b for a, b in zip(number, answer.ak, strict=True))
    return rand, hidden + EPS_AMF + mac, answer


def vector(k: bytes, opc: bytes, sqn: int, plmn: bytes, rand: bytes | None = None) -> Vector:
    """Make an authentication vector as an HSS does (TS 33.401 section 6.1.2)."""
    rand, autn, answer = challenge(k, opc, sqn, rand)
    return Vector(rand, answer.res, autn, kasme(answer.ck, answer.ik, plmn, autn[:6]))


def next_sqn(sqn: int) -> int:
    """Return the SQN of the next vector: the 5 lowest bits are its index (TS 33.102 C.1.1.3)."""
    return (sqn + 32) % (1 << 48)


def resynchronised(k: bytes, opc: bytes, rand: bytes, auts: bytes) -> int | None:
    """Return the USIM's SQN from AUTS (TS 33.102 section 6.3.5), None if its MAC-S is wrong."""
    answer = milenage.f2345(k, opc, rand)
    sqn = bytes(a ^ b for a, b in zip(auts[:6], answer.ak_resync, strict=True))
    _, mac = milenage.f1(k, opc, rand, sqn, bytes(2))
    return int.from_bytes(sqn, "big") if hmac.compare_digest(mac, auts[6:]) else None


def _start(count: int, bearer: int, direction: int) -> bytes:
    return count.to_bytes(4, "big") + bytes([bearer << 3 | direction << 2, 0, 0, 0])


def eea2(key: bytes, count: int, bearer: int, direction: int, text: bytes) -> bytes:
    """128-EEA2: AES in counter mode (TS 33.401 annex B.1.3); it is its own inverse."""
    counter = modes.CTR(_start(count, bearer, direction) + bytes(8))
    return Cipher(algorithms.AES(key), counter).encryptor().update(text)


def eia2(key: bytes, count: int, bearer: int, direction: int, text: bytes) -> bytes:
    """128-EIA2: the first 4 octets of AES-CMAC (TS 33.401 annex B.2.3)."""
    code = CMAC(algorithms.AES(key))
    code.update(_start(count, bearer, direction) + text)
    return code.finalize()[:4]
