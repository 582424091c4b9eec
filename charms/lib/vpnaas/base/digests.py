"""Digests that name a text where the text itself is too long."""

import hashlib


def digest(text: str) -> str:
    """Return a short name for a public text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
