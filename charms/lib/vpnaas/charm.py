"""ops edge: the one charm class every VNF of the collection uses, with the primitives of links."""

import json
import uuid
from typing import Any, Callable, Dict, FrozenSet, Mapping

import attr
from ops.charm import ActionEvent

from vpnaas import status
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.extras import certificate_actions, measure, qos
from vpnaas.params.gateway import GatewayParams
from vpnaas.params.intent import Intent, manual_peer
from vpnaas.params.monitoring import Monitoring
from vpnaas.params.qos import link_qos
from vpnaas.plan import Plan, shares
from vpnaas.reconciling import HOST_KEY, INTENT_KEY, TRUST_KEY, Outcome, ReconcilingCharm
from vpnaas.tunnels.technologies import TABLE
from vpnaas.tunnels.technology import LinkPlan, Situation
from vpnaas.vdu.ssh import Vdu, ensure_key

OUTPUT_LIMIT = 60000
"""Characters of `output`; OSM keeps results in a MongoDB document of at most 16 MiB per NS."""


class VnfCharm(ReconcilingCharm):
    """Proxy charm of a VNF; its links are the relations of interface vpnaas-link."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        for name, handler in self.action_handlers().items():
            if name not in self.meta.actions:
                continue  # A charm without links has no actions for them.
            bound = getattr(self.on, name.replace("-", "_") + "_action")
            self.framework.observe(bound, handler)

    def action_handlers(self) -> Dict[str, Callable[[ActionEvent], None]]:
        """Return the handler of each action; a charm with more actions extends this."""
        return {
            "run": self._on_run_action,
            "generate-ssh-key": self._on_generate_ssh_key_action,
            "get-ssh-public-key": self._on_get_ssh_public_key_action,
            "verify-ssh-credentials": self._on_verify_ssh_credentials_action,
            "trust-host-key": self._on_trust_host_key_action,
            "configure": self._on_configure_action,
            "rotate-keys": self._on_rotate_keys_action,
            "add-peer": self._on_add_peer_action,
            "delete-peer": self._on_delete_peer_action,
            "revoke-peer": self._on_revoke_peer_action,
            "show-csr": self._on_show_csr_action,
            "set-certificate": self._on_set_certificate_action,
            "restart": self._on_restart_action,
            "show-status": self._on_show_status_action,
            "measure-throughput": self._on_measure_throughput_action,
            "measure-latency": self._on_measure_latency_action,
            "set-qos": self._on_set_qos_action,
            "show-qos": self._on_show_qos_action,
            "configure-gateway": self._on_configure_gateway_action,
            "configure-monitoring": self._on_configure_monitoring_action,
        }

    def _answer(self, event: ActionEvent, work: Callable[[], Dict[str, Any]]) -> None:
        """Run an action; a failure puts its sentence into `output`, all OSM shows of one."""
        try:
            result = work()
        except VpnaasError as error:
            event.set_results({"output": str(error)})
            event.fail(str(error))
            return
        event.set_results({key: _short(value) for key, value in result.items()})

    def _leader_only(self) -> None:
        if not self.unit.is_leader():
            raise VpnaasError("this unit is not the leader; run the action on the application")

    def _reconcile_now(self, **options: Any) -> Outcome:
        outcome = self._reconcile(**options)
        if outcome is None:
            if not self._login():
                raise VpnaasError("ssh-hostname and ssh-username are not set yet")
            raise VpnaasError("no link is configured yet; run configure first")
        self._report(outcome)
        return outcome

    def _chosen(self, event: ActionEvent, configured: Mapping[str, Any]) -> FrozenSet[str]:
        """Return the links an action with `link: all` or a name works on."""
        wanted = str(event.params.get("link", "all"))
        if not configured:
            raise VpnaasError("no link is configured yet; run configure first")
        if wanted == "all":
            return frozenset(configured)
        fields.choice("link", wanted, sorted(self.roles))
        if wanted not in configured:
            raise InputError("link", "{} is not configured".format(wanted), "run configure first")
        return frozenset([wanted])

    def _one_link(self, event: ActionEvent) -> str:
        return fields.choice("link", str(event.params.get("link", "")), sorted(self.roles))

    def _on_run_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            with self._vdu() as vdu:
                result = vdu.command(str(event.params["command"]))
            if result.code != 0:
                lines = fields.lines(result.err) or fields.lines(result.out) or ["no message"]
                raise VpnaasError(
                    "the command ended with exit code {}: {}".format(result.code, lines[-1][:500])
                )
            # Juju keeps the names `stdout` and `stderr` for itself.
            told = {"output": result.out, "exit-code": str(result.code)}
            return dict(told, **{"error-output": result.err} if result.err else {})

        self._answer(event, work)

    def _on_generate_ssh_key_action(self, event: ActionEvent) -> None:
        self._answer(event, lambda: {"output": ensure_key(self._key_file())})

    def _on_get_ssh_public_key_action(self, event: ActionEvent) -> None:
        self._answer(event, lambda: {"pubkey": ensure_key(self._key_file())})

    def _on_verify_ssh_credentials_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            try:
                with self._vdu() as vdu:
                    result = vdu.command("hostname", seconds=20)
                    self._pin(vdu)
            except VpnaasError:
                event.set_results({"verified": "False"})
                raise
            # N2VC compares with the text "True".
            return {"verified": "True", "output": result.out.strip()}

        self._answer(event, work)

    def _on_trust_host_key_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            text = str(event.params.get("fingerprint", "any"))
            wanted = fields.host_key_fingerprint("trust-host-key: fingerprint", text)
            before = self._stored(HOST_KEY)
            self._store(TRUST_KEY, wanted)
            self._store(HOST_KEY, "")
            try:
                with self._vdu() as vdu:
                    vdu.command("true", seconds=20)
                    self._pin(vdu)
            except VpnaasError:
                self._store(HOST_KEY, before)
                self._store(TRUST_KEY, "")
                raise
            self._store(TRUST_KEY, "")
            self._reconcile_and_report()
            return {"output": "pinned {}".format(self._stored(HOST_KEY))}

        self._answer(event, work)

    def _on_configure_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            intent = self._intent().configured(event.params)
            outcome = self._reconcile_now(intent=intent)
            plan = outcome.plans.get(link)
            told = [(p, plan.unusable) for p in plan.problems] if plan is not None else []
            refused = [p for p, unusable in told if unusable or p.startswith("set-qos")]
            if refused:
                self._reconcile_and_report()  # The status is to tell of what is in force.
                raise VpnaasError(refused[0])
            self._store(INTENT_KEY, intent.to_json())
            return {"output": dump(self._view(outcome, frozenset([link])))}

        self._answer(event, work)

    def _on_rotate_keys_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            links = frozenset(
                link
                for link in self._chosen(event, self._intent().links)
                if TABLE[self._intent().links[link].technology].keyed
            )
            force = bool(event.params.get("force", False))
            if not links:
                raise InputError("link", "no chosen link uses keys", "a link with a VPN")
            # One pass stages the keys; the next switches those nobody needs to be asked about.
            self._reconcile_now(rotate=links)
            outcome = self._reconcile_now(rotate=links if force else frozenset(), force=force)
            return {"output": dump({link: _rotation(outcome, link) for link in sorted(links)})}

        self._answer(event, work)

    def _on_add_peer_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            self._one_link(event)
            peer = manual_peer(event.params)
            intent = self._intent().with_peer(peer)
            outcome = self._reconcile_now(intent=intent)
            plan = outcome.plans[peer.link]
            installed = [p for p in plan.peers if p.name == "man-" + peer.name]
            if (
                not installed
                or installed[0].prefixes != peer.allowed_prefixes
                or (installed[0].public_key != peer.public_key)
            ):
                self._reconcile_and_report()
                reasons = [text for text in plan.problems if text.startswith(peer.name + ":")]
                raise VpnaasError((reasons or list(plan.problems) or ["peer refused"])[0])
            self._store(INTENT_KEY, intent.to_json())
            view = self._view(outcome, frozenset([peer.link]), peer.name)[peer.link]
            # What the administrator of the other end has to enter there.
            keys = ("public-key", "listen-port", "inner-address", "ike-identity", "proposal")
            offered = {key: view[key] for key in keys if key in view}
            return {"output": dump(dict(offered, added=peer.name))}

        self._answer(event, work)

    def _on_delete_peer_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            name = str(event.params.get("name", ""))
            intent = self._intent().without_peer(link, name)
            self._reconcile_now(intent=intent)
            self._store(INTENT_KEY, intent.to_json())
            return {"output": dump({"deleted": name, "link": link})}

        self._answer(event, work)

    def _on_revoke_peer_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            label = str(event.params.get("peer", ""))
            keys = certificate_actions.keys_of(self._situation(), link, label)
            intent = self._intent().with_revoked(link, keys)
            self._reconcile_now(intent=intent)
            self._store(INTENT_KEY, intent.to_json())
            return {"output": dump({"revoked": label, "link": link, "public-keys": keys})}

        self._answer(event, work)

    def _on_show_csr_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            plan = self._reconcile_now().plans.get(link)
            return {"output": dump(certificate_actions.requests(link, plan))}

        self._answer(event, work)

    def _on_set_certificate_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            certificate_actions.require_operated(self._situation().intent, link)
            given = certificate_actions.given(event.params)
            outcome = self._reconcile_now(certificates={link: given})
            if outcome.plans[link].unusable:
                self._reconcile_and_report()  # The status is to tell of what is in force.
                raise VpnaasError(outcome.plans[link].problems[0])
            # A staged key whose peers have acknowledged it takes over now.
            outcome = self._reconcile_now()
            return {"output": dump(self._view(outcome, frozenset([link])))}

        self._answer(event, work)

    def _on_restart_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            links = self._chosen(event, self._intent().links)
            outcome = self._reconcile_now(restart=links)
            return {"output": dump(self._view(outcome, links))}

        self._answer(event, work)

    def _on_show_status_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            wanted = str(event.params.get("link", "all"))
            if wanted != "all":
                fields.choice("link", wanted, sorted(self.roles))
            peer = str(event.params.get("peer", "all"))
            outcome = self._reconcile_now()
            links = frozenset(self.roles) if wanted == "all" else frozenset([wanted])
            more = outcome.extra.shown() if wanted == "all" and peer == "all" else {}
            return {"output": dump(dict(self._view(outcome, links, peer), **more))}

        self._answer(event, work)

    def _on_measure_throughput_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            test = measure.ThroughputTest.parse(event.params)
            with self._vdu() as vdu:
                plan = self._measured_plan(event, vdu)
                peer = measure.choose_peer(test.link, test.peer, plan.links[test.link].peers)
                name = measure.kept_name(test.link, plan.now, uuid.uuid4().hex[:8])
                steps = measure.throughput_steps(test, peer, name)
                results = vdu.execute(steps, exclusive=False)
            return {"output": dump(measure.throughput(test, peer, name, results))}

        self._answer(event, work)

    def _on_measure_latency_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            test = measure.LatencyTest.parse(event.params)
            with self._vdu() as vdu:
                plan = self._measured_plan(event, vdu)
                peer = measure.choose_peer(test.link, test.peer, plan.links[test.link].peers)
                steps = measure.latency_steps(test, peer)
                results = vdu.execute(steps, exclusive=False)
            return {"output": dump(measure.latency(test, peer, results))}

        self._answer(event, work)

    def _on_set_qos_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            link = self._one_link(event)
            intent = self._intent().with_qos(link, link_qos(event.params))
            outcome = self._reconcile_now(intent=intent)
            refused = [p for p in outcome.plans[link].problems if p.startswith("set-qos")]
            if refused or outcome.plans[link].unusable:
                self._reconcile_and_report()
                raise VpnaasError((refused or list(outcome.plans[link].problems))[0])
            self._store(INTENT_KEY, intent.to_json())
            return {"output": dump(self._qos(self._situation(intent), outcome.plans))}

        self._answer(event, work)

    def _on_show_qos_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            with self._vdu() as vdu:
                situation = self._situation()
                return {"output": dump(self._qos(situation, self._plan(situation, vdu).links))}

        self._answer(event, work)

    def _on_configure_gateway_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            params = GatewayParams.parse(event.params)
            self._take(attr.evolve(self._intent(), gateway=params))
            return {"output": dump(params.to_params())}

        self._answer(event, work)

    def _on_configure_monitoring_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            params = Monitoring.parse(event.params)
            self._take(attr.evolve(self._intent(), monitoring=params))
            return {"output": dump(params.to_params())}

        self._answer(event, work)

    def _take(self, intent: Intent) -> None:
        """Put an intent into force where there is something to reconcile yet, and keep it."""
        if not intent.empty:
            outcome = self._reconcile_now(intent=intent)
            if outcome.problems:
                self._reconcile_and_report()  # The status is to tell of what is in force.
                raise VpnaasError(outcome.problems[0])
        self._store(INTENT_KEY, intent.to_json())

    def _qos(self, situation: Situation, plans: Mapping[str, LinkPlan]) -> Dict[str, Any]:
        """Return what `show-qos` tells, with the counters of now."""
        links = shares(situation, plans)
        if not links:
            return {}
        with self._vdu() as vdu:
            return qos.shown(links, vdu.execute(qos.look(links), exclusive=False).check())

    def _measured_plan(self, event: ActionEvent, vdu: Vdu) -> Plan:
        """Look at the VDU without changing it, to know the peers of the link to measure."""
        self._leader_only()
        link = self._one_link(event)
        situation = self._situation()
        if link not in situation.intent.links:
            raise InputError("link", "{} is not configured".format(link), "run configure first")
        return self._plan(situation, vdu)

    def _view(self, outcome: Outcome, links: FrozenSet[str], peer: str = "all") -> Dict[str, Any]:
        """Return what is told of links; of many peers as many as fit, or the one asked for."""
        found = {link.link: link.details for link in outcome.links if link.link in links}
        if peer != "all":
            return status.of_peer(found, peer)
        return status.bounded(found, OUTPUT_LIMIT * 9 // 10)


def _rotation(outcome: Outcome, link: str) -> Dict[str, Any]:
    plan = outcome.plans[link]
    if plan.state is None:
        return {"rotation": "failed", "reason": "; ".join(plan.problems)}
    return {
        "rotation": "waiting for peers" if plan.state.next_public_key else "done",
        "key-generation": plan.state.generation,
        "public-key": plan.state.public_key,
        "next-public-key": plan.state.next_public_key,
        "reason": "; ".join(plan.waiting),
        # Nobody tells these; their owners must enter the new key themselves.
        "manual-peers": [peer.label for peer in plan.peers if peer.name.startswith("man-")],
    }


def dump(value: Any) -> str:
    """Return the JSON of an action's output, on one line."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= OUTPUT_LIMIT:
        return text
    return text[:OUTPUT_LIMIT] + "... ({} characters cut)".format(len(text) - OUTPUT_LIMIT)
