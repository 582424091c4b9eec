"""Parameters by which each primitive is pressed once, on the link of the smallest service."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """How a primitive is pressed."""

    params: Mapping[str, Any]
    refusal: str = ""
    """Part of the text by which the charm must refuse; "" where it must do it."""


def samples(link: str, inner_address: str, peer: str) -> dict[str, Sample]:
    """Return a sample for each primitive, in the order in which they are pressed.

    Args:
        link: of the VNF.
        inner_address: its address in the tunnel.
        peer: application at the other end.
    """
    of_link = {"link": link}
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    stranger = {"name": "acceptance", "public-key": key, "allowed-prefixes": "10.99.99.99/32"}
    short = {"duration": 2}
    return {
        "verify-ssh-credentials": Sample({}),
        "run": Sample({"command": "true"}),
        "trust-host-key": Sample({}),
        "show-status": Sample({}),
        "configure": Sample({**of_link, "inner-address": inner_address}),
        "restart": Sample(of_link),
        "rotate-keys": Sample(of_link),
        "measure-latency": Sample({**of_link, "count": 5}),
        "measure-throughput": Sample({**of_link, **short}),
        "set-qos": Sample({**of_link, "five-qi": 0}),
        "show-qos": Sample({}),
        "configure-monitoring": Sample({}),
        "add-peer": Sample({**of_link, **stranger}),
        "delete-peer": Sample({**of_link, "name": "acceptance"}),
        "show-csr": Sample(of_link, "certificate"),
        "set-certificate": Sample(
            {**of_link, "certificate": "none", "ca-certificate": "none"}, "certificate"
        ),
        "set-enrolment": Sample(
            {**of_link, "server": "ra.example:80", "ca-certificate": "none"}, "certificate"
        ),
        # Last: from here on the two ends want new keys.
        "revoke-peer": Sample({**of_link, "peer": peer}),
    }
