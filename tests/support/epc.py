"""A small 4G core of model VDUs, whose charms see events in any order."""

from support.juju import Juju
from support.model_world import public_of

LINKS = {
    "s6a": ("hss", "mme", "172.16.6.1/24", "172.16.6.2/24"),
    "s11": ("spgwc", "mme", "172.16.1.1/24", "172.16.1.2/24"),
}
ROLES = {
    "hss": {"s6a": "provider"},
    "mme": {"s6a": "requirer", "s11": "requirer"},
    "spgwc": {"s11": "provider"},
}
NICS = {
    "hss": {"ens3": "10.0.0.1/24", "ens4": "192.168.8.1/24"},
    "mme": {"ens3": "10.0.0.2/24", "ens4": "192.168.8.2/24", "ens5": "192.168.10.2/24"},
    "spgwc": {"ens3": "10.0.0.3/24", "ens4": "192.168.10.1/24"},
}


class Epc:
    """HSS, MME and SPGW-C with their links."""

    def __init__(self, preshared, technology="wireguard", **more):
        self.more = more
        self.juju = Juju()
        self.preshared = preshared
        self.technology = technology
        for name, roles in ROLES.items():
            self.juju.deploy(name, roles, NICS[name])
        self.related = {}

    def relate(self, link):
        if link not in self.related:
            provider, requirer, _, _ = LINKS[link]
            relation = self.juju.relate(link, provider, requirer)
            # Juju never gives an id twice.
            relation.id = 100 + len(self.juju.world.vdus) + next(self.juju.world.serial)
            self.related[link] = relation

    def configure(self, name):
        for link, (provider, requirer, one, two) in LINKS.items():
            if name in (provider, requirer):
                inner = one if name == provider else two
                underlay = "ens5" if (name, link) == ("mme", "s11") else "ens4"
                options = {"underlay-interface": underlay, "preshared-key": self.preshared}
                options.update(self.more)
                self.juju.charms[name].configure(link, inner, technology=self.technology, **options)

    def play(self, event):
        kind, what = event[0], event[1]
        charm = self.juju.charms.get(what)
        if kind == "event":
            charm.reconcile()
        elif kind == "configure":
            self.configure(what)
            charm.reconcile()
        elif kind == "rotate":
            charm.reconcile(rotate=frozenset(charm.intent.links))
        elif kind == "reboot":
            charm.vdu.reboot()
        elif kind == "lose":
            self.juju.changed.discard(what)
        elif kind == "fail":
            charm.vdu.fail_on = event[2]
            charm.reconcile()
            charm.vdu.fail_on = None
        elif kind == "die":
            charm.vdu.steps_left = event[2]
            charm.reconcile()
            charm.vdu.steps_left = None
        elif kind == "settle":
            self.juju.settle()
        elif kind == "relate":
            self.relate(what)
        elif kind == "unrelate" and what in self.related:
            self.juju.unrelate(self.related.pop(what))
        elif kind == "later":
            self.juju.world.clock += what

    def finish(self):
        """All is related and configured in the end, and the periodic update-status comes."""
        for link in LINKS:
            self.relate(link)
        for name in ROLES:
            self.configure(name)
        for _ in range(2):
            self.juju.changed |= set(ROLES)
            self.juju.settle()

    def shape(self):
        """The VDU state with each key replaced by whose it is."""
        owners = {}
        for name, charm in self.juju.charms.items():
            for interface, wg in charm.vdu.interfaces.items():
                owners[public_of(wg.private)] = f"{name}/{interface}"
        view = {}
        for name, charm in self.juju.charms.items():
            for interface, wg in charm.vdu.interfaces.items():
                peers = {
                    owners.get(key, "stranger"): (p.allowed, p.endpoint, p.keepalive)
                    for key, p in wg.peers.items()
                }
                view[f"{name}/{interface}"] = (wg.port, wg.mtu, wg.addresses, wg.routes, peers)
        return view
