"""An access VNF: devices reach the data network of one slice, and nothing else.

Its firewall forwards between devices and the slice's networks only. Where a device has an end, a
timer of the VDU removes it at that moment. At boot the same program runs before the interface comes
up. Every reconcile looks too, so a device whose time is over does not come back.
"""

import io
import json
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr
import segno

from vpnaas.actions import OUTPUT_LIMIT, Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import DIRECTORY, OWN_INTERFACES, wireguard_interface
from vpnaas.features.feature import Addition, Extra, Feature, Sight
from vpnaas.params import devices
from vpnaas.params.devices import LINK, AccessParams, Enrolling, networks
from vpnaas.params.intent import Intent, LinkParams, ManualPeer
from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.tunnels.wireguard.names import CONF, UNIT
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.installed import Units, filled
from vpnaas.vdu.nftables import BootTable, family, nft_table, prefix_set
from vpnaas.vdu.programs import source
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import Results, Step

ACCESS_KEY = "access"
INTERFACE = wireguard_interface(LINK)
BOOT = BootTable("devices", "osm_vpnaas_devices", "What devices of a slice may reach")
PROGRAM = "/usr/local/lib/osm-vpnaas/expire"
DATES = DIRECTORY.format(LINK) + "/expiry"
TIMER, SERVICE = "osm-vpnaas-expiry.timer", "osm-vpnaas-expiry.service"
SERVICE_FILE = "/etc/systemd/system/" + SERVICE
TIMER_FILE = "/etc/systemd/system/" + TIMER
_NAT = """    chain postrouting {{
        type nat hook postrouting priority srcnat; policy accept;
        {} saddr {} oifname "{}" masquerade
    }}
"""
EXPIRY = Units("expiry", (TIMER, SERVICE), (TIMER_FILE, SERVICE_FILE, DATES, PROGRAM))


@attr.frozen
class AccessOutcome(Extra):
    """State of the devices for the status."""

    devices: int
    configured: bool

    @property
    def calm(self) -> bool:
        return self.configured

    def summary(self) -> str:
        count = "{} device{}".format(self.devices, "" if self.devices == 1 else "s")
        return count if self.configured else "waiting for configure-access"

    def shown(self) -> Dict[str, object]:
        return {"devices": self.devices}


def service() -> str:
    """Return the unit that ends enrolments before the interface comes up at boot."""
    return filled(
        "access.service",
        __package__,
        unit=UNIT.format(LINK),
        program=PROGRAM,
        interface=INTERFACE,
        dates=DATES,
        file=CONF.format(LINK),
    )


def firewall(link: LinkParams, params: AccessParams) -> str:
    """Return the nft(8) script. Before `configure-access` it forwards nothing.

    On the VDU itself devices reach only ICMP, at addresses of this slice.
    """
    pool = link.inner_address.network
    word = family(pool)
    own = prefix_set(networks(link) + (fields.host_network(link.inner_address),))
    forwarded = nat = ""
    if params.interface and networks(link):
        match = '        iifname "{}" oifname "{}" {f} saddr {} {f} daddr {} accept\n'
        here, there = str(pool), prefix_set(networks(link))
        forwarded = match.format(INTERFACE, params.interface, here, there, f=word)
        forwarded += match.format(params.interface, INTERFACE, there, here, f=word)
    if params.interface and params.nat:
        nat = _NAT.format(word, pool, params.interface)
    chains = filled(
        "access.nft",
        __package__,
        interface=INTERFACE,
        family=word,
        own=own,
        forwarded=forwarded,
        nat=nat,
    )
    return nft_table(BOOT.table, chains)


def timer(ends: Sequence[int]) -> str:
    """Return the systemd timer that fires at each of the times, in seconds since the epoch."""
    form = "OnCalendar=%Y-%m-%d %H:%M:%S UTC\n"
    dates = "".join(time.strftime(form, time.gmtime(end)) for end in sorted(set(ends)))
    return (
        "[Unit]\nDescription=Ends of devices' enrolments (osm-vpnaas)\n\n"
        "[Timer]\n{}AccuracySec=100ms\n\n[Install]\nWantedBy=timers.target\n"
    ).format(dates)


def expiry(devices: Sequence[ManualPeer], results: Results) -> List[Step]:
    """Return the steps to the wanted timer; `devices` are those whose time is not over."""
    ending = [device for device in devices if device.expires]
    if not ending:
        return EXPIRY.steps_to(None, results)
    rows = sorted("{} {}\n".format(device.expires, device.public_key) for device in ending)
    files = {
        PROGRAM: (source("expire.py"), 0o755),
        DATES: ("".join(rows), 0o600),
        SERVICE_FILE: (service(), 0o644),
        TIMER_FILE: (timer([device.expires for device in ending]), 0o644),
    }
    return EXPIRY.steps_to(files, results)


def check_interface(name: str, vdu: VduFacts, charm_state: CharmState) -> None:
    """Raise InputError if an interface cannot be that of the slice's data network."""
    name = vdu.tagged(name)
    params = charm_state.intent.links.get(LINK)
    underlays = {"", params.underlay_interface if params is not None else ""}
    used = {"lo"} | {vdu.underlay(name, charm_state.management).name for name in underlays}
    free = [
        other
        for other in sorted(vdu.interfaces)
        if other not in used and not other.startswith(OWN_INTERFACES)
    ]
    if name not in free:
        reason = "is used already" if name in vdu.interfaces else "is not there"
        if name == "lo":
            reason = "is the loopback interface"
        raise InputError(
            "configure-access: data-interface",
            "interface {} of the VDU {}".format(name, reason),
            ", ".join(free) or "an interface besides that of management and that of devices",
        )


class Access(Feature):
    """The firewall and the timer of an access VNF, with the parameters of `configure-access`."""

    name = BOOT.name
    vital = True
    translated = (INTERFACE,)

    def __init__(self, params: AccessParams) -> None:
        self.params = params

    def observe(self, charm_state: CharmState) -> List[Step]:
        return BOOT.observe() + EXPIRY.look()

    def before_links(self, sight: Sight) -> List[Step]:
        plan = sight.links.get(LINK)
        if plan is None or plan.unusable:
            return []
        params = sight.vdu.resolved(self.params, "interface")
        boot = BOOT.steps_to(firewall(plan.params, params), sight.results)
        return boot + expiry(sight.charm_state.intent.manual(LINK), sight.results)

    def after_links(self, sight: Sight) -> List[Step]:
        """Return the steps for a link that is switched off; none if nothing is there."""
        if LINK not in sight.charm_state.intent.off:
            return []
        return BOOT.steps_to(None, sight.results) + expiry((), sight.results)


class Devices(Addition):
    """What lets devices into the data network."""

    tried = None  # type: Optional[AccessParams]  # Parameters that are being tried.

    def params(self) -> AccessParams:
        if self.tried is not None:
            return self.tried
        text = self.stored()
        if not text:
            return AccessParams()
        return AccessParams.parse(fields.json_object("peer relation: access", text))

    def beside(self) -> Beside:
        return Beside(features=(Access(self.params()),))

    def stored(self) -> str:
        return self.environment.stored(ACCESS_KEY)

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        peers = plans[LINK].peers if LINK in plans else ()
        return AccessOutcome(len(peers), bool(self.params().interface))


class DeviceActions(Actions):
    """Lets devices in, and shows and revokes them."""

    @property
    def devices(self) -> Devices:
        return Devices.of(self.charm)

    @action("configure-access")
    def configure_access(self, params: Params) -> Dict[str, Any]:
        new = AccessParams.parse(params)
        with self.charm.vdu() as vdu:
            check_interface(new.interface, self.charm.facts(vdu), self.charm.charm_state())
        self.devices.tried = new
        link = self.charm.reconcile_now().plans.get(LINK)
        if link is None or link.unusable:
            reasons = link.problems if link is not None else ("it is switched off",)
            raise VpnaasError("link {} cannot be used: {}".format(LINK, reasons[0]))
        self.charm.environment.store(ACCESS_KEY, json.dumps(new.to_params()))
        return dict(new.to_params())

    @action("enrol-device")
    def enrol_device(self, params: Params) -> Dict[str, Any]:
        enrolling = Enrolling.parse(params)
        if not self.devices.params().interface:
            raise VpnaasError("no data network is configured yet; run configure-access first")
        with self.charm.vdu() as vdu:
            now = self.charm.facts(vdu).now
        intent, device = devices.enrolled(self.charm.intent(), enrolling, now)
        outcome = self.charm.admit(intent, device)
        return _answer(outcome.plans[LINK], device, enrolling.routing)

    @action("revoke-device")
    def revoke_device(self, params: Params) -> Dict[str, Any]:
        name = str(params.get("name", ""))
        before = self.charm.intent()
        intent = devices.revoked(before, name)
        self.charm.revoke("revoke-device", LINK, intent)
        return {"revoked": name, "was-enrolled": intent is not before}

    @action("show-devices")
    def show_devices(self, params: Params) -> Dict[str, Any]:
        name = str(params.get("name", "all"))
        outcome = self.charm.reconcile_now()
        views = next(link for link in outcome.links if link.link == LINK).details["peers"]
        peers, expired = shown(self.charm.intent(), outcome.now, views, name)
        view = self.charm.bounded({LINK: {"peers": peers}}, OUTPUT_LIMIT * 8 // 10)[LINK]
        return dict(view, expired=expired)


def _answer(plan: LinkPlan, device: ManualPeer, routing: str) -> Dict[str, Any]:
    """Return the output of `enrol-device`: the device's file, as text and as a QR code."""
    assert plan.endpoint is not None  # noqa: S101 - a link that admits peers has one
    reached = networks(plan.params)
    file = devices.render(device, plan.state.public_key, plan.endpoint, reached, plan.mtu, routing)
    image = io.BytesIO()
    segno.make_qr(file, error="l").save(image, kind="svg", xmldecl=False, scale=4)
    return {
        "device": device.name,
        "address": fields.show_networks(device.allowed_prefixes),
        "networks": fields.show_networks(reached),
        "expires": devices.show_time(device.expires),
        "wg-quick": file,
        "qr-svg": image.getvalue().decode("utf-8").strip(),
    }


def shown(
    intent: Intent, now: int, views: Sequence[Mapping[str, Any]], name: str
) -> Tuple[List[Dict[str, Any]], Dict[str, str]]:
    """Return what show-devices says of all devices or of one, and the ends of those expired."""
    enrolled = {peer.name: peer for peer in intent.manual(LINK)}
    if name != "all":
        fields.choice("show-devices: name", name, sorted(enrolled) or ["none is enrolled"])
    now = max(now, int(time.time()))
    expired = set(enrolled) - {peer.name for peer in intent.at(now).manual(LINK)}
    peers = []
    for view in views:
        device = enrolled.get(view["peer"])
        if device is not None and name in ("all", device.name):
            peers.append(dict(view, expires=devices.show_time(device.expires)))
    chosen = sorted(each for each in expired if name in ("all", each))
    return peers, {each: devices.show_time(enrolled[each].expires) for each in chosen[:100]}
