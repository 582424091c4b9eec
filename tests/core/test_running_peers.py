"""Whatever peers offer, those that run lose nothing; what is honest still works."""

from __future__ import annotations

import base64
import functools
import ipaddress
import random
from typing import Any

import attr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.juju import Juju
from vpnaas.base import fields
from vpnaas.base.links import PROVIDER, REQUIRER
from vpnaas.params.intent import Intent, LinkParams, ManualPeer, link_params
from vpnaas.peers.admission import Admission, Context, admit
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.offer import KeyOffer, Offer, Remote, encode
from vpnaas.peers.peer import Peer
from vpnaas.vdu.facts import Interface, VduFacts
from vpnaas.vdu.steps import Results

pytestmark = [pytest.mark.schedule(idle=True, order=8), pytest.mark.slow]

SPKI = bytes.fromhex("302a300506032b6570032100")
PAIR = ("192.168.8.2", "192.168.8.3")
INNER = [f"172.16.0.{host}" for host in (2, 3, 4)]
PREFIXES = ["10.45.0.0/24", "10.45.0.0/25", "10.45.0.7/32", "10.45.1.0/24", "10.45.0.0/16"]
ENDPOINTS = [*PAIR, "198.51.100.1", "10.45.0.7", "10.45.1.5"]
NAMES = ("a", "b")
VDU = VduFacts(
    now=1_000_000,
    interfaces={
        name: Interface(name, 1500, (ipaddress.ip_interface(address),))
        for name, address in (("ens3", "10.0.0.1/24"), ("ens4", "192.168.8.1/24"))
    },
)


def key(technology: str, index: int) -> str:
    raw = bytes([index + 1]) * 32
    return base64.b64encode(raw if technology == "wireguard" else SPKI + raw).decode()


@attr.frozen
class Asked:
    """What a peer asks for, by index into what there is; None is nothing."""

    inner: int
    prefix: int | None
    key: int
    following: int | None
    identity: int
    endpoint: int

    @functools.cache  # noqa: B019  # there are few of them
    def bag(self, technology: str) -> dict[str, str]:
        """Return the databag of a related peer that asks for it."""
        following = None if self.following == self.key else self.following
        keys = KeyOffer(
            public_key=key(technology, self.key),
            next_public_key="" if following is None else key(technology, following),
            identity=NAMES[self.identity] if technology == "ipsec" else "",
            proposal="aes256gcm-curve25519" if technology == "ipsec" else "",
            credentials="pubkey" if technology == "ipsec" else "",
        )
        chosen = () if self.prefix is None else (ipaddress.ip_network(PREFIXES[self.prefix]),)
        offer = Offer(
            technology=technology,
            inner_address=ipaddress.ip_address(INNER[self.inner]),
            mtu=1400,
            endpoint=(ipaddress.ip_address(ENDPOINTS[self.endpoint]), 4500),
            allowed_prefixes=chosen,
            keys=None if technology == "none" else keys,
        )
        return encode(offer)

    def manual(self, technology: str, name: str) -> ManualPeer:
        """Return the manual peer that asks for it."""
        prefix = f"{INNER[self.inner]}/32" if self.prefix is None else PREFIXES[self.prefix]
        return ManualPeer(
            link="s1c",
            name=name,
            public_key=key(technology, self.key),
            allowed_prefixes=(ipaddress.ip_network(prefix),),
            endpoint=(ipaddress.ip_address(ENDPOINTS[self.endpoint]), 4500),
        )


@functools.cache
def read(number: int, name: str, asked: Asked, technology: str) -> Remote:
    """Return what a related peer offers; it is the same in every case."""
    return Remote.read(number, name, asked.bag(technology))


@functools.cache
def parsed(technology: str, role: str) -> LinkParams:
    """Return the parameters of the link, the same in every case."""
    given: dict[str, Any] = {
        "link": "s1c",
        "technology": technology,
        "inner-address": "172.16.0.1/24",
        "accept-prefixes": "10.45.0.0/16",
        "underlay-interface": "ens4",
    }
    if role == REQUIRER and technology != "wireguard":
        given["standby-gateways"] = ",".join(PAIR)
    return link_params(given)


class Link:
    """One link of a VDU, and what was applied last."""

    def __init__(self, technology: str, role: str = PROVIDER) -> None:
        self.technology = technology
        self.role = role
        self.params = parsed(technology, role)
        self.applied: tuple[Peer, ...] = ()
        self.holdings: dict[str, str] = {}

    def meet(
        self,
        bags: dict[int, dict[str, str] | Asked],
        manual: dict[str, Asked] | None = None,
        order: Any = list,
        labels: dict[int, str] | None = None,
    ) -> Admission:
        """Reconcile with these peers, given in any order."""
        remotes = []
        for number, bag in bags.items():
            name = (labels or {}).get(number, f"app{number}")
            if isinstance(bag, Asked):
                remotes.append(read(number, name, bag, self.technology))
            else:
                remotes.append(Remote.read(number, name, bag))
        state = CharmState(
            Intent({self.params.link: self.params}),
            {self.params.link: self.role},
            remotes={self.params.link: tuple(order(remotes))},
            holdings={self.params.link: self.holdings},
        )
        underlay = VDU.interfaces["ens4"]
        found = admit(
            Context(
                LinkInputs(state, self.params, VDU, underlay, 80, 1420, None, Results({})),
                self.applied,
                manual=tuple(
                    asked.manual(self.technology, name)
                    for name, asked in sorted((manual or {}).items())
                ),
                own_keys=("ours",),
            )
        )
        self.applied = found.peers
        self.holdings = {peer.name: peer.holdings() for peer in found.peers}
        return found


def holdings(peer: Peer) -> tuple[object, ...]:
    return (
        peer.inner_address,
        peer.prefixes,
        peer.public_key,
        peer.next_public_key,
        peer.identity,
        peer.endpoint,
    )


def traffic(link: Link, peers: tuple[Peer, ...]) -> None:
    """Assert that each packet has one peer to go to, or one of a pair that was declared."""
    keys = [public for peer in peers for public in peer.public_keys()]
    assert len(keys) == len(set(keys))
    identities = [peer.identity for peer in peers if peer.identity]
    assert len(identities) == len(set(identities))
    for peer in peers:
        for prefix in peer.prefixes:
            assert not any(
                other.endpoint and other.endpoint[0] in prefix for other in peers if other != peer
            )
            shared = [
                other
                for other in peers
                if other != peer and any(fields.overlaps(prefix, each) for each in other.prefixes)
            ]
            if shared:
                (other,) = shared
                ends = {str(one.endpoint[0]) for one in (peer, other) if one.endpoint}
                assert link.role == REQUIRER
                assert link.params.standby_gateways
                assert ends <= set(PAIR)
                assert len(ends) == 2 or link.technology == "none"
                assert other.prefixes == peer.prefixes


def index(values: object) -> st.SearchStrategy[int]:
    return st.integers(0, len(values) - 1)  # type: ignore[arg-type]


asks = st.builds(
    Asked,
    inner=index(INNER),
    prefix=st.none() | index(PREFIXES),
    key=st.integers(0, 4),
    following=st.none() | st.integers(0, 4),
    identity=index(NAMES),
    endpoint=index(ENDPOINTS),
)
GARBAGE = ({}, {"vpnaas-version": "9"}, {"vpnaas-technology": "off"}, {"vpnaas-version": "1"})
garbage = st.sampled_from(GARBAGE)
rounds = st.lists(
    st.tuples(
        # What relations say from now on, and which end; the others go on as they are.
        st.dictionaries(st.integers(1, 5), st.none() | asks | garbage, max_size=5),
        st.dictionaries(st.sampled_from(NAMES), st.none() | asks, max_size=2),
    ),
    min_size=2,
    max_size=4,
)


def play(technology: str, role: str, history: Any, order: Any) -> None:
    """Assert that no running peer loses anything that it does not give up itself."""
    link = Link(technology, role)
    bags: dict[int, Any] = {}
    manual: dict[str, Any] = {}
    for said, added in history:
        before = {peer.name: holdings(peer) for peer in link.applied}
        bags = {n: bag for n, bag in {**bags, **said}.items() if bag is not None}
        manual = {n: asked for n, asked in {**manual, **added}.items() if asked is not None}
        if technology == "none":
            manual = {}
        admitted = link.meet(bags, manual, order)
        traffic(link, admitted.peers)
        after = {peer.name: holdings(peer) for peer in admitted.peers}
        for name, held in before.items():
            kind, _, which = name.partition("-")
            if kind == "rel":
                asked = bags.get(int(which))
                gone = asked is None or asked in ({}, {"vpnaas-technology": "off"})
            else:
                asked = manual.get(which)
                gone = asked is None
            if gone:
                assert name not in after
            elif after[name] != held:
                alone = Link(technology, role)
                wish = alone.meet(
                    *(({int(which): asked},) if kind == "rel" else ({}, {which: asked}))
                )
                assert after[name] in [holdings(peer) for peer in wish.peers]
        # And it stays so: looked at again, nothing changes.
        assert link.meet(bags, manual, order).peers == admitted.peers


ARGUMENTS = (
    st.sampled_from(["wireguard", "ipsec", "none"]),
    st.sampled_from([PROVIDER, REQUIRER]),
    rounds,
    st.permutations(range(5)),
)


def _ordered(order: list[int]) -> Any:
    return lambda remotes: sorted(remotes, key=lambda remote: order[remote.relation_id - 1])


@settings(max_examples=100)
@given(*ARGUMENTS)
def test_no_running_peer_loses_anything_to_another(technology, role, history, order) -> None:
    play(technology, role, history, _ordered(order))


def random_asked(draw: random.Random) -> Asked:
    return Asked(
        inner=draw.randrange(len(INNER)),
        prefix=draw.choice([None, draw.randrange(len(PREFIXES))]),
        key=draw.randrange(5),
        following=draw.choice([None, draw.randrange(5)]),
        identity=draw.randrange(len(NAMES)),
        endpoint=draw.randrange(len(ENDPOINTS)),
    )


def random_history(draw: random.Random) -> list[tuple[dict[int, Any], dict[str, Any]]]:
    def said() -> Any:
        return draw.choice([None, draw.choice(GARBAGE), *(random_asked(draw) for _ in range(2))])

    return [
        (
            {number: said() for number in draw.sample(range(1, 6), draw.randrange(6))},
            {
                name: draw.choice([None, random_asked(draw)])
                for name in draw.sample(NAMES, draw.randrange(3))
            },
        )
        for _ in range(draw.randint(2, 4))
    ]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("part", "cases"),
    [(0, 10_000)]
    + [
        pytest.param(
            part, 25_000, marks=[pytest.mark.long, pytest.mark.schedule(worker=f"part {part}")]
        )
        for part in range(4)
    ],
)
def test_no_running_peer_loses_anything_in_thousands_of_cases(part: int, cases: int) -> None:
    """A long run has 100,000 of them: each worker takes its part."""
    seed = random.randrange(1 << 32)  # noqa: S311
    print(f"seed {seed}")  # shown after a failure
    draw = random.Random(seed)  # noqa: S311
    for case in range(cases):
        technology = draw.choice(["wireguard", "ipsec", "none"])
        role = draw.choice([PROVIDER, REQUIRER])
        history, order = random_history(draw), draw.sample(range(5), 5)
        try:
            play(technology, role, history, _ordered(order))
        except Exception:
            print(f"case {case}: {technology} {role} {history} {order}")
            raise


FIRST = Asked(inner=0, prefix=0, key=0, following=None, identity=0, endpoint=0)
SECOND = Asked(inner=1, prefix=3, key=1, following=2, identity=1, endpoint=1)
THEFTS = {
    "address": {"inner": 1},
    "prefix": {"prefix": 3},
    "wider prefix": {"prefix": 4},
    "key": {"key": 1},
    "next key": {"following": 2},
    "identity": {"identity": 1},
    "inner where it is reached": {"endpoint": 4},
}


@pytest.mark.parametrize(
    ("technology", "theft"),
    [("ipsec", theft) for theft in THEFTS]
    + [("wireguard", theft) for theft in THEFTS if theft != "identity"],
)
@pytest.mark.parametrize("thief", ["running", "new"])
def test_what_a_running_peer_has_no_related_one_gets(technology, theft, thief) -> None:
    link = Link(technology)
    # The thief's relation is the older one.
    honest = {2: SECOND} if thief == "new" else {1: FIRST, 2: SECOND}
    before = link.meet(honest).peers
    assert len(before) == len(honest)
    admitted = link.meet({1: attr.evolve(FIRST, **THEFTS[theft]), 2: SECOND})
    assert admitted.peers == before
    assert len(admitted.problems) == 1
    assert "app2" in admitted.problems[0]


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize("theft", ["address", "prefix", "key"])
def test_who_ran_before_a_heal_comes_first_after_it(technology, theft) -> None:
    link = Link(technology)
    before = link.meet({2: SECOND}).peers
    link.applied = ()  # The healed VDU has no record.
    admitted = link.meet({1: attr.evolve(FIRST, **THEFTS[theft]), 2: SECOND})
    assert admitted.peers == before
    assert "app2" in admitted.problems[0]


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_who_changes_what_is_its_own_may(technology) -> None:
    link = Link(technology)
    link.meet({1: FIRST, 2: SECOND})
    for change in (
        {"prefix": 2},
        {"prefix": 1},
        {"following": 3},
        {"key": 3, "following": None},
        {"inner": 2},
        {"endpoint": 2},
    ):
        asked = attr.evolve(FIRST, **change)
        admitted = link.meet({1: asked, 2: SECOND})
        assert admitted.problems == ()
        assert holdings(admitted.peers[0]) == holdings(Link(technology).meet({1: asked}).peers[0])


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_what_is_free_again_another_one_may_have(technology) -> None:
    for leaves in (None, {}, {"vpnaas-technology": "off"}, attr.evolve(FIRST, inner=2, prefix=1)):
        for number in (1, 3):
            link = Link(technology)
            link.meet({2: FIRST})
            taker = attr.evolve(SECOND, inner=0, prefix=2)
            bags = {2: leaves, number: taker} if leaves is not None else {number: taker}
            admitted = link.meet(bags)
            if isinstance(leaves, Asked):
                # What it keeps of the prefix stays its own.
                assert admitted.peers[0].name == "rel-2"
                assert "10.45.0.7/32 is already in use by app2" in admitted.problems[0]
            else:
                assert [peer.name for peer in admitted.peers] == [f"rel-{number}"]


@pytest.mark.parametrize("order", [{1: "gives", 2: "takes"}, {1: "takes", 2: "gives"}])
@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_what_one_gives_up_another_gets_in_the_same_reconcile(technology, order) -> None:
    link = Link(technology)
    before = {"gives": FIRST, "takes": SECOND}
    link.meet({number: before[what] for number, what in order.items()})
    after = {
        "gives": attr.evolve(FIRST, prefix=None),
        "takes": attr.evolve(SECOND, prefix=0),
    }
    admitted = link.meet({number: after[what] for number, what in order.items()})
    assert admitted.problems == ()
    (taker,) = [number for number, what in order.items() if what == "takes"]
    (peer,) = [peer for peer in admitted.peers if peer.name == f"rel-{taker}"]
    assert ipaddress.ip_network(PREFIXES[0]) in peer.prefixes


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_peer_of_another_name_is_the_same_peer(technology) -> None:
    link = Link(technology)
    before = link.meet({1: FIRST})
    renamed = link.meet({1: FIRST}, labels={1: "another"})
    assert renamed.problems == ()
    assert holdings(renamed.peers[0]) == holdings(before.peers[0])
    # Related anew, it is another relation with the same values.
    again = link.meet({7: FIRST})
    assert again.problems == ()
    assert holdings(again.peers[0]) == holdings(before.peers[0])


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize("theft", ["address", "prefix", "wider prefix", "key"])
@pytest.mark.parametrize("running", [True, False])
def test_a_manual_peer_comes_before_a_related_one(technology, theft, running) -> None:
    link = Link(technology)
    manual = {"a": attr.evolve(SECOND, prefix=None if theft == "address" else 3)}
    if running:
        assert len(link.meet({}, manual).peers) == 1
    hostile = attr.evolve(FIRST, identity=1, **THEFTS[theft])
    admitted = link.meet({1: hostile}, manual)
    assert [peer.name for peer in admitted.peers] == ["man-a"]
    assert "app1" in admitted.problems[0]
    assert "is already in use by a" in admitted.problems[0]


def test_a_manual_peer_that_is_new_displaces_no_running_peer() -> None:
    link = Link("wireguard")
    before = link.meet({1: FIRST}).peers
    admitted = link.meet({1: FIRST}, {"a": attr.evolve(SECOND, prefix=1)})
    assert admitted.peers == before
    assert admitted.problems == (
        "a: 10.45.0.0/25 is already in use by app1; allowed: prefixes of its own",
    )


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_peer_of_another_link_takes_no_prefix_either(technology) -> None:
    """S1-C and S1-U of a gateway accept the same prefixes; a route leads one way."""
    juju = Juju()
    nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.120.1/24"}
    gateway = juju.deploy("gateway", {"s1c": "provider", "s1u": "provider"}, nics)
    cells = {}
    for name, host in (("honest", 11), ("hostile", 12)):
        nics = {"ens3": f"10.0.0.{host}/24", "ens4": f"192.168.120.{host}/24"}
        cells[name] = juju.deploy(name, {"s1c": "requirer", "s1u": "requirer"}, nics)
    options = {"technology": technology, "underlay-interface": "ens4"}
    for link, inner in (("s1c", "10.41.0"), ("s1u", "10.42.0")):
        gateway.configure(link, f"{inner}.1/24", **options, **{"accept-prefixes": "10.44.0.0/16"})
        for host, cell in ((11, "honest"), (12, "hostile")):
            behind = {"allowed-prefixes": "10.44.1.5/32"} if (link, host) == ("s1u", 11) else {}
            cells[cell].configure(link, f"{inner}.{host}/24", **options, **behind)
    for link in ("s1c", "s1u"):
        for name in cells:
            juju.relate(link, "gateway", name)
    juju.settle()
    assert gateway.states() == {"s1c": "up", "s1u": "up"}
    made = {**gateway.vdu.interfaces, **gateway.vdu.plain}
    before = {name: set(interface.routes) for name, interface in made.items()}
    behind = {"allowed-prefixes": "10.44.1.5/32"}
    cells["hostile"].configure("s1c", "10.41.0.12/24", **options, **behind)
    cells["hostile"].reconcile()
    juju.settle()
    (problem,) = gateway.plans["s1c"].problems
    assert problem.startswith("hostile: 10.44.1.5/32 is already in use by honest on s1u; ")
    assert {name: interface.routes for name, interface in made.items()} == before
    # When it is free there, it is free here.
    for relation in list(juju.relations):
        if "honest" in relation.ends:
            juju.unrelate(relation)
    juju.settle()
    gateway.reconcile()
    assert gateway.plans["s1c"].problems == ()


@pytest.mark.parametrize(
    "theft",
    ["10.42.0.0/24", "10.42.0.1/32", "10.42.0.128/25", "10.42.0.0/16"],
    ids=["subnet", "our own address", "a part", "more"],
)
@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize("running", [True, False])
def test_a_peer_takes_nothing_of_the_subnet_of_another_link(technology, theft, running) -> None:
    """S1-C accepts prefixes widely. S1-U has its own subnet, with peers or before the first one."""
    juju = Juju()
    nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.120.1/24"}
    gateway = juju.deploy("gateway", {"s1c": "provider", "s1u": "provider"}, nics)
    options = {"technology": technology, "underlay-interface": "ens4"}
    gateway.configure("s1c", "172.16.41.1/24", **options, **{"accept-prefixes": "10.0.0.0/8"})
    gateway.configure("s1u", "10.42.0.1/24", **options)
    for name, link, inner, behind in (
        ("hostile", "s1c", "172.16.41.12/24", theft),
        ("honest", "s1u", "10.42.0.11/24", "none"),
    ):
        host = inner.partition("/")[0].rpartition(".")[2]
        nics = {"ens3": f"10.0.0.{host}/24", "ens4": f"192.168.120.{host}/24"}
        cell = juju.deploy(name, {link: "requirer"}, nics)
        cell.configure(link, inner, **options, **{"allowed-prefixes": behind})
    for name, link in [("honest", "s1u"), ("hostile", "s1c")][:: 1 if running else -1]:
        juju.relate(link, "gateway", name)
        juju.settle()
    assert gateway.states()["s1u"] == "up"
    assert gateway.plans["s1u"].problems == ()
    assert gateway.plans["s1c"].problems == (
        f"hostile: {theft} overlaps 10.42.0.0/24 of link s1u; "
        "allowed: prefixes that no other link of this VNF has",
    )
    made = {**gateway.vdu.interfaces, **gateway.vdu.plain}
    assert not [route for i in made.values() for route in i.routes if route == theft]
