"""NGAP (3GPP TS 38.413) by pycrate's ASN.1: messages as a name and elements by their types.

Procedure codes, identifiers and criticalities come out of the specification's own tables.
"""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass, field
from typing import Any

from pycrate_asn1dir import NGAP
from pycrate_core.utils import PycrateErr

from simulators.errors import ProtocolError
from simulators.identity import Plmn

PORT = 38412
#: Payload protocol identifier of NGAP (TS 38.412 section 7).
PPID = 60

_PDU = NGAP.NGAP_PDU_Descriptions.NGAP_PDU

_OUTCOMES = {
    "InitiatingMessage": "initiatingMessage",
    "SuccessfulOutcome": "successfulOutcome",
    "UnsuccessfulOutcome": "unsuccessfulOutcome",
}
#: Procedure code, choice and criticality of each message by its name.
_MESSAGES = {
    one[key]._typeref.called[1]: (one["procedureCode"], choice, one["criticality"])
    for one in NGAP.NGAP_PDU_Descriptions.NGAP_ELEMENTARY_PROCEDURES.get_val().root
    for key, choice in _OUTCOMES.items()
    if key in one
}


@functools.cache
def _elements(module: Any, message: str) -> dict[str, tuple[int, str]]:
    """Identifier and criticality of a message's elements by their types, the first of each."""
    names = (f"{message}IEs", f"{message}_IEs")
    table = next(getattr(module, name) for name in names if hasattr(module, name))
    found = table.get_val()
    known: dict[str, tuple[int, str]] = {}
    for one in (*found.root, *(found.ext or ())):
        reference = one["Value"]._typeref  # one element has no type of a name, and is not for us
        if reference is not None:
            known.setdefault(reference.called[1], (one["id"], one["criticality"]))
    return known


def _listed(module: Any, message: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Elements in the specification's order."""
    known = _elements(module, message)
    if not values.keys() <= known.keys():
        raise KeyError(f"{message}: {sorted(set(values) - set(known))}")
    return [
        {"id": number, "criticality": criticality, "value": (kind, values[kind])}
        for kind, (number, criticality) in known.items()
        if kind in values
    ]


@dataclass(frozen=True)
class Message:
    """A message: its name in the specification, and its elements by their types."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)

    def need(self, name: str) -> Any:
        """The value of an element.

        Raises:
            ProtocolError: it is missing.
        """
        if name not in self.values:
            raise ProtocolError(f"{self.name} lacks {name}.")
        return self.values[name]


def encode(name: str, values: dict[str, Any]) -> bytes:
    """The octets of a message (aligned PER)."""
    code, choice, criticality = _MESSAGES[name]
    content = (name, {"protocolIEs": _listed(NGAP.NGAP_PDU_Contents, name, values)})
    _PDU.set_val((choice, {"procedureCode": code, "criticality": criticality, "value": content}))
    return bytes(_PDU.to_aper())


_ERRORS = (PycrateErr, KeyError, ValueError, TypeError, IndexError, AssertionError)


def decode(octets: bytes) -> Message:
    """The message of octets.

    Raises:
        ProtocolError: they are no NGAP message.
    """
    try:
        _PDU.from_aper(octets)
        _, outer = _PDU.get_val()
        name, content = outer["value"]
        return Message(name, {e["value"][0]: e["value"][1] for e in content["protocolIEs"]})
    except _ERRORS as error:
        raise ProtocolError(f"not NGAP: {error}") from None


def transfer(kind: str, value: dict[str, Any]) -> bytes:
    """The octets of what SMF and gNB tell each other through the AMF (TS 38.413 section 9.3.4).

    ``value`` has elements by their types where the specification lists elements.
    """
    made = getattr(NGAP.NGAP_IEs, kind)
    if "protocolIEs" in made._cont:
        value = {"protocolIEs": _listed(NGAP.NGAP_IEs, kind, value)}
    made.set_val(value)
    return bytes(made.to_aper())


def transfer_of(kind: str, octets: bytes) -> dict[str, Any]:
    """Read the octets that :func:`transfer` makes.

    Raises:
        ProtocolError: they are something else.
    """
    made = getattr(NGAP.NGAP_IEs, kind)
    try:
        made.from_aper(octets)
        value: dict[str, Any] = made.get_val()
    except _ERRORS as error:
        raise ProtocolError(f"not {kind}: {error}") from None
    if "protocolIEs" in value:
        return {e["value"][0]: e["value"][1] for e in value["protocolIEs"]}
    return value


def octets_of(kind: str, value: Any) -> bytes:
    """A transfer's octets out of a decoded message, where pycrate has read it already."""
    if isinstance(value, bytes):
        return value
    made = getattr(NGAP.NGAP_IEs, kind)
    made.set_val(value[1])
    return bytes(made.to_aper())


def tai(plmn: Plmn, tac: int) -> dict[str, bytes]:
    """A TAI."""
    return {"pLMNIdentity": plmn.octets, "tAC": tac.to_bytes(3, "big")}


def place(plmn: Plmn, cell: int, tac: int) -> tuple[str, dict[str, Any]]:
    """User location information: cell (36 bits) and TAI."""
    where = {"pLMNIdentity": plmn.octets, "nRCellIdentity": (cell, 36)}
    return "userLocationInformationNR", {"nR-CGI": where, "tAI": tai(plmn, tac)}


def tunnel(address: str, teid: int) -> tuple[str, dict[str, Any]]:
    """An end of a GTP-U tunnel."""
    number = int(ipaddress.IPv4Address(address))
    return "gTPTunnel", {
        "transportLayerAddress": (number, 32),
        "gTP-TEID": teid.to_bytes(4, "big"),
    }


def tunnel_of(value: tuple[str, dict[str, Any]]) -> tuple[str, int]:
    """Address and TEID of an end of a GTP-U tunnel."""
    number, size = value[1]["transportLayerAddress"]
    if size not in (32, 160):  # IPv4, or IPv4 and IPv6 (TS 38.414 section 5.1)
        raise ProtocolError("A transport layer address is not IPv4.")
    address = str(ipaddress.IPv4Address(number >> (size - 32)))
    return address, int.from_bytes(value[1]["gTP-TEID"], "big")
