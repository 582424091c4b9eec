"""Northbound side of the lab: catalogues, records, and what OSM's NBI refuses."""

from lab.nbi.errors import NbiError
from lab.nbi.store import Store

__all__ = ["NbiError", "Store"]
