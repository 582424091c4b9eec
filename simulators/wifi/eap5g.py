"""Extensions of IKEv2 and ESP on NWu (TS 24.502): EAP-5G, notify payloads, GRE with a QFI."""

import ipaddress
import struct
from dataclasses import dataclass

from simulators.core5g.snssai import NO_SD, Snssai
from simulators.errors import ProtocolError
from simulators.shared.identity import Plmn

# EAP codes (RFC 3748 section 4).
REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
# EAP-5G message identifiers (section 9.3.2).
START, NAS, STOP = 1, 2, 4
# Expanded type, vendor 3GPP, vendor type EAP-5G (section 9.3.2.1).
_TYPE = bytes([254]) + (10415).to_bytes(3, "big") + (3).to_bytes(4, "big")
# AN-parameters (section 9.3.2.2.2).
_GUAMI, _PLMN, _NSSAI, _CAUSE = 1, 2, 3, 4
MO_SIGNALLING = 3  # establishment cause

# Notify message types (section 9.2.4.1).
QOS_INFO, NAS_IP4_ADDRESS, UP_IP4_ADDRESS, NAS_TCP_PORT = 55501, 55502, 55504, 55506

GRE = 47  # IP protocol
OVERHEAD = 20 + 8  # Octets of the inner IPv4 header and the GRE header.


@dataclass(frozen=True)
class Eap:
    """An EAP packet: code, identifier, EAP-5G message and NAS PDU; a success has neither."""

    code: int
    identifier: int
    message: int = 0
    nas: bytes = b""
    parameters: bytes = b""

    def encode(self) -> bytes:
        body = b""
        if self.code in (REQUEST, RESPONSE):
            body = _TYPE + bytes([self.message, 0])
            if self.message == NAS:
                if self.code == RESPONSE:
                    body += len(self.parameters).to_bytes(2, "big") + self.parameters
                body += len(self.nas).to_bytes(2, "big") + self.nas
        return struct.pack("!BBH", self.code, self.identifier, 4 + len(body)) + body

    @classmethod
    def decode(cls, octets: bytes) -> "Eap":
        """Read them."""
        if len(octets) < 4 or int.from_bytes(octets[2:4], "big") != len(octets):
            raise ProtocolError("An EAP packet is cut off.")
        code, identifier, body = octets[0], octets[1], octets[4:]
        if code in (SUCCESS, FAILURE):
            return cls(code, identifier)
        if code not in (REQUEST, RESPONSE) or body[:8] != _TYPE or len(body) < 10:
            raise ProtocolError("An EAP packet is not EAP-5G.")
        message, rest = body[8], body[10:]
        if message != NAS:
            return cls(code, identifier, message)
        parameters = b""
        if code == RESPONSE:
            parameters, rest = _counted(rest)
        pdu, _ = _counted(rest)
        return cls(code, identifier, message, pdu, parameters)


def _counted(octets: bytes) -> tuple[bytes, bytes]:
    """Return a field that has a length of two octets before it, and the rest."""
    size = int.from_bytes(octets[:2], "big")
    if len(octets) < 2 + size:
        raise ProtocolError("An EAP-5G message is cut off.")
    return octets[2 : 2 + size], octets[2 + size :]


@dataclass(frozen=True)
class Parameters:
    """AN-parameters, with which the N3IWF selects an AMF."""

    plmn: Plmn
    nssai: tuple[Snssai, ...] = ()
    cause: int = MO_SIGNALLING

    def encode(self) -> bytes:
        listed = [(_PLMN, self.plmn.octets), (_CAUSE, bytes([self.cause]))]
        if self.nssai:
            listed.append((_NSSAI, b"".join(_snssai(one) for one in self.nssai)))
        return b"".join(bytes([kind, len(value)]) + value for kind, value in listed)

    @classmethod
    def decode(cls, octets: bytes) -> "Parameters":
        """Decode them; unknown parameters are skipped."""
        values: dict[int, bytes] = {}
        while octets:
            if len(octets) < 2 or len(octets) < 2 + octets[1]:
                raise ProtocolError("AN-parameters are cut off.")
            values[octets[0]] = octets[2 : 2 + octets[1]]
            octets = octets[2 + octets[1] :]
        if len(values.get(_PLMN, b"")) != 3:
            raise ProtocolError("AN-parameters name no network.")
        cause = (values.get(_CAUSE) or bytes([MO_SIGNALLING]))[0] & 0x0F
        return cls(Plmn.decode(values[_PLMN]), tuple(_snssais(values.get(_NSSAI, b""))), cause)


def _snssai(one: Snssai) -> bytes:
    value = bytes([one.sst]) + (b"" if one.sd == NO_SD else one.sd.to_bytes(3, "big"))
    return bytes([len(value)]) + value


def _snssais(octets: bytes) -> list[Snssai]:
    slices = []
    while octets:
        value, octets = octets[1 : 1 + octets[0]], octets[1 + octets[0] :]
        if not value:
            raise ProtocolError("An S-NSSAI is cut off.")
        slices.append(Snssai(value[0], int.from_bytes(value[1:4], "big") if value[3:] else NO_SD))
    return slices


def qos_info(session: int, *qfis: int) -> bytes:
    """Return the content of 5G_QOS_INFO: PDU session and QFIs of its default child SA."""
    body = bytes([session, len(qfis), *qfis, 0x02])  # DCSI; no DSCP
    return bytes([1 + len(body)]) + body


def qos_info_of(content: bytes) -> tuple[int, tuple[int, ...]]:
    """Return PDU session and QFIs of 5G_QOS_INFO."""
    if len(content) < 4 or content[0] != len(content) or len(content) < 4 + content[2]:
        raise ProtocolError("5G_QOS_INFO is cut off.")
    return content[1], tuple(content[3 : 3 + content[2]])


def address_of(content: bytes) -> str:
    if len(content) != 4:
        raise ProtocolError("A notified IPv4 address has not four octets.")
    return str(ipaddress.IPv4Address(content))


# -- user data ------------------------------------------------------------------------------------

_ipv4 = struct.Struct("!BBHHHBBH4s4s")
_gre = struct.Struct("!HHI")
_KEY_PRESENT, _OF_IPV4 = 0x2000, 0x0800


def encapsulate(packet: bytes, qfi: int, source: bytes, destination: bytes) -> bytes:
    """Return a user's packet in GRE with the QFI in its key (section 9.3.3), in an IPv4 packet."""
    size = OVERHEAD + len(packet)
    fields = [0x45, 0, size, 0, 0x4000, 64, GRE, 0, source, destination]
    words = struct.unpack("!10H", _ipv4.pack(*fields))
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    fields[7] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return _ipv4.pack(*fields) + _gre.pack(_KEY_PRESENT, _OF_IPV4, (qfi & 0x3F) << 24) + packet


def decapsulate(packet: bytes) -> tuple[int, bytes]:
    """Return QFI and user's packet of an inner packet whose protocol is GRE."""
    start = 4 * (packet[0] & 0x0F)
    if len(packet) < start + 8 + 20:
        raise ProtocolError("A GRE packet is cut off.")
    flags, kind, key = _gre.unpack_from(packet, start)
    if flags != _KEY_PRESENT or kind != _OF_IPV4:
        raise ProtocolError("A GRE packet has no QFI.")
    return key >> 24 & 0x3F, packet[start + 8 :]
