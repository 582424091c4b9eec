"""An access VNF: devices reach the data network of one slice, and nothing else.

Its firewall forwards between devices and the slice's networks only. Where a device has an end, a
timer of the VDU removes it at that moment. At boot the same program runs before the interface comes
up. Every reconcile looks too, so a device whose time is over does not come back.
"""

import time
from typing import Dict, List, Sequence

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import DIRECTORY, OWN_INTERFACES, wireguard_interface
from vpnaas.features.feature import Extra, Feature, Sight
from vpnaas.params.devices import LINK, AccessParams, networks
from vpnaas.params.intent import LinkParams, ManualPeer
from vpnaas.peers.inputs import CharmState
from vpnaas.tunnels.wireguard.names import CONF, UNIT
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.installed import Units, filled
from vpnaas.vdu.nftables import BootTable, nft_table, prefix_set
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step

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
    family = "ip6" if pool.version == 6 else "ip"
    own = prefix_set(networks(link) + (fields.host_network(link.inner_address),))
    forwarded = nat = ""
    if params.interface and networks(link):
        match = '        iifname "{}" oifname "{}" {f} saddr {} {f} daddr {} accept\n'
        here, there = str(pool), prefix_set(networks(link))
        forwarded = match.format(INTERFACE, params.interface, here, there, f=family)
        forwarded += match.format(params.interface, INTERFACE, there, here, f=family)
    if params.interface and params.nat:
        nat = _NAT.format(family, pool, params.interface)
    chains = filled(
        "access.nft",
        __package__,
        interface=INTERFACE,
        family=family,
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
