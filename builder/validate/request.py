"""Instantiation parameters together with their service."""

from dataclasses import dataclass

from builder.validate.context import Catalog, Document, numbered
from builder.validate.problem import Reporter


@dataclass(frozen=True)
class Request(Reporter):
    """Parameters of a service, and the service."""

    document: Document  # The parameters in the form of their schema.
    nsd: Document  # Body of the NSD.
    vnfds: dict[str, Document]  # VNFD body by member-vnf-index, {} if it is not available.
    catalog: Catalog  # Packages and descriptors for look-ups.
    where: str  # Name of the file, for messages.
    joined: frozenset[str] = frozenset()  # Links that a slice connects, and gives their subnets.

    def links(self) -> dict[str, tuple[str, Document]]:
        """Return (place, parameters) of each link that has some, by its name."""
        return {link["name"]: (at, link) for at, link in numbered("vld", self.document.get("vld"))}

    def members(self) -> dict[str, tuple[str, Document]]:
        """Return (place, entry) of each member's additionalParams, by its index."""
        key = "additionalParamsForVnf"
        return {m["member-vnf-index"]: (at, m) for at, m in numbered(key, self.document.get(key))}

    def params(self, index: str, target: str) -> tuple[str, Document]:
        """Return (place, additionalParams) for a day1-2 entry: a VDU's own, else the VNF's."""
        at, entry = self.members().get(index, ("", {}))
        key = "additionalParamsForVdu"
        for inner, vdu in numbered(f"{at}/{key}", entry.get(key)):
            if vdu["vdu_id"] == target and vdu.get("additionalParams"):
                return f"{inner}/additionalParams", vdu["additionalParams"]
        return f"{at}/additionalParams", entry.get("additionalParams") or {}

    def vims(self) -> dict[str, str]:
        """Return the VIM of each member of `vnf`, "" where it names none, by its index."""
        return {
            entry["member-vnf-index"]: entry.get("vim_account") or entry.get("vimAccountId") or ""
            for entry in self.document.get("vnf") or ()
        }

    def at(self, place: str) -> str:
        """Return a place of the parameters, for messages."""
        return f"{self.where}: {place.removeprefix('/')}"
