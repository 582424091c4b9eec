"""Effects of a fault in one slice on another slice (experiment `dependability`).

200 numbered datagrams per second pass through a tunnel of the neighbour while a part of the victim
fails. The neighbour must not lose any. The victim's own stream must break, as proof that the fault
is real. If only the charm is killed, it must not break.
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import click

from experiments.background import side_by_side
from experiments.model import Result
from experiments.testbed import PATIENCE, Slice, Testbed, Vnf
from experiments.traffic import Flow, Stream
from operate.client import OperateError
from operate.osm import NS_OPERATIONS

RATE = 200
CUT = 3  # Seconds for which a link is cut.
#: Whether the victim's own stream must break.
BREAKS = {"vnf": True, "tunnel": True, "charm": False, "link": True}


def _stop_vnf(bed: Testbed, vnf: Vnf, mending: contextlib.ExitStack) -> None:
    """Stop a VDU over OSM, as an operator does."""
    bed.osm.operate(vnf.service, vnf.id, vnf.vdu, "stop")
    mending.callback(bed.osm.operate, vnf.service, vnf.id, vnf.vdu, "start")


def _delete_tunnel(bed: Testbed, vnf: Vnf, _: contextlib.ExitStack) -> None:
    vnf.action("inject-fault", fault="tunnel", link=_user_link(bed, vnf))


def _cut_link(bed: Testbed, vnf: Vnf, _: contextlib.ExitStack) -> None:
    """Disconnect the VDU from the network below the link for CUT seconds."""
    vnf.action("inject-fault", fault="link", link=_user_link(bed, vnf), seconds=CUT)


def _kill_charm(bed: Testbed, vnf: Vnf, _: contextlib.ExitStack) -> None:
    """Kill a charm during an action, with all processes that it started."""
    lab = bed.the_lab
    related = [
        link.endpoint(vnf.name)
        for link in bed.slices[vnf.slice].links.values()
        # Ends that were joined by add-peer do not learn new keys automatically.
        if vnf.name in (link.near, link.far) and not link.joined
    ]
    operation = vnf.start("rotate-keys", link=related[-1])
    lab.kill_charm(vnf.application)
    with contextlib.suppress(OperateError):
        bed.osm.finished(NS_OPERATIONS, operation)


def _user_link(bed: Testbed, vnf: Vnf) -> str:
    """Return the name, in a VNF's charm, of its slice's link with users' packets."""
    slice_ = bed.slices[vnf.slice]
    return slice_.links[slice_.user_plane].endpoint(vnf.name)


_DO = {"vnf": _stop_vnf, "tunnel": _delete_tunnel, "charm": _kill_charm, "link": _cut_link}


def run(bed: Testbed, victim: str, neighbour: str, fault: str, seconds: float) -> Result:
    """Cause a fault at the core's end of a slice's S1-U or N3 while both slices carry a stream.

    The victim's stream goes to that end. On N3 the other end is one gNB for all slices, so the
    neighbour's stream comes from its own end.

    Args:
        victim: slice with the fault.
        neighbour: slice that the fault must not affect.
        fault: a key of BREAKS.
        seconds: minimum duration of the streams; the fault comes after a quarter of it. They
            go on until the victim's link works again.

    Returns:
        Figures of both streams; whether the neighbour lost nothing, and the victim broke if its
        fault must break it.
    """
    pair = (victim, neighbour)
    made = side_by_side(
        lambda name: _flow(bed.slices[name], own_end=name == victim), pair, PATIENCE
    )
    flows = dict(zip(pair, made, strict=True))
    end = flows[victim].far
    time.sleep(seconds / 4)
    began = time.time()
    with contextlib.ExitStack() as mending:
        _DO[fault](bed, end, mending)
        time.sleep(max(0.0, seconds * 3 / 4 - (time.time() - began)))
    _wait_recovered(bed, victim, CUT if fault == "link" else 0)
    back = time.time()
    # Both go on as long as the fault: mending it must not cost the neighbour anything either.
    streams = {neighbour: flows[neighbour].result()}
    own = flows[victim].near.stop("stream")
    streams[victim] = Stream(RATE, own)
    if fault != "vnf":  # A stopped VDU has lost its listener: what arrived is unknown.
        streams[victim] = Stream(RATE, own, flows[victim].seen())
        if not streams[victim].seen:
            raise click.ClickException(f"{end}: nothing of the victim's stream arrived at all")
    broke = streams[victim].lost > 0
    good = streams[neighbour].lost == 0 and broke == BREAKS[fault]
    return {
        "neighbour": streams[neighbour].summary(),
        "victim": streams[victim].summary() if streams[victim].seen else {"lost": None},
        "victim-broke": broke,
        "timeline": _timeline(streams[neighbour], streams[victim], began, back),
    }, good


def _own_end(slice_: Slice) -> str:
    """Return the slice's own end of its user plane; the far end if both are its own."""
    link = slice_.links[slice_.user_plane]
    return link.far if link.far in slice_.vnfs else link.near


def _flow(slice_: Slice, own_end: bool) -> Flow:
    """Start a stream over a slice's user plane to its own end, else to the far end."""
    to = _own_end(slice_) if own_end else ""
    return Flow(slice_, slice_.user_plane, rate=RATE, to=to)


def _timeline(neighbour: Stream, victim: Stream, fault: float, back: float) -> dict[str, Any]:
    """Return the times of the events, in seconds since the neighbour's stream began.

    The clocks of VDUs and of this machine must agree, as for delays. The result is empty if nothing
    of that stream arrived, or if the charm is too old to report times.
    """
    if "began-at" not in neighbour.seen:
        return {}
    start = neighbour.seen["began-at"]
    silent = None
    if not victim.seen:
        silent = (fault, back)
    elif victim.lost and victim.seen["last"] < int(victim.sent["sent"]) - 1 - victim.lost / 2:
        silent = (victim.seen["ended-at"], back)  # The link did not come back before the end.
    elif victim.lost:
        at = victim.seen["gap-at"]
        silent = (at, at + victim.seen["gap-ms"] / 1000)
    return {
        "fault_s": fault - start,
        "back_s": back - start,
        "ended_s": neighbour.seen["ended-at"] - start,
        "silent": None if silent is None else [moment - start for moment in silent],
    }


def _wait_recovered(bed: Testbed, name: str, alone: float) -> None:
    """Wait until the victim's link works again; `show-status` makes its charm check the link.

    For the seconds `alone` no charm checks it: a look takes seconds while a peer is silent.
    """
    slice_ = bed.slices[name]
    began = time.monotonic()
    while time.monotonic() < began + 120:
        if bed.answers(slice_, slice_.user_plane):
            return
        if time.monotonic() < began + alone:
            continue
        far = slice_[_own_end(slice_)]
        with contextlib.suppress(click.ClickException):
            far.action("show-status", link=_user_link(bed, far))
    raise click.ClickException(f"{name}: {slice_.user_plane} does not come back")


def headline(result: Mapping[str, Any]) -> str:
    own, other = result["victim"]["lost"], result["neighbour"]["lost"]
    return f"neighbour lost {other}, victim {'all' if own is None else own}"
