"""Shared library of the osm-vpnaas proxy charms.

Its packages are layers: base, params, vdu, peers, tunnels, features. The modules beside them are on
top. See docs/explanation/architecture.md.
"""
