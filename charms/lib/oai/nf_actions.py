"""The actions of all network functions, and those of an N3IWF."""

from typing import Any, Dict, Mapping

from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.charm import Kind
from vpnaas.features.measure.measure import MeasureActions
from vpnaas.kinds.vnf import COMMON
from vpnaas.params.servers import SecretReference
from vpnaas.vdu import machine, secret_store

from . import kinds, logs, n3iwf, params, part, pdn, values
from .model import SECRETS_FILE, SUBSCRIBER_FILE, Part
from .n3iwf import N3iwf
from .network_function import ACTION_WAIT, FUNCTIONS_KEY, FunctionActions, NetworkFunction, Request
from .params import NONE


class NfActions(FunctionActions):
    """What every network function has; actions.yaml says which of these actions a charm has."""

    @action("configure-nf")
    def configure_nf(self, given: Params) -> Mapping[str, Any]:
        try:
            stored = self.function.stored_params()
        except InputError:
            stored = None  # Of another version: what is given takes its place.
        nf_params = kinds.parse(self.function.kind, kinds.completed(given, stored))
        return self.function.change(nf_params, kinds.parse_secrets(self.function.kind, given))

    @action("fetch-keys")
    def fetch_keys(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.function.kind].secrets:
            raise VpnaasError(
                "the {} has no keys of operator and subscribers".format(self.function.kind)
            )
        nf_params, where = self.function.params(), "fetch-keys"
        reference = SecretReference.parse(given, where)
        imsi, file, forms = str(given.get("imsi", NONE)), SECRETS_FILE, dict(params.KEY_FORMS)
        if imsi != NONE:
            imsi = values.imsi_of(where + ": imsi", imsi, nf_params.plmn)
            file = SUBSCRIBER_FILE.format(imsi)
            del forms["operator_key"]
        with self.charm.vdu() as vdu:
            self.charm.disowned(vdu, vdu.execute([machine.observe()]))
            results = vdu.execute([secret_store.fetch("keys", reference, forms, file)]).check()
        reason = secret_store.refusal("keys", results)
        if imsi == NONE:
            outcome = self.function.reconcile_for(Request(wait=ACTION_WAIT))  # Also for the status.
        if reason:
            raise VpnaasError("{}: {}".format(where, reason))
        return outcome.details if imsi == NONE else {"fetched": imsi}

    @action("restart-nf")
    def restart_nf(self, given: Params) -> Mapping[str, Any]:
        self.function.params()
        return self.function.restart()

    @action("health")
    def health(self, given: Params) -> Mapping[str, Any]:
        self.function.params()
        return self.function.reconcile_for(Request(wait=0)).details

    @action("show-config")
    def show_config(self, given: Params) -> Dict[str, Any]:
        nf_params = self.function.params()
        outcome = self.function.reconcile_for(Request(wait=0))
        return {"parameters": kinds.to_given(nf_params), "files": outcome.files}

    @action("set-log-level")
    def set_log_level(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.function.kind].levelled:
            raise VpnaasError("OAI's {} has one log level only".format(self.function.kind))
        return self._change_some(given, "set-log-level")

    # Changes of some parameters

    @action("configure-cell")
    def configure_cell(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-cell")

    @action("configure-n6")
    def configure_n6(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-n6")

    @action("configure-sgi")
    def configure_sgi(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-sgi")

    @action("add-function")
    def add_function(self, given: Params) -> Mapping[str, Any]:
        link = self.charm.one_link(given)
        name = fields.name("add-function: name", str(given.get("name", "")))
        function = part.from_json(str(given.get("function", "")), "add-function: function")
        functions = self.function.manual_functions()
        functions.setdefault(link, {})[name] = function
        return self._with_functions(functions, {"added": name, "link": link})

    @action("delete-function")
    def delete_function(self, given: Params) -> Mapping[str, Any]:
        link, name = self.charm.one_link(given), str(given.get("name", ""))
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
        self.charm.environment.store(FUNCTIONS_KEY, part.functions_to_json(functions))
        outcome = self.function.reconcile_for(Request(wait=ACTION_WAIT))
        return dict(answer, state=outcome.state, reason=outcome.reason)

    def _change_some(self, given: Params, where: str) -> Mapping[str, Any]:
        """Change the parameters that an action gives; "keep" and 0 leave one as it is."""
        nf_params = self.function.params()
        named: Dict[str, Any] = {name: v for name, v in given.items() if v not in ("keep", 0)}
        for name in ("sgi-nat", "n6-nat"):
            if name in named:
                named[name] = named[name] == "yes"
        return self.function.change(kinds.changed(self.function.kind, nf_params, named, where))


class ConnectedActions(FunctionActions):
    """Shows what the log of a network function says of UEs."""

    @action("show-connected")
    def show_connected(self, given: Params) -> Dict[str, Any]:
        kind = self.function.kind
        log, age = self.function.log(kind)
        # Tables of what is true now are young; sessions are of the last change.
        more = {} if kind in logs.TABLED else {"seconds-since-logged": age}
        return dict(logs.CONNECTED[kind](log), **more)


class N3iwfActions(FunctionActions):
    """Shows its UEs, and the end of IKEv2 towards them, and gives that a certificate."""

    def _n3iwf(self) -> N3iwf:
        return params.expect(N3iwf, self.function.params())

    @action("show-connected")
    def show_connected(self, given: Params) -> Dict[str, Any]:
        self._n3iwf()
        with self.charm.vdu() as vdu:
            results = vdu.execute([n3iwf.connected_step()], exclusive=False)
        return {"ues": n3iwf.connected(results)}

    @action("show-nwu")
    def show_nwu(self, given: Params) -> Dict[str, Any]:
        nf_params = self._n3iwf()
        with self.charm.vdu() as vdu:
            name = self.charm.facts(vdu).tagged(nf_params.nwu_interface)
            steps = n3iwf.shown_steps(nf_params) + [pdn.address_step(name)]
            results = vdu.execute(steps, exclusive=False)
        return dict(n3iwf.shown(nf_params, results), address=pdn.address(results) or None)

    @action("set-nwu-certificate")
    def set_nwu_certificate(self, given: Params) -> Mapping[str, Any]:
        nf_params = self._n3iwf()
        with self.charm.vdu() as vdu:
            results = vdu.execute(n3iwf.request_steps(nf_params)).check()
            brought = n3iwf.given_certificate(nf_params, given, results)
            checked = vdu.execute(n3iwf.verify_steps(brought)).check()
            vdu.execute(n3iwf.install_steps(nf_params, brought, checked)).check()
        return self.function.restart()


def kind_of(name: str, *groups: type) -> Kind:
    """Return the kind of charm of a network function."""
    return Kind(name, (*COMMON, NfActions, *groups), NetworkFunction)


MME = kind_of("mme", MeasureActions, ConnectedActions)
SPGWC = kind_of("spgwc", MeasureActions)
ENB = kind_of("enb", MeasureActions)
SMF = kind_of("smf", MeasureActions, ConnectedActions)
GNB = kind_of("gnb", MeasureActions)
N3IWF = kind_of("n3iwf", MeasureActions, N3iwfActions)
