"""Ids and time stamps of records."""

import time
import uuid
from typing import Any


def new_id() -> str:
    """Return a fresh document id (UUID 4, as MongoDB-backed OSM uses)."""
    return str(uuid.uuid4())


def admin() -> dict[str, Any]:
    """Return the ``_admin`` part of a new document (time in seconds since the epoch)."""
    now = time.time()
    return {"created": now, "modified": now}
