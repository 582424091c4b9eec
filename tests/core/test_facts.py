"""Facts of a VDU: which interface is that of management."""

from __future__ import annotations

import json
from typing import Any

import pytest
from vpnaas.base.errors import VduError
from vpnaas.vdu import facts
from vpnaas.vdu.steps import Results

V4, V6 = ([{"dst": "default", "dev": dev}] for dev in ("ens3", "ens4"))


@pytest.mark.parametrize(
    ("v4", "v6", "name"), [([], V6, "ens4"), (V4, V6, "ens3"), (V4, [], "ens3")]
)
def test_a_default_route_of_ipv6_shows_the_management_interface_too(
    v4: list[Any], v6: list[Any], name: str
) -> None:
    rows = [{"ifname": dev, "mtu": 1500} for dev in ("ens3", "ens4")]
    assert "facts/default6" in {step.id for step in facts.observe()}
    texts = {"addresses": json.dumps(rows), "default": json.dumps(v4), "default6": json.dumps(v6)}
    results = Results({"facts/" + key: {"code": 0, "out": text} for key, text in texts.items()})
    assert facts.parse(results).underlay("", None).name == name


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100000,
        '["x"]',
        '[{"ifname": "ens3", "mtu": 1e999}]',
        '[{"ifname": "ens3", "mtu": 1500, "addr_info": ["x"]}]',
    ],
)
def test_addresses_that_are_none_are_an_error(text: str) -> None:
    results = Results({"facts/addresses": {"code": 0, "out": text}})
    with pytest.raises(VduError, match="printed something unexpected"):
        facts.parse(results)


def test_a_default_route_that_is_none_is_an_error() -> None:
    results = Results({"facts/default": {"code": 0, "out": "[5]"}})
    with pytest.raises(VduError, match="printed something unexpected"):
        facts.parse(results)
