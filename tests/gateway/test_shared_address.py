"""Peers that know one address of a gateway pair: the shared address moves, and they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import hot_standby as scenarios
from testbed.pair import SHARED, Pair

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

BY_ITSELF_MS = 8000.0
"""What peers need at least to notice: they ask after 2 s, and wait 1, 1.8, 3.2 and 5.8 s."""


def test_peers_of_the_shared_address_follow_it_and_come_back(tmp_path: Path) -> None:
    count = 32
    with Pair(tmp_path, count + 1, dpd=2, claim=3600, shared=count) as pair:
        pair.call_shared()
        scenarios.settle(pair)
        held = [name for name in "ab" if f"{SHARED}/" in pair.spaces.ip(name, "-br", "address")]
        assert held == ["a"]
        assert pair.daemons["b"].established() == 1
        for what, event, active in (
            ("daemon killed", lambda: pair.kill_daemon("a"), "b"),
            ("it returns", lambda: pair.start_gateway("a"), "a"),
            ("gateway dies", lambda: pair.lose("a"), "b"),
            # It never knew that it was away, and has what is left of the peers' tunnels.
            ("it returns from isolation", lambda: pair.regain("a"), "a"),
        ):
            # One that is isolated takes itself for active, too.
            result = pair.probe(60, (1, event), until=lambda end=active: end in pair.active())
            print(f"{count} peers of the shared address, {what}: {result['gap-ms']:.0f} ms")
            assert active in pair.active()
            assert result["duplicates"] == 0
            assert result["gap-ms"] < BY_ITSELF_MS
            if active == "a":
                scenarios.settle(pair)


def test_without_a_call_peers_find_out_by_themselves(tmp_path: Path) -> None:
    """The test above can fail; and a peer whose address nobody knows gets the standby, too."""
    with Pair(tmp_path, 2, dpd=2, claim=3600, shared=1) as pair:
        for name in "ab":
            (pair.folder / name / "ipsec.shared").write_text("{}")
        pair.call_shared()
        scenarios.settle(pair)
        result = pair.probe(90, (1, lambda: pair.lose("a")), until=lambda: pair.active() == "b")
        print(f"a peer of the shared address finds out by itself: {result['gap-ms']:.0f} ms")
        assert result["gap-ms"] > BY_ITSELF_MS
