"""Acceptance of an OSM: whether these packages work on it, asked over its own API."""
