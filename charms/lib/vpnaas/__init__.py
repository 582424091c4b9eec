"""Shared library of the osm-vpnaas proxy charms.

The modules fall into a pure core (no ops, no paramiko, no files), the VDU protocol (`steps`,
`agent`) and two edges (`ssh`, `charm`). See docs/explanation/architecture.md.
"""
