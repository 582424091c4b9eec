"""A slice's delay budget on a congested link that two slices share (experiment `qos`).

The uplink of S1-U of both slices, or the downlink of N3, crosses one bottleneck in the network: a
token bucket with one first-in-first-out queue, as a switch port or an inter-site line has. eMBB
sends TCP as fast as it can. URLLC sends small datagrams at a steady rate. The result is their delay
in one direction.

Only the lab has such a bottleneck, so this is one of its extras.

First the parameters of nsi-create alone enforce the 5QIs, without a primitive. The control is the
same without 5QIs: eMBB's packets fill the queue and URLLC's wait in it.
"""

import time

from experiments import slices
from experiments.model import Result
from experiments.testbed import Slice, Testbed
from experiments.traffic import Flow, load

LINKS = ("s1u", "n3")
"""Links with the bottleneck: S1-U of an EPC from the eNB, N3 of a 5G core from the UPF."""
BOTTLENECK_MBPS = 50
EMBB_MBPS = 40
"""eMBB's share; the rest is for URLLC's guarantee, tunnel overhead and other traffic."""
URLLC_MBPS = 5
FIFO_MS = 100  # Length of the bottleneck's queue in ms.
URLLC, EMBB = 82, 6  # 5QIs of the templates: discrete automation, and web and buffered video.
RATES = {
    slices.URLLC: {"guaranteed_mbps": URLLC_MBPS, "maximum_mbps": URLLC_MBPS,
                   "underlay_mbps": BOTTLENECK_MBPS},
    slices.EMBB: {"maximum_mbps": EMBB_MBPS, "underlay_mbps": BOTTLENECK_MBPS},
}  # fmt: skip
"""Rates of the user-plane link in the parameters of nsi-create; the 5QI is in the template."""
BUDGET_MS = 10.0  # Packet delay budget of 5QI 82 (TS 23.501 table 5.7.4-1).
WITHIN = 98.0  # Percent of packets that must keep the budget (TS 23.501 clause 5.7.3.4).
RATE = 200


def ensure(bed: Testbed, enforced: bool) -> None:
    """Enforce the 5QIs of all slices as in their parameters, or remove them."""
    if bed.shaped == enforced:
        return

    def set_qos(slice_: Slice) -> None:
        link = slice_.links[slice_.user_plane]
        if link.name not in LINKS:
            return
        for end in (link.near, link.far):
            values = slice_.values(end) if end in slice_.vnfs else {}
            if values.get(f"{link.name}_five_qi"):
                words = ("five_qi", "guaranteed_mbps", "maximum_mbps", "underlay_mbps")
                given = {word: values[f"{link.name}_{word}"] if enforced else 0 for word in words}
                slice_[end].action("set-qos", link=link.name, **given)

    bed.shaped = None  # Some slices are set already if one of them fails.
    bed.in_slices(set_qos)
    bed.shaped = enforced


def run(bed: Testbed, urllc: str, embb: str, enforced: bool, seconds: int) -> Result:
    """Measure URLLC's delay while eMBB saturates the shared link.

    Args:
        enforced: whether the 5QIs are in force; False is the control.

    Returns:
        Delays of URLLC's datagrams and eMBB's rate. Also whether both slices had traffic, the charm
        reports the 5QI in force and enough datagrams kept the budget; in the control neither of
        the last two must be true.
    """
    lab, slow, fast = bed.the_lab, bed.slices[urllc], bed.slices[embb]
    name = slow.user_plane
    link = slow.links[name]
    ensure(bed, enforced)
    near = lab.ports(link.near, [slow, fast], name)
    with (
        lab.bottleneck(near, BOTTLENECK_MBPS, FIFO_MS),
        load(fast[link.near], name, parallel=4) as loaded,
    ):
        time.sleep(1)  # Until TCP has reached its rate and filled the queue.
        flow = Flow(slow, name, rate=RATE, seconds=seconds, budget_ms=int(BUDGET_MS))
        time.sleep(seconds)
        stream = flow.result()
    rate = loaded["mbps"]
    # On a link that carries nothing, the control would hold.
    carried = bool(stream.seen) and rate >= EMBB_MBPS / 2
    shown = slow[link.near].action("show-qos")
    within = stream.within_percent
    kept = within >= WITHIN
    direction = "uplink" if name == "s1u" else "downlink"
    return {
        "urllc": stream.summary(),
        "within_percent": within,
        "embb_mbps": rate,
        "budget_ms": BUDGET_MS,
        "link": name,
        "urllc_5qi": URLLC,
        "embb_5qi": EMBB,
        "shown": shown,
        "text": (
            f"The {direction} of {link.title} of both slices shares a bottleneck of "
            f"{BOTTLENECK_MBPS} Mbit/s with one queue of {FIFO_MS} ms. eMBB (5QI {EMBB}, share "
            f"{EMBB_MBPS} Mbit/s) sends TCP as fast as it can; URLLC (5QI {URLLC}, {URLLC_MBPS} "
            f"Mbit/s guaranteed) sends {RATE} datagrams a second."
        ),
    }, carried and kept == enforced == bool(shown.get(name, {}).get("in-force"))
