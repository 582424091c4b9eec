"""Firewalls of others on a VDU that forwards: their chains drop what no rule of theirs accepts.

A container engine, ufw or an image's own rules may bring them. Packets must pass all firewalls, so
ours cannot accept for them.
"""

import json
from typing import List

from vpnaas.base.errors import MALFORMED
from vpnaas.vdu.nftables import chains_of_iptables, look_at_iptables
from vpnaas.vdu.steps import Results, Step, printable, read, run

OURS = "osm_vpnaas_"
"""Start of the names of our own tables."""
_FORWARDING = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")
_HOOKS = ("forward", "input")


def observe() -> List[Step]:
    """Return the steps that look for chains that drop by default."""
    return [
        *(read("firewall" + path, path) for path in _FORWARDING),
        run("firewall/chains", "nft", "-j", "list", "chains", any_exit=True),
        *look_at_iptables("firewall/", r"^-P (INPUT|FORWARD) DROP"),
    ]


def found(results: Results) -> List[str]:
    """Return the chains of others that drop by default, none if the VDU does not forward."""
    values = [(results.text("firewall" + path) or "").strip() for path in _FORWARDING]
    if not any(value not in ("", "0") for value in values):
        return []
    chains = []
    try:
        for item in json.loads(results.out("firewall/chains") or "{}").get("nftables", ()):
            chain = item.get("chain", {})
            foreign = not str(chain.get("table", "")).startswith(OURS)
            if foreign and chain.get("policy") == "drop" and chain.get("hook") in _HOOKS:
                words = [str(chain[key]) for key in ("name", "family", "table")]
                chains.append(printable("{} of table {} {}".format(*words)))
    except MALFORMED:
        return []  # An nft without JSON.
    return sorted(chains) + chains_of_iptables("firewall/", results)
