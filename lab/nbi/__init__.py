"""Northbound side of the lab: catalogues, records, and the checks of OSM's NBI."""

from lab.errors import NbiError
from lab.records.store import Store

__all__ = ["NbiError", "Store"]
