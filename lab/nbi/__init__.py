"""Northbound side of the lab: catalogues, records, and the checks of OSM's NBI."""
