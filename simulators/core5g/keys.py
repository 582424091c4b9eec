"""Keys of 5G security (3GPP TS 33.501 annex A); the challenge is that of Milenage."""

import hashlib
from dataclasses import dataclass

from simulators.shared.identity import Plmn
from simulators.shared.keys import challenge, kdf

ABBA = bytes(2)  # ABBA parameter of the initial set of security features (TS 33.501 annex A.7.1).
#: Access types in the key of the access network (annex A.9), also the NAS connection identifiers.
ACCESS_3GPP, ACCESS_NON_3GPP = 1, 2
#: RAT types of the kinds of access (TS 29.571 clause 5.4.3.2).
RAT = {ACCESS_3GPP: "NR", ACCESS_NON_3GPP: "WLAN"}

_FC_NAS, _FC_KAUSF, _FC_RES, _FC_KSEAF, _FC_KAMF, _FC_AN = range(0x69, 0x6F)


@dataclass(frozen=True)
class Vector:
    """A 5G home environment authentication vector (TS 33.501 section 6.1.3.2)."""

    rand: bytes
    autn: bytes
    xres_star: bytes
    kausf: bytes


def network_name(plmn: Plmn) -> str:
    """The serving network name (TS 24.501 section 9.12.1)."""
    return f"5G:mnc{plmn.mnc.zfill(3)}.mcc{plmn.mcc}.3gppnetwork.org"


def kausf(ck: bytes, ik: bytes, network: str, sqn_ak: bytes) -> bytes:
    """KAUSF (annex A.2)."""
    return kdf(ck + ik, _FC_KAUSF, network.encode(), sqn_ak)


def res_star(ck: bytes, ik: bytes, network: str, rand: bytes, res: bytes) -> bytes:
    """RES* or XRES* (annex A.4)."""
    return kdf(ck + ik, _FC_RES, network.encode(), rand, res)[16:]


def hres_star(rand: bytes, res: bytes) -> bytes:
    """HRES* or HXRES* (annex A.5)."""
    return hashlib.sha256(rand + res).digest()[16:]


def kseaf(key: bytes, network: str) -> bytes:
    """KSEAF from KAUSF (annex A.6)."""
    return kdf(key, _FC_KSEAF, network.encode())


def kamf(key: bytes, imsi: str) -> bytes:
    """KAMF from KSEAF (annex A.7)."""
    return kdf(key, _FC_KAMF, imsi.encode(), ABBA)


def nas_key(key: bytes, kind: int, algorithm: int) -> bytes:
    """A NAS key from KAMF for one algorithm (annex A.8)."""
    return kdf(key, _FC_NAS, bytes([kind]), bytes([algorithm]))[16:]


def access_key(key: bytes, uplink_count: int, access: int) -> bytes:
    """KgNB or KN3IWF from KAMF (annex A.9)."""
    return kdf(key, _FC_AN, uplink_count.to_bytes(4, "big"), bytes([access]))


def vector(k: bytes, opc: bytes, sqn: int, network: str, rand: bytes | None = None) -> Vector:
    """Make an authentication vector as a UDM does."""
    rand, autn, answer = challenge(k, opc, sqn, rand)
    return Vector(
        rand,
        autn,
        res_star(answer.ck, answer.ik, network, rand, answer.res),
        kausf(answer.ck, answer.ik, network, autn[:6]),
    )
