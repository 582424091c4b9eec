"""Parameters of each primitive and what comes of it; `samples.yaml` has them."""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from builder import documents


class Sample(NamedTuple):
    """Parameters of one primitive, and the expected result."""

    params: Mapping[str, Any]
    refusal: str = ""
    """Part of the charm's refusal, if it must refuse the primitive; "" if it must succeed."""


def samples(link: str, inner_address: str, peer: str) -> dict[str, Sample]:
    """Return a sample for each primitive, in the order of the calls.

    The peer is the Juju application at the other end.
    """
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    words = {"LINK": link, "ADDRESS": inner_address, "PEER": peer, "KEY": key}
    return {
        name: Sample(
            {key: words.get(value, value) for key, value in entry.get("params", {}).items()},
            entry.get("refusal", ""),
        )
        for name, entry in documents.read(Path(__file__).with_suffix(".yaml")).items()
    }
