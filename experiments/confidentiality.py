"""Captures below each link while it carries traffic (experiment `confidentiality`).

Every VDU counts, by kind, the frames that it sends over the interfaces below its links. Both ends
of a link together give all of its traffic. In the lab, Wireshark also captures outside the VDUs, on
the wires.

The control is the same traffic between the same VNFs over the same wires without a VPN. It must
show protocols and the subscriber's IMSI in clear. Otherwise the experiment could not detect a
failure.
"""

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from experiments import diameter, fiveg, sessions, wire
from experiments.model import Result
from experiments.testbed import Slice, Testbed, Vnf, linked
from experiments.wire import Wire

UES = 3
"""Number of UEs that attach during the capture, in a slice of the lab with network functions."""
SECONDS = 600


def subscriber(slice_: Slice) -> None:
    """Send one Diameter request about a subscriber over the first link of a slice."""
    point = slice_.links[slice_.signalling]
    near, far = slice_[point.near], slice_[point.far]
    request = diameter.update_location(diameter.TEST_IMSI).hex()
    attempt = {
        "to": slice_.inner(point.far, point.name),
        "ports": [diameter.PORT],
        "say": request,
        "label": "subscriber",
    }
    functions = slice_.functions_run()  # If so, the HSS listens already.
    if not functions:
        far.action("start-listener", link=point.endpoint(far.name), port=diameter.PORT)
    near.action("probe", attempts=json.dumps([attempt]), patience_ms=5000)
    if not functions:
        far.action("stop-listener")


def traffic(bed: Testbed, slice_: Slice, path: str, telling: bool) -> None:
    """Send traffic over each link of a slice; if `telling`, also an identity over the first."""
    for link in slice_.links.values():
        near = slice_[link.near]
        at = {"link": link.endpoint(near.name), "path": path}
        near.action("measure-throughput", **at, duration=1, bitrate_mbps=20)
    if not telling:
        return
    if slice_.name == fiveg.SHARED:
        sessions.register(bed)
    elif not slice_.shared:
        subscriber(slice_)
        if bed.lab is not None and slice_.functions_run():
            bed.lab.attach(slice_, UES)


def identities(bed: Testbed, slice_: Slice) -> list[str]:
    """Return the identities that the control must show: IMSIs, or of a 5G UE its MSIN."""
    if fiveg.SHARED in bed.slices:
        return [fiveg.MSIN]
    if bed.lab is not None and slice_.functions_run():
        return [diameter.TEST_IMSI, *bed.lab.imsis(slice_, UES)]
    return [diameter.TEST_IMSI]


def run(bed: Testbed, path: str) -> Result:
    """Capture below all links while every link of both slices carries traffic over a path.

    Args:
        path: "tunnel", or "underlay" for the control. The control sets the first slice's S6a to
            technology `none` during the run: while a link is secured, the guard of its VDUs
            drops Diameter outside the tunnel.

    With the tunnel, slices found by name get no Diameter request, because their HSS is not ours.

    Returns:
        Frames by kind and the IMSIs seen, per slice and link, and in the lab also as captured on
        the wires. Also whether every link is as required: with the tunnel no clear frames and some
        protected ones; without it clear frames on every link and the IMSI on the first slice's
        S6a.
    """
    first = next(iter(bed.slices))
    signalling = bed.slices[first].signalling
    control = path != "tunnel"
    with bed.path(first, [signalling], path):
        ours = [slice_.name for slice_ in bed.slices.values() if slice_.ours]
        seen, outside = _captured(bed, path, [first] if control else ours)
    own_imsis = set(identities(bed, bed.slices[first]))
    good, result = True, {}
    for name, wires in (("links", seen), ("outside", outside)):
        if wires:
            result[name] = {where: shown(one) for where, one in wires.items()}
        for where, one in wires.items():
            if control:
                good &= bool(one.clear)
                good &= where != f"{first}/{signalling}" or own_imsis <= set(one.imsis)
            else:
                good &= not one.clear and not one.imsis and one.protected > 0
    return result, good


def shown(one: Wire) -> dict[str, Any]:
    """Return a wire in the form of a run's result."""
    return {
        "frames": one.frames,
        "protected": one.protected,
        "clear": sum(one.clear.values()),
        "imsis": list(one.imsis),
        **({"excerpt": list(one.excerpt)} if one.excerpt else {}),
    }


def _captured(
    bed: Testbed, path: str, telling: list[str]
) -> tuple[dict[str, Wire], dict[str, Wire]]:
    """Return the traffic of every link, as seen in the VDUs and, in the lab, on the wires."""

    def start(slice_: Slice) -> None:
        imsis = ",".join(identities(bed, slice_))
        for vnf in _with_links(bed, slice_):
            vnf.action("start-capture", seconds=SECONDS, identities=imsis)

    def work(slice_: Slice) -> None:
        traffic(bed, slice_, path, slice_.name in telling)

    def stop(slice_: Slice) -> dict[str, Any]:
        return {vnf.id: vnf.stop("capture")["links"] for vnf in _with_links(bed, slice_)}

    with tempfile.TemporaryDirectory() as scratch:
        files: Mapping[tuple[str, str], Path] = {}
        with contextlib.ExitStack() as stack:
            if bed.lab is not None:
                files = stack.enter_context(bed.lab.captured(bed.slices.values(), Path(scratch)))
            bed.in_slices(start)
            bed.in_slices(work)
            stopped = bed.in_slices(stop).values()
        outside = {f"{name}/{link}": wire.dissect(file) for (name, link), file in files.items()}
    captures = {vnf: links for each in stopped for vnf, links in each.items()}
    seen = {
        f"{slice_.name}/{link.name}": merged(
            captures[slice_[end].id][link.endpoint(end)] for end in (link.near, link.far)
        )
        for slice_, link in linked(bed.slices)
    }
    return seen, outside


def _with_links(bed: Testbed, slice_: Slice) -> list[Vnf]:
    """Return the VNFs of a slice, or of the shared service, that are ends of links."""
    ends = {one[end].id for one, link in linked(bed.slices) for end in (link.near, link.far)}
    return [vnf for vnf in slice_.vnfs.values() if vnf.id in ends]


def merged(ends: Any) -> Wire:
    """Return the frames that both ends of a link sent, as one wire."""
    frames: Counter[str] = Counter()
    imsis: set[str] = set()
    for end in ends:
        if end["missed"]:
            raise click.ClickException(
                f"a capture missed {end['missed']} frames: its VDU had no time for them"
            )
        frames.update(end["sent"])
        imsis |= {imsi for imsi, number in end["identities"].items() if number}
    return Wire(dict(sorted(frames.items())), tuple(sorted(imsis)))


def headline(result: Mapping[str, Any]) -> str:
    links = result["links"].values()
    protected, clear = (sum(link[kind] for link in links) for kind in ("protected", "clear"))
    who = ", ".join(sorted({imsi for link in links for imsi in link["imsis"]})) or "unseen"
    return f"{protected} protected frames, {clear} clear, identities {who}"
