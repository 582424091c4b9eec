"""Errors of the lab's northbound and lifecycle sides."""

from __future__ import annotations


class NbiError(Exception):
    """A request the lab refuses; the text is one sentence, in NBI's own words where it has any."""


class LcmError(Exception):
    """A step of an operation failed; the text is OSM's own where OSM has one."""
