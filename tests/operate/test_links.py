"""The table of links over OSM's API."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from operate.client import OperateError
from operate.links import links, show

SERVICES = [{"_id": "n1", "name": "epc"}, {"_id": "n2", "name": "other"}]
CHARMS = [
    {"member-vnf-index": "hss", "vdu_id": None},
    {"member-vnf-index": "cell", "vdu_id": "cell", "vdu_count_index": 1},
    {"member-vnf-index": "old"},
]


def end(key: str, peer: str, state: str) -> str:
    there = {"peer": "far", "public-key": peer, "prefixes": "10.0.0.2/32", "state": state}
    link = {"state": state, "technology": "ipsec", "inner-address": "10.0.0.1/24", "since": "now",
            "public-key": key, "peers": [there], "reason": "no answer from far"}  # fmt: skip
    return json.dumps({"s6a": link})


class Fake:
    nbi = SimpleNamespace(get=lambda path: SERVICES)

    def service(self, key: str) -> dict[str, Any]:
        return {"_admin": {"deployed": {"VCA": CHARMS if key == "n1" else []}}}

    def start(self, *words: Any) -> str:
        self.last = words
        if words[1] == "old":
            raise OperateError("no primitive show-status")
        return str(words[1])

    def output(self, operation: str) -> str:
        assert self.last[4] == (("cell", 1) if operation == "cell" else None)
        return {"hss": end("H", "C", "down"), "cell": end("C", "H", "up")}[operation]


def test_both_ends_are_one_row_and_a_vnf_that_fails_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    osm: Any = Fake()
    silent, link = links(osm, [])
    assert (silent.ends, silent.state, silent.reason) == (
        "old",
        "unknown",
        "no primitive show-status",
    )
    assert (link.ends, link.state, link.reason) == (
        "hss:s6a - cell/1:s6a",
        "down",
        "no answer from far",
    )
    show([silent, link])
    printed = capsys.readouterr().out
    # A pipe has no width, so nothing is cut.
    assert "hss:s6a - cell/1:s6a" in printed
    assert "no primitive show-status" in printed
    assert links(osm, ["other"]) == []


def test_a_service_that_is_not_there_is_named() -> None:
    osm: Any = Fake()
    with pytest.raises(OperateError, match="OSM has no service nobody; allowed: epc, other"):
        links(osm, ["nobody"])
