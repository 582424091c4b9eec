"""Acceptance test of an OSM, over its API: do these packages work on it?"""
