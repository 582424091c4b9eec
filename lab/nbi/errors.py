"""The one error type of the northbound side."""

from __future__ import annotations


class NbiError(Exception):
    """A request the lab refuses; the text is one sentence, in NBI's own words where it has any."""
