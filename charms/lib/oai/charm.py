"""The charm of a network function: `VnfCharm` with OpenAirInterface on top of its links."""

from typing import Any, Dict, Mapping, Optional

from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.charm import VnfCharm
from vpnaas.environment import Environment
from vpnaas.params.servers import SecretReference
from vpnaas.vdu import machine, secret_store
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import read, run

from . import kinds, params, part, pdn, plan, units, values
from .model import SECRETS_FILE, SUBSCRIBER_FILE, Part
from .network_function import FUNCTIONS_KEY, NF_KEY, NetworkFunction, Request
from .params import NONE, Common, Secrets

ACTION_WAIT = 90
LOG_BYTES = 1 << 18


class NfCharm(VnfCharm):
    """Proxy charm of a network function; `functions` and `functions_5g` have a class for each."""

    kind = ""  # The network function, which is also the name of its charm.

    def __init__(self, environment: Environment) -> None:
        self.function = NetworkFunction(self.kind, environment)
        super().__init__(environment, self.function)

    def _reconcile_for(self, request: Request) -> plan.Outcome:
        self.function.request = request
        extra = self._reconcile_now().extra
        if not isinstance(extra, plan.Outcome):
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return extra

    def _configured(self) -> Common:
        nf_params = self.function.stored_params()
        if nf_params is None:
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return nf_params

    @action("configure-nf")
    def _configure_nf(self, given: Params) -> Mapping[str, Any]:
        try:
            stored = self.function.stored_params()
        except InputError:
            stored = None  # Of another version: what is given takes its place.
        nf_params = kinds.parse(self.kind, kinds.completed(given, stored))
        return self._change(nf_params, kinds.parse_secrets(self.kind, given))

    def _check_device(self, nf_params: Common) -> None:
        """Raise InputError if a device that only UEs may use is one of management or of a link."""
        parameter, unchecked = kinds.FUNCTIONS[self.kind].for_ues
        name = getattr(nf_params, parameter.replace("-", "_")) if parameter else unchecked
        if name == unchecked:
            return
        charm_state = self._charm_state()
        with self._vdu() as vdu:
            seen = self._facts(vdu)
        name = seen.tagged(name)
        used = {seen.tagged(one.underlay_interface) for one in charm_state.intent.links.values()}
        if name in used | {seen.underlay("", charm_state.management).name}:
            what = "{} is the interface of management or of a link".format(name)
            raise InputError("configure-nf: " + parameter, what, "one that only UEs use")

    def _change(self, nf_params: Common, secrets: Optional[Secrets] = None) -> Mapping[str, Any]:
        """Apply new parameters to the network function; store them unless they are refused."""
        self._check_device(nf_params)
        outcome = self._reconcile_for(Request(nf_params, secrets, wait=ACTION_WAIT))
        if outcome.refused:
            self.function.request = Request()
            self.reconcile_and_report()  # The status must show what is in force.
            raise VpnaasError(outcome.reason)
        self.environment.store(NF_KEY, kinds.to_json(nf_params))
        return outcome.details

    @action("fetch-keys")
    def _fetch_keys(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.kind].secrets:
            raise VpnaasError("the {} has no keys of operator and subscribers".format(self.kind))
        nf_params, where = self._configured(), "fetch-keys"
        reference = SecretReference.parse(given, where)
        imsi, file, forms = str(given.get("imsi", NONE)), SECRETS_FILE, dict(params.KEY_FORMS)
        if imsi != NONE:
            imsi = values.imsi_of(where + ": imsi", imsi, nf_params.plmn)
            file = SUBSCRIBER_FILE.format(imsi)
            del forms["operator_key"]
        with self._vdu() as vdu:
            self._disowned(vdu, vdu.execute([machine.observe()]))
            results = vdu.execute([secret_store.fetch("keys", reference, forms, file)]).check()
        reason = secret_store.refusal("keys", results)
        if imsi == NONE:
            outcome = self._reconcile_for(Request(wait=ACTION_WAIT))  # Also for the status.
        if reason:
            raise VpnaasError("{}: {}".format(where, reason))
        return outcome.details if imsi == NONE else {"fetched": imsi}

    @action("restart-nf")
    def _restart_nf(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._restart_containers()

    def _restart_containers(self) -> Mapping[str, Any]:
        outcome = self._reconcile_for(Request(restart=True, wait=ACTION_WAIT))
        if not outcome.restarted:
            reason = outcome.reason or "this VNF has no software (`software` is none)"
            raise VpnaasError("nothing was restarted: {}".format(reason))
        return outcome.details

    @action("health")
    def _health(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._reconcile_for(Request(wait=0)).details

    @action("show-config")
    def _show_config(self, given: Params) -> Dict[str, Any]:
        nf_params = self._configured()
        outcome = self._reconcile_for(Request(wait=0))
        return {"parameters": kinds.to_given(nf_params), "files": outcome.files}

    @action("set-log-level")
    def _set_log_level(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.kind].levelled:
            raise VpnaasError("OAI's {} has one log level only".format(self.kind))
        return self._change_some(given, "set-log-level")

    # Changes of some parameters; actions.yaml says which of these actions a charm has.

    @action("configure-cell")
    def _configure_cell(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-cell")

    @action("configure-n6")
    def _configure_n6(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-n6")

    @action("configure-sgi")
    def _configure_sgi(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-sgi")

    @action("add-function")
    def _add_function(self, given: Params) -> Mapping[str, Any]:
        link = self._one_link(given)
        name = fields.name("add-function: name", str(given.get("name", "")))
        function = part.from_json(str(given.get("function", "")), "add-function: function")
        functions = self.function.manual_functions()
        functions.setdefault(link, {})[name] = function
        return self._with_functions(functions, {"added": name, "link": link})

    @action("delete-function")
    def _delete_function(self, given: Params) -> Mapping[str, Any]:
        link, name = self._one_link(given), str(given.get("name", ""))
        functions = self.function.manual_functions()
        known = ", ".join(sorted(functions.get(link, {})))
        if functions.get(link, {}).pop(name, None) is None:
            raise InputError(
                "delete-function: name",
                "{} is none of {}".format(fields.shown(name), link),
                known or "none was added",
            )
        return self._with_functions(functions, {"deleted": name, "link": link})

    def _with_functions(
        self, functions: Mapping[str, Mapping[str, Part]], answer: Dict[str, Any]
    ) -> Mapping[str, Any]:
        """Store the functions of other services, and reconcile with them."""
        self.environment.store(FUNCTIONS_KEY, part.functions_to_json(functions))
        outcome = self._reconcile_for(Request(wait=ACTION_WAIT))
        return dict(answer, state=outcome.state, reason=outcome.reason)

    def _change_some(self, given: Params, where: str) -> Mapping[str, Any]:
        """Change the parameters that an action gives; "keep" and 0 leave one as it is."""
        nf_params = self._configured()
        named: Dict[str, Any] = {name: v for name, v in given.items() if v not in ("keep", 0)}
        for name in ("sgi-nat", "n6-nat"):
            if name in named:
                named[name] = named[name] == "yes"
        return self._change(kinds.changed(self.kind, nf_params, named, where))

    def _log(self, container: str) -> str:
        """Return the end of what a running container has logged since its start."""
        self._configured()
        path = "/var/log/{}.log".format(container)
        steps = [
            run("active", "systemctl", "is-active", units.unit(container), any_exit=True),
            read("start", "{}/{}.offset".format(units.RUN, container)),
            run("size", "stat", "--format=%s", path, any_exit=True),
            run("log", "tail", "-c", str(LOG_BYTES), path, any_exit=True),
        ]
        with self._vdu() as vdu:
            results = vdu.execute(steps, exclusive=False).check()
        if results.exit_code("active") != 0:
            raise VpnaasError("the {} does not run; health says why".format(container.upper()))
        log, start = results.output("log"), (results.text("start") or "").strip()
        size = results.output("size").strip()
        # A file that is shorter than at the start was rotated.
        if fields.is_count(start) and fields.is_count(size) and int(start) <= int(size):
            data = log.encode("utf-8", "replace")
            log = data[max(0, len(data) - int(size) + int(start)) :].decode("utf-8", "replace")
        return log

    def _address(self, vdu: Vdu, interface: str, missing: str) -> str:
        """Return the IPv4 address of an interface of the VDU; without any, fail with `missing`."""
        address = pdn.address(vdu.execute([pdn.address_step(interface)], exclusive=False))
        if not address:
            raise VpnaasError(missing)
        return address
