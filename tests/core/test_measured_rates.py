"""Figures of iperf3's reports, of the releases that VDUs have."""

from __future__ import annotations

import json

from vpnaas.features.measure import measure
from vpnaas.vdu.programs import throughput_client

BOTH_WAYS = """{"start": {}, "end": {
  "sum_sent": {"retransmits": 1}, "sum_received": {"bits_per_second": 3e6},
  "sum_sent": {"retransmits": 2}, "sum_received": {"bits_per_second": 5e6}
}}"""
"""As iperf3 3.9 of Ubuntu 22.04 prints it."""


def test_both_directions_are_told_apart_where_iperf3_gives_them_one_name() -> None:
    report = json.loads(BOTH_WAYS, object_pairs_hook=throughput_client.named)
    rates = measure.rates(report, "tcp")
    assert (rates["mbps"], rates["mbps-reverse"], rates["retransmits"]) == (3.0, 5.0, 1)


def test_a_rate_of_udp_is_what_was_received() -> None:
    """iperf3 3.9 has only what was sent; newer ones have both."""
    counted = {"jitter_ms": 0.1, "packets": 4, "lost_percent": 25.0}
    old = {"sum": {"bits_per_second": 20e6, **counted}}
    new = {**old, "sum_received": {"bits_per_second": 15e6, **counted}}
    for end in (old, new):
        rates = measure.rates({"start": {}, "end": end}, "udp")
        assert (rates["mbps"], rates["loss-percent"]) == (15.0, 25.0)
