"""Instantiation parameters together with their service."""

from dataclasses import dataclass

from builder.validate.context import Catalog, Document
from builder.validate.problem import Reporter


@dataclass(frozen=True)
class Request(Reporter):
    """Parameters of a service, and the service."""

    document: Document  # The parameters in the form of their schema.
    nsd: Document  # Body of the NSD.
    vnfds: dict[str, Document]  # VNFD body by member-vnf-index, {} if it is not available.
    catalog: Catalog  # Packages and descriptors for look-ups.
    where: str  # Name of the file, for messages.

    def at(self, place: str) -> str:
        """Return a place of the parameters, for messages."""
        return f"{self.where}: {place.removeprefix('/')}"
