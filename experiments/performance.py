"""Throughput, delay, jitter and loss of one link of one slice (experiment `performance`)."""

from __future__ import annotations

import contextlib
from typing import Any

from experiments import qos
from experiments.testbed import Testbed
from experiments.traffic import echoes, load, tcp, udp

UDP_MBPS = 20
"""Rate of the UDP stream that shows jitter and loss: far below what paths carry."""


def run(
    bed: Testbed, slice: str, link: str, path: str, neighbour: str, seconds: int
) -> tuple[dict[str, Any], None]:
    """Measure a link.

    Args:
        bed: with the slices.
        slice: whose link is measured; a slice's, or that of a service beside them.
        link: name of the link.
        path: "tunnel", or "underlay" between the same VNFs outside it.
        neighbour: "" or "saturated": the other slices send TCP as fast as they can over their own
            link of the same name, by the same path.
        seconds: of each of the three measurements.

    Returns:
        Mbit/s and retransmits of TCP, jitter and loss of UDP, round trip times of echo requests.
    """
    if link == qos.LINK:
        qos.ensure(bed, enforced=False)  # The cost of a tunnel is asked for, not of a share.
    measured = bed.found(slice)
    point = measured.links[link]
    near, far, address = measured[point.near], measured[point.far], measured.target(link, path)
    with contextlib.ExitStack() as stack:
        if neighbour:
            for other in bed.slices.values():
                if other is not measured:
                    target = other.target(link, path)
                    ends = other[point.near], other[point.far]
                    stack.enter_context(load(*ends, target, 3 * seconds + 60))
        listening = measured.listening(link, path)
        rate = tcp(near, far, address, seconds, listening=listening)
        # Half of what passes, where a path carries little, as one of emulated machines.
        stream_rate = min(UDP_MBPS, rate["mbps"] / 2)
        stream = udp(near, far, address, seconds, stream_rate, listening=listening)
        delay = echoes(near, address, max(20, int(seconds * 50)), 20)
    return {
        # Whether vCPUs count: not every machine lets the lab hold a VDU to its flavour.
        "limited": not any(
            note.startswith("vCPUs")
            for vnf in (near, far)
            for note in vnf.vim.server(vnf.server).notes
        ),
        "mbps": rate["mbps"],
        "retransmits": rate["retransmits"],
        "jitter_ms": stream["jitter_ms"],
        "loss_percent": stream["loss_percent"],
        **delay,
    }, None
