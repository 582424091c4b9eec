"""PDU sessions of a 5G UE, one in each slice, and their separation (experiment `sessions`).

The UE measures through each session with its own day-2 primitives. The far end is the N6 address of
the slice's UPF.
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import click

from experiments.model import Result
from experiments.testbed import Slice, Testbed, Vnf
from experiments.traffic import load

UDP_MBPS = 10
LINK = "ue"
"""The link in a run of `performance` for the whole path of a UE, through its PDU session."""


def equipment(bed: Testbed) -> Vnf:
    return next(s["ue"] for s in bed.slices.values() if "ue" in s.vnfs)


def served(bed: Testbed) -> list[Slice]:
    """Return the slices in which the UE has a session."""
    return [slice_ for slice_ in bed.slices.values() if "upf" in slice_.vnfs]


def snssai(slice_: Slice) -> str:
    return str(slice_.values("smf")["nf_slice"])


def data_network(slice_: Slice) -> str:
    """Return the UPF's address on N6."""
    return slice_.addresses.outer["upf", "n6"]


def wait(bed: Testbed, patience: float = 240.0) -> None:
    """Wait until the UE reaches the data network of each slice."""
    until = time.monotonic() + patience
    for slice_ in served(bed):
        while True:
            try:
                echo(bed, slice_, slice_, 1)
                break
            except click.ClickException as error:
                if time.monotonic() > until:
                    raise click.ClickException(f"{slice_.name}: {error.message}") from None
                time.sleep(0.5)


def register(bed: Testbed) -> None:
    """Let the UE register and establish its sessions again, and send through each of them."""
    equipment(bed).action("restart-nf")
    wait(bed)


def echo(bed: Testbed, through: Slice, to: Slice, count: int) -> Any:
    """Send echo requests through the session of one slice to the data network of another."""
    way = {"server": data_network(to), "slice": snssai(through)}
    return equipment(bed).action("measure-latency", **way, count=count, interval_ms=20)


def run(bed: Testbed, count: int) -> Result:
    """Let the UE try the data network of each slice through each of its sessions.

    Returns:
        The number of answers, by session and data network, and the sessions that each SMF lists.
        Also whether each session leads to its own data network only, and each SMF has only the
        sessions of its own S-NSSAI. One answer shows that a session leads there. What a busy
        machine loses says nothing about separation.
    """
    slices, answers, good = served(bed), {}, True
    for through in slices:
        for to in slices:
            try:
                answered = int(echo(bed, through, to, count)["received"])
            except click.ClickException as error:
                if "did not answer" not in error.message:
                    raise
                answered = 0
            answers[f"{through.name}>{to.name}"] = answered
            good &= (answered > 0) is (through is to)
    known = {}
    for slice_ in slices:
        listed = slice_["smf"].action("show-connected")["sessions"]
        known[slice_.name] = {"snssai": snssai(slice_), "told": sorted(listed)}
        good &= list(listed) == [snssai(slice_)]
    return {"sent": count, "answered": answers, "smf": known}, good


def performance(bed: Testbed, slice_: Slice, neighbour: str, seconds: int) -> dict[str, Any]:
    """Measure through the UE's session in a slice, as `performance` does on a link.

    N3 keeps its tunnel. There is no baseline with technology `none`: a link in clear has no manual
    peers, and OSM does not relate charms of two services.

    Args:
        neighbour: "" or "saturated": the other slices send TCP as fast as they can over N3.
    """
    ue, server = equipment(bed), data_network(slice_)
    slice_["upf"].action("serve-throughput", seconds=max(60, 20 * seconds))
    way = {"server": server, "slice": snssai(slice_), "duration": seconds}
    with contextlib.ExitStack() as stack:
        if neighbour:
            for other in served(bed):
                if other is not slice_:
                    stack.enter_context(load(other["upf"], "n3"))
        tcp = ue.action("measure-throughput", **way, direction="download")
        udp = ue.action("measure-throughput", **way, protocol="udp", bitrate_mbps=UDP_MBPS)
        echoes = echo(bed, slice_, slice_, max(20, seconds * 50))
    trips = echoes["rtt-ms"]
    return {
        "limited": bed.lab is None or bed.lab.limited([ue, slice_["upf"]]),
        "mbps": tcp["mbps"],
        "retransmits": tcp["retransmits"],
        "jitter_ms": udp["jitter-ms"],
        "loss_percent": udp["loss-percent"],
        "rtt_ms": trips["avg"],
        "rtt_max_ms": trips["max"],
        "lost": echoes["sent"] - echoes["received"],
        "sent": echoes["sent"],
    }


def headline(result: Mapping[str, Any]) -> str:
    answered = result["answered"]
    own = sum(n for name, n in answered.items() if len(set(name.split(">"))) == 1)
    return f"{own} answers of own data networks, {sum(answered.values()) - own} others"
