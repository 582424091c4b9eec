"""Digests that serve as short names of long texts."""

import hashlib


def digest(text: str) -> str:
    """Return a short name for a public text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
