"""GTP-U (3GPP TS 29.281): the header of a packet in an S1-U tunnel, and echo."""

import struct
from dataclasses import dataclass

from simulators.errors import ProtocolError

PORT = 2152
ECHO_REQUEST, ECHO_RESPONSE, ERROR_INDICATION, G_PDU = 1, 2, 26, 255
OVERHEAD = 20 + 8 + 8  # Octets that a tunnel adds to an IPv4 packet: IPv4, UDP and GTP-U headers.

header = struct.Struct("!BBHI").pack
_marked = struct.Struct("!BBHIHBBBBBB").pack
DOWNLINK, UPLINK = 0x00, 0x10  # PDU types of a PDU session container


def flow_header(kind: int, size: int, teid: int, qfi: int) -> bytes:
    """The header of a packet of ``size`` octets in a QoS flow: with a PDU session container.

    ``kind`` is UPLINK or DOWNLINK (TS 38.415 section 5.5.2, TS 29.281 section 5.2.2.7).
    """
    return _marked(0x34, G_PDU, size + 8, teid, 0, 0, 0x85, 1, kind, qfi, 0)


@dataclass
class Traffic:
    """Packets forwarded and dropped by one end since its start."""

    up: int = 0
    down: int = 0
    dropped: int = 0


def g_pdu(teid: int, packet: bytes) -> bytes:
    return header(0x30, G_PDU, len(packet), teid) + packet


def split(octets: bytes | memoryview) -> tuple[int, int, int]:
    """Type, TEID and start of the payload of a message (section 5.1)."""
    size = len(octets)
    if size < 8 or octets[0] & 0xF0 != 0x30:
        raise ProtocolError("not GTP-U")
    flags, kind = octets[0], octets[1]
    if int.from_bytes(octets[2:4], "big") + 8 > size:
        raise ProtocolError("a GTP-U message is shorter than its length says")
    teid = int.from_bytes(octets[4:8], "big")
    if not flags & 0x07:
        return kind, teid, 8
    at = 12
    if size < at:
        raise ProtocolError("a GTP-U header is cut off")
    following = octets[11] if flags & 0x04 else 0
    while following:  # extension headers, section 5.2
        if at >= size or not octets[at]:
            raise ProtocolError("a GTP-U extension header is cut off")
        end = at + 4 * octets[at]
        if end > size:
            raise ProtocolError("a GTP-U extension header is cut off")
        following = octets[end - 1]
        at = end
    return kind, teid, at


def echo_response(request: bytes | memoryview) -> bytes:
    """The response to an echo request, with its sequence number and Recovery 0 (section 7.2.2)."""
    sequence = bytes(request[8:10]) if request[0] & 2 and len(request) >= 12 else bytes(2)
    return header(0x32, ECHO_RESPONSE, 6, 0) + sequence + b"\0\0" + b"\x0e\0"


def error_indication(teid: int, own: bytes) -> bytes:
    """Return an Error Indication for packets with an unknown TEID (section 7.3.1)."""
    body = b"\x10" + teid.to_bytes(4, "big") + b"\x85" + len(own).to_bytes(2, "big") + own
    return header(0x32, ERROR_INDICATION, 4 + len(body), 0) + bytes(4) + body


def error_teid(octets: bytes | memoryview, start: int) -> int | None:
    if len(octets) >= start + 5 and octets[start] == 0x10:
        return int.from_bytes(octets[start + 1 : start + 5], "big")
    return None
