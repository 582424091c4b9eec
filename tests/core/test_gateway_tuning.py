"""Settings of charon by the number of tunnels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vpnaas.features.gateway.gateway_tuning import power_of_two, render, settings


@given(tunnels=st.integers(1, 100000), cpus=st.integers(1, 256))
def test_tables_hold_all_tunnels_and_are_powers_of_two(tunnels: int, cpus: int) -> None:
    result = settings(tunnels, cpus)
    table, segments = int(result["ikesa_table_size"]), int(result["ikesa_table_segments"])
    assert tunnels <= table < 2 * tunnels + 1
    assert table & (table - 1) == 0
    assert segments & (segments - 1) == 0
    assert 1 <= segments <= table


@given(tunnels=st.integers(1, 100000))
def test_a_full_restart_of_all_peers_is_never_refused(tunnels: int) -> None:
    result = settings(tunnels)
    assert int(result["init_limit_half_open"]) > tunnels
    assert int(result["cookie_threshold"]) < int(result["init_limit_half_open"])


@pytest.mark.parametrize(("number", "expected"), [(1, 1), (2, 2), (3, 4), (1000, 1024)])
def test_power_of_two(number: int, expected: int) -> None:
    assert power_of_two(number) == expected


def test_dotted_names_become_sections() -> None:
    text = render({"b.c.d": 1, "a": "x", "b.c.e": 2.5})
    assert text == (
        "charon {\n    a = x\n    b {\n        c {\n            d = 1\n            e = 2.5\n"
        "        }\n    }\n}\n"
    )
