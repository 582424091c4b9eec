"""ops edge of a network function: `VnfCharm` with OpenAirInterface on top of its links."""

import json
import logging
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import attr
from ops.charm import ActionEvent
from vpnaas.base import fields
from vpnaas.base.errors import InputError, NotReadyError, VpnaasError
from vpnaas.charm import VnfCharm, dump
from vpnaas.extras.extra import Extra
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import Step, changes, read, run, which

from . import cql, hss, meters, params, part, pdn, plan, provision, statistics, units, values
from .milenage import opc
from .model import SECRETS_FILE, End
from .params import Common, Hss, Secrets, SpgwU
from .ue import DEVICE

logger = logging.getLogger(__name__)

NF_KEY = "nf"
FUNCTIONS = "oai-function"
"""Juju interface of relations between network functions that are no links."""
HOOK_WAIT = 20
"""Seconds a hook waits on the VDU for what it has just started; less where that is ready."""
ACTION_WAIT = 90
LOG_BYTES = 1 << 18


class Request:
    """What an action asks of the next reconcile."""

    def __init__(
        self,
        asked: Optional[Common] = None,
        secrets: Optional[Secrets] = None,
        restart: bool = False,
        wait: int = HOOK_WAIT,
    ) -> None:
        self.params = asked
        self.secrets = secrets
        self.restart = restart
        self.wait = wait


class NfCharm(VnfCharm):
    """Proxy charm of an EPC network function; the charm's name says which."""

    def __init__(self, *args: Any) -> None:
        self._request = Request()
        super().__init__(*args)

    @property
    def kind(self) -> str:
        """Return which network function this is."""
        return str(self.meta.name)

    def action_handlers(self) -> Dict[str, Callable[[ActionEvent], None]]:
        """Return the handler of each action."""
        return dict(super().action_handlers(), **self.own_action_handlers())

    def own_action_handlers(self) -> Dict[str, Callable[[ActionEvent], None]]:
        """Return the handlers of the network function's actions."""
        handlers: Dict[str, Callable[[ActionEvent], None]] = {
            "configure-nf": self._on_configure_nf_action,
            "restart-nf": self._on_restart_nf_action,
            "health": self._on_health_action,
            "show-config": self._on_show_config_action,
            "set-log-level": self._on_set_log_level_action,
        }
        more: Dict[str, Dict[str, Callable[[ActionEvent], None]]] = {
            "hss": {
                "add-subscriber": self._on_add_subscriber_action,
                "remove-subscriber": self._on_remove_subscriber_action,
                "list-subscribers": self._on_list_subscribers_action,
            },
            "mme": {
                "show-connected": self._on_show_connected_action,
                "measure-s6a": self._on_measure_s6a_action,
            },
            "spgwc": {"configure-sgi": self._on_configure_sgi_action},
            "spgwu": {
                "configure-sgi": self._on_configure_sgi_action,
                "serve-throughput": self._on_serve_throughput_action,
            },
            "enb": {"configure-cell": self._on_configure_cell_action},
            "ue": {
                "configure-cell": self._on_configure_cell_action,
                "measure-throughput": self._on_measure_pdn_throughput_action,
                "measure-latency": self._on_measure_pdn_latency_action,
            },
        }
        handlers.update(more.get(self.kind, {}))
        return handlers

    # The reconcile

    def _more_relations(self) -> List[str]:
        return sorted(
            name
            for name, endpoint in self.meta.relations.items()
            if endpoint.interface_name == FUNCTIONS
        )

    def _stored_params(self) -> Optional[Common]:
        return params.from_json(self.kind, self._stored(NF_KEY))

    def _has_more(self) -> bool:
        return self._request.params is not None or self._stored_params() is not None

    def _extra_state(self) -> str:
        seen = {
            name: [(remote.label, sorted(remote.bag.items())) for remote in self._remotes(name)]
            for name in self._more_relations()
        }
        return self._stored(NF_KEY) + json.dumps(seen, sort_keys=True)

    def _extra_absent(self) -> List[Step]:
        return plan.removal_steps(self.kind)

    def _extend(self, vdu: Vdu, plans: Mapping[str, LinkPlan]) -> Optional[Extra]:
        asked = None
        try:
            asked = self._request.params or self._stored_params()
            if asked is None:
                return None
            outcome = self._reconcile_nf(vdu, self._nf_situation(asked, plans))
        except NotReadyError:
            return None
        except VpnaasError as error:
            return plan.failed(self.kind, asked, str(error))
        self._publish_part(outcome.part)
        return outcome

    def _reconcile_nf(self, vdu: Vdu, situation: plan.Situation) -> plan.Outcome:
        observed = vdu.execute(plan.observe_steps(situation)).check()
        decided = plan.make_plan(situation, observed, opc)
        results = vdu.execute(decided.steps).check() if decided.steps else None
        logger.info(
            "%s: %s",
            self.kind,
            ", ".join(id for _, id in changes(decided.steps)) or "no difference",
        )
        return plan.conclude(situation, decided, results)

    def _nf_situation(self, asked: Common, plans: Mapping[str, LinkPlan]) -> plan.Situation:
        ends: Dict[str, End] = {}
        parts: Dict[str, Tuple[Tuple[str, part.Part], ...]] = {}
        problems: List[str] = []
        for link, decided in sorted(plans.items()):
            address = decided.params.inner_address
            if not decided.interface:
                continue
            if address.version != 4:
                problems.append("{}: {} is not IPv4, which OAI needs".format(link, address))
                continue
            inner = [str(p.inner_address) for p in decided.peers if p.inner_address is not None]
            ends[link] = End(decided.interface, address, tuple(inner))
        for name in sorted(ends) + self._more_relations():
            parts[name] = self._parts(name, problems)
        request = self._request
        return plan.Situation(
            kind=self.kind,
            params=asked,
            ends=ends,
            parts=parts,
            problems=tuple(problems),
            link_units=tuple(sorted({p.owner for p in plans.values() if p.owner})),
            given=request.secrets,
            restart=request.restart,
            wait=request.wait,
        )

    def _parts(self, relation: str, problems: List[str]) -> Tuple[Tuple[str, part.Part], ...]:
        """Return what the network functions at the other end told; adds to `problems`."""
        found = []
        for remote in self._remotes(relation):
            try:
                told = part.decode(remote.bag, remote.label)
            except InputError as error:
                problems.append(str(error))
                continue
            if told is not None:
                found.append((remote.label, told))
        return tuple(found)

    def _publish_part(self, own: Optional[part.Part]) -> None:
        more = self._more_relations()
        for name in sorted(self.roles) + more:
            told = own
            if own is not None and name in more:
                # No link gives an address there: it is that of management.
                told = attr.evolve(own, address=self._management_address())
            for relation in self.model.relations[name]:
                bag = relation.data[self.app]
                for key, value in part.encode(told).items():
                    if bag.get(key, "") != value:
                        bag[key] = value

    def _management_address(self) -> str:
        login = self._login()
        try:
            return values.ipv4("ssh-hostname", login.host if login else "")
        except InputError:
            return ""

    # Actions

    def _reconcile_for(self, request: Request) -> plan.Outcome:
        self._request = request
        extra = self._reconcile_now().extra
        if not isinstance(extra, plan.Outcome):
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return extra

    def _configured(self) -> Common:
        asked = self._stored_params()
        if asked is None:
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return asked

    def _on_configure_nf_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            asked = params.parse(self.kind, event.params)
            secrets = params.parse_secrets(self.kind, event.params)
            return self._change(asked, secrets)

        self._answer(event, work)

    def _change(self, asked: Common, secrets: Optional[Secrets] = None) -> Dict[str, Any]:
        """Bring the network function to new parameters, and keep them unless they cannot work."""
        outcome = self._reconcile_for(Request(asked, secrets, wait=ACTION_WAIT))
        if outcome.refused:
            self._request = Request()
            self._reconcile_and_report()  # The status is to tell of what is in force.
            raise VpnaasError(outcome.reason)
        self._store(NF_KEY, params.to_json(asked))
        return {"output": dump(outcome.details)}

    def _on_restart_nf_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            self._configured()
            outcome = self._reconcile_for(Request(restart=True, wait=ACTION_WAIT))
            return {"output": dump(outcome.details)}

        self._answer(event, work)

    def _on_health_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            self._configured()
            return {"output": dump(self._reconcile_for(Request(wait=0)).details)}

        self._answer(event, work)

    def _on_show_config_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            asked = self._configured()
            outcome = self._reconcile_for(Request(wait=0))
            told = {"parameters": params.to_given(asked), "files": outcome.files}
            return {"output": dump(told)}

        self._answer(event, work)

    def _on_set_log_level_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            if self.kind not in params.LEVELLED:
                raise VpnaasError("OAI's {} has one log level only".format(self.kind))
            return self._change_some(event, "set-log-level")

        self._answer(event, work)

    def _on_configure_sgi_action(self, event: ActionEvent) -> None:
        self._answer(event, lambda: self._change_some(event, "configure-sgi"))

    def _on_configure_cell_action(self, event: ActionEvent) -> None:
        self._answer(event, lambda: self._change_some(event, "configure-cell"))

    def _change_some(self, event: ActionEvent, where: str) -> Dict[str, Any]:
        """Change the parameters an action names; "keep" and 0 leave one as it is."""
        self._leader_only()
        asked = self._configured()
        told = event.params.items()
        given: Dict[str, Any] = {name: v for name, v in told if v not in ("keep", 0)}
        if "sgi-nat" in given:
            given["sgi-nat"] = given["sgi-nat"] == "yes"
        return self._change(params.changed(self.kind, asked, given, where))

    def _hss(self) -> Hss:
        self._leader_only()
        return params.expect(Hss, self._configured())

    def _engine(self, vdu: Vdu) -> str:
        return plan.engine(vdu.execute([which("nf/engine", plan.ENGINES)], exclusive=False))

    def _on_add_subscriber_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            asked = self._hss()
            where = "add-subscriber"
            imsi = _imsi(event, where, asked)
            msisdn = values.msisdn(where + ": msisdn", event.params.get("msisdn", ""))
            with self._vdu() as vdu:
                engine = self._engine(vdu)
                kept = vdu.execute([read("secrets", SECRETS_FILE)], exclusive=False)
                secrets = Secrets.from_json(kept.text("secrets"))
                if not secrets:
                    raise VpnaasError("the VDU does not hold the keys; run configure-nf again")
                key = str(event.params.get("subscriber-key", "same"))
                if key != "same":
                    secrets = params.with_key(secrets, where + ": subscriber-key", key)
                derived = opc(secrets.subscriber_key, secrets.operator_key)
                common = hss.subscription(asked, secrets, derived)
                first, second = provision.subscriber(imsi, msisdn, common)
                rows = self._cql(vdu, engine, [first])
                cql.applied(rows, imsi)
                self._cql(vdu, engine, [second])
            return {"output": dump({"added": imsi, "msisdn": msisdn})}

        self._answer(event, work)

    def _on_remove_subscriber_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            asked = self._hss()
            imsi = _imsi(event, "remove-subscriber", asked)
            with self._vdu() as vdu:
                engine = self._engine(vdu)
                rows = self._cql(vdu, engine, [cql.select(imsi)])
                if not rows:
                    raise InputError(
                        "remove-subscriber: imsi",
                        "{} is no subscriber".format(imsi),
                        "one that list-subscribers shows",
                    )
                self._cql(vdu, engine, cql.deletions(imsi, rows[0].get("msisdn", "")))
            return {"output": dump({"removed": imsi})}

        self._answer(event, work)

    def _on_list_subscribers_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._hss()
            asked = event.params.get("limit", 100)
            limit = fields.integer("list-subscribers: limit", asked, 1, 1000)
            with self._vdu() as vdu:
                rows = self._cql(vdu, self._engine(vdu), [cql.select(limit=limit + 1)])
            return {"output": dump(cql.shown(rows, limit))}

        self._answer(event, work)

    def _cql(self, vdu: Vdu, engine: str, statements: List[str]) -> List[Dict[str, str]]:
        results = vdu.execute([cql.step("cql", engine, statements)], exclusive=False)
        return cql.answer(results, "cql")

    def _on_show_connected_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            self._configured()
            words = ("tail", "-c", str(LOG_BYTES), "/var/log/mme.log")
            steps = [
                run("active", "systemctl", "is-active", units.unit("mme"), any_exit=True),
                run("log", *words, any_exit=True),
            ]
            with self._vdu() as vdu:
                results = vdu.execute(steps, exclusive=False).check()
            if results.exit_code("active") != 0:
                raise VpnaasError("the MME does not run; health says why")
            return {"output": dump(statistics.latest(results.output("log")))}

        self._answer(event, work)

    def _on_measure_s6a_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            where = "measure-s6a: "
            request: Dict[str, Any] = {
                "seconds": fields.integer(
                    where + "duration", event.params.get("duration", 60), 1, 1500
                ),
                "count": fields.integer(where + "count", event.params.get("count", 0), 0, 1000000)
                or 1 << 30,
                "idle": fields.integer(where + "idle", event.params.get("idle", 0), 0, 1500),
            }
            with self._vdu() as vdu:
                plan_now = self._plan(self._situation(), vdu)
                decided = plan_now.links.get("s6a")
                if decided is None or not decided.interface:
                    raise VpnaasError("s6a is not configured; run configure first")
                request["interface"] = decided.interface
                results = vdu.execute([meters.step(request)], exclusive=False)
            told = meters.answer(results)
            return {"output": dump(dict(told, technology=decided.params.technology))}

        self._answer(event, work)

    def _on_measure_pdn_throughput_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            test = pdn.Throughput.parse(event.params)
            self._configured()
            with self._vdu() as vdu:
                own = self._address(vdu, DEVICE, pdn.not_attached())
                results = vdu.execute([pdn.throughput_step(test, own)], exclusive=False)
            return {"output": dump(pdn.throughput(test, own, results))}

        self._answer(event, work)

    def _on_measure_pdn_latency_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            test = pdn.Latency.parse(event.params)
            self._configured()
            with self._vdu() as vdu:
                own = self._address(vdu, DEVICE, pdn.not_attached())
                results = vdu.execute([pdn.latency_step(test, own)], exclusive=False)
            return {"output": dump(pdn.latency(test, own, results))}

        self._answer(event, work)

    def _on_serve_throughput_action(self, event: ActionEvent) -> None:
        def work() -> Dict[str, Any]:
            self._leader_only()
            asked = params.expect(SpgwU, self._configured())
            where = "serve-throughput: seconds"
            seconds = fields.integer(where, event.params.get("seconds", 600), 1, 86400)
            missing = "{} has no IPv4 address yet".format(asked.sgi_interface)
            with self._vdu() as vdu:
                own = self._address(vdu, asked.sgi_interface, missing)
                results = vdu.execute(pdn.serve_steps(own, seconds), exclusive=False)
            return {"output": dump(pdn.served(own, seconds, results))}

        self._answer(event, work)

    def _address(self, vdu: Vdu, interface: str, missing: str) -> str:
        """Return the IPv4 address of an interface of the VDU."""
        results = vdu.execute([pdn.address_step(interface)], exclusive=False)
        return pdn.address(results, missing)


def _imsi(event: ActionEvent, where: str, asked: Common) -> str:
    """Return the IMSI an action was given, which must be of the HSS's own network."""
    return values.imsi_of(where + ": imsi", event.params.get("imsi", ""), asked.plmn)
