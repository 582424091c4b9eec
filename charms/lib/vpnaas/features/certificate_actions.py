"""The actions on certificates and revocation."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import RECORD
from vpnaas.params.intent import Intent
from vpnaas.params.ipsec import EXTERNAL
from vpnaas.params.servers import Enrolment
from vpnaas.peers.inputs import CharmState, Given
from vpnaas.peers.peer import Peer, read_record
from vpnaas.tunnels.ipsec.observed import State
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.steps import read


def keys_of(
    charm_state: CharmState, link: str, label: str, applied: Sequence[Peer] = ()
) -> List[str]:
    """Return the public keys of a related peer: those that it offers, and those in force here.

    The peer is named as in show-status; `applied` are the peers that the link has on the VDU.
    """
    if link not in charm_state.intent.links and link not in charm_state.asking:
        raise InputError("link", "{} is not configured".format(link), "run configure first")
    offers = charm_state.offers(link)
    known: Dict[str, List[str]] = {}
    for remote in charm_state.remotes.get(link, ()):
        offer = offers.get(remote.peer_name)
        keys = [
            key for peer in applied if peer.name == remote.peer_name for key in peer.public_keys()
        ]
        if offer is not None and offer.keys is not None:
            keys += [offer.keys.public_key, offer.keys.next_public_key]
        if keys:
            known[remote.label] = [key for key in dict.fromkeys(keys) if key]
    if label not in known:
        raise InputError(
            "revoke-peer: peer",
            "no related peer {} of {} offers a key".format(fields.shown(label), link),
            fields.few(sorted(known)) or "nothing, there is none",
        )
    return known[label]


def require_operated(intent: Intent, link: str) -> None:
    """Raise InputError unless a link takes its certificates from set-certificate."""
    params = intent.links.get(link)
    if params is None or params.ipsec.credentials != EXTERNAL:
        raise InputError(
            "link",
            "{} uses no certificate from set-certificate".format(link),
            "a link with credentials {}".format(EXTERNAL),
        )


def requests(link: str, plan: Optional[LinkPlan]) -> Dict[str, Any]:
    """Return the answer of show-csr: requests in PEM, and the identity a certificate must name."""
    state = plan.state if plan is not None else None
    if not isinstance(state, State) or state.held.request is None:
        # The plan of a link that needs none has a state, and what it waits for is no reason.
        late = plan.waiting if plan is not None and state is None else ()
        reason = "; ".join(plan.problems or late) if plan is not None else ""
        raise VpnaasError(reason or "{} needs no certificate".format(link))
    following = state.held.next_request
    return {
        "ike-identity": state.identity,
        "request": state.held.request.pem,
        "next-request": following.pem if following is not None else "",
    }


def given(params: Mapping[str, Any]) -> Given:
    """Parse the parameters of set-certificate: our certificate with its chain, and the root."""

    def text(key: str) -> str:
        value = params.get(key, "")
        if not isinstance(value, str):
            raise InputError("set-certificate: " + key, "not text", "PEM, or base64 of DER")
        return value

    where = "set-certificate: "
    texts = x509.bundle(text("certificate")) or (text("certificate"),)
    if len(texts) > 1 + x509.MAX_CHAIN:
        what = "{} certificates are too many".format(len(texts))
        raise InputError(where + "certificate", what, str(1 + x509.MAX_CHAIN))
    issued, *between = [x509.certificate(where + "certificate", each) for each in texts]
    root = x509.authority(where + "ca-certificate", text("ca-certificate"))
    return Given(issued, root, tuple(between))


class CertificateActions(Actions):
    """Where the certificates of a link come from, and which peers must not come back."""

    @action("revoke-peer")
    def revoke_peer(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        label = str(params.get("peer", ""))
        keys = keys_of(self.charm.charm_state(), link, label, self._applied(link))
        intent = self.charm.intent().with_revoked(link, keys)
        self.charm.revoke("revoke-peer", link, intent)
        return {"revoked": label, "link": link, "public-keys": keys}

    def _applied(self, link: str) -> Tuple[Peer, ...]:
        """Return the peers that a link has on the VDU, () if the VDU does not answer."""
        try:
            with self.charm.vdu() as vdu:
                look = [read("applied", RECORD.format(link))]
                return read_record(vdu.execute(look, exclusive=False).check().text("applied"))
        except VpnaasError:
            return ()

    @action("set-enrolment")
    def set_enrolment(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        enrolment = Enrolment.parse(params)
        outcome = self.charm.change_intent(self.charm.intent().with_enrolment(link, enrolment))
        return self.charm.view(outcome, frozenset([link]))

    @action("show-csr")
    def show_csr(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        return requests(link, self.charm.reconcile_now().plans.get(link))

    @action("set-certificate")
    def set_certificate(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        require_operated(self.charm.intent(), link)
        certificates = {link: given(params)}
        plan = self.charm.reconcile_now(certificates=certificates).plans[link]
        if plan.state is None:
            self.charm.reconcile_and_report()  # Go back to what was before.
            raise VpnaasError((plan.problems or plan.waiting)[0])
        # A staged key takes over now if its peers have acknowledged it.
        return self.charm.view(self.charm.reconcile_now(), frozenset([link]))
