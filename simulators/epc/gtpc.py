"""GTPv2-C on S11 (3GPP TS 29.274): messages and information elements that an attach needs."""

import struct
from dataclasses import dataclass

from simulators.errors import ProtocolError
from simulators.shared.identity import Plmn, Tai, digits_of, tbcd
from simulators.transport.tlv import (
    Codec,
    Ie,
    Message,
    address,
    labels,
    name_of,
    need,
    number,
    packed,
)

PORT = 2123

# Message types, table 6.1-1.
ECHO_REQUEST, ECHO_RESPONSE = 1, 2
CREATE_SESSION_REQUEST, CREATE_SESSION_RESPONSE = 32, 33
MODIFY_BEARER_REQUEST, MODIFY_BEARER_RESPONSE = 34, 35
DELETE_SESSION_REQUEST, DELETE_SESSION_RESPONSE = 36, 37
RELEASE_ACCESS_REQUEST, RELEASE_ACCESS_RESPONSE = 170, 171
_REQUESTS = frozenset([1, 32, 34, 36, 99, 170])

# Types of information elements, table 8.1-1.
IMSI, CAUSE, RECOVERY, APN, AMBR, EBI, MSISDN = 1, 2, 3, 71, 72, 73, 76
INDICATION, PCO, PAA, BEARER_QOS, RAT_TYPE, SERVING_NETWORK, ULI = 77, 78, 79, 80, 82, 83, 86
FTEID, BEARER_CONTEXT, CHARGING_ID, PDN_TYPE = 87, 93, 94, 99
APN_RESTRICTION, SELECTION_MODE = 127, 128

# Causes, table 8.4-1.
ACCEPTED, CONTEXT_NOT_FOUND, INVALID_FORMAT = 16, 64, 65
MANDATORY_MISSING, SYSTEM_FAILURE, NO_RESOURCES = 70, 72, 73
UNKNOWN_APN, NO_ADDRESS, PEER_SILENT = 78, 84, 100
CAUSES = {
    ACCEPTED: "Request accepted",
    CONTEXT_NOT_FOUND: "Context not found",
    INVALID_FORMAT: "Invalid message format",
    MANDATORY_MISSING: "Mandatory IE missing",
    SYSTEM_FAILURE: "System failure",
    NO_RESOURCES: "No resources available",
    UNKNOWN_APN: "Missing or unknown APN",
    NO_ADDRESS: "All dynamic addresses are occupied",
    PEER_SILENT: "Remote peer not responding",
}

# Interface types of F-TEIDs, section 8.22.
S1U_ENB, S1U_SGW, S5_PGW_U, S5_PGW_C, S11_MME, S11_SGW = 0, 1, 5, 7, 10, 11

_EUTRAN, _IPV4 = 6, 1


CODEC = Codec("GTPv2-C", 2, 0x08, 4, _REQUESTS, struct.Struct("!BHB"))
"""TS 29.274, sections 5.1 and 8.2: the last octet of an element's header is its instance."""


@dataclass(frozen=True)
class Fteid:
    """A fully qualified TEID: the address and number of one end of a tunnel."""

    interface: int
    teid: int
    address: str

    def ie(self, instance: int = 0) -> Ie:
        """The information element (section 8.22)."""
        octets = bytes([0x80 | self.interface]) + self.teid.to_bytes(4, "big")
        return Ie(FTEID, octets + packed(self.address), instance)

    @classmethod
    def decode(cls, octets: bytes) -> "Fteid":
        if len(octets) < 9 or not octets[0] & 0x80:
            raise ProtocolError("An F-TEID has no IPv4 address.")
        return cls(octets[0] & 0x3F, int.from_bytes(octets[1:5], "big"), address(octets[5:9]))


def cause(value: int) -> Ie:
    return Ie(CAUSE, bytes([value, 0]))


def cause_of(message: Message) -> int:
    return number(message.need(CAUSE), 1)


def bearer_of(message: Message) -> tuple[Ie, ...]:
    return CODEC.decode_ies(message.need(BEARER_CONTEXT))


def _bearer(*ies: Ie) -> Ie:
    return Ie(BEARER_CONTEXT, CODEC.encode_ies(ies))


def _qos() -> Ie:
    # Priority level 15, no pre-emption, QCI 9, no bit rates: the default bearer (section 8.15).
    return Ie(BEARER_QOS, bytes([0x7C, 9]) + bytes(20))


@dataclass(frozen=True)
class SessionRequest:
    """The content of a Create Session Request."""

    # `imsi`, `msisdn`: the subscriber.
    imsi: str
    msisdn: str
    apn: str  # access point name.
    tai: Tai  # tracking area of the UE.
    cell: int  # E-UTRAN cell identifier, 28 bits.
    mme: Fteid  # the MME's end of the control tunnel.
    # `ambr_up`, `ambr_down`: APN aggregate bit rates, kbit/s.
    ambr_up: int
    ambr_down: int
    bearer: int = 5  # EPS bearer identity of the default bearer.
    options: bytes = b""  # protocol configuration options of the UE, octets as in NAS.

    def message(self, sgw: str) -> Message:
        """The request to the SGW at an address."""
        plmn = self.tai.plmn.octets
        place = b"\x18" + plmn + self.tai.tac.to_bytes(2, "big") + plmn
        rates = self.ambr_up.to_bytes(4, "big") + self.ambr_down.to_bytes(4, "big")
        ies = [
            Ie(IMSI, tbcd(self.imsi)),
            Ie(MSISDN, tbcd(self.msisdn)),
            Ie(ULI, place + self.cell.to_bytes(4, "big")),
            Ie(SERVING_NETWORK, plmn),
            Ie(RAT_TYPE, bytes([_EUTRAN])),
            self.mme.ie(),
            Fteid(S5_PGW_C, 0, sgw).ie(1),
            Ie(APN, labels(self.apn)),
            Ie(SELECTION_MODE, b"\0"),
            Ie(PDN_TYPE, bytes([_IPV4])),
            Ie(PAA, bytes([_IPV4]) + bytes(4)),
            Ie(APN_RESTRICTION, b"\0"),
            Ie(AMBR, rates),
        ]
        if self.options:
            ies.append(Ie(PCO, self.options))
        ies.append(_bearer(Ie(EBI, bytes([self.bearer])), _qos()))
        return Message(CREATE_SESSION_REQUEST, 0, tuple(ies))

    @classmethod
    def decode(cls, message: Message) -> "SessionRequest":
        """Read a request.

        Raises:
            MissingError: a mandatory element is missing.
        """
        imsi = digits_of(message.need(IMSI))
        place = message.find(ULI) or b""
        if len(place) < 13 or place[0] & 0x18 != 0x18:
            raise ProtocolError("The user location carries no TAI and ECGI.")
        rates = message.find(AMBR) or bytes(8)
        message.need(RAT_TYPE)
        bearer = bearer_of(message)
        need(bearer, BEARER_QOS)
        return cls(
            imsi,
            digits_of(message.find(MSISDN) or b""),
            name_of(message.need(APN)),
            Tai(Plmn.decode(place[1:4]), int.from_bytes(place[4:6], "big")),
            int.from_bytes(place[9:13], "big") & 0x0FFFFFFF,
            Fteid.decode(message.need(FTEID)),
            number(rates[:4], 4),
            number(rates[4:], 4),
            number(need(bearer, EBI), 1) & 0x0F,
            message.find(PCO) or b"",
        )


@dataclass(frozen=True)
class Session:
    """The content of a Create Session Response."""

    control: Fteid  # the SGW's end of the control tunnel.
    user: Fteid  # the SGW's end of the S1-U tunnel.
    address: str  # the UE's IPv4 address.
    options: bytes = b""  # protocol configuration options of the network.
    bearer: int = 5  # EPS bearer identity.

    def message(self, teid: int, restarts: int) -> Message:
        """The response to the MME's tunnel end ``teid``, with the SGW's restart counter."""
        ies = [
            cause(ACCEPTED),
            self.control.ie(),
            Fteid(S5_PGW_C, self.control.teid, self.control.address).ie(1),
            Ie(PAA, bytes([_IPV4]) + packed(self.address)),
            Ie(APN_RESTRICTION, b"\0"),
            Ie(RECOVERY, bytes([restarts & 0xFF])),
        ]
        if self.options:
            ies.append(Ie(PCO, self.options))
        ies.append(
            _bearer(
                Ie(EBI, bytes([self.bearer])),
                cause(ACCEPTED),
                self.user.ie(),
                Fteid(S5_PGW_U, self.user.teid, self.user.address).ie(2),
                _qos(),
                Ie(CHARGING_ID, self.user.teid.to_bytes(4, "big")),
            )
        )
        return Message(CREATE_SESSION_RESPONSE, teid, tuple(ies))

    @classmethod
    def decode(cls, message: Message) -> "Session":
        bearer = bearer_of(message)
        paa = message.need(PAA)
        return cls(
            Fteid.decode(message.need(FTEID)),
            Fteid.decode(need(bearer, FTEID)),
            address(paa[1:5]),
            message.find(PCO) or b"",
            number(need(bearer, EBI), 1) & 0x0F,
        )


def refusal(kind: int, teid: int, value: int, missing: int | None = None) -> Message:
    """A response that refuses; ``missing`` is the type of a missing element (section 8.4)."""
    octets = bytes([value, 0])
    if missing is not None:
        octets += bytes([missing, 0, 0, 0])
    return Message(kind, teid, (Ie(CAUSE, octets),))


def modify_request(teid: int, bearer: int, enb: Fteid) -> Message:
    """Return a Modify Bearer Request with the eNB's end for downlink packets."""
    context = _bearer(Ie(EBI, bytes([bearer])), enb.ie())
    return Message(MODIFY_BEARER_REQUEST, teid, (context,))


def modify_response(teid: int, bearer: int, user: Fteid) -> Message:
    """Modify Bearer Response, accepted."""
    context = _bearer(Ie(EBI, bytes([bearer])), cause(ACCEPTED), user.ie())
    return Message(MODIFY_BEARER_RESPONSE, teid, (cause(ACCEPTED), context))


def delete_request(teid: int, bearer: int) -> Message:
    return Message(
        DELETE_SESSION_REQUEST,
        teid,
        (Ie(EBI, bytes([bearer])), Ie(INDICATION, bytes([0x08, 0]))),  # operation indication
    )


def echo_response(restarts: int) -> Message:
    """Echo Response with the restart counter."""
    return Message(ECHO_RESPONSE, None, (Ie(RECOVERY, bytes([restarts & 0xFF])),))


def echo_request(restarts: int) -> Message:
    """Echo Request with the restart counter."""
    return Message(ECHO_REQUEST, None, (Ie(RECOVERY, bytes([restarts & 0xFF])),))
