"""vpn_basic_ns, two VNFs and one tunnel: its links and addresses, and its ends configured anew."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from e2e_support import Service, Vnf, wait
from vpnaas.plan import ANSWER_SECONDS, RECENT
from vpnaas.status import SETTLING

from lab.records import jobs

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
INNER = {"server": SERVER, "client": CLIENT}
"""Inner address by member."""
LINKS = {"server": "vpn-server", "client": "vpn-client"}


def configure(vnf: Vnf, **options: object) -> None:
    """Configure one end as its parameters have it, but for the options."""
    given = {"inner_address": f"{INNER[vnf.index]}/24", "underlay_interface": "ens4", **options}
    vnf.action("configure", link=LINKS[vnf.index], **given)


def configure_both(service: Service, **options: object) -> None:
    """Configure both ends alike, beginning with the one that answers."""
    for index in LINKS:
        configure(service[index], **options)


def told(service: Service) -> dict[str, dict[str, object]]:
    """Return what show-status says of each end."""
    return {index: service[index].status(link) for index, link in LINKS.items()}


def journal(vnf: Vnf) -> str:
    return vnf.out("journalctl", "-u", "strongswan", "-o", "cat")


@contextmanager
def rules(vnf: Vnf, *lines: str, hook: str = "input") -> Iterator[None]:
    """Filter what comes into a VDU, or leaves it, as a firewall in front of it would."""
    body = "\n".join((f"type filter hook {hook} priority -300;", *lines))
    table = f"table inet trouble {{\nchain {hook} {{\n{body}\n}}\n}}\n"
    vnf.out("nft", "-f", "-", input=table)
    try:
        yield
    finally:
        vnf.out("nft", "delete", "table", "inet", "trouble")


def answered(vnf: Vnf) -> tuple[dict[str, Any], str]:
    """Return what show-status says of a link, and the operation; charms may go on meanwhile."""
    engine, link = vnf.service.lab.engine, LINKS[vnf.index]
    op_id = vnf.service.begin(vnf.index, "show-status", link=link)
    while (done := engine.operation(op_id))["operationState"] == "PROCESSING":
        time.sleep(0.1)
    return json.loads(done["detailed-status"]["output"])[link], op_id


def is_red_when_asked(vnf: Vnf, other: Vnf, rule: str) -> None:
    """Cut a link that is up, at its other end; check that show-status says so in time, and why."""
    link, engine = LINKS[vnf.index], vnf.service.lab.engine

    def asked() -> tuple[dict[str, Any], float]:
        """Return what show-status says of the link, and how long it took."""
        began = time.monotonic()
        shown, op_id = answered(vnf)
        took = time.monotonic() - began
        wait(lambda: not jobs.alive(engine.operation(op_id)), "the charms are idle")
        return shown, took

    def looked() -> tuple[dict[str, Any], float]:
        """Ask until the peer was asked, too: one that was heard just now is not.

        A handshake may come at any time.
        """
        for _ in range(3):
            shown, took = asked()
            if "loss-percent" in shown["peers"][0]:
                break
            time.sleep(RECENT + 1)
        return shown, took

    assert vnf.pings(SERVER if vnf.index == "client" else CLIENT)
    time.sleep(RECENT + 1)
    shown, usual = looked()
    assert (shown["state"], shown["peers"][0]["loss-percent"]) == ("up", 0)
    # A peer that has confirmed our key a moment ago would be `pending`.
    age = time.time() - datetime.fromisoformat(shown["since"]).timestamp()
    time.sleep(max(RECENT, SETTLING - age) + 1)
    with rules(other, rule):
        shown, took = looked()
        print(f"red {took:.1f} s after the cut, green takes {usual:.1f} s")
        assert (shown["state"], shown["peers"][0]["loss-percent"]) == ("down", 100)
        assert shown["reason"] == f"no answer from {other.application}"
        # On a machine with nothing else to do a look takes two seconds.
        assert took < max(10, 2 * usual + ANSWER_SECONDS)
        with vnf.service.controller() as controlled:
            since = shown["since"]
            said = controlled.status(vnf.index)
            assert said[0] == "blocked"
            assert f"{link} down since {since} (no " in said[1]
    # charon may have given up meanwhile, and begins anew.
    wait(lambda: vnf.status(link)["state"] == "up", "the link is up again")
