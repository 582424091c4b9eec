"""Instantiation parameters together with their service."""

from __future__ import annotations

from dataclasses import dataclass

from builder.validate.context import Catalog, Document
from builder.validate.problem import Problem


@dataclass(frozen=True)
class Request:
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

    def problem(self, code: str, place: str, sentence: str, message: str = "") -> Problem:
        """Make a problem at a place of the parameters."""
        return Problem(f"{self.where}: {place}", code, sentence, message)
