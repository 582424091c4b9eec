"""The charm class that every VNF of the collection uses, with the primitives of links."""

from functools import partial
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Sequence, Tuple

import attr

from vpnaas import status
from vpnaas.actions import OUTPUT_LIMIT, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import DIRECTORY
from vpnaas.features import certificate_actions, qos
from vpnaas.features.gateway.gateway import Gateway
from vpnaas.features.measure import measure
from vpnaas.features.monitoring import Monitoring
from vpnaas.features.peer_file import peer_file
from vpnaas.params.gateway import GatewayParams, exporter_port, log_server
from vpnaas.params.intent import MANUAL, STORE, Intent, ManualPeer, manual_peer
from vpnaas.params.qos import link_qos
from vpnaas.params.servers import Enrolment, SecretReference
from vpnaas.peers.inputs import CharmState
from vpnaas.peers.peer import Peer, read_record
from vpnaas.plan import TABLE, Plan
from vpnaas.reconciling import (
    HOST_KEY,
    INTENT_KEY,
    NOTICE_KEY,
    TRUST_KEY,
    Outcome,
    ReconcilingCharm,
)
from vpnaas.tunnels import preshared
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import facts, secret_store
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu, ensure_key
from vpnaas.vdu.steps import read


class VnfCharm(ReconcilingCharm):
    """Proxy charm of a VNF; its links are the relations of interface vpnaas-link."""

    def _reconcile_now(self, **options: Any) -> Outcome:
        try:
            outcome = self._reconcile(self._charm_state(**options))
        except VpnaasError as error:
            self._after_work(partial(self.environment.set_status, True, str(error)))
            raise
        if outcome is None:
            if not self._login():
                raise VpnaasError("ssh-hostname and ssh-username are not set yet")
            raise VpnaasError("no link is configured yet; run configure first")
        self._after_work(partial(self._report, outcome))
        return outcome

    def _change_intent(
        self, intent: Intent, refusals: Callable[[Outcome], Sequence[str]] = lambda _: ()
    ) -> Outcome:
        """Reconcile with a new intent, and store it unless `refusals` returns a reason.

        A new link that cannot be used is stored all the same: there is no earlier state to return
        to, so it is blocked with its reason, and comes up when the cause is gone.
        """
        stored = self._intent()
        new = frozenset(intent.links) - frozenset(stored.links)
        try:
            outcome = self._reconcile_now(intent=intent)
        except VpnaasError:
            if new and self._login():
                self.environment.store(INTENT_KEY, intent.to_json())
            raise
        refused = refusals(outcome)
        if refused and any(outcome.plans[link].unusable for link in new & set(outcome.plans)):
            self.environment.store(INTENT_KEY, intent.to_json())
        elif refused:
            if new:
                # The stored intent says nothing of a link that is up only now.
                self._reconcile_now(intent=attr.evolve(stored, off=stored.off | new))
            self.reconcile_and_report()
        if refused:
            raise VpnaasError(refused[0])
        self.environment.store(INTENT_KEY, intent.to_json())
        return outcome

    # Actions that N2VC runs by itself

    def _chosen(self, params: Params) -> FrozenSet[str]:
        """Return the links that an action works on: the one in `link`, or all configured ones."""
        configured = self._intent().links
        if not configured:
            raise VpnaasError("no link is configured yet; run configure first")
        if params.get("link", "all") == "all":
            return frozenset(configured)
        return frozenset([self._configured_link(params)])

    def _one_link(self, params: Params) -> str:
        return fields.choice("link", str(params.get("link", "")), sorted(self.roles))

    def _configured_link(self, params: Params) -> str:
        link = self._one_link(params)
        if link not in self._intent().links:
            raise InputError("link", "{} is not configured".format(link), "run configure first")
        return link

    def _measured_plan(self, params: Params, vdu: Vdu) -> Plan:
        """Look at the VDU without changing it, to know the peers of the link to measure."""
        self._configured_link(params)
        return self._plan(self._charm_state(), vdu)

    def _facts(self, vdu: Vdu) -> VduFacts:
        """Look at the VDU for an action that does not reconcile."""
        return facts.parse(vdu.execute(facts.observe(), exclusive=False).check())

    @action("run", leader=False, plain=True)
    def _run(self, params: Params) -> Dict[str, Any]:
        with self._vdu() as vdu:
            result = vdu.command(str(params["command"]))
        if result.code != 0:
            lines = fields.lines(result.err) or fields.lines(result.out) or ["no message"]
            raise VpnaasError(
                "the command ended with exit code {}: {}".format(result.code, lines[-1][:500])
            )
        # Juju reserves the names `stdout` and `stderr`.
        answer = {"output": result.out, "exit-code": str(result.code)}
        return dict(answer, **{"error-output": result.err} if result.err else {})

    @action("generate-ssh-key", leader=False, plain=True)
    def _generate_ssh_key(self, params: Params) -> Dict[str, Any]:
        key = ensure_key(self._key_file())
        # OSM calls this before it puts the key into a VDU that it has just made. The new VDU has a
        # new host key, so the stored one is no longer valid.
        if self.environment.is_leader() and self.environment.has_store():
            self.environment.store(HOST_KEY, "")
        return {"output": key}

    @action("get-ssh-public-key", leader=False, plain=True)
    def _get_ssh_public_key(self, params: Params) -> Dict[str, Any]:
        return {"pubkey": ensure_key(self._key_file())}

    # N2VC compares with the text "True".
    @action("verify-ssh-credentials", leader=False, plain=True, failed={"verified": "False"})
    def _verify_ssh_credentials(self, params: Params) -> Dict[str, Any]:
        with self._vdu() as vdu:
            result = vdu.command("hostname", seconds=20)
            self._pin(vdu)
        return {"verified": "True", "output": result.out.strip()}

    @action("trust-host-key", plain=True)
    def _trust_host_key(self, params: Params) -> Dict[str, Any]:
        text = str(params.get("fingerprint", "any"))
        fingerprint = fields.host_key_fingerprint("trust-host-key: fingerprint", text)
        before = self.environment.stored(HOST_KEY)
        self.environment.store(TRUST_KEY, fingerprint)
        self.environment.store(HOST_KEY, "")
        try:
            with self._vdu() as vdu:
                vdu.command("true", seconds=20)
                self._pin(vdu)
        except VpnaasError:
            self.environment.store(HOST_KEY, before)
            self.environment.store(TRUST_KEY, "")
            raise
        self.environment.store(TRUST_KEY, "")
        self.reconcile_and_report()
        return {"output": "pinned {}".format(self.environment.stored(HOST_KEY))}

    # Links and their peers

    @action("configure")
    def _configure(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)

        def refusals(outcome: Outcome) -> Sequence[str]:
            plan = outcome.plans.get(link)
            if plan is None:
                return _problem(outcome, link)
            reasons = [p for p in plan.problems if plan.unusable or p.startswith("set-qos")]
            return reasons + _problem(outcome, qos.Qos.name)

        outcome = self._change_intent(self._intent().configured(params), refusals)
        return self._view(outcome, frozenset([link]))

    @action("rotate-keys")
    def _rotate_keys(self, params: Params) -> Dict[str, Any]:
        configured = self._intent().links
        links = frozenset(
            link for link in self._chosen(params) if TABLE[configured[link].technology].keyed
        )
        force = bool(params.get("force", False))
        if not links:
            raise InputError("link", "no chosen link uses keys", "a link with a VPN")
        # The first pass stages the keys. The second switches the keys that need no acknowledgement.
        outcome = self._reconcile_now(rotate=links)
        staged = {link: _rotation(outcome, link) for link in sorted(links)}
        # The first pass may have ended a rotation: `force` then begins no other one.
        # It also replaces keys that cannot be used.
        late = frozenset(k for k, view in staged.items() if view.get("next-public-key", "broken"))
        # The next event finishes a staged rotation. So the rotation does not fail if the VDU fails
        # now, for example because it is slow.
        try:
            outcome = self._reconcile_now(rotate=late if force else frozenset(), force=force)
            # A staged key that could not be used was made anew and is not in use yet.
            behind = frozenset(k for k in late if _rotation(outcome, k).get("next-public-key"))
            if force and behind:
                outcome = self._reconcile_now(rotate=behind, force=True)
        except VpnaasError as error:
            if all(view["rotation"] == "failed" for view in staged.values()):
                raise
            return {link: dict(view, reason=str(error)) for link, view in staged.items()}
        answer = {}
        for link, before in staged.items():
            answer[link] = _rotation(outcome, link)
            if answer[link]["rotation"] == "failed" != before["rotation"]:
                answer[link] = dict(before, reason=answer[link]["reason"])
        return answer

    @action("add-peer")
    def _add_peer(self, params: Params) -> Dict[str, Any]:
        self._one_link(params)
        peer = manual_peer(params)
        self._intent().check_key(peer.link, peer.public_key, "add-peer: public-key")
        outcome = self._change_intent(self._intent().with_peer(peer), unless_admitted(peer))
        # The view has no peer whose preshared key is not fetched yet.
        shown = "all" if peer.stored else peer.name
        view = self._view(outcome, frozenset([peer.link]), shown)[peer.link]
        # The administrator of the other end must enter these values there.
        keys = ("public-key", "listen-port", "inner-address", "ike-identity", "proposal")
        answer = dict({key: view[key] for key in keys if key in view}, added=peer.name)
        answer.update(peer_file(outcome.plans[peer.link], peer, self._charm_state().beside.shared))
        state = outcome.plans[peer.link].state
        agreed = state.agreed.get(peer.peer_name) if state else None
        wrapped = agreed.wrapped if agreed else ""
        return dict(answer, **{"wrapped-preshared-key": wrapped}) if wrapped else answer

    @action("fetch-preshared-key")
    def _fetch_preshared_key(self, params: Params) -> Dict[str, Any]:
        link, where = self._one_link(params), "fetch-preshared-key"
        name = str(params.get("name", ""))
        peer = self._intent().peers.get((link, name))
        if peer is None or not peer.stored:
            raise InputError(
                where + ": name",
                "{} has no such peer {}".format(link, fields.shown(name)),
                "one that add-peer was given with public-key {}".format(STORE),
            )
        reference = SecretReference.parse(params, where)
        file = preshared.PRESHARED.format(link, MANUAL + name)
        with self._vdu() as vdu:
            step = secret_store.fetch("psk", reference, preshared.FETCHED, file, text=True)
            results = vdu.execute([step]).check()
        outcome = self._reconcile_now()  # The status shows a failed fetch too.
        reason = secret_store.refusal("psk", results)
        if reason:
            raise VpnaasError("{}: {}".format(where, reason))
        return self._view(outcome, frozenset([link]), name)

    @action("delete-peer")
    def _delete_peer(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        name = str(params.get("name", ""))

        def refusals(outcome: Outcome) -> Sequence[str]:
            plan = outcome.plans.get(link)
            return plan.problems if plan is not None and plan.unusable else ()

        self._change_intent(self._intent().without_peer(link, name), refusals)
        return {"deleted": name, "link": link}

    @action("revoke-peer")
    def _revoke_peer(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        label = str(params.get("peer", ""))
        keys = certificate_actions.keys_of(self._charm_state(), link, label, self._applied(link))
        # Store it first: if the VDU does not answer now, the next reconcile removes the peer.
        self.environment.store(INTENT_KEY, self._intent().with_revoked(link, keys).to_json())
        require_removed("revoke-peer", link, self._reconcile_now())
        return {"revoked": label, "link": link, "public-keys": keys}

    def _applied(self, link: str) -> Tuple[Peer, ...]:
        """Return the peers that a link has on the VDU, () if the VDU does not answer."""
        try:
            with self._vdu() as vdu:
                record = read("applied", DIRECTORY.format(link) + "/applied.json")
                return read_record(vdu.execute([record], exclusive=False).check().text("applied"))
        except VpnaasError:
            return ()

    @action("set-enrolment")
    def _set_enrolment(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        enrolment = Enrolment.parse(params)
        outcome = self._change_intent(self._intent().with_enrolment(link, enrolment))
        return self._view(outcome, frozenset([link]))

    @action("show-csr")
    def _show_csr(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        return certificate_actions.requests(link, self._reconcile_now().plans.get(link))

    @action("set-certificate")
    def _set_certificate(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        certificate_actions.require_operated(self._intent(), link)
        given = certificate_actions.given(params)
        plan = self._reconcile_now(certificates={link: given}).plans[link]
        if plan.state is None:
            self.reconcile_and_report()  # Go back to what was before.
            raise VpnaasError((plan.problems or plan.waiting)[0])
        # A staged key takes over now if its peers have acknowledged it.
        return self._view(self._reconcile_now(), frozenset([link]))

    @action("restart")
    def _restart(self, params: Params) -> Dict[str, Any]:
        links = self._chosen(params)
        return self._view(self._reconcile_now(restart=links), links)

    @action("show-status")
    def _show_status(self, params: Params) -> Dict[str, Any]:
        link = str(params.get("link", "all"))
        if link != "all":
            fields.choice("link", link, sorted(self.roles))
        peer = str(params.get("peer", "all"))
        whole = link == "all" and peer == "all"
        outcome = self._reconcile_now(versions=whole)
        links = frozenset(self.roles) if link == "all" else frozenset([link])
        more = outcome.extra.shown() if whole else {}
        if outcome.notice:
            more = dict(more, notice=outcome.notice)
            self.environment.store(NOTICE_KEY, "")
            self._report(attr.evolve(outcome, notice=""))
        if self.environment.version and whole:
            more = dict(more, **{"charm-version": self.environment.version})
        if outcome.untried:
            more = dict(more, untried=list(outcome.untried))
        if self.environment.problems():
            more = dict(more, problems=list(self.environment.problems()))
        view = self._view(outcome, links, peer)
        configured = self._intent().links
        for name in set(view) & set(configured):
            view[name] = dict(view[name], configured=configured[name].to_params())
        return dict(view, **more)

    # Measurements

    @action("measure-throughput")
    def _measure_throughput(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, measure.ThroughputTest.parse(params))

    @action("measure-latency")
    def _measure_latency(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, measure.LatencyTest.parse(params))

    @action("measure-link")
    def _measure_link(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, measure.LinkTest.parse(params))

    def _measure(self, params: Params, test: measure.LinkMeasurement) -> Dict[str, Any]:
        with self._vdu() as vdu:
            peers = self._measured_plan(params, vdu).links[test.link].peers
            peer = measure.choose_peer(test.link, test.peer, peers)
            results = vdu.execute(test.steps(peer), exclusive=False)
        return test.summary(peer, results)

    # Extras

    @action("set-qos")
    def _set_qos(self, params: Params) -> Dict[str, Any]:
        link = self._one_link(params)
        intent = self._intent().with_qos(link, link_qos(params))

        def refusals(outcome: Outcome) -> Sequence[str]:
            plan = outcome.plans[link]
            refused = [p for p in plan.problems if p.startswith("set-qos")]
            return refused + _problem(outcome, qos.Qos.name) or (
                plan.problems if plan.unusable else ()
            )

        outcome = self._change_intent(intent, refusals)
        return self._qos(self._charm_state(intent), outcome.plans)

    @action("show-qos")
    def _show_qos(self, params: Params) -> Dict[str, Any]:
        with self._vdu() as vdu:
            charm_state = self._charm_state()
            return self._qos(charm_state, self._plan(charm_state, vdu).links)

    def _qos(self, charm_state: CharmState, plans: Mapping[str, LinkPlan]) -> Dict[str, Any]:
        links = qos.shares(charm_state, plans)
        if not links:
            return {}
        with self._vdu() as vdu:
            return qos.shown(links, vdu.execute(qos.look(links), exclusive=False).check())

    @action("configure-gateway")
    def _configure_gateway(self, params: Params) -> Dict[str, Any]:
        gateway = GatewayParams.parse(params)
        self._take(attr.evolve(self._intent(), gateway=gateway), Gateway.name)
        return gateway.to_params()

    @action("configure-monitoring")
    def _configure_monitoring(self, params: Params) -> Dict[str, Any]:
        intent = self._intent()
        port, server = exporter_port(params), log_server(params, intent.log_server)
        intent = attr.evolve(intent, monitoring=port, log_server=server)
        self._take(intent, Monitoring.name)
        return {"exporter-port": port, "log-server": server or "none"}

    def _take(self, intent: Intent, part: str) -> None:
        """Store an intent that differs in one feature only.

        Reconcile with it first, unless it is empty; a problem of this part refuses it.
        """
        if intent.empty:
            self.environment.store(INTENT_KEY, intent.to_json())
        else:
            self._change_intent(intent, lambda outcome: _problem(outcome, part))

    def _view(self, outcome: Outcome, links: FrozenSet[str], peer: str = "all") -> Dict[str, Any]:
        """Return the details of links, with as many peers as fit, or with one peer only."""
        result = {link.link: link.details for link in outcome.links if link.link in links}
        if peer != "all":
            return status.of_peer(result, peer)
        return status.bounded(result, OUTPUT_LIMIT * 9 // 10)


def _problem(outcome: Outcome, part: str) -> List[str]:
    return [outcome.problems[part]] if part in outcome.problems else []


def unless_admitted(peer: ManualPeer) -> Callable[[Outcome], Sequence[str]]:
    """Return a check that lists why a link does not have a manual peer as requested."""

    def refusals(outcome: Outcome) -> Sequence[str]:
        plan = outcome.plans[peer.link]
        # A peer whose new data are refused keeps its old ones.
        asked = (peer.peer_name, peer.allowed_prefixes, peer.public_key, peer.endpoint)
        for p in plan.peers:
            if (p.name, p.prefixes, p.public_key, p.endpoint) == asked:
                if p.keepalive == peer.keepalive_seconds and p.identity in ("", peer.identity):
                    return ()
        problems = plan.problems + (() if peer.stored else plan.waiting)
        reasons = [text for text in problems if text.startswith(peer.name + ":")]
        if peer.stored and not plan.unusable:
            return reasons  # The peer comes after fetch-preshared-key.
        return reasons or list(plan.problems) or ["peer refused"]

    return refusals


def require_removed(action: str, link: str, outcome: Outcome) -> None:
    """Raise VpnaasError if an unusable link still has a peer that was revoked."""
    plan = outcome.plans.get(link)
    if plan is not None and plan.unusable:
        what = "{}: the revocation is stored, but {} stays as it is until it can be used: {}"
        raise VpnaasError(what.format(action, link, plan.problems[0]))


def _rotation(outcome: Outcome, link: str) -> Dict[str, Any]:
    plan = outcome.plans[link]
    if plan.unusable or plan.state is None:
        return {"rotation": "failed", "reason": "; ".join(plan.problems or plan.waiting)}
    return {
        "rotation": "waiting for peers" if plan.state.next_public_key else "done",
        "key-generation": plan.state.generation,
        "public-key": plan.state.public_key,
        "next-public-key": plan.state.next_public_key,
        "reason": "; ".join(plan.waiting),
        # These peers get no offer; their owners must enter the new key themselves.
        "manual-peers": [peer.label for peer in plan.peers if peer.is_manual],
    }
