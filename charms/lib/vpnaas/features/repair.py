"""What cares for tunnels between two looks of the charm; Juju's comes every five minutes.

The program `hold` keeps interfaces, routes, rules and our firewall. At boot a unit of `machine`
takes keys away that another machine made.
"""

from typing import List

from vpnaas.features.feature import Feature, Sight
from vpnaas.peers.inputs import CharmState
from vpnaas.tunnels.clear import HOLD_PROGRAM
from vpnaas.vdu import machine
from vpnaas.vdu.installed import FOLDER, Units, filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Step

UNIT = "osm-vpnaas-hold.service"
UNIT_FILE = FOLDER + UNIT
ALONE = Units("repair", (UNIT,), (UNIT_FILE,))
UNITS = Units("repair", (UNIT, machine.UNIT), (HOLD_PROGRAM, UNIT_FILE, *machine.at_boot()))
_TEXT = filled("repair.service", __package__, program=HOLD_PROGRAM)


class Repair(Feature):
    """The keeper of tunnels, and the unit at boot."""

    name = UNITS.name

    def observe(self, charm_state: CharmState) -> List[Step]:
        return UNITS.look() if charm_state.has_tunnels else ALONE.look(wanted=False)

    def after_links(self, sight: Sight) -> List[Step]:
        if not sight.charm_state.has_tunnels:
            return ALONE.steps_to(None, sight.results)
        files = {HOLD_PROGRAM: (source("hold.py"), 0o755), UNIT_FILE: (_TEXT, 0o644)}
        return UNITS.steps_to(dict(files, **machine.at_boot()), sight.results)
