"""Rules for the parameters of links: of one end, and of the two ends of a relation.

The charms compare them too, but only after all machines are up: then a link is blocked, or waits.
"""

import ipaddress
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from builder.documents import charm_of, links_of, nics_at, placeholder
from builder.parameters.agreement import POOL, TECHNOLOGIES, technology
from builder.validate.context import Document, day12_of, numbered
from builder.validate.forms import Interface, Network, fits
from builder.validate.pool_rules import network_of, profile_of
from builder.validate.problem import Problem
from builder.validate.relation_rules import Side, sides
from builder.validate.request import Request

BESIDE = ("inner-address", "ue-pool", "inner-pool", "dns", "second-dns")
"""Parameters with addresses that are on none of the VDU's own networks."""
LINK = {"link", "inner-address"}
"""Parameters by which a primitive is known to set up a link."""
RATES = ("guaranteed-mbps", "maximum-mbps", "underlay-mbps")
ALIKE = {"proposal": "aes256gcm-curve25519", "credentials": "pubkey", "esn": "auto"}
"""What both ends of an IPsec link need alike, and what counts where an end does not say it."""
OPTIONS = "ipsec-options"
SAME = "same-address"  # An option: the inner address may be the outer one.
ENROLLED = ("cmp", "est")
"""Credentials that are certificates, as those are that an operator brings."""


@dataclass(frozen=True)
class End:
    """One end of a link: what a primitive that sets it up gets."""

    request: Request
    member: str
    link: str  # Name of the link, as the relation has it where there is one.
    place: str  # Of the parameters of the member.
    names: Document  # The values by parameter, as the descriptor has them.
    values: dict[str, str]  # The same, filled in.

    def given(self, key: str) -> str:
        """Return the value of a parameter, "" for words that mean none."""
        value = self.values.get(key, "")
        return "" if value in ("auto", "none", "None") else value

    @property
    def technology(self) -> str:
        return technology({"vpn_technology": self.values.get("technology", "")}, self.link)

    @property
    def off(self) -> bool:
        return self.values.get("inner-address") == "none"

    @property
    def asks(self) -> bool:
        """Tell whether the other end is to give the inner address."""
        return self.given("inner-address").partition(":")[0] == POOL

    @property
    def inner(self) -> Interface | None:
        with suppress(ValueError):
            return ipaddress.ip_interface(self.given("inner-address"))
        return None

    def prefixes(self, key: str) -> list[Network]:
        found = [network_of(text.strip(" ")) for text in self.given(key).split(",")]
        return [network for network in found if network]

    def option(self, key: str) -> str:
        """Return one of the ipsec-options, "" if it is not among them."""
        parts = (part.partition("=") for part in self.given(OPTIONS).split(","))
        return next((value.strip(" ") for name, _, value in parts if name.strip(" ") == key), "")

    def alike(self, key: str) -> str:
        """Return the value of a parameter or option of ALIKE, as the other end compares it."""
        value = self.option(key) or self.given(key) or ALIKE[key]
        return "cert-external" if value in ENROLLED else value

    def tell(self, case: str, key: str, **words: object) -> Problem:
        """Return a problem at a parameter of the link."""
        spot = f"{self.place}/{placeholder(self.names.get(key)) or key}"
        value = self.values.get(key)
        return self.request.tell(case, spot, end=self, key=key, value=value, **words)


def links(request: Request) -> Iterator[Problem]:
    """Check each end of a link by itself, and the networks of its VDU."""
    for index, vnfd in request.vnfds.items():
        for _, entry in day12_of("", vnfd["df"][0]) if index in request.members() and vnfd else ():
            own = _networks(request, index, str(entry["id"]))
            for primitive in entry.get("initial-config-primitive") or ():
                end = _filled(request, index, str(entry["id"]), primitive)
                yield from _captured(end, own)
                if end.values.keys() >= LINK and not end.off:
                    yield from _alone(end)


def _filled(request: Request, index: str, target: str, primitive: Document) -> End:
    place, params = request.params(index, target)
    names = {each["name"]: each.get("value") for each in primitive.get("parameter") or ()}
    filled = {key: str(params.get(placeholder(value), value)) for key, value in names.items()}
    # Another rule tells of values that are not supplied.
    values = {key: value for key, value in filled.items() if not placeholder(value)}
    return End(request, index, values.get("link", ""), place, names, values)


def _captured(end: End, own: list[tuple[str, Network]]) -> Iterator[Problem]:
    """What is inside of tunnels must leave out the networks on which the VDU is."""
    outer = end.technology == "none" or end.option(SAME) == "yes"
    for key in BESIDE[outer:]:
        network = network_of(end.given(key))
        for link, subnet in own:
            if network and network.version == subnet.version and network.overlaps(subnet):
                yield end.tell("params-value/captures", key, subnet=subnet, link=link)


def _networks(request: Request, index: str, target: str) -> list[tuple[str, Network]]:
    """Return the links on which the VDU of a day1-2 entry is, with their subnets if known."""
    vnfd = request.vnfds[index]
    managed = [vdu for vdu, _ in nics_at(vnfd, [vnfd.get("mgmt-cp")])]
    own = managed if target == vnfd["id"] else [target]
    found = []
    for member, connection, name in links_of(request.nsd):
        listed = connection.get("constituent-cpd-id") or ()
        points = [each.get("constituent-cpd-id") for each in listed]
        if member == index and any(vdu in own for vdu, _ in nics_at(vnfd, points)):
            network = network_of(profile_of(request, name).get("subnet-address"))
            found += [(name, network)] if network else []
    return found


def _alone(end: End) -> Iterator[Problem]:
    """Check the parameters of one end, as far as one depends on another."""
    word, pair = end.technology, end.given("standby-gateways")
    if word not in ("", *TECHNOLOGIES):
        yield end.tell("params-link/technology", "technology", may=TECHNOLOGIES)
    if pair and word == "wireguard":
        yield end.tell("params-link/no-pair", "standby-gateways")
    elif pair and word == "ipsec" and "," not in pair:
        yield end.tell("params-link/half", "standby-gateways")
    here = end.option(POOL) or end.option(SAME) == "yes"
    if end.asks and (word != "ipsec" or here):
        yield end.tell("params-link/asks", "inner-address")
    if word == "ipsec" and end.given("listen-port") not in ("", "0", "4500"):
        yield end.tell("params-link/port", "listen-port")
    for key in ("preshared-key", "post-quantum") if word == "none" else ():
        if end.given(key).lower() not in ("", "false"):
            yield end.tell("params-link/clear", key)
    for prefix in end.prefixes("accept-prefixes") if end.inner else ():
        if end.inner and end.inner.ip in prefix:
            free = placeholder(end.names["accept-prefixes"])
            key = "accept-prefixes" if free else "inner-address"
            yield end.tell("params-value/covers", key, prefix=prefix, own=end.inner.ip)
    yield from _rates(end)


def _rates(end: End) -> Iterator[Problem]:
    """The rates of a link must fit the kind of its 5QI."""
    first, *others = RATES
    texts = {key: end.given(key) for key in RATES}
    rates = {key: int(text) for key, text in texts.items() if re.fullmatch("[0-9]{1,6}", text)}
    rate, five_qi = rates.get(first, 0), end.given("five-qi")
    if not fits("five-qi", five_qi):
        return
    guaranteed = fits("gbr", five_qi)
    if guaranteed != bool(rate):
        case = "rate-lacks" if guaranteed else "rate-vain"
        yield end.tell(f"params-link/{case}", first, five_qi=five_qi)
    for key in others:
        if rate > rates.get(key, 0) > 0:
            yield end.tell("params-link/rate-above", first, other=key, most=rates[key])


def ends(request: Request) -> Iterator[Problem]:
    """Check that the two ends of each relation fit together."""
    relations = (request.nsd.get("ns-configuration") or {}).get("relation")
    pairs = []
    for place, relation in numbered("ns-configuration/relation", relations):
        pair = [end for side in sides(place, relation) if (end := _end(request, side))]
        unset = [end for end in pair if end.values["link"] != end.link]
        for end in unset:
            yield end.tell("params-link/unset", "link")
        pairs += [pair] if len(pair) == 2 and not unset else []
    on = {(end.member, end.link) for pair in pairs for end in pair if not any(e.off for e in pair)}
    yield from _taken([pair for pair in pairs if not any(end.off for end in pair)])
    for one, two in pairs:
        for end, other in ((one, two), (two, one)):
            # A gateway may have other peers on the link.
            if end.off and not other.off and (other.member, other.link) not in on:
                yield end.tell("params-link/off", "inner-address", other=other)
        if not one.off and not two.off:
            yield from _compared(one, two)


def _taken(pairs: list[list[End]]) -> Iterator[Problem]:
    """An end and its peers need inner addresses of their own; a pair of gateways has one."""
    owners: dict[tuple[object, ...], End] = {}
    for one, two in pairs:
        for hub, end in ((one, one), (one, two), (two, one)):
            if end.inner and (end is hub or not hub.given("standby-gateways")):
                owner = owners.setdefault((hub.member, hub.link, end.inner.ip), end)
                if owner.member != end.member:
                    yield end.tell("params-link/taken", "inner-address", other=owner)


def _end(request: Request, side: Side) -> End | None:
    """Return an end of a relation; None if no primitive that is known sets it up."""
    vnfd = request.vnfds.get(side.member)
    target = side.vdu or str(vnfd["id"] if vnfd else "")
    listed = day12_of("", vnfd["df"][0]) if vnfd and side.member in request.members() else []
    for entry in (entry for _, entry in listed if entry["id"] == target):
        charm = charm_of(entry, {"execution-environment-ref": side.reference})
        found = [
            end
            for primitive in entry.get("initial-config-primitive") or ()
            if charm_of(entry, primitive) == charm
            and (end := _filled(request, side.member, target, primitive)).values.keys() >= LINK
        ]
        free = [end for end in found if placeholder(end.names["link"])]
        named = [end for end in found if end.link == side.endpoint]
        return next((replace(end, link=str(side.endpoint)) for end in named or free), None)
    return None


def _compared(one: End, two: End) -> Iterator[Problem]:
    """Compare the ends of a relation, the first of which is its provider."""
    mine, theirs = two.technology, one.technology
    if mine != theirs and {mine, theirs} <= {"", *TECHNOLOGIES}:
        words = {"mine": mine, "theirs": theirs, "other": one, "what": "technology"}
        yield two.tell("params-link/differs", "technology", **words)
        return
    for key in ALIKE if mine == "ipsec" else ():
        mine, theirs = two.alike(key), one.alike(key)
        if mine != theirs and (key != "esn" or "auto" not in (mine, theirs)):
            words = {"mine": mine, "theirs": theirs, "other": one, "what": key}
            yield two.tell("params-link/differs", key if key != "esn" else OPTIONS, **words)
    if one.given("standby-gateways") and one.technology != "none":
        yield one.tell("params-link/gateway", "standby-gateways")
    yield from _reached(one, two)
    yield from _reached(two, one)


def _reached(end: End, other: End) -> Iterator[Problem]:
    """Check that an end takes the addresses that the other one has inside the tunnel."""
    if other.asks:
        if end.technology == "ipsec" and not end.option(POOL):
            yield other.tell("params-link/no-pool", "inner-address", other=end)
    elif end.inner and other.inner and "yes" not in (o.option(SAME) for o in (end, other)):
        if other.inner.ip not in end.inner.network:
            words = {"theirs": other.inner, "mine": end.inner.network}
            yield end.tell("params-link/subnet", "inner-address", other=other, **words)
    taken = end.prefixes("accept-prefixes")
    for prefix in other.prefixes("allowed-prefixes"):
        if not any(t.prefixlen <= prefix.prefixlen and prefix[0] in t for t in taken):
            yield end.tell("params-link/prefixes", "accept-prefixes", other=other, theirs=prefix)
