"""Lifecycle side of the lab: the order in which OSM's LCM calls RO and the VCA."""
