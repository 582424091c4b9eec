"""Leaders of applications.

In Juju the first unit that claims the lease leads until it is removed or its agent does not renew.
The lab does not wait until a lease ends (30 to 60 s in Juju): it elects another leader at once.
"""

from __future__ import annotations

from lab.vca.events import Event
from lab.vca.state import ModelDocument


def elect(document: ModelDocument) -> list[Event]:
    """Give each application a leader if it has units that can lead; return the changes."""
    events = []
    for app in document.apps.values():
        units = [u for u in document.units_of(app.name) if not u.agent_lost]
        able = [u.name for u in units if u.life == "alive"]
        # A dying unit stays leader while there is no other unit.
        if app.leader in able or (not able and app.leader in (u.name for u in units)):
            continue
        app.leader = able[0] if able else ""
        if app.leader:
            events.append(Event("leader", app.name, app.leader))
    return events
