"""Instantiation parameters together with their service."""

from dataclasses import dataclass

from builder.validate.context import Catalog, Document
from builder.validate.problem import Reporter


@dataclass(frozen=True)
class Request(Reporter):
    """Parameters of a service, and the service.

    Attributes:
        document: The parameters in the form of their schema.
        nsd: Body of the NSD.
        vnfds: VNFD body by member-vnf-index, {} if it is not available.
        catalog: Packages and descriptors for look-ups.
        where: Name of the file, for messages.
    """

    document: Document
    nsd: Document
    vnfds: dict[str, Document]
    catalog: Catalog
    where: str

    def at(self, place: str) -> str:
        """Return a place of the parameters, for messages."""
        return f"{self.where}: {place}"
