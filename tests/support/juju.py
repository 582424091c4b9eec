"""A model of charms around the pure reconcile: databags and events, without processes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from vpnaas.base.errors import VpnaasError
from vpnaas.params.intent import Intent
from vpnaas.peers import leases
from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.peers.offer import Remote, asking, declined, encode, show_assigned
from vpnaas.plan import (
    broken_extras,
    conclude,
    diagnose_steps,
    make_plan,
    observe_steps,
    prepare_steps,
)
from vpnaas.status import link_status

from support.model import ModelVdu
from support.model_world import World


@dataclass
class Relation:
    id: int
    link: str
    ends: dict[str, dict[str, str]] = field(default_factory=dict)

    def remote(self, name: str) -> str:
        return next(end for end in self.ends if end != name)


class Charm:
    """One charm: what it stores, and its one reconcile."""

    def __init__(self, juju: Juju, name: str, roles: dict[str, str], nics: dict[str, str]) -> None:
        self.juju = juju
        self.name = name
        self.roles = roles
        self.vdu = ModelVdu(juju.world, nics)
        self.intent = Intent()
        self.reachable = True
        self.management = ipaddress.ip_interface(next(iter(nics.values()))).ip
        self.plans = {}
        self.error = ""
        self.problems = ()
        self.addresses = {}
        self.shared = None
        self.virtual = None

    def configure(self, link: str, inner: str, **options) -> None:
        params = {"link": link, "inner-address": inner, **options}
        self.intent = self.intent.configured(params)

    def break_off(self, step: str) -> None:
        """Reconcile on a VDU that fails at a step, named by a part of its id."""
        self.vdu.fail_on = step
        self.reconcile()
        assert step in self.error
        self.vdu.fail_on = None

    def reconcile(self, **options) -> int:
        before = self.vdu.round_trips
        if not self.reachable or self.intent.empty:
            return 0
        remotes = {link: [] for link in self.roles}
        for relation in self.juju.relations:
            if self.name in relation.ends and len(relation.ends) == 2:
                other = relation.remote(self.name)
                bag = dict(relation.ends[other])
                remotes[relation.link].append(Remote.read(relation.id, other, bag))
        tunnels = {link: {peer.name for peer in plan.peers} for link, plan in self.plans.items()}
        intent, asked = leases.resolved(
            self.intent, self.roles, remotes, self.addresses, running=tunnels
        )
        options.setdefault("beside", Beside(shared=self.shared, virtual=self.virtual))
        charm_state = CharmState(
            intent=intent,
            asking=asked,
            roles=self.roles,
            remotes={link: tuple(found) for link, found in remotes.items()},
            management=self.management,
            user="ubuntu",
            **options,
        )
        try:
            results = self.vdu.execute(observe_steps(charm_state)).check()
            prepare = prepare_steps(charm_state, results)
            prepared = self.vdu.execute(prepare).check() if prepare else None
            plan = make_plan(charm_state, results, prepared)
            after = self.vdu.execute(list(plan.steps)).check() if plan.steps else None
            looks = diagnose_steps(plan, after) if after else []
            self.plans = conclude(plan, after, self.vdu.execute(looks) if looks else None)
            self.problems = tuple({**plan.problems, **broken_extras(self.plans, after)}.values())
            found = [each.broken.values() for each in (results, prepared, after) if each]
            self.error = "; ".join(cause.why for broken in found for cause in broken)
        except VpnaasError as error:
            self.error = str(error)
            return self.vdu.round_trips - before
        for link, decided in self.plans.items():
            given = show_assigned(decided.params.given)
            self.addresses[link] = self.addresses.get(link, "") if decided.unusable else given
        for relation in self.juju.relations:
            if self.name not in relation.ends:
                continue
            decided = self.plans.get(relation.link)
            if relation.link in self.intent.off:
                bag = declined()
            elif relation.link in asked:
                bag = asking(
                    asked[relation.link].params.technology, asked[relation.link].params.request
                )
            elif decided is not None and relation.id in decided.offers:
                bag = encode(decided.offers[relation.id])
            else:
                continue
            bag = {key: value for key, value in bag.items() if value}
            if relation.ends[self.name] != bag:
                relation.ends[self.name] = bag
                self.juju.changed.add(relation.remote(self.name))
        return self.vdu.round_trips - before

    def states(self) -> dict[str, str]:
        clock = self.juju.world.clock
        plans, off = self.plans, self.intent.off
        found = {}
        for name in sorted(self.roles):
            # A minute ago it was the same, so no peer is new.
            ago = link_status(name, plans.get(name), clock, off, at=clock - 60)
            known = link_status(name, plans.get(name), clock, off, ago.memory, clock)
            found[name] = known.state
        return found

    def interface(self, link: str):
        return self.vdu.interfaces.get("wg-" + link)


class Juju:
    """Charms, relations, and who has yet to see a change."""

    def __init__(self) -> None:
        self.world = World()
        self.charms: dict[str, Charm] = {}
        self.relations: list[Relation] = []
        self.changed: set[str] = set()

    def deploy(self, name: str, roles: dict[str, str], nics: dict[str, str]) -> Charm:
        self.charms[name] = Charm(self, name, roles, nics)
        return self.charms[name]

    def relate(self, link: str, provider: str, requirer: str) -> Relation:
        relation = Relation(len(self.relations) + 1, link, {provider: {}, requirer: {}})
        self.relations.append(relation)
        self.changed |= {provider, requirer}
        return relation

    def unrelate(self, relation: Relation) -> None:
        self.relations.remove(relation)
        self.changed |= set(relation.ends)

    def settle(self, limit: int = 50) -> None:
        for _ in range(limit):
            if not self.changed:
                return
            self.charms[self.changed.pop()].reconcile()
        raise AssertionError("the charms do not settle")


def pair(technology: str = "wireguard", **options) -> tuple[Juju, Charm, Charm, Relation]:
    """Return an HSS and an MME with one S6a between them, configured and settled."""
    juju = Juju()
    hss = juju.deploy(
        "hss", {"s6a": "provider"}, {"ens3": "10.0.0.1/24", "ens4": "192.168.8.129/24"}
    )
    mme = juju.deploy("mme", {"s6a": "requirer"}, {"ens3": "10.0.0.2/24", "ens4": "192.168.8.2/24"})
    relation = juju.relate("s6a", "hss", "mme")
    for charm, inner in ((hss, "172.16.6.129/24"), (mme, "172.16.6.2/24")):
        charm.configure(
            "s6a", inner, technology=technology, **{"underlay-interface": "ens4", **options}
        )
    juju.changed |= {"hss", "mme"}
    juju.settle()
    return juju, hss, mme, relation
