"""Errors of the cluster."""

from __future__ import annotations

from lab.errors import LcmError


class ClusterError(LcmError):
    """The cluster cannot do what it was asked; the text says why."""
