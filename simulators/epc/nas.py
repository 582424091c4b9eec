"""NAS of EPS (3GPP TS 24.301): the messages of attach and detach, and their protection.

The messages are short, and hand-written code encodes them fast. The tests compare the results with
pycrate's models.
"""

import ipaddress
from dataclasses import dataclass

from simulators.errors import ProtocolError
from simulators.shared import keys
from simulators.shared.identity import Gummei, Plmn, Tai
from simulators.shared.nas_security import Context
from simulators.transport.tlv import labels, name_of

EMM, ESM = 0x07, 0x02  # protocol discriminators

# EMM message types, table 9.8.1.
ATTACH_REQUEST, ATTACH_ACCEPT, ATTACH_COMPLETE, ATTACH_REJECT = 0x41, 0x42, 0x43, 0x44
DETACH_REQUEST, DETACH_ACCEPT = 0x45, 0x46
AUTHENTICATION_REQUEST, AUTHENTICATION_RESPONSE = 0x52, 0x53
AUTHENTICATION_REJECT, AUTHENTICATION_FAILURE = 0x54, 0x5C
IDENTITY_REQUEST, IDENTITY_RESPONSE = 0x55, 0x56
SECURITY_COMMAND, SECURITY_COMPLETE, SECURITY_REJECT = 0x5D, 0x5E, 0x5F

# ESM message types, table 9.8.2.
_ACTIVATE_REQUEST, _ACTIVATE_ACCEPT = 0xC1, 0xC2
_CONNECTIVITY_REQUEST, _CONNECTIVITY_REJECT = 0xD0, 0xD1

# EMM causes, section 9.9.3.9.
ILLEGAL_UE, SERVICES_NOT_ALLOWED, PLMN_NOT_ALLOWED, AREA_NOT_ALLOWED = 3, 8, 11, 12
NO_SUITABLE_CELLS, NETWORK_FAILURE, ESM_FAILURE = 15, 17, 19
MAC_FAILURE, SYNCH_FAILURE, SECURITY_MISMATCH = 20, 21, 23
CAUSES = {
    ILLEGAL_UE: "Illegal UE",
    SERVICES_NOT_ALLOWED: "EPS services and non-EPS services not allowed",
    PLMN_NOT_ALLOWED: "PLMN not allowed",
    AREA_NOT_ALLOWED: "Tracking area not allowed",
    NO_SUITABLE_CELLS: "No suitable cells in tracking area",
    NETWORK_FAILURE: "Network failure",
    ESM_FAILURE: "ESM failure",
    MAC_FAILURE: "MAC failure",
    SYNCH_FAILURE: "Synch failure",
    SECURITY_MISMATCH: "UE security capabilities mismatch",
}
# ESM causes, section 9.9.4.4.
INSUFFICIENT_RESOURCES, UNKNOWN_APN, ESM_NETWORK_FAILURE = 26, 27, 38

EEA0, EEA2, EIA2 = 0, 2, 2
#: UE network capability of our UEs: EEA0, EEA2, EIA2 (section 9.9.3.34).
CAPABILITY = bytes([0xA0, 0x20])
NO_KEY = 7  # Key set identifier of "no key".


def _lv(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def _lve(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


class Reader:
    """Reads values from the front of a message."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` octets."""
        octets = self._octets[self._at : self._at + size]
        if len(octets) < size:
            raise ProtocolError("A NAS message is cut off.")
        self._at += size
        return octets

    def octet(self) -> int:
        return self.take(1)[0]

    def lv(self) -> bytes:
        """A value with its length in one octet."""
        return self.take(self.octet())

    def lve(self) -> bytes:
        """A value with its length in two octets."""
        return self.take(int.from_bytes(self.take(2), "big"))

    def optional(self) -> dict[int, bytes]:
        """The optional elements that follow, those with a length, by identifier."""
        result: dict[int, bytes] = {}
        while self._at < len(self._octets):
            kind = self.octet()
            if kind & 0x80:
                result[kind & 0xF0] = bytes([kind & 0x0F])
            elif kind in _FIXED:
                result[kind] = self.take(_FIXED[kind])
            else:
                result[kind] = self.lv()
        return result


#: Sizes of optional elements without a length, such as EMM cause and T3423.
_FIXED = {0x13: 5, 0x17: 1, 0x19: 3, 0x52: 5, 0x53: 1, 0x59: 1, 0x5B: 1, 0x5C: 2}


def kind_of(octets: bytes) -> int:
    if len(octets) < 2 or octets[0] != EMM:
        raise ProtocolError("not a plain EMM message")
    return octets[1]


def is_protected(octets: bytes) -> bool:
    return len(octets) > 6 and octets[0] & 0x0F == EMM and octets[0] >> 4 in (1, 2, 3, 4)


def inner(octets: bytes) -> bytes:
    """Return the message below a security header, unchecked; only for messages in clear."""
    return octets[6:] if is_protected(octets) else octets


# -- identities -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guti:
    """A globally unique temporary identity."""

    gummei: Gummei
    tmsi: int

    @property
    def octets(self) -> bytes:
        """The value of the EPS mobile identity (section 9.9.3.12)."""
        g = self.gummei
        return (
            b"\xf6"
            + g.plmn.octets
            + g.group.to_bytes(2, "big")
            + bytes([g.code])
            + self.tmsi.to_bytes(4, "big")
        )


def imsi_identity(imsi: str) -> bytes:
    """The value of an EPS mobile identity that is an IMSI."""
    odd = len(imsi) % 2
    digits = imsi + ("" if odd else "f")
    first = int(digits[0]) << 4 | odd << 3 | 1
    rest = digits[1:]
    return bytes([first]) + bytes.fromhex(
        "".join(rest[i + 1] + rest[i] for i in range(0, len(rest), 2))
    )


def identity_of(octets: bytes) -> str | Guti:
    """IMSI or GUTI of an EPS mobile identity."""
    if len(octets) >= 4 and octets[0] & 7 == 1:
        text = f"{octets[0]:02x}"[0] + "".join(f"{o:02x}"[::-1] for o in octets[1:])
        text = text if octets[0] & 8 else text[:-1]
        if text.isdecimal():
            return text
    if len(octets) == 11 and octets[0] & 7 == 6:
        gummei = Gummei(Plmn.decode(octets[1:4]), int.from_bytes(octets[4:6], "big"), octets[6])
        return Guti(gummei, int.from_bytes(octets[7:], "big"))
    raise ProtocolError("The mobile identity is neither an IMSI nor a GUTI.")


# -- ESM ------------------------------------------------------------------------------------------


def connectivity_request(apn: str = "") -> bytes:
    """PDN Connectivity Request for IPv4, asking for name servers and MTU."""
    octets = bytes([ESM, 1, _CONNECTIVITY_REQUEST, 0x11])
    if apn:
        octets += b"\x28" + _lv(labels(apn))
    return octets + b"\x27" + _lv(b"\x80\x00\x0d\x00\x00\x10\x00")


def apn_of(request: bytes) -> tuple[str, bytes]:
    """APN (or empty) and options of a PDN Connectivity Request."""
    if len(request) < 4 or request[0] & 0x0F != ESM or request[2] != _CONNECTIVITY_REQUEST:
        raise ProtocolError("The attach carries no PDN connectivity request.")
    options = Reader(request[4:]).optional()
    apn = name_of(options[0x28]) if 0x28 in options else ""
    return apn, options.get(0x27, b"")


def connectivity_reject(cause: int) -> bytes:
    return bytes([ESM, 1, _CONNECTIVITY_REJECT, cause])


@dataclass(frozen=True)
class Bearer:
    """The content of an Activate Default EPS Bearer Context Request."""

    number: int
    apn: str
    address: str
    options: bytes = b""

    def message(self) -> bytes:
        """The request, with QCI 9."""
        octets = bytes([self.number << 4 | ESM, 1, _ACTIVATE_REQUEST]) + _lv(b"\x09")
        octets += _lv(labels(self.apn))
        octets += _lv(b"\x01" + ipaddress.IPv4Address(self.address).packed)
        return octets + (b"\x27" + _lv(self.options) if self.options else b"")

    @classmethod
    def decode(cls, octets: bytes) -> "Bearer":
        reader = Reader(octets)
        first, _, kind = reader.take(3)
        if first & 0x0F != ESM or kind != _ACTIVATE_REQUEST:
            raise ProtocolError("The attach accept activates no bearer.")
        reader.lv()  # QoS
        apn, address = name_of(reader.lv()), reader.lv()
        if len(address) < 5 or address[0] & 7 != 1:
            raise ProtocolError("The network gave no IPv4 address.")
        text = str(ipaddress.IPv4Address(address[1:5]))
        return cls(first >> 4, apn, text, reader.optional().get(0x27, b""))


def activate_accept(bearer: int) -> bytes:
    """Activate Default EPS Bearer Context Accept."""
    return bytes([bearer << 4 | ESM, 0, _ACTIVATE_ACCEPT])


# -- EMM ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttachRequest:
    """The content of an Attach Request."""

    identity: str | Guti
    capability: bytes
    esm: bytes
    key: int = NO_KEY

    def message(self) -> bytes:
        """The request of an initial attach (attach type 1)."""
        value = self.identity
        identity = imsi_identity(value) if isinstance(value, str) else value.octets
        head = bytes([EMM, ATTACH_REQUEST, self.key << 4 | 1])
        return head + _lv(identity) + _lv(self.capability) + _lve(self.esm)

    @classmethod
    def decode(cls, octets: bytes) -> "AttachRequest":
        reader = Reader(octets[2:])
        key = reader.octet() >> 4 & 7
        identity = identity_of(reader.lv())
        capability = reader.lv()
        if len(capability) < 2:
            raise ProtocolError("The UE network capability is too short.")
        return cls(identity, capability, reader.lve(), key)


@dataclass(frozen=True)
class AttachAccept:
    """The content of an Attach Accept."""

    guti: Guti
    tai: Tai
    esm: bytes

    def message(self) -> bytes:
        """The accept of an EPS-only attach, with T3412 of 54 minutes."""
        area = b"\x00" + self.tai.plmn.octets + self.tai.tac.to_bytes(2, "big")
        head = bytes([EMM, ATTACH_ACCEPT, 0x01, 0x49]) + _lv(area) + _lve(self.esm)
        return head + b"\x50" + _lv(self.guti.octets)

    @classmethod
    def decode(cls, octets: bytes) -> "AttachAccept":
        reader = Reader(octets[2:])
        reader.take(2)
        area = reader.lv()
        if len(area) < 6:
            raise ProtocolError("The list of tracking areas is too short.")
        esm = reader.lve()
        guti = identity_of(reader.optional().get(0x50, b""))
        if isinstance(guti, str):
            raise ProtocolError("The network assigned an IMSI.")
        tai = Tai(Plmn.decode(area[1:4]), int.from_bytes(area[4:6], "big"))
        return cls(guti, tai, esm)


def attach_complete(esm: bytes) -> bytes:
    return bytes([EMM, ATTACH_COMPLETE]) + _lve(esm)


def attach_reject(cause: int, esm: bytes) -> bytes:
    octets = bytes([EMM, ATTACH_REJECT, cause])
    return octets + (b"\x78" + _lve(esm) if esm else b"")


def authentication_request(key: int, rand: bytes, autn: bytes) -> bytes:
    return bytes([EMM, AUTHENTICATION_REQUEST, key]) + rand + _lv(autn)


def challenge_of(octets: bytes) -> tuple[int, bytes, bytes]:
    """Key set identifier, RAND and AUTN of an Authentication Request."""
    reader = Reader(octets[2:])
    key, rand, autn = reader.octet() & 7, reader.take(16), reader.lv()
    if len(autn) != 16:
        raise ProtocolError("AUTN has not 16 octets.")
    return key, rand, autn


def authentication_response(res: bytes) -> bytes:
    return bytes([EMM, AUTHENTICATION_RESPONSE]) + _lv(res)


def authentication_failure(cause: int, auts: bytes = b"") -> bytes:
    """Authentication Failure; it has ``auts`` if the cause is 21."""
    octets = bytes([EMM, AUTHENTICATION_FAILURE, cause])
    return octets + (b"\x30" + _lv(auts) if auts else b"")


def failure_of(octets: bytes) -> tuple[int, bytes]:
    reader = Reader(octets[2:])
    return reader.octet(), reader.optional().get(0x30, b"")


def security_command(eea: int, eia: int, key: int, capability: bytes) -> bytes:
    """Security Mode Command with the UE's reported capabilities, so that the UE can compare."""
    replayed = capability[:2]
    if len(capability) > 3:  # UEA and UIA; the UCS2 bit is no algorithm (section 9.9.3.36)
        replayed += bytes([capability[2], capability[3] & 0x7F])
    return bytes([EMM, SECURITY_COMMAND, eea << 4 | eia, key]) + _lv(replayed)


def command_of(octets: bytes) -> tuple[int, int, int, bytes]:
    """EEA, EIA, key set identifier and replayed capabilities of a Security Mode Command."""
    reader = Reader(octets[2:])
    algorithms, key = reader.take(2)
    return algorithms >> 4 & 7, algorithms & 7, key & 7, reader.lv()


def simple(kind: int, *octets: int) -> bytes:
    """Return a message of a type with some octets of content."""
    return bytes([EMM, kind, *octets])


def detach_request(identity: str | Guti, off: bool) -> bytes:
    """Detach Request of a UE; ``off`` means switch-off."""
    value = imsi_identity(identity) if isinstance(identity, str) else identity.octets
    return bytes([EMM, DETACH_REQUEST, NO_KEY << 4 | (8 if off else 0) | 1]) + _lv(value)


# -- protection -----------------------------------------------------------------------------------


class Security(Context):
    """A NAS security context of EPS, from KASME."""

    head = 1

    def derive(self, kind: int, algorithm: int) -> bytes:
        return keys.nas_key(self.key, kind, algorithm)

    def header(self, kind: int) -> bytes:
        return bytes([kind << 4 | EMM])

    def header_type(self, octets: bytes) -> int:
        return octets[0] >> 4 if is_protected(octets) else 0
