"""PFCP on SXab and N4 (3GPP TS 29.244): association, heartbeat, sessions of one bearer or flow."""

import struct
import time
from dataclasses import dataclass

from simulators.errors import ProtocolError
from simulators.transport.tlv import (
    Codec,
    Ie,
    Message,
    MissingError,
    address,
    find,
    labels,
    name_of,
    need,
    number,
    packed,
)

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
CREATE_QER, GATE_STATUS, QER_ID, QFI = 7, 25, 109, 124

# Causes, table 8.2.1-1.
ACCEPTED, REJECTED, SESSION_NOT_FOUND, MANDATORY_MISSING = 1, 64, 65, 66
NO_ASSOCIATION, RULE_FAILURE, NO_RESOURCES, SYSTEM_FAILURE = 72, 73, 75, 77

ACCESS, CORE = 0, 1  # interfaces, sections 8.2.2 and 8.2.24
DROP, FORWARD, BUFFER = 1, 2, 4  # bits of Apply Action, section 8.2.26
_GTPU_IPV4 = 0x0100  # Outer Header Creation Description, section 8.2.56
_NTP = 2208988800  # seconds from 1900 to 1970

UPLINK, DOWNLINK = 1, 2  # our identifiers of PDRs and FARs


CODEC = Codec("PFCP", 1, 0x01, 8, _REQUESTS, struct.Struct("!HH"))
"""TS 29.244, sections 7.2 and 8.1."""


def timestamp() -> int:
    """Return the present time in NTP seconds, for a Recovery Time Stamp."""
    return (int(time.time()) + _NTP) & 0xFFFFFFFF


def node_id(text: str) -> Ie:
    """A Node ID: an IPv4 address, or else a host name (section 8.2.38)."""
    try:
        return Ie(NODE_ID, b"\0" + packed(text))
    except ValueError:
        return Ie(NODE_ID, b"\x02" + labels(text))


def node_of(octets: bytes) -> str:
    kind = number(octets, 1) & 0x0F
    if kind == 0:
        return address(octets[1:])
    if kind == 2:
        return name_of(octets[1:])
    raise ProtocolError("The Node ID is neither an IPv4 address nor a name.")


def recovery(stamp: int) -> Ie:
    return Ie(RECOVERY, stamp.to_bytes(4, "big"))


def cause(value: int) -> Ie:
    return Ie(CAUSE, bytes([value]))


def cause_of(message: Message) -> int:
    return number(message.need(CAUSE), 1)


def fseid(seid: int, text: str) -> Ie:
    return Ie(FSEID, b"\x02" + seid.to_bytes(8, "big") + packed(text))


def fseid_of(octets: bytes) -> tuple[int, str]:
    if len(octets) < 13 or not octets[0] & 2:
        raise ProtocolError("An F-SEID has no IPv4 address.")
    return int.from_bytes(octets[1:9], "big"), address(octets[9:13])


def fteid(teid: int, text: str) -> Ie:
    """An F-TEID with an IPv4 address (section 8.2.3)."""
    return Ie(FTEID, b"\x01" + teid.to_bytes(4, "big") + packed(text))


def fteid_of(octets: bytes) -> tuple[int, str]:
    if len(octets) < 9 or octets[0] & 5 != 1:
        raise ProtocolError("An F-TEID has no IPv4 address.")
    return int.from_bytes(octets[1:5], "big"), address(octets[5:9])


_FLOW = Ie(QER_ID, (1).to_bytes(4, "big"))
_CHOOSE = Ie(FTEID, b"\x05")  # the UP function chooses TEID and IPv4 address


@dataclass(frozen=True)
class Pdr:
    """A packet detection rule of a default bearer."""

    number: int  # its rule identifier.
    uplink: bool  # whether it is for packets from the access side, not from the core.
    far: int  # identifier of its forwarding action rule.
    ue: str  # the UE's IPv4 address.
    # TEID and address for uplink packets, None if the UP function chooses them.
    tunnel: tuple[int, str] | None = None

    def ie(self, apn: str, qfi: int | None = None) -> Ie:
        """Return the Create PDR element; the APN is the network instance; ``qfi`` is for 5G."""
        interface = Ie(SOURCE_INTERFACE, bytes([ACCESS if self.uplink else CORE]))
        # The UE's address is the source of uplink packets and the destination of downlink ones.
        known = [Ie(NETWORK_INSTANCE, apn.encode())]
        known.append(Ie(UE_ADDRESS, (b"\x02" if self.uplink else b"\x06") + packed(self.ue)))
        if self.uplink:
            known.insert(0, _CHOOSE if self.tunnel is None else fteid(*self.tunnel))
            if qfi is not None:
                known.append(Ie(QFI, bytes([qfi])))
        ies = [
            Ie(PDR_ID, self.number.to_bytes(2, "big")),
            Ie(PRECEDENCE, (65000).to_bytes(4, "big")),
            Ie(PDI, CODEC.encode_ies([interface, *known])),
        ]
        if self.uplink:
            # In 5G remove also the extension header with the QFI (section 8.2.64).
            ies.append(Ie(OUTER_REMOVAL, b"\0" if qfi is None else b"\0\1"))
        ies.append(Ie(FAR_ID, self.far.to_bytes(4, "big")))
        if qfi is not None:
            ies.append(_FLOW)
        return Ie(CREATE_PDR, CODEC.encode_ies(ies))


def _far(kind: int, number_: int, action: int, *forwarding: Ie) -> Ie:
    ies = [Ie(FAR_ID, number_.to_bytes(4, "big")), Ie(APPLY_ACTION, bytes([action]))]
    if forwarding:
        inner = FORWARDING if kind == CREATE_FAR else UPDATE_FORWARDING
        ies.append(Ie(inner, CODEC.encode_ies(forwarding)))
    return Ie(kind, CODEC.encode_ies(ies))


def _downlink_far(kind: int, enb: tuple[int, str] | None) -> Ie:
    if enb is None:
        return _far(kind, DOWNLINK, DROP)
    teid, text = enb
    header = _GTPU_IPV4.to_bytes(2, "big") + teid.to_bytes(4, "big") + packed(text)
    to_access = Ie(DESTINATION_INTERFACE, bytes([ACCESS]))
    return _far(kind, DOWNLINK, FORWARD, to_access, Ie(OUTER_CREATION, header))


def establishment(
    node: str,
    seid: int,
    ue: str,
    apn: str,
    tunnel: tuple[int, str] | None = None,
    qfi: int | None = None,
) -> Message:
    """Session Establishment Request of the CP function ``node`` with its SEID: only the uplink.

    OAI's SPGW-C and SMF do the same, because the base station's end is not known yet.
    """
    rule = (_FLOW, Ie(GATE_STATUS, b"\0"), Ie(QFI, bytes([qfi or 0])))
    ies = (
        node_id(node),
        fseid(seid, node),
        Pdr(UPLINK, True, UPLINK, ue, tunnel).ie(apn, qfi),
        _far(CREATE_FAR, UPLINK, FORWARD, Ie(DESTINATION_INTERFACE, bytes([CORE]))),
        *(() if qfi is None else (Ie(CREATE_QER, CODEC.encode_ies(rule)),)),
        Ie(PDN_TYPE, b"\x01"),
    )
    return Message(ESTABLISHMENT_REQUEST, 0, ies)


def downlink(seid: int, ue: str, apn: str, enb: tuple[int, str], qfi: int | None = None) -> Message:
    """Session Modification Request that adds the rules of the downlink, to the base station."""
    pdr = Pdr(DOWNLINK, False, DOWNLINK, ue).ie(apn, qfi)
    return Message(MODIFICATION_REQUEST, seid, (pdr, _downlink_far(CREATE_FAR, enb)))


def modification(seid: int, enb: tuple[int, str] | None) -> Message:
    """Session Modification Request: downlink packets go to another eNB, or are dropped."""
    return Message(MODIFICATION_REQUEST, seid, (_downlink_far(UPDATE_FAR, enb),))


def pdrs_of(message: Message) -> tuple[Pdr, ...]:
    """The rules that a request creates.

    Raises:
        MissingError: a mandatory element is missing.
    """
    result = []
    for ie in message.ies:
        if ie.type != CREATE_PDR:
            continue
        ies = CODEC.decode_ies(ie.value)
        pdi = CODEC.decode_ies(need(ies, PDI))
        uplink = number(need(pdi, SOURCE_INTERFACE), 1) & 0x0F == ACCESS
        octets = need(pdi, UE_ADDRESS)
        if len(octets) < 5 or not octets[0] & 2:
            raise ProtocolError("The UE's address is not IPv4.")
        tunnel = None
        if uplink:
            own = need(pdi, FTEID)
            tunnel = None if own[:1] and own[0] & 4 else fteid_of(own)
        numbers = number(need(ies, PDR_ID), 2), number(need(ies, FAR_ID), 4)
        result.append(Pdr(numbers[0], uplink, numbers[1], address(octets[1:5]), tunnel))
    return tuple(result)


def qfi_of(message: Message) -> int | None:
    """The QoS flow of a request's first QER."""
    rule = message.find(CREATE_QER)
    value = None if rule is None else find(CODEC.decode_ies(rule), QFI)
    return None if value is None else number(value, 1) & 0x3F


def fars_of(message: Message) -> dict[int, tuple[bool | None, tuple[int, str] | None]]:
    """Return what a request says of forwarding rules, by rule identifier.

    This is whether the rule forwards packets, and the tunnel (TEID and address) to which. None is
    what the request does not say; of a changed rule it stays (section 7.5.4.3).
    """
    result: dict[int, tuple[bool | None, tuple[int, str] | None]] = {}
    for ie in message.ies:
        if ie.type not in (CREATE_FAR, UPDATE_FAR):
            continue
        ies = CODEC.decode_ies(ie.value)
        end = None
        inner = find(ies, FORWARDING if ie.type == CREATE_FAR else UPDATE_FORWARDING)
        action = find(ies, APPLY_ACTION)
        if action is None and ie.type == CREATE_FAR:
            raise MissingError(APPLY_ACTION)
        if inner is not None:
            header = find(CODEC.decode_ies(inner), OUTER_CREATION)
            if header is not None:
                if len(header) < 10 or int.from_bytes(header[:2], "big") & _GTPU_IPV4 == 0:
                    raise ProtocolError("The outer header is not GTP-U over IPv4.")
                end = int.from_bytes(header[2:6], "big"), address(header[6:10])
        forwards = None if action is None else bool(number(action[:1]) & FORWARD)
        result[number(need(ies, FAR_ID), 4)] = forwards, end
    return result


def established(seid: int, own: int, node: str, pdr: int, uplink: tuple[int, str]) -> Message:
    """Session Establishment Response to the CP's ``seid`` with our SEID and uplink F-TEID."""
    created = [Ie(PDR_ID, pdr.to_bytes(2, "big")), fteid(*uplink)]
    return Message(
        ESTABLISHMENT_RESPONSE,
        seid,
        (
            node_id(node),
            cause(ACCEPTED),
            fseid(own, node),
            Ie(CREATED_PDR, CODEC.encode_ies(created)),
        ),
    )


def created_tunnel(message: Message) -> tuple[int, str]:
    """The uplink F-TEID out of a Session Establishment Response."""
    return fteid_of(need(CODEC.decode_ies(message.need(CREATED_PDR)), FTEID))
