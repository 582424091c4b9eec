"""Firewalls of others on a VDU that forwards: their chains drop what no rule of theirs accepts.

A container engine, ufw or an image's own rules may bring them. Packets must pass all firewalls, so
ours cannot accept for them.
"""

import json
from typing import List

from vpnaas.base.errors import MALFORMED
from vpnaas.vdu.steps import Results, Step, printable, read, run

OURS = "osm_vpnaas_"
"""Start of the names of our own tables."""
_FORWARDING = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")
_LEGACY = "/proc/net/ip_tables_names"
"""Exists where the kernel has tables of the old iptables, which nft does not list."""
_HOOKS = ("forward", "input")


def observe() -> List[Step]:
    """Return the steps that look for chains that drop by default."""
    legacy, drops = ("iptables-legacy", "-S"), r"^-P (INPUT|FORWARD) DROP"
    return [
        *(read("firewall" + path, path) for path in _FORWARDING),
        run("firewall/chains", "nft", "-j", "list", "chains", any_exit=True),
        run("firewall/legacy", *legacy, only_if=_LEGACY, pick=drops, any_exit=True),
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
    legacy = results.output("firewall/legacy").split()
    return sorted(chains) + ["{} of iptables".format(name) for name in legacy]
