"""Northbound side of the lab: catalogues, records, and what OSM's NBI refuses."""

from lab.errors import NbiError
from lab.records.store import Store

__all__ = ["NbiError", "Store"]
