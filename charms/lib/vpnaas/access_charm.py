"""The charm of an access VNF, to which devices enrol."""

import io
import json
import time
from typing import Any, Dict, Mapping, Optional

import segno

from vpnaas import status
from vpnaas.actions import OUTPUT_LIMIT, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError
from vpnaas.charm import VnfCharm, require_removed, unless_admitted
from vpnaas.environment import Environment
from vpnaas.features import access
from vpnaas.features.access import AccessOutcome
from vpnaas.features.feature import Extra
from vpnaas.params import devices
from vpnaas.params.devices import LINK, AccessParams, Enrolling
from vpnaas.params.intent import Intent, ManualPeer
from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.reconciling import INTENT_KEY, Addition, Outcome
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu

ACCESS_KEY = "access"


class Devices(Addition):
    """What lets devices into the data network."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.tried: Optional[AccessParams] = None  # Parameters that are being tried.

    def params(self) -> AccessParams:
        if self.tried is not None:
            return self.tried
        text = self.stored()
        if not text:
            return AccessParams()
        return AccessParams.parse(fields.json_object("peer relation: access", text))

    def beside(self) -> Beside:
        return Beside(features=(access.Access(self.params()),))

    def stored(self) -> str:
        return self.environment.stored(ACCESS_KEY)

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        peers = plans[LINK].peers if LINK in plans else ()
        return AccessOutcome(len(peers), bool(self.params().interface))


class AccessCharm(VnfCharm):
    """Proxy charm of an access VNF; the peers of its link `access` are devices."""

    def __init__(self, environment: Environment) -> None:
        self.devices = Devices(environment)
        super().__init__(environment, self.devices)

    @action("configure-access")
    def _configure_access(self, params: Params) -> Dict[str, Any]:
        new = AccessParams.parse(params)
        with self._vdu() as vdu:
            access.check_interface(new.interface, self._facts(vdu), self._charm_state())
        self.devices.tried = new
        link = self._reconcile_now().plans.get(LINK)
        if link is None or link.unusable:
            reasons = link.problems if link is not None else ("it is switched off",)
            raise VpnaasError("link {} cannot be used: {}".format(LINK, reasons[0]))
        self.environment.store(ACCESS_KEY, json.dumps(new.to_params()))
        return dict(new.to_params())

    @action("enrol-device")
    def _enrol_device(self, params: Params) -> Dict[str, Any]:
        enrolling = Enrolling.parse(params)
        if not self.devices.params().interface:
            raise VpnaasError("no data network is configured yet; run configure-access first")
        with self._vdu() as vdu:
            now = self._facts(vdu).now
        intent, device = devices.enrolled(self._intent(), enrolling, now)
        outcome = self._change_intent(intent, unless_admitted(device))
        return _answer(outcome.plans[LINK], device, enrolling.routing)

    @action("revoke-device")
    def _revoke_device(self, params: Params) -> Dict[str, Any]:
        name = str(params.get("name", ""))
        before = self._intent()
        intent = devices.revoked(before, name)
        if intent is not before:
            # Store it first: if the VDU does not answer now, the next reconcile removes the device.
            self.environment.store(INTENT_KEY, intent.to_json())
        require_removed("revoke-device", LINK, self._reconcile_now())
        return {"revoked": name, "was-enrolled": intent is not before}

    @action("show-devices")
    def _show_devices(self, params: Params) -> Dict[str, Any]:
        name = str(params.get("name", "all"))
        outcome = self._reconcile_now()
        return _shown(self._intent(), outcome, name)


def _answer(plan: LinkPlan, device: ManualPeer, routing: str) -> Dict[str, Any]:
    """Return the output of `enrol-device`: the device's file, as text and as a QR code."""
    assert plan.endpoint is not None  # noqa: S101 - a link that admits peers has one
    networks = devices.networks(plan.params)
    file = devices.render(device, plan.state.public_key, plan.endpoint, networks, plan.mtu, routing)
    image = io.BytesIO()
    segno.make_qr(file, error="l").save(image, kind="svg", xmldecl=False, scale=4)
    return {
        "device": device.name,
        "address": fields.show_networks(device.allowed_prefixes),
        "networks": fields.show_networks(networks),
        "expires": devices.show_time(device.expires),
        "wg-quick": file,
        "qr-svg": image.getvalue().decode("utf-8").strip(),
    }


def _shown(intent: Intent, outcome: Outcome, name: str) -> Dict[str, Any]:
    """Return the output of `show-devices` for all devices, or for one."""
    enrolled = {peer.name: peer for peer in intent.manual(LINK)}
    if name != "all":
        fields.choice("show-devices: name", name, sorted(enrolled) or ["none is enrolled"])
    now = max(outcome.now, int(time.time()))
    expired = set(enrolled) - {peer.name for peer in intent.at(now).manual(LINK)}
    peers = []
    for view in next(link for link in outcome.links if link.link == LINK).details["peers"]:
        device = enrolled.get(view["peer"])
        if device is not None and name in ("all", device.name):
            peers.append(dict(view, expires=devices.show_time(device.expires)))
    answer = status.bounded({LINK: {"peers": peers}}, OUTPUT_LIMIT * 8 // 10)[LINK]
    chosen = sorted(each for each in expired if name in ("all", each))
    ended = {each: devices.show_time(enrolled[each].expires) for each in chosen[:100]}
    return dict(answer, expired=ended)
