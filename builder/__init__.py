"""Assembles OSM packages from the sources of this repository, and validates packages."""
