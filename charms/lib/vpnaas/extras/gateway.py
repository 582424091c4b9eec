"""A security gateway: the settings of its firewall, its IKE daemon and its kernel.

A charm with `gateway: true` in its charm.yaml sets this up together with its links, in the same
reconcile. An interface belongs to the untrusted side if it is the underlay of a link with a VPN.
"""

from typing import Dict, List, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.extras.gateway_firewall import TABLE, GatewayFirewall
from vpnaas.extras.gateway_firewall import render as firewall_text
from vpnaas.extras.gateway_tuning import render as daemon_text
from vpnaas.extras.gateway_tuning import settings, sysctls
from vpnaas.params.gateway import GatewayParams
from vpnaas.tunnels.ipsec.names import DAEMON, RESTARTED
from vpnaas.vdu import installed
from vpnaas.vdu.installed import Pending
from vpnaas.vdu.nftables import BootTable
from vpnaas.vdu.steps import Results, Step, read, run, write

BOOT = BootTable("gateway", TABLE, "Firewall of a security gateway")
PENDING = Pending("gateway")
FILE, UNIT, UNIT_FILE = BOOT.file, BOOT.unit, BOOT.unit_file
DAEMON_FILE = "/etc/strongswan.d/10-osm-vpnaas-gateway.conf"
"""The number puts it after the links' own file, which it overrides, and before an operator's."""
SYSCTL_FILE = "/etc/sysctl.d/61-osm-vpnaas-gateway.conf"


@attr.frozen
class Gateway:
    """Desired state of a gateway."""

    params: GatewayParams  # Parameters of `configure-gateway`.
    ipsec: bool  # Whether a link uses the IKE daemon.
    # What its firewall protects; no untrusted side until such a link is configured.
    firewall: GatewayFirewall


def observe(tunnels: int) -> List[Step]:
    """Return the steps that look at a gateway's settings."""
    names = sorted(sysctls(tunnels))
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


def before_links(gateway: Gateway, results: Results) -> List[Step]:
    """Return the steps that come first: nothing may pass in clear while tunnels come up."""
    steps = _firewall(gateway, results)
    sysctl = installed.HEAD + "".join("{} = {}\n".format(*item) for item in _sysctls(gateway))
    if results.text("gateway/sysctl") != sysctl:
        steps.append(write("gateway/put-sysctl", SYSCTL_FILE, sysctl))
    if _untuned(gateway, results):
        words = ("sysctl", "-q", "-e", "-p", SYSCTL_FILE)
        steps.append(run("gateway/load-sysctl", *words, any_exit=True))
    if _new_daemon(gateway, results):
        steps.append(PENDING.begin())
        steps.append(write("gateway/put-daemon", DAEMON_FILE, _daemon(gateway, results)))
    return steps


def after_links(gateway: Gateway, results: Results) -> List[Step]:
    """Return the last steps: restart the daemon for new settings, unless a link did so."""
    if not _new_daemon(gateway, results):
        return []
    restart = ("systemctl", "restart", DAEMON)
    return [
        run("gateway/restart", *restart, stdout_file=RESTARTED, unless=RESTARTED, timeout=90),
        PENDING.end(),
    ]


def _new_daemon(gateway: Gateway, results: Results) -> bool:
    same = results.text("gateway/daemon") == _daemon(gateway, results)
    return gateway.ipsec and (not same or PENDING.left(results))


def _firewall(gateway: Gateway, results: Results) -> List[Step]:
    if not gateway.params.firewall:
        return BOOT.absent() if BOOT.present(results) else []
    if not gateway.firewall.untrusted:
        return []
    return BOOT.steps_to(firewall_text(gateway.firewall), results)


def _cpus(results: Results) -> int:
    text = (results.out("gateway/cpus") or "").strip()
    return min(256, max(1, int(text))) if fields.is_count(text) else 1


def _daemon(gateway: Gateway, results: Results) -> str:
    params = gateway.params
    tuned = settings(params.tunnels, _cpus(results), params.peers_per_address)
    return installed.HEAD + daemon_text(tuned)


def _sysctls(gateway: Gateway) -> Sequence[Tuple[str, int]]:
    return sorted(sysctls(gateway.params.tunnels).items())


def _untuned(gateway: Gateway, results: Results) -> bool:
    """Tell whether a setting that can be set differs."""
    settable = set(results.output("gateway/settable").split())
    live: Dict[str, Optional[str]] = {}
    for line in results.output("gateway/live").splitlines():
        name, _, value = line.partition("=")
        live[name.strip()] = value.strip()
    return any(
        "/proc/sys/" + name.replace(".", "/") in settable and live.get(name) != str(value)
        for name, value in _sysctls(gateway)
    )
