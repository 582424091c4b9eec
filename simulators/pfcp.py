"""PFCP on SXab (3GPP TS 29.244): association, heartbeat and the session of a default bearer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from simulators.errors import ProtocolError
from simulators.tlv import Ie, Message, address, labels, name_of, need, number, packed

PORT = 8805

# Message types, table 7.3-1.
HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE = 1, 2
ASSOCIATION_REQUEST, ASSOCIATION_RESPONSE = 5, 6
RELEASE_REQUEST, RELEASE_RESPONSE = 9, 10
ESTABLISHMENT_REQUEST, ESTABLISHMENT_RESPONSE = 50, 51
MODIFICATION_REQUEST, MODIFICATION_RESPONSE = 52, 53
DELETION_REQUEST, DELETION_RESPONSE = 54, 55
_REQUESTS = frozenset([1, 5, 9, 50, 52, 54])

# Types of information elements, table 8.1.2-1.
CREATE_PDR, PDI, CREATE_FAR, FORWARDING, CREATED_PDR, UPDATE_FAR = 1, 2, 3, 4, 8, 10
UPDATE_FORWARDING, CAUSE, SOURCE_INTERFACE, FTEID, NETWORK_INSTANCE = 11, 19, 20, 21, 22
PRECEDENCE, OFFENDING, DESTINATION_INTERFACE, UP_FEATURES, APPLY_ACTION = 29, 40, 42, 43, 44
PDR_ID, FSEID, NODE_ID, OUTER_CREATION, CP_FEATURES, UE_ADDRESS = 56, 57, 60, 84, 89, 93
OUTER_REMOVAL, RECOVERY, FAR_ID, PDN_TYPE = 95, 96, 108, 113

# Causes, table 8.2.1-1.
ACCEPTED, REJECTED, SESSION_NOT_FOUND, MANDATORY_MISSING = 1, 64, 65, 66
NO_ASSOCIATION, RULE_FAILURE, NO_RESOURCES, SYSTEM_FAILURE = 72, 73, 75, 77

ACCESS, CORE = 0, 1  # interfaces, sections 8.2.2 and 8.2.24
DROP, FORWARD, BUFFER = 1, 2, 4  # bits of Apply Action, section 8.2.26
_GTPU_IPV4 = 0x0100  # Outer Header Creation Description, section 8.2.56
_NTP = 2208988800  # seconds from 1900 to 1970

UPLINK, DOWNLINK = 1, 2  # our numbers of PDRs and FARs


class _Codec:
    """Octets of PFCP (sections 7.2 and 8.1)."""

    def encode(self, message: Message) -> bytes:
        """The message's octets."""
        body = message.sequence.to_bytes(3, "big") + b"\0" + encode_ies(message.ies)
        flags = 0x20
        if message.endpoint is not None:
            body = message.endpoint.to_bytes(8, "big") + body
            flags |= 1
        return bytes([flags, message.type]) + len(body).to_bytes(2, "big") + body

    def decode(self, octets: bytes) -> Message:
        """The message of a datagram."""
        if len(octets) < 8 or octets[0] >> 5 != 1:
            raise ProtocolError("not PFCP")
        length = int.from_bytes(octets[2:4], "big")
        start = 16 if octets[0] & 1 else 8
        if length + 4 > len(octets) or length + 4 < start:
            raise ProtocolError("a PFCP message is shorter than its length says")
        endpoint = int.from_bytes(octets[4:12], "big") if octets[0] & 1 else None
        sequence = int.from_bytes(octets[start - 4 : start - 1], "big")
        return Message(octets[1], endpoint, decode_ies(octets[start : length + 4]), sequence)

    def is_request(self, kind: int) -> bool:
        """True for the type of a request."""
        return kind in _REQUESTS


CODEC = _Codec()


def encode_ies(ies: Iterable[Ie]) -> bytes:
    """The octets of information elements."""
    return b"".join(
        ie.type.to_bytes(2, "big") + len(ie.value).to_bytes(2, "big") + ie.value for ie in ies
    )


def decode_ies(octets: bytes) -> tuple[Ie, ...]:
    """The information elements of octets.

    Raises:
        ProtocolError: a length does not fit.
    """
    found, at = [], 0
    while at < len(octets):
        if at + 4 > len(octets):
            raise ProtocolError("an information element is cut off")
        size = int.from_bytes(octets[at + 2 : at + 4], "big")
        if at + 4 + size > len(octets):
            raise ProtocolError("an information element is longer than its message")
        kind = int.from_bytes(octets[at : at + 2], "big")
        found.append(Ie(kind, octets[at + 4 : at + 4 + size]))
        at += 4 + size
    return tuple(found)


def timestamp(moment: float | None = None) -> int:
    """NTP seconds of a moment (default: now), as Recovery Time Stamp carries them."""
    return (int(time.time() if moment is None else moment) + _NTP) & 0xFFFFFFFF


def node_id(text: str) -> Ie:
    """A Node ID: an IPv4 address, or else a host name (section 8.2.38)."""
    try:
        return Ie(NODE_ID, b"\0" + packed(text))
    except ValueError:
        return Ie(NODE_ID, b"\x02" + labels(text))


def node_of(octets: bytes) -> str:
    """The text of a Node ID."""
    kind = number(octets, 1) & 0x0F
    if kind == 0:
        return address(octets[1:])
    if kind == 2:
        return name_of(octets[1:])
    raise ProtocolError("The Node ID is neither an IPv4 address nor a name.")


def recovery(stamp: int) -> Ie:
    """The Recovery Time Stamp."""
    return Ie(RECOVERY, stamp.to_bytes(4, "big"))


def cause(value: int) -> Ie:
    """The Cause."""
    return Ie(CAUSE, bytes([value]))


def cause_of(message: Message) -> int:
    """The cause of a response."""
    return number(message.need(CAUSE), 1)


def fseid(seid: int, text: str) -> Ie:
    """An F-SEID with an IPv4 address."""
    return Ie(FSEID, b"\x02" + seid.to_bytes(8, "big") + packed(text))


def fseid_of(octets: bytes) -> tuple[int, str]:
    """SEID and address of an F-SEID."""
    if len(octets) < 13 or not octets[0] & 2:
        raise ProtocolError("An F-SEID has no IPv4 address.")
    return int.from_bytes(octets[1:9], "big"), address(octets[9:13])


def fteid(teid: int, text: str) -> Ie:
    """An F-TEID with an IPv4 address (section 8.2.3)."""
    return Ie(FTEID, b"\x01" + teid.to_bytes(4, "big") + packed(text))


def fteid_of(octets: bytes) -> tuple[int, str]:
    """TEID and address of an F-TEID."""
    if len(octets) < 9 or octets[0] & 5 != 1:
        raise ProtocolError("An F-TEID has no IPv4 address.")
    return int.from_bytes(octets[1:5], "big"), address(octets[5:9])


_CHOOSE = Ie(FTEID, b"\x05")  # the UP function chooses TEID and IPv4 address


@dataclass(frozen=True)
class Rules:
    """The rules of one default bearer in the UP function.

    Attributes:
        ue: the UE's IPv4 address.
        apn: network instance.
        uplink: TEID and address where uplink packets come in, None for the UP function to choose.
        enb: TEID and address of the eNB's end, None while it is not known: packets are dropped.
    """

    ue: str
    apn: str
    uplink: tuple[int, str] | None = None
    enb: tuple[int, str] | None = None


def _far(kind: int, number_: int, action: int, *forwarding: Ie) -> Ie:
    ies = [Ie(FAR_ID, number_.to_bytes(4, "big")), Ie(APPLY_ACTION, bytes([action]))]
    if forwarding:
        inner = FORWARDING if kind == CREATE_FAR else UPDATE_FORWARDING
        ies.append(Ie(inner, encode_ies(forwarding)))
    return Ie(kind, encode_ies(ies))


def _downlink_far(kind: int, enb: tuple[int, str] | None) -> Ie:
    if enb is None:
        return _far(kind, DOWNLINK, DROP)
    teid, text = enb
    header = _GTPU_IPV4.to_bytes(2, "big") + teid.to_bytes(4, "big") + packed(text)
    to_access = Ie(DESTINATION_INTERFACE, bytes([ACCESS]))
    return _far(kind, DOWNLINK, FORWARD, to_access, Ie(OUTER_CREATION, header))


def establishment(node: str, seid: int, rules: Rules) -> Message:
    """Session Establishment Request of the CP function ``node`` with its SEID."""
    instance = Ie(NETWORK_INSTANCE, rules.apn.encode())
    tunnel = _CHOOSE if rules.uplink is None else fteid(*rules.uplink)
    up = [
        Ie(PDR_ID, UPLINK.to_bytes(2, "big")),
        Ie(PRECEDENCE, (65000).to_bytes(4, "big")),
        Ie(
            PDI,
            encode_ies(
                [
                    Ie(SOURCE_INTERFACE, bytes([ACCESS])),
                    tunnel,
                    instance,
                    Ie(UE_ADDRESS, b"\x02" + packed(rules.ue)),  # source
                ]
            ),
        ),
        Ie(OUTER_REMOVAL, b"\0"),
        Ie(FAR_ID, UPLINK.to_bytes(4, "big")),
    ]
    down = [
        Ie(PDR_ID, DOWNLINK.to_bytes(2, "big")),
        Ie(PRECEDENCE, (65000).to_bytes(4, "big")),
        Ie(
            PDI,
            encode_ies(
                [
                    Ie(SOURCE_INTERFACE, bytes([CORE])),
                    instance,
                    Ie(UE_ADDRESS, b"\x06" + packed(rules.ue)),  # destination
                ]
            ),
        ),
        Ie(FAR_ID, DOWNLINK.to_bytes(4, "big")),
    ]
    ies = (
        node_id(node),
        fseid(seid, node),
        Ie(CREATE_PDR, encode_ies(up)),
        Ie(CREATE_PDR, encode_ies(down)),
        _far(CREATE_FAR, UPLINK, FORWARD, Ie(DESTINATION_INTERFACE, bytes([CORE]))),
        _downlink_far(CREATE_FAR, rules.enb),
        Ie(PDN_TYPE, b"\x01"),
    )
    return Message(ESTABLISHMENT_REQUEST, 0, ies)


def modification(seid: int, enb: tuple[int, str] | None) -> Message:
    """Session Modification Request: downlink packets go to the eNB, or are dropped."""
    return Message(MODIFICATION_REQUEST, seid, (_downlink_far(UPDATE_FAR, enb),))


def _enb_of(far: tuple[Ie, ...], inner: int) -> tuple[int, str] | None:
    if not number(need(far, APPLY_ACTION)[:1]) & FORWARD:
        return None
    header = need(decode_ies(need(far, inner)), OUTER_CREATION)
    if len(header) < 10 or int.from_bytes(header[:2], "big") & _GTPU_IPV4 == 0:
        raise ProtocolError("The outer header is not GTP-U over IPv4.")
    return int.from_bytes(header[2:6], "big"), address(header[6:10])


def rules_of(message: Message) -> Rules:
    """The rules of a Session Establishment Request.

    Raises:
        MissingError: a mandatory element is missing.
        ProtocolError: the rules are not those of a default bearer.
    """
    ue, apn, uplink, tunnel_seen = "", "", None, False
    for ie in message.ies:
        if ie.type != CREATE_PDR:
            continue
        pdi = decode_ies(need(decode_ies(ie.value), PDI))
        apn = next((i.value.decode("ascii", "replace") for i in pdi if i.type == 22), apn)
        if number(need(pdi, SOURCE_INTERFACE), 1) & 0x0F == ACCESS:
            octets = need(pdi, FTEID)
            tunnel_seen = True
            uplink = None if octets[:1] and octets[0] & 4 else fteid_of(octets)
        else:
            octets = need(pdi, UE_ADDRESS)
            if len(octets) < 5 or not octets[0] & 2:
                raise ProtocolError("The UE's address is not IPv4.")
            ue = address(octets[1:5])
    if not ue or not tunnel_seen:
        raise ProtocolError("The session has not one PDR of each direction.")
    enb = None
    for ie in message.ies:
        if ie.type == CREATE_FAR:
            far = decode_ies(ie.value)
            if number(need(far, FAR_ID), 4) == DOWNLINK:
                enb = _enb_of(far, FORWARDING)
    return Rules(ue, apn, uplink, enb)


def new_enb(message: Message) -> tuple[int, str] | None:
    """The eNB's end out of a Session Modification Request, None to drop."""
    far = decode_ies(message.need(UPDATE_FAR))
    return _enb_of(far, UPDATE_FORWARDING)


def established(seid: int, own: int, node: str, uplink: tuple[int, str]) -> Message:
    """Session Establishment Response to the CP's ``seid`` with our SEID and uplink F-TEID."""
    created = [Ie(PDR_ID, UPLINK.to_bytes(2, "big")), fteid(*uplink)]
    return Message(
        ESTABLISHMENT_RESPONSE,
        seid,
        (
            node_id(node),
            cause(ACCEPTED),
            fseid(own, node),
            Ie(CREATED_PDR, encode_ies(created)),
        ),
    )


def created_tunnel(message: Message) -> tuple[int, str]:
    """The uplink F-TEID out of a Session Establishment Response."""
    return fteid_of(need(decode_ies(message.need(CREATED_PDR)), FTEID))
