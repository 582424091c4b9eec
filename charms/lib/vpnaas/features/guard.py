"""The guard: nftables rules that keep the traffic of a secured link inside its tunnel.

By port: a network function sends to inner addresses. While the tunnel is down, or if somebody adds
a route, such packets could take the default route in clear. The guard drops them on the VDU itself,
in both directions, on every interface except the tunnel's.

By address: Linux accepts a packet to any of its addresses on any interface (the weak model of RFC
1122 section 3.3.4.2). So a machine on the underlay or the management network could reach a service
on an inner address, or pretend to be a peer by its inner address. The guard therefore accepts
packets to our inner address, and from the link's inner subnet, only out of the tunnel. A gateway
forwards packets to the inner subnet, and to prefixes behind a peer, only into the tunnel: without
the tunnel's route they would take the default one.

SSH is for management: it is closed on the underlays, which VNFs of other slices may share. Inside a
tunnel SSH stays open: only the peer can use it.

If an inner address is also the outer one (option same-address), only IKE, ESP, ICMP and DHCP reach
it outside the tunnel.

The guard is loaded at boot before the network comes up, and stays when the tunnel goes down. Links
in clear have no rules. Links with an unknown application have no rules by port.
"""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import NONE, reference_point
from vpnaas.features.feature import Feature, Sight
from vpnaas.peers.claims import used_pool
from vpnaas.peers.inputs import CharmState
from vpnaas.peers.same_address import split
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.nftables import BootTable, Matched, family, nft_table, prefix_set
from vpnaas.vdu.steps import Results, Step

#: Numbers of IP protocols (IANA). nft looks names up in /etc/protocols, which an image may lack.
_PROTOCOLS = {"sctp": 132, "tcp": 6, "udp": 17}

TABLE = "osm_vpnaas_guard"
BOOT = BootTable("guard", TABLE, "Traffic of secured links stays in their tunnels")
ROBBED = "somebody removed our rules of nftables, so packets in clear were not dropped meanwhile"
FILE, UNIT_FILE, UNIT_TEXT = BOOT.file, BOOT.unit_file, BOOT.unit_text


@attr.frozen
class Guarded:
    """Traffic that may use one interface only."""

    link: str  # Name of the link.
    transport: str  # "tcp", "udp" or "sctp".
    ports: Tuple[int, ...]  # At either end.
    # Our address in the tunnel, with the prefix length of the link's subnet.
    inner: fields.IPInterface
    # Of the tunnel; "" if decrypted packets come in by the underlay, and only the kernel's mark
    # distinguishes them from clear ones.
    interface: str = ""
    outer: bool = False  # Whether `inner` is our outer address as well.
    # Inner addresses of peers outside the subnet of `inner`: those that are outer ones as well, and
    # the pool.
    apart: Tuple[fields.IPNetwork, ...] = ()
    behind: Tuple[fields.IPNetwork, ...] = ()  # Prefixes behind the peers, outside that subnet.
    # Our further inner addresses, which the gateway assigned.
    also: Tuple[fields.IPAddress, ...] = ()
    underlay: str = ""  # Interface under the tunnel; "" if it is, or may be, that of management.


def guarded(plan: LinkPlan, management: str = "") -> Guarded:
    """Return what to guard of a link that needs it; `management` is "" if it is unknown."""
    link = plan.params.link
    point = reference_point(link)
    interface = "" if plan.interface == plan.underlay else plan.interface
    inner = plan.params.inner_address
    # If a peer's inner address is its outer one, IKE and ESP go to that address.
    behind, same = split(plan.peers)
    outside = [prefix for prefix in behind if not fields.covers(inner.network, prefix)]
    return Guarded(
        link=link,
        transport=point.transport,
        ports=point.ports,
        inner=inner,
        interface=interface,
        outer=plan.params.is_outer,
        apart=tuple(same) + used_pool(plan.params.ipsec.pool, plan.peers),
        behind=fields.ordered(outside),
        also=tuple(given.ip for given in plan.params.given[1:]),
        underlay=plan.underlay if management and plan.underlay != management else "",
    )


Section = Tuple[Tuple[str, ...], ...]
"""Rules of one link: the lines of each of _CHAINS."""
_CHAINS = ("input", "output", "forward")
_MARK = "        # "
"""Beginning of the line before the rules of a link."""


def render(guards: Sequence[Guarded], kept: Optional[Mapping[str, Section]] = None) -> str:
    """Return the nft(8) script, with `kept` rules of further links."""
    table = dict(kept or {}, **{guard.link: _section(guard) for guard in guards})
    lines: List[str] = []
    for number, chain in enumerate(_CHAINS):
        lines.append("    chain {} {{".format(chain))
        # Before conntrack and any other filter of the VDU.
        lines.append("        type filter hook {} priority raw + 10; policy accept;".format(chain))
        for link, section in sorted(table.items()):
            lines += [_MARK + link, *section[number]] if section[number] else []
        lines.append("    }")
    return nft_table(TABLE, "\n".join(lines) + "\n")


def sections(text: str) -> Dict[str, Section]:
    """Return the rules of each link in a script of `render`."""
    table: Dict[str, List[List[str]]] = {}
    chain, link = -1, ""
    for line in text.splitlines():
        if line.startswith("    chain "):
            chain += 1
        if not line.startswith("        "):
            link = ""
        elif line.startswith(_MARK):
            link = line[len(_MARK) :]
            table.setdefault(link, [[] for _ in _CHAINS])
        elif link and 0 <= chain < len(_CHAINS):
            table[link][chain].append(line)
    return {link: tuple(map(tuple, chains)) for link, chains in table.items()}


def _section(guard: Guarded) -> Section:
    forward = [_rule(guard, "saddr", prefix) for prefix in (guard.inner.network, *guard.apart)]
    return (
        tuple(_by_port(guard, "iifname", "meta ipsec exists") + _to(guard)),
        tuple(_by_port(guard, "oifname", "rt ipsec exists")),
        tuple(forward + _out(guard)),
    )


def _by_port(guard: Guarded, name: str, secured: str) -> List[str]:
    lines = []
    ports = "{{ {} }}".format(", ".join(str(port) for port in guard.ports))
    for end in ("dport", "sport") if guard.ports else ():
        match = "meta l4proto {} th {} {}".format(_PROTOCOLS[guard.transport], end, ports)
        if guard.interface:
            there = '{} != {{ "lo", "{}" }}'.format(name, guard.interface)
            lines.append("        {} {} counter drop".format(match, there))
        else:
            lines.append('        {} {} != "lo" {} accept'.format(match, name, secured))
            lines.append('        {} {} != "lo" counter drop'.format(match, name))
    return lines


def _outside(guard: Guarded) -> str:
    if guard.interface:
        return '        iifname != {{ "lo", "{}" }}'.format(guard.interface)
    return '        iifname != "lo" meta ipsec missing'


def _rule(guard: Guarded, end: str, of: Matched, verdict: str = "counter drop") -> str:
    """Return the rule for packets outside the tunnel; `end` is "daddr" or "saddr"."""
    return "{} {} {} {} {}".format(_outside(guard), family(of), end, of, verdict)


def _to(guard: Guarded) -> List[str]:
    # ICMP and ESP.
    tunnel = ["meta l4proto { 1, 50 }", "udp dport { 68, 4500 }"] if guard.outer else []
    own = [_rule(guard, "daddr", guard.inner.ip, match + " accept") for match in tunnel]
    drops = [_rule(guard, "daddr", address) for address in (guard.inner.ip, *guard.also)]
    return own + drops + [_rule(guard, "saddr", guard.inner.network), *_ssh(guard)]


def _ssh(guard: Guarded) -> List[str]:
    """Return the rule that closes SSH under the tunnel."""
    if not guard.underlay:
        return []
    # Without a tunnel interface, decrypted packets also come in by the underlay.
    mark = "" if guard.interface else " meta ipsec missing"
    return ['        iifname "{}"{} tcp dport 22 counter drop'.format(guard.underlay, mark)]


def _out(guard: Guarded) -> List[str]:
    """Return the rules for packets that must leave by the tunnel, one line per IP version."""
    if guard.interface:
        elsewhere = 'oifname != {{ "lo", "{}" }}'.format(guard.interface)
    else:
        elsewhere = 'oifname != "lo" rt ipsec missing'
    lines = []
    for version in (4, 6):
        # ESP and IKE must reach the outer subnet outside the tunnel.
        subnet = () if guard.outer else (guard.inner.network,)
        there = [p for p in subnet + guard.behind if p.version == version]
        if there:
            line = "        {} {} daddr {} counter drop"
            lines.append(line.format(elsewhere, family(there[0]), prefix_set(there)))
    return lines


def steps_to(plans: Mapping[str, LinkPlan], results: Results, management: str = "") -> List[Step]:
    """Return the steps that put the wanted guard into force; none if it already is."""
    text = results.text(BOOT.name + "/file") or ""
    present = sections(text)
    unusable = [link for link, plan in plans.items() if plan.unusable]
    if unusable and text and not present:
        # A script that somebody changed may not say which rules are whose.
        return BOOT.stay(results)
    # The wanted state of an unusable link is unknown, so its present rules stay.
    kept = {link: present[link] for link in unusable if link in present}
    usable = [plan for plan in plans.values() if not plan.unusable]
    guards = [guarded(plan, management) for plan in usable if plan.params.technology != NONE]
    if not guards and not kept:
        return BOOT.steps_to(None, results)
    return BOOT.steps_to(render(guards, kept), results)


class Guard(Feature):
    """The guard: no packet may leave in clear while a tunnel comes up."""

    name = BOOT.name
    vital = True

    def tools(self, charm_state: CharmState) -> Sequence[str]:
        return ("nft",) if charm_state.has_tunnels else ()

    def observe(self, charm_state: CharmState) -> List[Step]:
        return BOOT.observe() if charm_state.has_tunnels else [BOOT.look()]

    def before_links(self, sight: Sight) -> List[Step]:
        management = sight.vdu.name_of(sight.charm_state.management)
        for link, plan in sight.links.items() if BOOT.robbed(sight.results) else ():
            if plan.params.technology != NONE:
                sight.links[link] = attr.evolve(plan, waiting=(*plan.waiting, ROBBED))
        return steps_to(sight.links, sight.results, management)
