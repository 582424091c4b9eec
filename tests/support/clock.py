"""libfaketime, by which a program has a clock of its own."""

from __future__ import annotations

import glob


def library() -> str:
    """Return the path of what is preloaded, "" where it is not installed."""
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), "")
