"""NGAP (3GPP TS 38.413): messages by pycrate, and values in them."""

from typing import Any

from pycrate_asn1dir import NGAP

from simulators.errors import ProtocolError
from simulators.shared.identity import Plmn
from simulators.transport import asn1

PROTOCOL = asn1.Protocol(
    "NGAP",
    NGAP,
    port=38412,
    ppid=60,  # TS 38.412 section 7
    setup="NGSetup",
    identifiers=("AMF-UE-NGAP-ID", "RAN-UE-NGAP-ID"),
    unknown="unknown-local-UE-NGAP-ID",
)


def transfer(kind: str, value: dict[str, Any]) -> bytes:
    """Return the octets of a transfer between SMF and gNB through the AMF (TS 38.413, 9.3.4).

    If the specification lists elements, ``value`` has them by their types.
    """
    made = getattr(NGAP.NGAP_IEs, kind)
    if "protocolIEs" in made._cont:
        value = {"protocolIEs": asn1.elements(NGAP.NGAP_IEs, kind, value)}
    made.set_val(value)
    return bytes(made.to_aper())


def transfer_of(kind: str, octets: bytes) -> dict[str, Any]:
    """Decode the octets of a transfer, see :func:`transfer`."""
    made = getattr(NGAP.NGAP_IEs, kind)
    try:
        made.from_aper(octets)
        value: dict[str, Any] = made.get_val()
    except asn1.ERRORS as error:
        raise ProtocolError(f"not {kind}: {error}") from None
    if "protocolIEs" in value:
        return {e["value"][0]: e["value"][1] for e in value["protocolIEs"]}
    return value


def octets_of(kind: str, value: Any) -> bytes:
    """Return a transfer's octets from a decoded message, also if pycrate has decoded them too."""
    if isinstance(value, bytes):
        return value
    made = getattr(NGAP.NGAP_IEs, kind)
    made.set_val(value[1])
    return bytes(made.to_aper())


def tai(plmn: Plmn, tac: int) -> dict[str, bytes]:
    return {"pLMNIdentity": plmn.octets, "tAC": tac.to_bytes(3, "big")}


def place(plmn: Plmn, cell: int, tac: int) -> tuple[str, dict[str, Any]]:
    """User location information: cell (36 bits) and TAI."""
    where = {"pLMNIdentity": plmn.octets, "nRCellIdentity": (cell, 36)}
    return "userLocationInformationNR", {"nR-CGI": where, "tAI": tai(plmn, tac)}


def tunnel(address: str, teid: int) -> tuple[str, dict[str, Any]]:
    end = {"transportLayerAddress": asn1.address(address), "gTP-TEID": teid.to_bytes(4, "big")}
    return "gTPTunnel", end


def tunnel_of(value: tuple[str, dict[str, Any]]) -> tuple[str, int]:
    """Address and TEID of an end of a GTP-U tunnel."""
    end = value[1]
    return asn1.address_of(end["transportLayerAddress"]), int.from_bytes(end["gTP-TEID"], "big")
