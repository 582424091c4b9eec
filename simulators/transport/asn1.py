"""S1AP and NGAP by pycrate's ASN.1: a message is a name and elements by their types.

Procedure codes, identifiers and criticalities come from the specification's own tables.
"""

import functools
import ipaddress
from dataclasses import dataclass, field
from typing import Any

from pycrate_core.utils import PycrateErr

from simulators.errors import ProtocolError

_OUTCOMES = {
    "InitiatingMessage": "initiatingMessage",
    "SuccessfulOutcome": "successfulOutcome",
    "UnsuccessfulOutcome": "unsuccessfulOutcome",
}
#: Errors that pycrate raises for octets that it cannot decode.
ERRORS = (PycrateErr, KeyError, ValueError, TypeError, IndexError, AssertionError)


@functools.cache
def _elements(module: Any, message: str) -> dict[str, tuple[int, str]]:
    """Return identifier and criticality of a message's elements by type, the first of each type."""
    names = (f"{message}IEs", f"{message}_IEs")
    table = next(getattr(module, name) for name in names if hasattr(module, name)).get_val()
    known: dict[str, tuple[int, str]] = {}
    for one in (*table.root, *(table.ext or ())):
        reference = one["Value"]._typeref  # None for one element without a named type; not used
        if reference is not None:
            known.setdefault(reference.called[1], (one["id"], one["criticality"]))
    return known


def elements(module: Any, message: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the elements of a message in the specification's order."""
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
        """The value of an element."""
        if name not in self.values:
            raise ProtocolError(f"{self.name} lacks {name}.")
        return self.values[name]


class Protocol:
    """S1AP or NGAP: octets of messages (aligned PER).

    Attributes:
        name: the protocol's name.
        port, ppid: SCTP port and payload protocol identifier.
        setup: start of the names of the messages that set the interface up.
        identifiers: types of a UE's two identifiers, assigned by the core and the access node.
        unknown: cause of an error indication for a UE that the access node does not know.
    """

    def __init__(
        self,
        name: str,
        module: Any,
        port: int,
        ppid: int,
        setup: str,
        identifiers: tuple[str, str],
        unknown: str,
    ) -> None:
        self.name, self.port, self.ppid = name, port, ppid
        self.setup, self.identifiers, self.unknown = setup, identifiers, unknown
        descriptions = getattr(module, f"{name}_PDU_Descriptions")
        procedures = getattr(descriptions, f"{name}_ELEMENTARY_PROCEDURES").get_val().root
        self._pdu = getattr(descriptions, f"{name}_PDU")
        self._contents = getattr(module, f"{name}_PDU_Contents")
        self._messages = {  # procedure code, choice and criticality of each message
            one[key]._typeref.called[1]: (one["procedureCode"], choice, one["criticality"])
            for one in procedures
            for key, choice in _OUTCOMES.items()
            if key in one
        }

    def encode(self, name: str, values: dict[str, Any]) -> bytes:
        code, choice, criticality = self._messages[name]
        content = (name, {"protocolIEs": elements(self._contents, name, values)})
        value = {"procedureCode": code, "criticality": criticality, "value": content}
        self._pdu.set_val((choice, value))
        return bytes(self._pdu.to_aper())

    def decode(self, octets: bytes) -> Message:
        """Decode a message."""
        try:
            self._pdu.from_aper(octets)
            _, outer = self._pdu.get_val()
            name, content = outer["value"]
            return Message(name, {e["value"][0]: e["value"][1] for e in content["protocolIEs"]})
        except ERRORS as error:
            raise ProtocolError(f"not {self.name}: {error}") from None

    def pair(self, core_id: int, access_id: int) -> dict[str, Any]:
        """Return the element of a UE Context Release Command that identifies the UE."""
        ids = zip(self.identifiers, (core_id, access_id), strict=True)
        value = {kind[0].lower() + kind[1:]: number for kind, number in ids}
        return {f"UE-{self.name}-IDs": (f"uE-{self.name}-ID-pair", value)}

    def pair_of(self, message: Message) -> tuple[int, int]:
        """Return both identifiers in a UE Context Release Command, in the order of `pair`."""
        value = message.need(f"UE-{self.name}-IDs")[1]
        try:
            core_id, access_id = (value[kind[0].lower() + kind[1:]] for kind in self.identifiers)
        except (KeyError, TypeError):
            raise ProtocolError(f"{message.name} does not name the UE on both sides.") from None
        return core_id, access_id


def address_of(value: tuple[int, int]) -> str:
    """The IPv4 address of a transport layer address."""
    number, size = value
    if size not in (32, 160):  # IPv4, or IPv4 and IPv6 (TS 36.414 section 5.3, TS 38.414, 5.1)
        raise ProtocolError("A transport layer address is not IPv4.")
    return str(ipaddress.IPv4Address(number >> (size - 32)))


def address(text: str) -> tuple[int, int]:
    """The transport layer address of an IPv4 address."""
    return int(ipaddress.IPv4Address(text)), 32
