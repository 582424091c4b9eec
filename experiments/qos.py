"""A slice's delay budget on a congested link that two slices share (experiment `qos`).

The uplink of S1-U of both slices crosses one bottleneck in the network: a token bucket with one
first-in-first-out queue, as a switch port or an inter-site line has. eMBB sends TCP as fast as it
can. URLLC sends small datagrams at a steady rate. The result is their delay in one direction.

Only the lab has such a bottleneck, so this is one of its extras.

The parameters of nsi-create alone enforce the 5QIs; no primitive is called. The control is the same
without 5QIs: eMBB's packets fill the queue and URLLC's wait in it.
"""

from __future__ import annotations

import time
from typing import Any

import click

from experiments import slices
from experiments.testbed import LINKS, Slice, Testbed
from experiments.traffic import Flow, load

LINK = "s1u"
BOTTLENECK_MBPS = 50
EMBB_MBPS = 40
"""eMBB's share; the rest is URLLC's guarantee, and what tunnels and other traffic need."""
URLLC_MBPS = 5
FIFO_MS = 100
"""How long the bottleneck's queue is."""
URLLC, EMBB = 82, 6
"""5QIs of the templates: discrete automation, and web and buffered video."""
RATES = {
    slices.URLLC: {"guaranteed_mbps": URLLC_MBPS, "maximum_mbps": URLLC_MBPS,
                   "underlay_mbps": BOTTLENECK_MBPS},
    slices.EMBB: {"maximum_mbps": EMBB_MBPS, "underlay_mbps": BOTTLENECK_MBPS},
}  # fmt: skip
"""What the operator tells nsi-create of S1-U besides the 5QI, which is the template's."""
BUDGET_MS = 10.0
"""Packet delay budget of 5QI 82 (TS 23.501 table 5.7.4-1)."""
WITHIN = 98.0
"""Percent of packets that must keep it (TS 23.501 clause 5.7.3.4)."""
RATE = 200


def ensure(bed: Testbed, enforced: bool) -> None:
    """Let the 5QIs of all slices be in force on S1-U, as their parameters say, or not.

    Raises:
        click.ClickException: a charm refused.
    """
    if bed.shaped == enforced:
        return
    link = LINKS[LINK]

    def set_qos(slice_: Slice) -> None:
        for member in slice_.parameters["additionalParamsForVnf"]:
            if member["member-vnf-index"] not in (link.near, link.far):
                continue
            values = member["additionalParams"]
            words = ("five_qi", "guaranteed_mbps", "maximum_mbps", "underlay_mbps")
            given = {word: values[f"{LINK}_{word}"] if enforced else 0 for word in words}
            slice_[member["member-vnf-index"]].action("set-qos", link=LINK, **given)

    bed.in_slices(set_qos)
    bed.shaped = enforced


def run(
    bed: Testbed, urllc: str, embb: str, enforced: bool, seconds: int
) -> tuple[dict[str, Any], bool]:
    """Measure URLLC's delay while eMBB saturates the shared link.

    Args:
        bed: with the slices.
        urllc, embb: names of the slices.
        enforced: whether the 5QIs are in force; without is the control.
        seconds: of the stream.

    Returns:
        Delays of URLLC's datagrams and eMBB's rate; whether the charm says that the 5QI is in force
        and enough datagrams kept the budget, or in the control, neither.
    """
    if bed.lab is None:
        raise click.ClickException("qos needs a bottleneck in the network, which only the lab has")
    link = LINKS[LINK]
    slow, fast = bed.slices[urllc], bed.slices[embb]
    ensure(bed, enforced)
    near = bed.lab.ports(link.near, bed.slices.values(), LINK)
    with (
        bed.lab.bottleneck(near, BOTTLENECK_MBPS, FIFO_MS),
        load(fast[link.near], LINK, parallel=4) as loaded,
    ):
        time.sleep(1)  # TCP has found the rate, and filled what there is to fill.
        flow = Flow(slow, LINK, rate=RATE, seconds=seconds, budget_ms=int(BUDGET_MS))
        time.sleep(seconds)
        stream = flow.result()
    rate = loaded["mbps"]
    shown = slow[link.near].action("show-qos")
    within = stream.within_percent
    kept = within >= WITHIN
    return {
        "urllc": stream.summary(),
        "within_percent": within,
        "embb_mbps": rate,
        "budget_ms": BUDGET_MS,
        "urllc_5qi": URLLC,
        "embb_5qi": EMBB,
        "shown": shown,
        "text": (
            f"The uplink of S1-U of both slices shares a bottleneck of {BOTTLENECK_MBPS} Mbit/s "
            f"with one queue of {FIFO_MS} ms. eMBB (5QI {EMBB}, share {EMBB_MBPS} Mbit/s) sends "
            f"TCP as fast as it can; URLLC (5QI {URLLC}, {URLLC_MBPS} Mbit/s guaranteed) sends "
            f"{RATE} datagrams a second."
        ),
    }, kept == enforced == bool(shown.get(LINK, {}).get("in-force"))
