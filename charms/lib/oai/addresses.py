"""Addresses in the parameters of network functions: what else has them on the VDU or its links.

The packets of UEs are routed by these addresses. So they are checked as those of links are: against
the VDU's own networks, where OSM logs in from, and what the links and their peers have.
"""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import OWN_INTERFACES
from vpnaas.peers.inputs import Beside
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.installed import foreign_interface

from . import values
from .kinds import FUNCTIONS
from .model import Part
from .params import NONE, Common

POOLS = ("ue-pool", "inner-pool")
SERVERS = ("dns", "second-dns")
Named = Tuple[str, fields.IPNetwork]


def _given(params: Common, names: Sequence[str]) -> Dict[str, str]:
    given = {name: str(getattr(params, name.replace("-", "_"), "")) for name in names}
    return {name: text for name, text in given.items() if text}


def _devices(kind: str, params: Common) -> Tuple[str, ...]:
    own = getattr(params, "tun_device", "")
    return (own,) if own else FUNCTIONS[kind].devices


def beside(kind: str, params: Optional[Common]) -> Beside:
    """Return what a network function has on its VDU, for the checks of links."""
    if params is None or params.software == NONE:
        return Beside()
    pools = _given(params, POOLS).items()
    networks = [("the {} ({})".format(kind, name), values.pool(name, text)) for name, text in pools]
    return Beside(_devices(kind, params), tuple(networks))


def of_links(plans: Mapping[str, LinkPlan]) -> List[Named]:
    """Return what the links of a VNF use, each with a description."""
    used: List[Named] = []
    for link, plan in sorted(plans.items()):
        params, of = plan.params, " of link {}".format(link)
        if params.has_address:
            used.append(("the inner subnet" + of, params.inner_address.network))
        used += [("a pool" + of, prefix) for prefix in params.ipsec.pool]
        used += [("an accepted prefix" + of, prefix) for prefix in params.accept_prefixes]
        used += [("a prefix of {}".format(p.label) + of, n) for p in plan.peers for n in p.prefixes]
        ends = [p.endpoint[0] for p in plan.peers if p.endpoint]
        ends += [plan.endpoint[0]] if plan.endpoint else []
        used += [("an endpoint" + of, fields.host_network(end)) for end in ends]
    return used


def of_functions(kind: str, parts: Mapping[str, Sequence[Tuple[str, Part]]]) -> List[Named]:
    """Return what the related network functions use, each with a description."""
    used = []
    for link, related in sorted(parts.items()):
        for label, part in related:
            if part.address:
                address = fields.network("part", part.address)
                used.append(("the address of {} on {}".format(label, link), address))
            if part.ue_pool and kind == "n3iwf":
                # UEs have an address of both pools.
                pool = values.pool("part", part.ue_pool)
                used.append(("the UEs' pool of {}".format(label), pool))
    return used


def has_any(kind: str, params: Common) -> bool:
    return kind == "n3ue" or bool(_given(params, POOLS + SERVERS))


def check_device(params: Common, vdu: VduFacts) -> None:
    """Raise InputError if somebody else made the device of UEs: a VPN may call its own tun0."""
    name = getattr(params, "tun_device", "")
    pools = [values.pool(name, text) for name, text in _given(params, POOLS).items()]
    for address in vdu.interfaces[name].addresses if name in vdu.interfaces else ():
        if address.version == 4 and not any(address.ip in pool for pool in pools):
            raise foreign_interface(name)


def check(
    kind: str, params: Common, vdu: VduFacts, used: Sequence[Named], station: str = ""
) -> None:
    """Raise InputError if the VDU, its links or related functions have addresses of `params`.

    Devices of the network function itself are not foreign. `used` is what links and related
    functions use, `station` the address of the UE's N3IWF inside its tunnels ("" if it has
    none).
    """
    networks = vdu.networks(OWN_INTERFACES + _devices(kind, params))
    taken = [("{} of the VDU".format(name), network) for name, network in networks]
    if vdu.login is not None:
        taken.append(("where OSM logs in from", fields.host_network(vdu.login)))
    taken += used
    given = {name: values.pool(name, text) for name, text in _given(params, POOLS).items()}
    hosts = dict(_given(params, SERVERS), **({"inner address of the N3IWF": station}))
    given.update((name, fields.network(name, text)) for name, text in hosts.items() if text)
    for name, network in given.items():
        for owner, other in taken:
            if fields.overlaps(network, other):
                form, shown, noun = "{} overlaps {}, {}", str(network), "a prefix"
                if name in hosts:
                    form, shown, noun = "{} is in {}, {}", hosts[name], "an address"
                allowed = "{} that neither the VDU nor a link uses".format(noun)
                raise InputError(name, form.format(shown, other, owner), allowed)
