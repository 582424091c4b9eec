"""Throughput, delay, jitter and loss of one link of one slice (experiment `performance`)."""

import contextlib

import click

from experiments import qos, sessions
from experiments.model import Result
from experiments.testbed import Testbed
from experiments.traffic import load

UDP_MBPS = 20
"""Rate in Mbit/s of the UDP stream for jitter and loss, far below the capacity of the paths."""
EMULATED_MBPS = 5
"""The same between virtual machines of the lab; paths of emulated machines are slow."""


def run(bed: Testbed, slice: str, link: str, path: str, neighbour: str, seconds: int) -> Result:
    """Measure a link.

    Args:
        slice: slice, or service beside the slices, whose link is measured.
        link: name of the link, or `ue` for the whole path of a 5G UE, only through the tunnel.
        path: "tunnel", or "underlay" between the same VNFs outside the tunnel.
        neighbour: "" or "saturated": the other slices send TCP as fast as they can over their own
            link of the same name, by the same path.
        seconds: duration of each of the three measurements.

    Returns:
        Mbit/s and retransmits of TCP, jitter and loss of UDP, round trip times of echo requests.
    """
    if link in qos.LINKS and bed.slice_named(slice).ours:
        qos.ensure(bed, enforced=False)  # Measure the tunnel without rate limits.
    measured = bed.slice_named(slice)
    if link == sessions.LINK:
        qos.ensure(bed, enforced=False)
        return sessions.performance(bed, measured, neighbour, seconds), None
    point = measured.links[link]
    near = measured[point.near]
    slow = bed.lab is not None and bed.lab.machines
    with contextlib.ExitStack() as stack:
        if neighbour:
            for other in bed.slices.values():
                if other is not measured and link in other.links:
                    theirs = other.links[link]
                    end = other[theirs.near]
                    stack.enter_context(load(end, theirs.endpoint(end.name), path))
        answer = near.action(
            "measure-link",
            link=point.endpoint(near.name),
            path=path,
            duration=seconds,
            udp_mbps=EMULATED_MBPS if slow else UDP_MBPS,
            count=max(20, seconds * 50),
        )
    failed = [answer[part]["error"] for part in ("tcp", "udp", "echoes") if "error" in answer[part]]
    if failed:
        raise click.ClickException(f"{near}: measure-link: {failed[0]}")
    trips = answer["echoes"]["rtt-ms"]
    return {
        # False if this machine does not let the lab limit a VDU to the vCPUs of its flavour.
        "limited": bed.lab is None or bed.lab.limited([near, measured[point.far]]),
        "mbps": answer["tcp"]["mbps"],
        "retransmits": answer["tcp"]["retransmits"],
        "jitter_ms": answer["udp"]["jitter-ms"],
        "loss_percent": answer["udp"]["loss-percent"],
        "rtt_ms": trips["avg"],
        "rtt_p50_ms": trips["median"],
        "rtt_p99_ms": trips["p99"],
        "rtt_max_ms": trips["max"],
        "rtt_within": answer["echoes"].get("rtt-ms-within", []),  # older charms have no such key
        "lost": answer["echoes"]["sent"] - answer["echoes"]["received"],
        "sent": answer["echoes"]["sent"],
    }, None
