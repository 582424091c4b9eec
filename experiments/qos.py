"""A slice's delay budget on a congested link that two slices share (experiment `qos`).

The uplink of S1-U of both slices crosses one bottleneck in the network: a token bucket with one
first-in-first-out queue, as a switch port or an inter-site line has. eMBB sends TCP as fast as it
can. URLLC sends small datagrams at a steady rate. The result is their delay in one direction.

The parameters of nsi-create alone enforce the 5QIs; no primitive is called. The control is the same
without 5QIs: eMBB's packets fill the queue and URLLC's wait in it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import click

from experiments import slices
from experiments.testbed import LINKS, Testbed
from experiments.traffic import Flow, load
from lab.vim.fabric import enter
from lab.vim.run import tool

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
RATE = 200.0


@contextlib.contextmanager
def bottleneck(bed: Testbed, mbps: int) -> Iterator[None]:
    """Send the S1-U packets of all slices' eNBs through one queue while the block runs.

    The ports' ingress is redirected to one intermediate device (ifb). Its egress sends the frames
    to their destinations. The VDUs do not know about it.
    """
    ports = []
    for found in bed.slices.values():
        near = found[LINKS[LINK].near]
        network = found.network(LINK)
        server = found.vim.server(near.server)
        ports.append(next(p.device for p in server.ports if p.network_id == network))
        prefix = enter(found.vim.fabric)
    tool([*prefix, "ip", "link", "add", "shared0", "type", "ifb"])
    try:
        tool([*prefix, "ip", "link", "set", "shared0", "up"])
        limit = mbps * 1000 // 8 * FIFO_MS
        words = ("root", "tbf", "rate", f"{mbps}mbit", "burst", "70000", "limit", str(limit))
        tool([*prefix, "tc", "qdisc", "add", "dev", "shared0", *words])
        for port in ports:
            tool([*prefix, "tc", "qdisc", "add", "dev", port, "ingress"])
            every = ("parent", "ffff:", "protocol", "all", "u32", "match", "u32", "0", "0")
            away = ("action", "mirred", "egress", "redirect", "dev", "shared0")
            tool([*prefix, "tc", "filter", "add", "dev", port, *every, *away])
        yield
    finally:
        for port in ports:
            with contextlib.suppress(Exception):
                tool([*prefix, "tc", "qdisc", "del", "dev", port, "ingress"])
        tool([*prefix, "ip", "link", "delete", "shared0"])


def ensure(bed: Testbed, enforced: bool) -> None:
    """Let the 5QIs of all slices be in force on S1-U, as their parameters say, or not.

    Raises:
        click.ClickException: a charm refused.
    """
    if bed.shaped == enforced:
        return
    link = LINKS[LINK]
    started = []
    for found in bed.slices.values():
        for member in found.parameters["additionalParamsForVnf"]:
            if member["member-vnf-index"] not in (link.near, link.far):
                continue
            values = member["additionalParams"]
            words = ("five_qi", "guaranteed_mbps", "maximum_mbps", "underlay_mbps")
            given = {word: values[f"{LINK}_{word}"] if enforced else 0 for word in words}
            end = found[member["member-vnf-index"]]
            started.append(bed.start_action(end, "set-qos", link=LINK, **given))
    for operation in started:
        record = bed.client.wait(operation)
        if record["operationState"] != "COMPLETED":
            raise click.ClickException(f"set-qos: {record.get('errorMessage')}")
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
    link = LINKS[LINK]
    slow, fast = bed.slices[urllc], bed.slices[embb]
    ensure(bed, enforced)
    with bottleneck(bed, BOTTLENECK_MBPS):
        target = fast.target(LINK, "tunnel")
        before = _received(bed, embb)
        begun = time.monotonic()
        with load(fast[link.near], fast[link.far], target, seconds + 60, "-P", "4"):
            time.sleep(2)  # TCP has found the rate, and filled what there is to fill.
            ends, address = (slow[link.near], slow[link.far]), slow.target(LINK, "tunnel")
            stream = Flow(*ends, address, seconds=seconds, rate=RATE).result()
        rate = (_received(bed, embb) - before) * 8 / 1e6 / (time.monotonic() - begun)
    told = bed.action(slow[link.near], "show-qos")
    within = 100 * sum(got - at <= BUDGET_MS / 1000 for _, at, got in stream.seen) / stream.sent
    kept = within >= WITHIN
    return {
        "urllc": stream.summary(),
        "within_percent": within,
        "embb_mbps": rate,
        "budget_ms": BUDGET_MS,
        "urllc_5qi": URLLC,
        "embb_5qi": EMBB,
        "shown": told,
        "text": (
            f"The uplink of S1-U of both slices shares a bottleneck of {BOTTLENECK_MBPS} Mbit/s "
            f"with one queue of {FIFO_MS} ms. eMBB (5QI {EMBB}, share {EMBB_MBPS} Mbit/s) sends "
            f"TCP as fast as it can; URLLC (5QI {URLLC}, {URLLC_MBPS} Mbit/s guaranteed) sends "
            f"{RATE:.0f} datagrams a second."
        ),
    }, kept == enforced == bool(told.get(LINK, {}).get("in-force"))


def _received(bed: Testbed, name: str) -> int:
    """Return the bytes that came out of the tunnel at S1-U's far end so far."""
    far = bed.slices[name][LINKS[LINK].far]
    return int(far.out("cat", f"/sys/class/net/wg-{LINK}/statistics/rx_bytes"))
