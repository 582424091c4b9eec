"""Operator tasks that need more than single commands of `osm`; they use the `osm` client or NBI."""
