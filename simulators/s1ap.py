"""S1AP (3GPP TS 36.413) by pycrate's ASN.1 runtime: messages as a name and named values."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

from pycrate_asn1dir import S1AP
from pycrate_core.utils import PycrateErr

from simulators.errors import ProtocolError
from simulators.identity import Plmn, Tai

PORT = 36412

_PDU = S1AP.S1AP_PDU_Descriptions.S1AP_PDU

INITIATING, SUCCESSFUL, UNSUCCESSFUL = (
    "initiatingMessage",
    "successfulOutcome",
    "unsuccessfulOutcome",
)

#: Procedure code, choice and criticality of each message (section 9.3.3).
_MESSAGES = {
    "S1SetupRequest": (17, INITIATING, "reject"),
    "S1SetupResponse": (17, SUCCESSFUL, "reject"),
    "S1SetupFailure": (17, UNSUCCESSFUL, "reject"),
    "InitialUEMessage": (12, INITIATING, "ignore"),
    "DownlinkNASTransport": (11, INITIATING, "ignore"),
    "UplinkNASTransport": (13, INITIATING, "ignore"),
    "InitialContextSetupRequest": (9, INITIATING, "reject"),
    "InitialContextSetupResponse": (9, SUCCESSFUL, "reject"),
    "InitialContextSetupFailure": (9, UNSUCCESSFUL, "reject"),
    "UEContextReleaseRequest": (18, INITIATING, "ignore"),
    "UEContextReleaseCommand": (23, INITIATING, "reject"),
    "UEContextReleaseComplete": (23, SUCCESSFUL, "reject"),
    "ErrorIndication": (15, INITIATING, "ignore"),
}

#: Identifier, criticality and type of the information elements we use, by our name.
_ELEMENTS = {
    "mme": (0, "reject", "MME-UE-S1AP-ID"),
    "cause": (2, "ignore", "Cause"),
    "enb": (8, "reject", "ENB-UE-S1AP-ID"),
    "setup": (24, "reject", "E-RABToBeSetupListCtxtSUReq"),
    "nas": (26, "reject", "NAS-PDU"),
    "bearers": (51, "ignore", "E-RABSetupListCtxtSURes"),
    "enb_id": (59, "reject", "Global-ENB-ID"),
    "enb_name": (60, "ignore", "ENBname"),
    "mme_name": (61, "ignore", "MMEname"),
    "areas": (64, "reject", "SupportedTAs"),
    "rates": (66, "reject", "UEAggregateMaximumBitrate"),
    "tai": (67, "reject", "TAI"),
    "key": (73, "reject", "SecurityKey"),
    "capacity": (87, "ignore", "RelativeMMECapacity"),
    "ids": (99, "reject", "UE-S1AP-IDs"),
    "cell": (100, "ignore", "EUTRAN-CGI"),
    "gummeis": (105, "reject", "ServedGUMMEIs"),
    "capabilities": (107, "reject", "UESecurityCapabilities"),
    "why": (134, "ignore", "RRC-Establishment-Cause"),
    "paging": (137, "ignore", "PagingDRX"),
}
_NAMES = {number: name for name, (number, _, _) in _ELEMENTS.items()}


@dataclass(frozen=True)
class Message:
    """A message: its name in the specification and its elements by our names."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)

    def need(self, name: str) -> Any:
        """The value of an element.

        Raises:
            ProtocolError: it is missing.
        """
        if name not in self.values:
            raise ProtocolError(f"{self.name} lacks {_ELEMENTS[name][2]}.")
        return self.values[name]


def encode(name: str, **values: Any) -> bytes:
    """The octets of a message (aligned PER)."""
    code, choice, criticality = _MESSAGES[name]
    elements = []
    for key, value in values.items():
        number, importance, kind = _ELEMENTS[key]
        elements.append({"id": number, "criticality": importance, "value": (kind, value)})
    content = (name, {"protocolIEs": elements})
    _PDU.set_val((choice, {"procedureCode": code, "criticality": criticality, "value": content}))
    return bytes(_PDU.to_aper())


def decode(octets: bytes) -> Message:
    """The message of octets.

    Raises:
        ProtocolError: they are no S1AP message.
    """
    try:
        _PDU.from_aper(octets)
        _, outer = _PDU.get_val()
        name, content = outer["value"]
        elements = content["protocolIEs"]
        values = {_NAMES[e["id"]]: e["value"][1] for e in elements if e["id"] in _NAMES}
    except (PycrateErr, KeyError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise ProtocolError(f"not S1AP: {error}") from None
    return Message(name, values)


# -- values ---------------------------------------------------------------------------------------


def tai(value: Tai) -> dict[str, bytes]:
    """A TAI."""
    return {"pLMNidentity": value.plmn.octets, "tAC": value.tac.to_bytes(2, "big")}


def tai_of(value: dict[str, bytes]) -> Tai:
    """A TAI read."""
    return Tai(Plmn.decode(value["pLMNidentity"]), int.from_bytes(value["tAC"], "big"))


def cell(plmn: Plmn, number: int) -> dict[str, Any]:
    """An E-UTRAN CGI."""
    return {"pLMNidentity": plmn.octets, "cell-ID": (number, 28)}


def areas_of(value: list[dict[str, Any]]) -> set[Tai]:
    """All TAIs of a list of supported areas."""
    return {
        Tai(Plmn.decode(plmn), int.from_bytes(area["tAC"], "big"))
        for area in value
        for plmn in area["broadcastPLMNs"]
    }


def _address(text: str) -> tuple[int, int]:
    return int(ipaddress.IPv4Address(text)), 32


def address_of(value: tuple[int, int]) -> str:
    """The IPv4 address of a transport layer address."""
    number, size = value
    if size not in (32, 160):  # IPv4, or IPv4 and IPv6 (TS 36.414 section 5.3)
        raise ProtocolError("A transport layer address is not IPv4.")
    return str(ipaddress.IPv4Address(number >> (size - 32)))


def bearer_to_set_up(number: int, address: str, teid: int, nas: bytes) -> list[dict[str, Any]]:
    """The list with the default bearer of an Initial Context Setup Request."""
    priority = {
        "priorityLevel": 15,
        "pre-emptionCapability": "shall-not-trigger-pre-emption",
        "pre-emptionVulnerability": "not-pre-emptable",
    }
    item = {
        "e-RAB-ID": number,
        "e-RABlevelQoSParameters": {"qCI": 9, "allocationRetentionPriority": priority},
        "transportLayerAddress": _address(address),
        "gTP-TEID": teid.to_bytes(4, "big"),
        "nAS-PDU": nas,
    }
    value = ("E-RABToBeSetupItemCtxtSUReq", item)
    return [{"id": 52, "criticality": "reject", "value": value}]


def bearer_set_up(number: int, address: str, teid: int) -> list[dict[str, Any]]:
    """The list of an Initial Context Setup Response."""
    item = {
        "e-RAB-ID": number,
        "transportLayerAddress": _address(address),
        "gTP-TEID": teid.to_bytes(4, "big"),
    }
    return [{"id": 50, "criticality": "ignore", "value": ("E-RABSetupItemCtxtSURes", item)}]


def first_bearer(value: list[dict[str, Any]]) -> tuple[int, str, int, bytes]:
    """Number, address, TEID and NAS message of the first bearer of either list."""
    if not value:
        raise ProtocolError("A list of bearers is empty.")
    item = value[0]["value"][1]
    return (
        item["e-RAB-ID"],
        address_of(item["transportLayerAddress"]),
        int.from_bytes(item["gTP-TEID"], "big"),
        item.get("nAS-PDU", b""),
    )


def capabilities(octets: bytes) -> dict[str, Any]:
    """UE security capabilities out of the UE network capability: EEA1..3 and EIA1..3 first."""
    return {
        "encryptionAlgorithms": ((octets[0] & 0x7F) << 9, 16),
        "integrityProtectionAlgorithms": ((octets[1] & 0x7F) << 9, 16),
    }
