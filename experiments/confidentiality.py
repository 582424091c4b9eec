"""Captures each underlay while its link carries traffic (experiment `confidentiality`).

If the network functions of a slice run, UEs attach through them. Else the experiment sends one
Diameter request instead.

The control is the same traffic between the same VNFs over the same wires without a VPN. It must
show protocols and the subscriber's IMSI in clear. Otherwise the experiment could not detect a
failure.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from experiments import diameter, signalling, wire
from experiments.testbed import InBackground, Slice, Testbed, Vnf
from experiments.traffic import tcp

UES = 3
"""That attach meanwhile, in a slice whose network functions run."""

_LISTEN = r"""
import json, socket, sys
request = json.load(sys.stdin)
server = socket.create_server((request["address"], request["port"]))
server.settimeout(20)
connection, _ = server.accept()
connection.settimeout(20)
json.dump(len(connection.recv(65536)), sys.stdout)
"""
_TELL = r"""
import json, socket, sys, time
request = json.load(sys.stdin)
end = time.monotonic() + 10
while True:
    try:
        connection = socket.create_connection((request["address"], request["port"]), 5)
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.05)
connection.sendall(bytes.fromhex(request["data"]))
time.sleep(0.2)
json.dump(True, sys.stdout)
"""


def subscriber(near: Vnf, far: Vnf, address: str) -> None:
    """Send one Diameter request about a subscriber to whoever listens there, else to a listener."""
    where = {"address": address, "port": diameter.PORT}
    request = dict(where, data=diameter.update_location(diameter.TEST_IMSI).hex())
    if far.out("ss", "-Hlnt", "sport", "=", f":{diameter.PORT}").strip():
        near.python(_TELL, request)  # An HSS runs there.
        return
    listening = InBackground(lambda: far.python(_LISTEN, where))
    near.python(_TELL, request)
    listening.result()


def traffic(found: Slice, path: str, diameter_over: str) -> None:
    """Carry something over each link of a slice, and a subscriber's identity over S6a."""
    for link in found.links.values():
        near, far = found[link.near], found[link.far]
        address = found.target(link.name, path)
        near.run("ping", "-n", "-q", "-c", "3", "-i", "0.05", address)
        tcp(near, far, address, 1, mbps=20)
        if link.name != found.signalling or not diameter_over:
            continue
        if signalling.simulated(found):
            signalling.attach(found, UES)
        else:
            subscriber(near, far, found.target(link.name, diameter_over))


def identities(found: Slice) -> set[str]:
    """Return the IMSIs that the control must show."""
    if signalling.simulated(found):
        return set(signalling.imsis(found, UES))
    return {diameter.TEST_IMSI}


def run(bed: Testbed, path: str) -> tuple[dict[str, Any], bool]:
    """Capture all underlays while every link of both slices carries traffic over a path.

    Args:
        bed: with the slices.
        path: "tunnel", or "underlay" for the control. There the first slice's S6a is set to
            technology `none` for the time of the run: while a link is secured, the guard of its
            VDUs lets no Diameter pass beside the tunnel.

    Returns:
        Frames by kind and the IMSIs seen, per slice and link; and whether every wire is as it must
        be: with the tunnel nothing clear and something protected, without it clear traffic on every
        wire and the IMSI on the first slice's S6a.
    """
    first = next(iter(bed.slices))
    told = bed.slices[first].signalling
    control = path != "tunnel"
    if control:
        bed.configure(first, told, "none")
    try:
        telling = [first] if control else list(bed.slices)
        wires = _captured(bed, path, dict.fromkeys(telling, "tunnel"))
    finally:
        if control:
            bed.configure(first, told, "wireguard")
    good = True
    links: dict[str, Any] = {}
    for (name, link), seen in wires.items():
        if control:
            good &= bool(seen.clear)
            shown = identities(bed.slices[first]) <= set(seen.imsis)
            good &= (name, link) != (first, told) or shown
        else:
            good &= not seen.clear and not seen.imsis and seen.protected > 0
        links[f"{name}/{link}"] = {
            "frames": seen.frames,
            "protected": seen.protected,
            "clear": sum(seen.clear.values()),
            "imsis": list(seen.imsis),
        }
    return {"links": links}, good


def _captured(
    bed: Testbed, path: str, diameter_over: dict[str, str]
) -> dict[tuple[str, str], wire.Wire]:
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        files = stack.enter_context(bed.captured(Path(scratch)))
        work = [
            InBackground(lambda s=found: traffic(s, path, diameter_over.get(s.name, "")))  # type: ignore[misc]
            for found in bed.slices.values()
        ]
        for background in work:
            background.result()
        stack.pop_all().close()
        return {where: wire.dissect(file) for where, file in files.items()}
