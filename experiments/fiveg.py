"""Slices of one 5G network, told apart by their S-NSSAI: eMBB, URLLC, and mMTC if it is asked for.

The templates share a network service of AMF, gNB and UE. Each slice has an SMF and a UPF of its
own. N2 is inside the shared service and N4 inside a slice's. SBI and N3 lead from a slice to what
is shared; `join-slices` joins them.

Each slice has other addresses on N4 and N6 than the others, so that an address tells whose it is.
OSM takes these subnets from the NSD, so slices have NSDs of their own, made from the built one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from experiments import sessions
from experiments.progress import ticking
from experiments.slices import EMBB, MMTC, URLLC, SliceRequest, derived, moved
from experiments.testbed import Link, Testbed
from operate.osm import NSI_OPERATIONS, ApiClient
from operate.slices import Joiner, join_slices

SHARED = "shared"
"""What both slices share, as a slice of the test bed: AMF, gNB and UE."""
SUBNET = "slice"
NSD = "5gc_slice_ns"
VNFS = ("amf", "smf", "upf", "gnb", "nr_ue")
TWO = (EMBB, URLLC)
THREE = (EMBB, URLLC, MMTC)
SESSIONS = {EMBB: "1-000001/internet", URLLC: "2-000002/factory", MMTC: "3-000003/sensors"}
"""S-NSSAIs of the templates, and DNNs of `params/slices.yaml`."""

#: Ranges of the written files, and those that a slice takes for them. What leads from one service
#: to another has the same subnet for all slices.
_RANGES: Mapping[str, Sequence[tuple[str, str]]] = {
    EMBB: (),
    URLLC: (("192.168.22.", "10.68.22."), ("172.16.22.", "172.20.22."),
            ("10.254.2.", "10.253.2.")),
    MMTC: (("192.168.22.", "10.72.22."), ("172.16.22.", "172.24.22."),
           ("10.254.2.", "10.252.2.")),
}  # fmt: skip

MSIN = "7391846250"
"""The UE's MSIN. Its digits, packed by two, are not found in other packets by chance."""

SHARED_LINKS = {"n2": Link("n2", "N2", "gnb", "amf")}
LINKS = {
    link.name: link
    for link in (
        Link("sbi", "SBI", "smf", "amf", joined=True),
        Link("n4", "N4", "upf", "smf"),
        Link("n3", "N3", "upf", "gnb", joined=True),
    )
}


def packages(dist: Path, folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the packages of slices, VNF packages first, in the order to onboard them."""
    made = [*(dist / f"{vnf}_vnf.tar.gz" for vnf in VNFS), dist / "5gc_shared_ns.tar.gz"]
    for name in names:
        service, template = dist / f"{NSD}.tar.gz", dist / f"{name}_5g_nst.tar.gz"
        if ranges := _RANGES[name]:
            own = {NSD: f"5gc_slice_{name}_ns"}
            service = derived(service, folder / f"{own[NSD]}.tar.gz", own, ranges)
            template = derived(template, folder / template.name, own, ())
        made += [service, template]
    return made


def requests(
    dist: Path, rates: Mapping[str, Mapping[str, int]], names: Sequence[str]
) -> list[SliceRequest]:
    """Return slices; the first one makes what they share.

    Args:
        dist: With the built parameter files.
        rates: What to put into the parameters of N3 of a UPF, by slice.
        names: Of the slices.
    """
    made = []
    for name in names:
        text = (dist / "params" / f"{name}_5g.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(moved(text, _RANGES[name]))
        for subnet in document["netslice-subnet"]:
            for member in subnet["additionalParamsForVnf"]:
                values = member["additionalParams"]
                values["allow_experiments"] = "yes"
                if values.get("n3_five_qi"):
                    own = rates.get(name, {})
                    values.update({f"n3_{key}": rate for key, rate in own.items()})
                _subscribe(values, names)
        text = yaml.safe_dump(document, sort_keys=False)
        made.append(SliceRequest(name, f"{name}_5g_nst", text, SUBNET))
    return made


def _subscribe(values: dict[str, object], names: Sequence[str]) -> None:
    """Give the UE, who is the first subscriber, an IMSI to search for, and a session per slice."""
    for key in ("nf_imsi", "nf_first_imsi"):
        if key in values:
            values[key] = str(values[key])[: -len(MSIN)] + MSIN
    if "nf_sessions" in values:
        values["nf_sessions"] = ",".join(SESSIONS[name] for name in names)


def deploy(bed: Testbed, requests: Sequence[SliceRequest]) -> None:
    """Instantiate slices side by side, join them, and wait until the UE is in all of them.

    Raises:
        click.ClickException: one failed, or it takes too long.
    """
    orders = {one.name: bed.instantiate(one) for one in requests}
    names = [f"{requests[0].name}.{SHARED}", *(one.service for one in requests)]
    with ticking(bed.console, lambda: "; ".join(bed.state(name) for name in names)):
        for order in orders.values():
            bed.osm.finished(NSI_OPERATIONS, order)
        patience = 300.0 * len(requests)  # Of each that follows, however long the others take.
        pause = bed.osm.nbi.pause
        client = ApiClient(osm=bed.osm, timeout=bed.osm.limit, pause=pause)
        joiner = Joiner(client, lambda _: None)
        join_slices(joiner, list(orders), patience, pause)
        given = requests[0].part(SHARED)
        common = bed.slices[SHARED] = bed.read(SHARED, given, names[0], SHARED_LINKS)
        for one in requests:
            own = bed.read(one.name, one.parameters, one.service, LINKS)
            addresses = own.addresses.with_those_of(common.addresses)
            bed.slices[one.name] = replace(own, addresses=addresses, shared=common.vnfs)
        for slice_ in bed.slices.values():
            bed.wait_up(slice_, time.monotonic() + patience)
        sessions.wait(bed, patience)
    bed.shaped = True
