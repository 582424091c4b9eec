"""Parameters with which the run calls each primitive once, on the link of the smallest service."""

import base64
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """Parameters of one primitive, and the expected result."""

    params: Mapping[str, Any]
    refusal: str = ""
    """Part of the charm's refusal, if it must refuse the primitive; "" if it must succeed."""


def samples(link: str, inner_address: str, peer: str) -> dict[str, Sample]:
    """Return a sample for each primitive, in the order of the calls.

    Args:
        link: Link of the VNF.
        inner_address: Its address in the tunnel, with prefix length.
        peer: Juju application at the other end.
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
        "measure-link": Sample({**of_link, "duration": 1}),
        # The smallest service is instantiated without experiments.
        **{
            name: Sample(params, "allow_experiments") for name, params in _experiments(link).items()
        },
        "set-qos": Sample({**of_link, "five-qi": 0}),
        "show-qos": Sample({}),
        "configure-monitoring": Sample({}),
        "add-peer": Sample({**of_link, **stranger}),
        "fetch-preshared-key": Sample(
            {
                **{**of_link, "name": "acceptance", "store": "https://192.0.2.1:8200"},
                **{"ca-certificate": "none", "path": "a/b", "token": "none"},
            },
            "has no such peer",
        ),
        "delete-peer": Sample({**of_link, "name": "acceptance"}),
        "show-csr": Sample(of_link, "certificate"),
        "set-certificate": Sample(
            {**of_link, "certificate": "none", "ca-certificate": "none"}, "certificate"
        ),
        "set-enrolment": Sample(
            {**of_link, "server": "192.0.2.1:8080", "ca-certificate": "none"}, "certificate"
        ),
        # Last, because after it the two ends need new keys.
        "revoke-peer": Sample({**of_link, "peer": peer}),
    }


def _experiments(link: str) -> dict[str, dict[str, Any]]:
    """Return parameters of the primitives that need the option allow-experiments."""
    return {
        **{f"{verb}-{what}": {} for what in ("capture", "listener") for verb in ("start", "stop")},
        "probe": {"attempts": '[{"to": "192.0.2.1"}]'},
        **{f"start-{what}": {"link": link} for what in ("stream", "load")},
        **{f"stop-{what}": {} for what in ("stream", "load")},
        "inject-fault": {"fault": "tunnel", "link": link},
    }
