"""Slices of one 5G network, each with its own S-NSSAI: eMBB, URLLC, and on request mMTC.

The templates share a network service of AMF, gNB and UE. Each slice has its own SMF and UPF. N2 is
inside the shared service, and N4 is inside a slice's service. SBI and N3 connect a slice to the
shared service; `join-slices` joins them.

On N4 and N6 each slice has its own addresses, so that an address identifies its slice. OSM takes
these subnets from the NSD, so each slice has its own NSD, made from the built one.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments import qos, sessions
from experiments.progress import ticking
from experiments.slices import (
    EMBB,
    MMTC,
    RANGES,
    URLLC,
    Request,
    derived,
    limit,
    members,
    parameters,
)
from experiments.testbed import Testbed, links_of
from operate.osm import NSI_OPERATIONS
from operate.slices import Joiner, join_slices

SHARED = "shared"  # Name of the shared service (AMF, gNB and UE) as a slice of the test bed.
SUBNET = "slice"
NSD = "5gc_slice_ns"
VNFS = ("amf", "smf", "upf", "gnb", "nr_ue")
SESSIONS = {EMBB: "1-000001/internet", URLLC: "2-000002/factory", MMTC: "3-000003/sensors"}
"""S-NSSAIs of the templates, and DNNs of `params/slices.yaml`."""

MSIN = "7391846250"
"""The UE's MSIN. Other packets do not contain its digits, two per byte, by chance."""

SHARED_LINKS, LINKS = links_of("5gc-shared"), links_of("5gc-slice")


def packages(dist: Path, folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the packages of slices, VNF packages first, in the order to onboard them."""
    made = [*(dist / f"{vnf}_vnf.tar.gz" for vnf in VNFS), dist / "5gc_shared_ns.tar.gz"]
    for name in names:
        service, template = dist / f"{NSD}.tar.gz", dist / f"{name}_5g_nst.tar.gz"
        if ranges := RANGES[name]:
            own = {NSD: f"5gc_slice_{name}_ns"}
            service = derived(service, folder / f"{own[NSD]}.tar.gz", own, ranges)
            template = derived(template, folder / template.name, own, {})
        made += [service, template]
    return made


def requests(dist: Path, names: Sequence[str]) -> list[Request]:
    """Return slices to instantiate; the first one creates the shared service."""
    made = []
    for name in names:
        document = parameters(dist / "params" / f"{name}_5g.yaml", RANGES[name])
        limit(document, "n3", qos.RATES.get(name, {}))
        for values in members(document):
            _subscribe(values, names)
        made.append(Request(name, f"{name}_5g_nst", document, SUBNET))
    return made


def _subscribe(values: dict[str, object], names: Sequence[str]) -> None:
    """Give the UE, the first subscriber, an IMSI with MSIN, and a session per slice."""
    for key in ("nf_imsi", "nf_first_imsi"):
        if key in values:
            values[key] = str(values[key])[: -len(MSIN)] + MSIN
    if "nf_sessions" in values:
        values["nf_sessions"] = ",".join(SESSIONS[name] for name in names)


def deploy(bed: Testbed, requests: Sequence[Request]) -> None:
    """Instantiate slices at once, join them, and wait until the UE has a session in each."""
    orders = [(one, bed.instantiate(one)) for one in requests]
    with ticking(bed.console, lambda: f"{bed.states(orders[:1], SHARED)}; {bed.states(orders)}"):
        for _, order in orders:
            bed.osm.finished(NSI_OPERATIONS, order.operation)
        patience = 300.0 * len(requests)  # For each of the following steps.
        pause = bed.osm.nbi.pause
        joiner = Joiner(bed.osm, lambda _: None)
        join_slices(joiner, [order.id for _, order in orders], patience, pause)
        given, service = requests[0].part(SHARED), bed.service_of(*orders[0], SHARED)
        common = bed.slices[SHARED] = bed.read(SHARED, given, service, SHARED_LINKS)
        for one, order in orders:
            own = bed.read(one.name, one.parameters, bed.service_of(one, order), LINKS)
            addresses = own.addresses.with_those_of(common.addresses)
            bed.slices[one.name] = replace(own, addresses=addresses, shared=common.vnfs)
        for slice_ in bed.slices.values():
            bed.wait_up(slice_, time.monotonic() + patience)
        sessions.wait(bed, patience)
    bed.shaped = True
