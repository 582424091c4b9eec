"""A security gateway: the settings of its firewall, its IKE daemon and its kernel.

A charm with `gateway: true` in its charm.yaml sets this up together with its links, in the same
reconcile. An interface belongs to the untrusted side if it is the underlay of a link with a VPN.
"""

from typing import Any, Dict, List, Mapping, Sequence

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.links import IPSEC, KEYED, WIREGUARD
from vpnaas.features.feature import Feature, Sight
from vpnaas.features.gateway.gateway_firewall import TABLE, GatewayFirewall
from vpnaas.features.gateway.gateway_firewall import render as firewall_text
from vpnaas.features.gateway.gateway_tuning import render as daemon_text
from vpnaas.features.gateway.gateway_tuning import settings, sysctls
from vpnaas.params.gateway import GatewayParams
from vpnaas.peers.inputs import CharmState
from vpnaas.tunnels.ipsec.names import DAEMON, RESTARTED
from vpnaas.vdu import installed
from vpnaas.vdu.installed import Pending
from vpnaas.vdu.nftables import BootTable
from vpnaas.vdu.steps import Results, Step, read, remove, run, write

BOOT = BootTable("gateway", TABLE, "Firewall of a security gateway")
PENDING = Pending("gateway")
FILE, UNIT, UNIT_FILE = BOOT.file, BOOT.unit, BOOT.unit_file
DAEMON_FILE = "/etc/strongswan.d/10-osm-vpnaas-gateway.conf"
"""The number puts it after the links' own file, which it overrides, and before an operator's."""
SYSCTL_FILE = "/etc/sysctl.d/99-zz-osm-vpnaas-gateway.conf"
"""After 99-sysctl.conf, which is the /etc/sysctl.conf of somebody else: of files that set the same
thing, the last one counts at a boot (sysctl.d(5))."""
OLD_SYSCTL_FILE = "/etc/sysctl.d/61-osm-vpnaas-gateway.conf"  # Of charms of version 1.0.0.


def _cpus(results: Results) -> int:
    text = (results.out("gateway/cpus") or "").strip()
    return min(256, max(1, int(text))) if fields.is_count(text) else 1


def _daemon(params: GatewayParams, results: Results) -> str:
    tuned = settings(params.tunnels, _cpus(results), params.peers_per_address)
    return installed.HEAD + daemon_text(tuned)


def _untuned(wanted: Mapping[str, int], results: Results) -> bool:
    """Tell whether a setting that can be set differs."""
    settable = set(results.output("gateway/settable").split())
    live: Dict[str, str] = {}
    for line in results.output("gateway/live").splitlines():
        name, _, value = line.partition("=")
        live[name.strip()] = value.strip()
    return any(
        "/proc/sys/" + name.replace(".", "/") in settable and live.get(name) != str(value)
        for name, value in wanted.items()
    )


def _new_daemon(params: GatewayParams, sight: Sight) -> bool:
    results = sight.results
    same = results.text("gateway/daemon") == _daemon(params, results)
    return bool(sight.charm_state.using(IPSEC)) and (not same or PENDING.left(results))


def _firewall(params: GatewayParams, sight: Sight) -> List[Step]:
    charm_state = sight.charm_state
    if not params.firewall:
        return BOOT.steps_to(None, sight.results)
    usable = [plan for plan in sight.links.values() if not plan.unusable]
    secured = [plan for plan in usable if plan.params.technology in KEYED]
    underlays = [plan.underlay for plan in secured]
    ports = {p.params.listen_port for p in secured if p.params.technology == WIREGUARD}
    outer = [a.ip for u in underlays if u for a in sight.vdu.interfaces[u].addresses]
    inner = {plan.params.inner_address.network for plan in secured}
    firewall = GatewayFirewall(
        untrusted=tuple(sorted(set(underlays))),
        management=sight.vdu.name_of(charm_state.management),
        wireguard=tuple(sorted(ports)),
        # An inner address may be the outer one as well; IKE and ESP then go there in clear.
        inner=tuple(net for net in inner if not any(address in net for address in outer)),
        management_ports=(charm_state.monitoring,) if charm_state.monitoring else (),
        translated=tuple(name for each in charm_state.beside.features for name in each.translated),
    )
    # There is no untrusted side until such a link is configured.
    return BOOT.steps_to(firewall_text(firewall), sight.results) if underlays else []


class Gateway(Feature):
    """The settings of a security gateway."""

    name = BOOT.name

    def tools(self, charm_state: CharmState) -> Sequence[str]:
        return ("find", "nproc", "sysctl") if charm_state.gateway is not None else ()

    def observe(self, charm_state: CharmState) -> List[Step]:
        if charm_state.gateway is None:
            return []
        names = sorted(sysctls(charm_state.gateway.tunnels))
        paths = ["/proc/sys/" + name.replace(".", "/") for name in names]
        return BOOT.observe() + [
            read("gateway/daemon", DAEMON_FILE),
            PENDING.observe(),
            read("gateway/sysctl", SYSCTL_FILE),
            run("gateway/cpus", "nproc"),
            # Some kernels lack some of these settings, and a container cannot set all of them.
            run("gateway/settable", "find", *(paths + ["-writable"]), any_exit=True),
            run("gateway/live", "sysctl", "-e", *names, any_exit=True),
        ]

    def before_links(self, sight: Sight) -> List[Step]:
        """Return the steps that come first: nothing may pass in clear while tunnels come up."""
        params, results = sight.charm_state.gateway, sight.results
        if params is None:
            return []
        unusable = sorted(link for link, plan in sight.links.items() if plan.unusable)
        if unusable and params.firewall and BOOT.present(results):
            # The wanted state of an unusable link is unknown, so the present protection stays.
            what = "gateway: the firewall stays as it is while {} cannot be used"
            sight.problems[self.name] = what.format(fields.few(unusable))
            return BOOT.stay(results)
        steps, wanted = _firewall(params, sight), sysctls(params.tunnels)
        lines = ("{} = {}\n".format(*item) for item in sorted(wanted.items()))
        sysctl = installed.HEAD + "".join(lines)
        if results.text("gateway/sysctl") != sysctl:
            steps.append(write("gateway/put-sysctl", SYSCTL_FILE, sysctl))
            steps.append(remove("gateway/old-sysctl", OLD_SYSCTL_FILE))
        if _untuned(wanted, results):
            words = ("sysctl", "-q", "-e", "-p", SYSCTL_FILE)
            steps.append(run("gateway/load-sysctl", *words, any_exit=True))
        if _new_daemon(params, sight):
            steps.append(PENDING.begin())
            steps.append(write("gateway/put-daemon", DAEMON_FILE, _daemon(params, results)))
        return steps

    def after_links(self, sight: Sight) -> List[Step]:
        """Return the last steps: restart the daemon for new settings, unless a link did so."""
        params = sight.charm_state.gateway
        if params is None or not _new_daemon(params, sight):
            return []
        restart = ("systemctl", "restart", DAEMON)
        return [
            run("gateway/restart", *restart, stdout_file=RESTARTED, unless=RESTARTED, timeout=90),
            PENDING.end(),
        ]


class GatewayActions(Actions):
    """Sets what a security gateway lets pass."""

    @action("configure-gateway")
    def configure_gateway(self, params: Params) -> Dict[str, Any]:
        gateway = GatewayParams.parse(params)
        self.charm.change_feature(attr.evolve(self.charm.intent(), gateway=gateway), Gateway.name)
        return gateway.to_params()
