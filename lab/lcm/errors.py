"""Errors of the lifecycle side."""

from __future__ import annotations


class LcmError(Exception):
    """A step of an operation failed; the text is OSM's own where OSM has one."""
