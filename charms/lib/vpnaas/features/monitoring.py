"""The exporter of metrics on the VDU: its files and unit, and whether it runs as configured.

The program is `exporter`. It listens on the VDU's own address on the management interface only.
"""

from typing import Any, Dict, List, Optional

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.features.feature import Feature, Sight
from vpnaas.params.gateway import exporter_port, log_server
from vpnaas.peers.inputs import CharmState
from vpnaas.vdu import trouble
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.installed import Units, filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, run

UNIT = "osm-vpnaas-exporter.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
FOLDER = "/usr/local/lib/osm-vpnaas/exporter"
PROGRAM_FILE = FOLDER + "/vpnaas/exporter.py"
ECHO_FILE = FOLDER + "/vpnaas/echo.py"
LIBRARY = "/usr/lib/python3/dist-packages/prometheus_client"
PACKAGE = "python3-prometheus-client"

UNITS = Units("monitoring", (UNIT,), (UNIT_FILE, PROGRAM_FILE, ECHO_FILE))


def unit(address: fields.IPAddress, port: int) -> str:
    """Return the systemd unit; systemd restarts the exporter until the address exists."""
    return filled("monitoring.service", __package__, folder=FOLDER, address=address, port=port)


def own_address(vdu: VduFacts, management: Optional[fields.IPAddress]) -> fields.IPAddress:
    """Return the VDU's own address on the management interface.

    The address that OSM gave may be a floating one, which is on no interface.
    """
    interface = vdu.underlay("", management)
    own = [address.ip for address in interface.addresses]
    if management in own:
        return own[own.index(management)]
    if not own:
        raise InputError(
            "monitoring: address", "{} has none yet".format(interface.name), "an address to bind to"
        )
    return own[0]


def intruder(results: Results, address: fields.IPAddress, port: int) -> str:
    """Return which other program has the port of the exporter, "" for none."""
    ours = "--port {}\n".format(port) in (results.text(UNITS.name + UNIT_FILE) or "")
    if ours and results.output("monitoring/active").split() == ["active"]:
        return ""
    return trouble.holder(results, "monitoring/port", address)


class Monitoring(Feature):
    """The exporter of metrics."""

    name = UNITS.name

    def observe(self, charm_state: CharmState) -> List[Step]:
        if not charm_state.monitoring:
            return UNITS.look(wanted=False)
        return [
            run("monitoring/library", "true", only_if=LIBRARY),
            trouble.listeners("monitoring/port", charm_state.monitoring),
            *UNITS.look(),
        ]

    def after_links(self, sight: Sight) -> List[Step]:
        port, results = sight.charm_state.monitoring, sight.results
        if not port:
            return UNITS.steps_to(None, results)
        if results.exit_code("monitoring/library") is None:
            raise InputError(
                "monitoring: exporter-port",
                "the VDU has no {}".format(PACKAGE),
                "0, or an image or Day-0 cloud-init that installs it",
            )
        address = own_address(sight.vdu, sight.charm_state.management)
        owner = intruder(results, address, port)
        if owner:
            raise InputError(
                "monitoring: exporter-port",
                "TCP port {} of the VDU is used by {}".format(port, owner),
                "another port, or 0",
            )
        files = {
            UNIT_FILE: unit(address, port),
            PROGRAM_FILE: source("exporter.py"),
            ECHO_FILE: source("echo.py"),
        }
        return UNITS.steps_to({path: (text, 0o644) for path, text in files.items()}, results)


class MonitoringActions(Actions):
    """Sets what the VDU tells of itself."""

    @action("configure-monitoring")
    def configure_monitoring(self, params: Params) -> Dict[str, Any]:
        intent = self.charm.intent()
        port, server = exporter_port(params), log_server(params, intent.log_server)
        intent = attr.evolve(intent, monitoring=port, log_server=server)
        self.charm.change_feature(intent, Monitoring.name)
        return {"exporter-port": port, "log-server": server or "none"}
