"""What sends the VDU's journal to a syslog server: its program and unit. The program is `logs`."""

from typing import List

from vpnaas.base import fields
from vpnaas.features.feature import Feature, Sight
from vpnaas.peers.inputs import CharmState
from vpnaas.vdu.installed import Units, filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Step

UNIT = "osm-vpnaas-logs.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
PROGRAM_FILE = "/usr/local/lib/osm-vpnaas/logs"
UNITS = Units("logs", (UNIT,), (UNIT_FILE, PROGRAM_FILE))


def unit(server: str) -> str:
    """Return the systemd unit for a server, as `fields.endpoint` reads it."""
    address, port = fields.endpoint("log-server", server)
    return filled("logs.service", __package__, program=PROGRAM_FILE, address=address, port=port)


class Logs(Feature):
    """The way of the journal to a syslog server."""

    name = UNITS.name

    def observe(self, charm_state: CharmState) -> List[Step]:
        return UNITS.look(bool(charm_state.intent.log_server))

    def after_links(self, sight: Sight) -> List[Step]:
        server, files = sight.charm_state.intent.log_server, None
        if server:
            files = {UNIT_FILE: (unit(server), 0o644), PROGRAM_FILE: (source("logs.py"), 0o644)}
        return UNITS.steps_to(files, sight.results)
