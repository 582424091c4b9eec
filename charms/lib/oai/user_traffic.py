"""The traffic of UEs: PDU sessions, and measurements up to a user plane in the data network."""

from typing import Any, Dict, Mapping, Tuple

from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.features.measure.measure import MeasureActions
from vpnaas.vdu.ssh import Vdu

from . import kinds, n3ue, nr_ue, nssai, params, pdn, values
from .network_function import FunctionActions, NetworkFunction
from .nf_actions import kind_of
from .params import Equipment

DEVICES: Mapping[str, Any] = {"nr-ue": nr_ue, "n3ue": n3ue}
"""Modules that find the devices of PDU sessions, by kind of UE."""


class PdnActions(FunctionActions):
    """Measures through the PDN connection or a PDU session, not through a link."""

    @action("measure-throughput")
    def measure_throughput(self, given: Params) -> Dict[str, Any]:
        test = pdn.Throughput.parse(given)
        self.function.params()
        with self.charm.vdu() as vdu:
            device, own = _connection(self.function, vdu, given)
            results = vdu.execute([pdn.throughput_step(test, own)], exclusive=False)
        return dict(pdn.throughput(test, own, results), interface=device)

    @action("measure-latency")
    def measure_latency(self, given: Params) -> Dict[str, Any]:
        test = pdn.Latency.parse(given)
        self.function.params()
        with self.charm.vdu() as vdu:
            device, own = _connection(self.function, vdu, given)
            results = vdu.execute([test.step(test.server, own)], exclusive=False)
        return dict(pdn.latency(test, own, results), interface=device)


class SessionActions(FunctionActions):
    """Establishes, releases and shows PDU sessions in slices."""

    @action("establish-session")
    def establish_session(self, given: Params) -> Mapping[str, Any]:
        nf_params, where = _ue(self.function), "establish-session"
        slice = nssai.snssai(where + ": slice", str(given.get("slice", "")))
        dnn = values.apn(where + ": dnn", str(given.get("dnn", "")))
        sessions = nf_params.requested + (nssai.Session(slice, dnn),)
        return self._with_sessions(nf_params, where, sessions)

    @action("release-session")
    def release_session(self, given: Params) -> Mapping[str, Any]:
        nf_params, where = _ue(self.function), "release-session: slice"
        slice = nssai.snssai(where, str(given.get("slice", "")))
        left = tuple(one for one in nf_params.requested if one.slice != slice)
        if left == nf_params.requested:
            raise InputError(where, "no session in {}".format(slice), nf_params.sessions)
        if not left:
            what = "{} is the only slice of the UE".format(slice)
            raise InputError(where, what, "a slice while there is a session in another")
        return self._with_sessions(nf_params, where, left)

    def _with_sessions(
        self, nf_params: Equipment, where: str, sessions: Tuple[nssai.Session, ...]
    ) -> Mapping[str, Any]:
        # What the parser refuses could be stored, but not read back.
        named = {"sessions": nssai.text(sessions)}
        return self.function.change(kinds.changed(self.function.kind, nf_params, named, where))

    @action("show-sessions")
    def show_sessions(self, given: Params) -> Dict[str, Any]:
        nf_params = _ue(self.function)
        with self.charm.vdu() as vdu:
            devices = _devices(self.function.kind, vdu, nf_params)
        listed = []
        for number, one in enumerate(nf_params.requested, start=1):
            device, address = devices.get(number, ("", ""))
            shown = {"interface": device or None, "address": address or None}
            listed.append(dict(shown, slice=str(one.slice), dnn=one.dnn))
        return {"sessions": listed}


class UserPlaneActions(FunctionActions):
    """Runs a server in the data network for UEs that measure."""

    @action("serve-throughput")
    def serve_throughput(self, given: Params) -> Dict[str, Any]:
        where = "serve-throughput: seconds"
        seconds = fields.integer(where, given.get("seconds", 600), 1, 86400)
        side = kinds.FUNCTIONS[self.function.kind].data_network
        configured = self.function.params()
        with self.charm.vdu() as vdu:
            interface = getattr(params.resolved(configured, self.charm.facts(vdu)), side)
            own = self.function.address(
                vdu, interface, "{} has no IPv4 address yet".format(interface)
            )
            results = vdu.execute(pdn.serve_steps(own, seconds), exclusive=False)
        return pdn.served(own, seconds, results)


def _ue(function: NetworkFunction) -> Equipment:
    return params.expect(Equipment, function.params())


def _devices(kind: str, vdu: Vdu, ue: Equipment) -> Dict[int, Tuple[str, str]]:
    """Return name and address of the device of each PDU session, by session number from 1."""
    count = len(ue.requested)
    results = vdu.execute(DEVICES[kind].devices_steps(count), exclusive=False)
    found: Dict[int, Tuple[str, str]] = DEVICES[kind].devices(results, count)
    return found


def _connection(function: NetworkFunction, vdu: Vdu, given: Params) -> Tuple[str, str]:
    """Return device and address of the connection that an action measures."""
    if function.kind not in DEVICES:
        return pdn.DEVICE, function.address(vdu, pdn.DEVICE, pdn.not_attached(pdn.DEVICE))
    nf_params, text = _ue(function), str(given.get("slice", "first"))
    slice = nf_params.requested[0].slice if text == "first" else nssai.snssai("slice", text)
    devices = _devices(function.kind, vdu, nf_params)
    for number, one in enumerate(nf_params.requested, start=1):
        if one.slice == slice:
            device, address = devices.get(number, ("", ""))
            if not device:
                raise VpnaasError("no PDU session in slice {} yet".format(slice))
            if not address:
                raise VpnaasError(pdn.not_attached(device))
            return device, address
    raise InputError("slice", "no session in {}".format(slice), nf_params.sessions)


UE = kind_of("ue", PdnActions)
NR_UE = kind_of("nr-ue", PdnActions, SessionActions)
N3UE = kind_of("n3ue", PdnActions, SessionActions)
SPGWU = kind_of("spgwu", MeasureActions, UserPlaneActions)
UPF = kind_of("upf", MeasureActions, UserPlaneActions)
