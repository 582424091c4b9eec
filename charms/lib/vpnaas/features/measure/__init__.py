"""Measurements of links, and the servers at their other ends."""
