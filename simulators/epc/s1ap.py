"""S1AP (3GPP TS 36.413): its messages by pycrate, and the values in them."""

from typing import Any

from pycrate_asn1dir import S1AP

from simulators.errors import ProtocolError
from simulators.shared.identity import Plmn, Tai
from simulators.transport import asn1
from simulators.transport.asn1 import address, address_of

PROTOCOL = asn1.Protocol(
    "S1AP",
    S1AP,
    port=36412,
    ppid=18,  # TS 36.412 section 7
    setup="S1Setup",
    identifiers=("MME-UE-S1AP-ID", "ENB-UE-S1AP-ID"),
    unknown="unknown-enb-ue-s1ap-id",
)


def tai(value: Tai) -> dict[str, bytes]:
    return {"pLMNidentity": value.plmn.octets, "tAC": value.tac.to_bytes(2, "big")}


def tai_of(value: dict[str, bytes]) -> Tai:
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


def bearer_to_set_up(number: int, end: str, teid: int, nas: bytes) -> list[dict[str, Any]]:
    """The list with the default bearer of an Initial Context Setup Request."""
    priority = {
        "priorityLevel": 15,
        "pre-emptionCapability": "shall-not-trigger-pre-emption",
        "pre-emptionVulnerability": "not-pre-emptable",
    }
    item = {
        "e-RAB-ID": number,
        "e-RABlevelQoSParameters": {"qCI": 9, "allocationRetentionPriority": priority},
        "transportLayerAddress": address(end),
        "gTP-TEID": teid.to_bytes(4, "big"),
        "nAS-PDU": nas,
    }
    value = ("E-RABToBeSetupItemCtxtSUReq", item)
    return [{"id": 52, "criticality": "reject", "value": value}]


def bearer_set_up(number: int, end: str, teid: int) -> list[dict[str, Any]]:
    """The list of an Initial Context Setup Response."""
    item = {
        "e-RAB-ID": number,
        "transportLayerAddress": address(end),
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
    """UE security capabilities from the UE network capability: EEA1..3 and EIA1..3 come first."""
    return {
        "encryptionAlgorithms": ((octets[0] & 0x7F) << 9, 16),
        "integrityProtectionAlgorithms": ((octets[1] & 0x7F) << 9, 16),
    }
