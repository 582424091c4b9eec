"""Errors of the cluster."""

from __future__ import annotations

from lab.errors import LcmError


class ClusterError(LcmError):
    """A call or a process of the cluster failed; the text says why."""
