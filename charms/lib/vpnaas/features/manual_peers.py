"""Manual peers: ends of links that no charm of ours runs, and a file for the owner of each.

The file is one of wg-quick(8), or strongSwan's swanctl.conf(5).

No private and no preshared key is in it. Words in capitals stand for what only the owner knows.
"""

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import IPSEC
from vpnaas.params import devices
from vpnaas.params.gateway import SharedAddress
from vpnaas.params.intent import MANUAL, STORE, ManualPeer, manual_peer
from vpnaas.params.ipsec import PSK, PUBKEY
from vpnaas.params.servers import SecretReference
from vpnaas.tunnels import preshared
from vpnaas.tunnels.ipsec.names import USERSPACE
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import secret_store
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


class PeerActions(Actions):
    """What an operator does with the manual peers of a link."""

    @action("add-peer")
    def add_peer(self, params: Params) -> Dict[str, Any]:
        self.charm.one_link(params)
        peer = manual_peer(params)
        self.charm.intent().check_key(peer.link, peer.public_key, "add-peer: public-key")
        outcome = self.charm.admit(self.charm.intent().with_peer(peer), peer)
        # The view has no peer whose preshared key is not fetched yet.
        shown = "all" if peer.stored else peer.name
        view = self.charm.view(outcome, frozenset([peer.link]), shown)[peer.link]
        # The administrator of the other end must enter these values there.
        keys = ("public-key", "listen-port", "inner-address", "ike-identity", "proposal")
        answer = dict({key: view[key] for key in keys if key in view}, added=peer.name)
        plan = outcome.plans[peer.link]
        answer.update(peer_file(plan, peer, self.charm.charm_state().beside.shared))
        state = plan.state
        agreed = state.agreed.get(peer.peer_name) if state else None
        wrapped = agreed.wrapped if agreed else ""
        return dict(answer, **{"wrapped-preshared-key": wrapped}) if wrapped else answer

    @action("fetch-preshared-key")
    def fetch_preshared_key(self, params: Params) -> Dict[str, Any]:
        link, where = self.charm.one_link(params), "fetch-preshared-key"
        name = str(params.get("name", ""))
        peer = self.charm.intent().peers.get((link, name))
        if peer is None or not peer.stored:
            raise InputError(
                where + ": name",
                "{} has no such peer {}".format(link, fields.shown(name)),
                "one that add-peer was given with public-key {}".format(STORE),
            )
        reference = SecretReference.parse(params, where)
        file = preshared.PRESHARED.format(link, MANUAL + name)
        with self.charm.vdu() as vdu:
            step = secret_store.fetch("psk", reference, preshared.FETCHED, file, text=True)
            results = vdu.execute([step]).check()
        outcome = self.charm.reconcile_now()  # The status shows a failed fetch too.
        reason = secret_store.refusal("psk", results)
        if reason:
            raise VpnaasError("{}: {}".format(where, reason))
        return self.charm.view(outcome, frozenset([link]), name)

    @action("delete-peer")
    def delete_peer(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        name = str(params.get("name", ""))
        intent = self.charm.intent().without_peer(link, name)
        self.charm.change_intent(intent, lambda outcome: _unusable(outcome.plans.get(link)))
        return {"deleted": name, "link": link}


def _unusable(plan: Optional[LinkPlan]) -> Sequence[str]:
    return plan.problems if plan is not None and plan.unusable else ()
