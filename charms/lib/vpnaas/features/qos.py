"""Quality of service of links: from a slice's 5QI to marks, shares and queues on the VDU.

OSM stores the 5QI of a slice but does not enforce it. So each VNF enforces its part:

- it marks the packets of a link with a DSCP, inside the tunnel and on the outer header, so that a
  transport network which honours DSCPs can tell slices apart (TS 23.501 clause 5.8.2.7);
- on the interface below the tunnels, one HTB class per link: a guaranteed rate, a ceiling beyond
  which packets are dropped, and precedence by priority level. If the rate of the underlay is given,
  packets queue here, where the VNF can order them, and not in the network;
- a link's queue is as long as its share of the delay budget allows.

A VNF shapes only the packets that it sends. It cannot shape packets that it receives, or links of
other VDUs.
"""

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import IPSEC, WIREGUARD
from vpnaas.features.feature import Feature, Sight
from vpnaas.params.qos import LinkQos, link_qos
from vpnaas.peers.inputs import CharmState
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.installed import Units, filled
from vpnaas.vdu.nftables import family, nft_table
from vpnaas.vdu.steps import Results, Step, run, write

FOLDER = "/etc/osm-vpnaas"
NFT_FILE = FOLDER + "/qos.nft"
TC_FILE = FOLDER + "/qos.tc"
LEAVES_FILE = FOLDER + "/qos-leaves.tc"
OFF_FILE = FOLDER + "/qos-off.tc"
UNIT = "osm-vpnaas-qos.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
NFT_TABLE = "osm_vpnaas_qos"
TOOLS = ("nft", "tc")
UNITS = Units("qos", (UNIT,), (NFT_FILE, TC_FILE, LEAVES_FILE, OFF_FILE, UNIT_FILE))

UNIT_TEXT = filled("qos.service", __package__, folder=FOLDER, table=NFT_TABLE)

UNLIMITED_MBPS = 100000
"""Ceiling if the rate of the underlay is not known: faster than any underlay."""
SUPER_PACKET = 70000
"""Bytes a queue must hold at least: a userspace VPN hands over up to 64 KiB as one (UDP GSO)."""
LONGEST_QUEUE = 4 << 20
"""Bytes a queue holds at most; also its size if no rate is known."""
REST = 0x2
FIRST = 0x10
MAJOR = "5c1e"
"""Names our queues. Somebody else's is often 1, as ours was in earlier revisions."""
_OTHERS = re.compile(
    r"^qdisc (?!htb (?:1|{}): .* default (?:0x)?{:x}\b)(\S+ (?!0:)\S+:) dev (\S+) root".format(
        MAJOR, REST
    ),
    re.M,
)
"""A queue of an interface, as `tc qdisc show` prints it, that is neither the kernel's nor ours."""


@attr.frozen
class Share:
    """One link on the interface below it."""

    qos: LinkQos  # Its QoS parameters.
    technology: str  # What secures it.
    interface: str  # Of the tunnel.
    underlay: str  # Interface below.
    port: int  # Of the tunnel, UDP.
    inner: fields.IPAddress  # Our inner address.
    # Outer addresses of its peers, as far as they are known.
    peers: Tuple[fields.IPAddress, ...] = ()
    alone: bool = False  # Whether all IPsec packets on that underlay belong to this link.


def fitting(shares: Sequence[Share]) -> None:
    """Raise InputError if links of one interface contradict each other or ask for too much."""
    for underlay, links in sorted(_by_underlay(shares).items()):
        rates = sorted({s.qos.underlay_mbps for s in links if s.qos.underlay_mbps})
        if len(rates) > 1:
            listed = " and ".join(str(rate) for rate in rates)
            what = "links over {} say {} Mbit/s".format(underlay, listed)
            raise InputError("set-qos: underlay-mbps", what, "one rate for an interface")
        total = sum(s.qos.guaranteed_mbps for s in links)
        if rates and total > rates[0]:
            what = "{} Mbit/s are guaranteed over {}, which has {}".format(
                total, underlay, rates[0]
            )
            raise InputError("set-qos: guaranteed-mbps", what, "at most the rate of the interface")
        by_peer: Dict[fields.IPAddress, Share] = {}
        for share in links:
            for peer in share.peers if share.technology == IPSEC else ():
                other = by_peer.setdefault(peer, share)
                # Outer packets of both tunnels have the same addresses and ports.
                if other.qos.five_qi != share.qos.five_qi:
                    what = "IPsec links {} and {} to {} have 5QIs {} and {}".format(
                        *(other.qos.link, share.qos.link, peer),
                        *(other.qos.five_qi, share.qos.five_qi),
                    )
                    allowed = "one 5QI for all IPsec links to a peer over an interface"
                    raise InputError("set-qos: five-qi", what, allowed)


def _by_underlay(shares: Sequence[Share]) -> Dict[str, List[Share]]:
    table = {}  # type: Dict[str, List[Share]]
    for share in sorted(shares, key=lambda s: (s.qos.characteristics.priority, s.qos.link)):
        table.setdefault(share.underlay, []).append(share)
    return table


def queue_bytes(qos: LinkQos, underlay_mbps: int) -> int:
    """Return the size of a link's queue: what can leave within its part of the delay budget."""
    row = qos.characteristics
    rate = qos.guaranteed_mbps or qos.maximum_mbps or underlay_mbps
    in_time = rate * 1000 // 8 * row.core_ms
    if not row.guaranteed:
        # Throughput matters here, not delay: TCP needs a queue of some round trips.
        in_time = max(in_time, 4 * SUPER_PACKET)
    return min(max(in_time, row.burst or 0, SUPER_PACKET), LONGEST_QUEUE)


def _classes(underlay: str, links: Sequence[Share]) -> Tuple[List[str], List[str]]:
    """Return the required and the optional tc(8) lines of an interface."""
    total = max(s.qos.underlay_mbps for s in links) or UNLIMITED_MBPS
    # Without enough tokens for a super packet HTB would let nothing of it through in time.
    burst = "burst {0}b cburst {0}b".format(SUPER_PACKET)
    at = "dev {} ".format(underlay)
    below = "class add {0}parent {1}:1 classid {1}:".format(at, MAJOR)
    lines = [
        "qdisc add {}root handle {}: htb default {:x}".format(at, MAJOR, REST),
        "class add {0}parent {1}: classid {1}:1 htb rate {2}mbit ceil {2}mbit {3}".format(
            at, MAJOR, total, burst
        ),
        # Packets of no link, such as management, go last but never starve.
        "{}{:x} htb prio 7 rate 1mbit ceil {}mbit {}".format(below, REST, total, burst),
    ]
    leaves = []
    for number, share in enumerate(links, FIRST):
        row, rate = share.qos.characteristics, share.qos.guaranteed_mbps or 1
        ceiling = min(share.qos.maximum_mbps or total, total)
        own = "{}{:x} htb prio {} rate {}mbit ceil {}mbit {}"
        lines.append(own.format(below, number, row.precedence, rate, ceiling, burst))
        limit = queue_bytes(share.qos, total)
        lines.append("qdisc add {}parent {}:{:x} bfifo limit {}".format(at, MAJOR, number, limit))
        if not row.guaranteed:
            # If the kernel has fq_codel, flows inside a link share fairly and queues stay short.
            leaf = "qdisc replace {}parent {}:{:x} fq_codel target 5ms interval 100ms"
            leaves.append(leaf.format(at, MAJOR, number))
    return lines, leaves


def _matches(share: Share) -> List[str]:
    """Return the nft(8) expressions that match the outer packets of a link."""
    way = 'oifname "{}" '.format(share.underlay)
    if share.technology == WIREGUARD:
        return [way + "udp sport {}".format(share.port)]
    if share.technology == IPSEC:
        to = ["{} daddr {} ".format(family(peer), peer) for peer in share.peers]
        return [
            way + which + packets
            for which in ([""] if share.alone else to)
            for packets in ("meta l4proto 50", "udp sport { 500, 4500 }")
        ]
    return ["{}{} saddr {}".format(way, family(share.inner), share.inner)]


def render(shares: Sequence[Share]) -> Dict[str, str]:
    """Return the files by path."""
    tc, leaves, off = [], [], []  # type: List[str], List[str], List[str]
    marks = []
    for underlay, links in sorted(_by_underlay(shares).items()):
        lines, more = _classes(underlay, links)
        tc += lines
        leaves += more
        # By its handle: at boot one of somebody else may be there.
        off.append("qdisc del dev {} root handle {}:".format(underlay, MAJOR))
        for number, share in enumerate(links, FIRST):
            dscp = share.qos.characteristics.dscp
            for match in _matches(share):
                for word, other in (("ip", "ip6"), ("ip6", "ip")):
                    if " {} ".format(other) not in match:
                        marks.append("{} {} dscp set {}".format(match, word, dscp))
                marks.append("{} counter meta priority set {}:{:x}".format(match, MAJOR, number))
            if share.interface != underlay:
                for word in ("ip", "ip6"):
                    inner = 'oifname "{}" {} dscp set {}'
                    marks.append(inner.format(share.interface, word, dscp))
    chain = "    chain out {\n        type filter hook postrouting priority mangle;\n"
    rules = "".join("        {}\n".format(mark) for mark in marks)
    return {
        NFT_FILE: nft_table(NFT_TABLE, chain + rules + "    }\n"),
        TC_FILE: "\n".join(tc) + "\n",
        LEAVES_FILE: "\n".join(leaves) + "\n",
        OFF_FILE: "\n".join(off) + "\n",
    }


def shares(charm_state: CharmState, links: Mapping[str, LinkPlan]) -> List[Share]:
    """Return the usable links that have a quality of service."""
    return [
        Share(
            qos=link_qos,
            technology=plan.params.technology,
            interface=plan.interface,
            underlay=plan.underlay,
            port=plan.params.listen_port,
            inner=plan.params.inner_address.ip,
            peers=tuple(peer.endpoint[0] for peer in plan.peers if peer.endpoint),
            # A link that is not usable now may have tunnels on any underlay.
            alone=not any(
                other.params.technology == IPSEC and other.underlay in ("", plan.underlay)
                for name, other in links.items()
                if name != link
            ),
        )
        for link, plan in sorted(links.items())
        for link_qos in [charm_state.intent.qos.get(link)]
        if link_qos is not None and plan.underlay and not plan.unusable
    ]


class Qos(Feature):
    """Marks, shares and queues of links that have a quality of service."""

    name = UNITS.name

    def tools(self, charm_state: CharmState) -> Sequence[str]:
        return TOOLS if charm_state.intent.qos else ()

    def observe(self, charm_state: CharmState) -> List[Step]:
        if not charm_state.intent.qos:
            return UNITS.look(wanted=False)
        return [
            *UNITS.look(),
            run("qos/table", "nft", "list", "table", "inet", NFT_TABLE, any_exit=True),
            run("qos/qdiscs", "tc", "qdisc", "show", any_exit=True),
        ]

    def after_links(self, sight: Sight) -> List[Step]:
        try:
            return steps_to(shares(sight.charm_state, sight.links), sight.results)
        except InputError as error:
            for link in sorted(set(sight.charm_state.intent.qos) & set(sight.links)):
                plan = sight.links[link]
                sentences = plan.problems + (str(error),)
                sight.links[link] = attr.evolve(plan, problems=sentences)
            return []


def steps_to(shares: Sequence[Share], results: Results) -> List[Step]:
    """Return the steps that put the wanted queues into force; none if they already are."""
    if not shares:
        return UNITS.steps_to(None, results)
    fitting(shares)
    shaped = results.output("qos/qdiscs")
    underlays = {share.underlay for share in shares}
    for queue, name in _OTHERS.findall(shaped):
        if name in underlays:
            what = "{} of the VDU has a queue of somebody else, {}".format(name, queue)
            allowed = "none; `tc qdisc del dev {} root` takes it away".format(name)
            raise InputError("set-qos: five-qi", what, allowed)
    rendered = render(shares)
    files = {path: (text, 0o644) for path, text in [(UNIT_FILE, UNIT_TEXT), *rendered.items()]}
    if (
        not UNITS.steps_to(files, results)
        and results.exit_code("qos/table") == 0
        and all("htb {}: dev {} root".format(MAJOR, name) in shaped for name in underlays)
    ):
        return []
    return [
        write("qos/put-unit", UNIT_FILE, UNIT_TEXT),
        run("qos/reload", "systemctl", "daemon-reload", timeout=90),
        # This uses the old files, so it also clears interfaces that are no longer shaped.
        run("qos/stop", "systemctl", "stop", UNIT, any_exit=True, timeout=90),
        *(write("qos/put" + path, path, text) for path, text in sorted(rendered.items())),
        run("qos/start", "systemctl", "enable", "--now", UNIT, timeout=90),
    ]


def look(shares: Sequence[Share]) -> List[Step]:
    """Return the steps that read the counters, for `show-qos`."""
    names = sorted({share.underlay for share in shares})
    return [
        run("show/" + name, "tc", "-s", "class", "show", "dev", name, any_exit=True)
        for name in names
    ] + [run("show-queues/" + name, "tc", "qdisc", "show", "dev", name, any_exit=True)
         for name in names]  # fmt: skip


_CLASS = re.compile(
    r"class htb {1}:([0-9a-f]+) .*?Sent {0} bytes {0} pkt \(dropped {0}, overlimits {0}\b".format(
        "([0-9]{1,18})", MAJOR
    ),
    re.DOTALL,
)
_QUEUE = re.compile(r"qdisc (\w+) \w+: (?:dev \S+ )?parent {}:([0-9a-f]+)".format(MAJOR))


def shown(shares: Sequence[Share], results: Results) -> Dict[str, Any]:
    """Return per link its 5QI, the values derived from it, and the counters of its class."""
    summary = {}
    for underlay, links in sorted(_by_underlay(shares).items()):
        text = results.output("show/" + underlay)
        counters = {int(m[0], 16): m[1:] for m in _CLASS.findall(text)}
        queues = {
            int(n, 16): k for k, n in _QUEUE.findall(results.output("show-queues/" + underlay))
        }
        for number, share in enumerate(links, FIRST):
            row, qos = share.qos.characteristics, share.qos
            counter = counters.get(number)
            summary[qos.link] = {
                "five-qi": qos.five_qi,
                "resource": row.resource,
                "priority": row.priority,
                "delay-budget-ms": row.budget_ms,
                "core-delay-budget-ms": row.core_ms,
                "dscp": row.dscp,
                "guaranteed-mbps": qos.guaranteed_mbps,
                "maximum-mbps": qos.maximum_mbps,
                "underlay": underlay,
                "underlay-mbps": qos.underlay_mbps,
                "in-force": counter is not None,
                "queue": queues.get(number, ""),
                "sent-bytes": int(counter[0]) if counter else 0,
                "sent-packets": int(counter[1]) if counter else 0,
                "dropped": int(counter[2]) if counter else 0,
                "delayed": int(counter[3]) if counter else 0,
            }
    return summary


class QosActions(Actions):
    """Sets and shows the shares of links."""

    @action("set-qos")
    def set_qos(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        intent = self.charm.intent().with_qos(link, link_qos(params))

        outcome = self.charm.change_intent(
            intent, lambda found: _refusals(found.plans[link], found.reasons(Qos.name))
        )
        return self._qos(self.charm.charm_state(intent), outcome.plans)

    @action("show-qos")
    def show_qos(self, params: Params) -> Dict[str, Any]:
        with self.charm.vdu() as vdu:
            charm_state = self.charm.charm_state()
            return self._qos(charm_state, self.charm.plan(charm_state, vdu).links)

    def _qos(self, charm_state: CharmState, plans: Mapping[str, LinkPlan]) -> Dict[str, Any]:
        links = shares(charm_state, plans)
        if not links:
            return {}
        with self.charm.vdu() as vdu:
            return shown(links, vdu.execute(look(links), exclusive=False).check())


def _refusals(plan: LinkPlan, problems: List[str]) -> Sequence[str]:
    """Return why a link does not get what set-qos asks for."""
    refused = [p for p in plan.problems if p.startswith("set-qos")]
    return refused + problems or (plan.problems if plan.unusable else ())
