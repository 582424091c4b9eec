"""The file that a manual peer's owner enters: wg-quick(8), or strongSwan's swanctl.conf(5).

No private and no preshared key is in it. Words in capitals stand for what only the owner knows.
"""

from typing import Mapping, Optional, Tuple

from vpnaas.base import fields
from vpnaas.base.links import IPSEC
from vpnaas.params import devices
from vpnaas.params.gateway import SharedAddress
from vpnaas.params.intent import ManualPeer
from vpnaas.params.ipsec import PSK, PUBKEY
from vpnaas.tunnels.ipsec.names import USERSPACE
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.installed import filled


def peer_file(
    plan: LinkPlan, peer: ManualPeer, shared: Optional[SharedAddress] = None
) -> Mapping[str, str]:
    """Return the file by the name of its format, {} while the link has no address.

    `shared` is the address of our gateway pair, if there is one.
    """
    if plan.endpoint is None or plan.state is None:
        return {}
    if plan.params.technology == IPSEC:
        return {"swanctl": _swanctl(plan, peer, shared)}
    networks = _behind(plan)
    file = devices.render(peer, plan.state.public_key, plan.endpoint, networks, plan.mtu)
    return {"wg-quick": file}


def _behind(plan: LinkPlan) -> Tuple[fields.IPNetwork, ...]:
    """Return the inner address of our end and the prefixes behind it."""
    return (fields.host_network(plan.params.inner_address), *plan.params.allowed_prefixes)


def _swanctl(plan: LinkPlan, peer: ManualPeer, shared: Optional[SharedAddress]) -> str:
    """Return the other end of what `tunnels.ipsec.configuration` writes on the VDU."""
    assert plan.endpoint is not None  # noqa: S101 - checked before
    options, state, name = plan.params.ipsec, plan.state, peer.name
    address, port = plan.endpoint
    identity = state.identity
    if shared is not None:
        address, identity = shared.address.ip, shared.identity
    esn = "no" if state.plane == USERSPACE else options.esn
    psk = options.credentials == PSK
    ours = {PUBKEY: "pubkeys = {}.pem".format(name), PSK: ""}
    theirs = {PUBKEY: "pubkeys = 0s{}".format(state.public_key), PSK: ""}
    prefixes = fields.show_networks(peer.allowed_prefixes)
    any_of = {4: "0.0.0.0", 6: "::"}  # noqa: S104 - asks for an address, binds to none
    vips = "vips = " + ", ".join(sorted(any_of[each.version] for each in options.pool))
    # Only one end keeps the tunnel up: we do if we know where the peer is. A trap needs an address.
    starts = "none" if peer.endpoint and shared is None else "trap" if prefixes else "start"
    names = {"link": plan.params.link, "peer": peer.identity, "identity": identity}
    text = filled(
        "peer.swanctl",
        __package__,
        ike=options.proposal.ike(),
        address=address,
        port=port,
        own_port=peer.endpoint[1] if peer.endpoint else port,
        encap="yes" if options.encap else "no",
        vips="" if prefixes else vips,
        auth="psk" if psk else "pubkey",
        ours=ours.get(options.credentials, "certs = {}.pem".format(name)),
        theirs=theirs.get(options.credentials, "cacerts = AUTHORITY.pem"),
        local=prefixes or "dynamic",
        remote=fields.show_networks(_behind(plan)),
        esp=options.proposal.esp(esn),
        starts=starts,
        **names,
    )
    text = "".join(line + "\n" for line in fields.lines(text))
    return text + (filled("peer_secret.swanctl", __package__, **names) if psk else "")
