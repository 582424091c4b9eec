"""Traffic between two VNFs: a load, and a steady stream of numbered datagrams.

Each end runs day-2 primitives. The delay of a datagram is measured in one direction, so the clocks
of the VDUs must agree to a millisecond. NTP achieves that at one site.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from experiments.testbed import Slice, Vnf

LIMIT = 600
"""Seconds after which a load, a stream or a listener ends in any case. Several primitives
run between a start and its stop, and a busy OSM may need a minute for each."""
NAME = "stream"
AHEAD_MS = -0.5
"""Smallest valid delay; a lower one means that the clocks differ. The margin is for jitter."""


@dataclass(frozen=True)
class Stream:
    """Results of a stream of numbered datagrams."""

    rate: float  # datagrams per second.
    sent: Mapping[str, Any]  # counters of the sender.
    # Counters of the listener; empty if nothing arrived.
    seen: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a stream without a datagram: it loses none, and has no shares."""
        if not self.sent["sent"]:
            raise click.ClickException("nothing of a stream was sent before it was stopped")

    @property
    def lost(self) -> int:
        """Number of datagrams that never arrived."""
        return int(self.sent["sent"]) - int(self.seen.get("received", 0))

    @property
    def longest_loss_ms(self) -> float:
        """Duration of the longest run of lost datagrams."""
        count = int(self.sent["sent"])
        if not self.seen:
            return count * 1000 / self.rate
        ends = (self.seen["first"], count - self.seen["last"] - 1)
        return float(max(*ends, self.seen["longest-run-lost"])) * 1000 / self.rate

    @property
    def within_percent(self) -> float:
        """Percent of the sent datagrams that arrived within the listener's budget."""
        if self.seen and self.seen["delay-ms"]["min"] < AHEAD_MS:
            raise click.ClickException(
                f"a datagram arrived {-self.seen['delay-ms']['min']:.1f} ms before it was sent: "
                "the clocks of the two VDUs must agree to a millisecond"
            )
        return 100 * float(self.seen.get("within-budget", 0)) / float(self.sent["sent"])

    def summary(self) -> dict[str, Any]:
        """Return the figures for a run's result."""
        delay = self.seen.get("delay-ms", {})
        return {
            "sent": self.sent["sent"],
            "lost": self.lost,
            "loss_percent": 100 * self.lost / self.sent["sent"],
            "longest_loss_ms": self.longest_loss_ms,
            "gap_ms": self.seen.get("gap-ms"),
            "sender_late_ms": self.sent["late-ms"],
            "delay_p50_ms": delay.get("median"),
            "delay_p99_ms": delay.get("p99"),
            "delay_max_ms": delay.get("max"),
            "delay_within": self.seen.get("delay-ms-within", []),
        }


class Flow:
    """A stream over a link of a slice, from one end to the other."""

    def __init__(
        self,
        slice_: Slice,
        link: str,
        *,
        rate: int = 200,
        seconds: int = LIMIT,
        budget_ms: int = 10,
        to: str = "",
    ) -> None:
        """Start both ends; the stream ends after `seconds`, or earlier with `result`.

        Args:
            budget_ms: allowed delay of a datagram.
            to: VNF that receives the stream, "" for the far end of the link.
        """
        point = slice_.links[link]
        near, far = (point.far, point.near) if to == point.near else (point.near, point.far)
        self.near, self.far, self.rate = slice_[near], slice_[far], rate
        self.seconds = seconds
        listen = {"seconds": LIMIT, "budget_ms": budget_ms}
        self.far.action("start-listener", link=point.endpoint(far), **listen)
        way = {"link": point.endpoint(near), "address": slice_.inner(far, link)}
        self.near.action("start-stream", **way, rate=rate, seconds=seconds, name=NAME)

    def result(self) -> Stream:
        """End the stream, then the listener; return the results."""
        ends = self.seconds < LIMIT  # by itself, as it was asked to
        sent = self.near.action("stop-stream") if ends else self.near.stop("stream")
        return Stream(self.rate, sent, self.seen())

    def seen(self) -> Mapping[str, Any]:
        """End the listener; return its counters of the stream."""
        streams: Mapping[str, Mapping[str, Any]] = self.far.stop("listener")["streams"]
        return streams.get(NAME, {})


@contextmanager
def load(near: Vnf, link: str, path: str = "tunnel", parallel: int = 1) -> Iterator[dict[str, Any]]:
    """Saturate a link from a VNF while the block runs; then the mapping has the rate."""
    near.action("start-load", link=link, path=path, parallel=parallel, seconds=LIMIT)
    counters: dict[str, Any] = {}
    try:
        yield counters
    finally:
        counters.update(near.action("stop-load"))
    if not counters["ran-until-stopped"]:
        raise click.ClickException(f"{near}: the load over {link} ended early")
