"""Errors of the cluster."""

from lab.errors import LcmError


class ClusterError(LcmError):
    """A call or a process of the cluster failed; the text says why."""


TIMED_OUT = "Timed out waiting for action to complete"
"""LCM's words for a primitive that does not end in time."""
