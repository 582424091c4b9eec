"""The state of a service's links in a few words, with its age, from the status of its charms."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.link_table import span
from lab.errors import LcmError
from lab.graph.model import LINK_STATES, stated
from lab.lcm import looking
from lab.lcm.backends import Backends


def links_of(home: Path, *services: Mapping[str, Any]) -> str:
    """Return the worst state of the links of services, whose it is, and its age; "" without any."""
    backends = Backends(home)
    try:
        found = [end for nsr in services for end in _ends(backends, nsr)]
    except LcmError as error:
        return str(error)
    if not found:
        return ""
    worst, end, _ = min(found, key=lambda each: LINK_STATES.index(each[0]))
    age = span(round(time.time() - min(at for _, _, at in found)))
    named = worst if worst in ("up", "clear") else f"{worst} ({end})"
    return f"{named}, seen {age} ago"


def _ends(backends: Backends, nsr: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield the state of each end of a link, its name, and when somebody looked."""
    if nsr["_id"] in backends.controller().models():
        members = {vca["application"]: vca["member-vnf-index"] for vca in _charms(nsr)}
        for name, unit in backends.controller().model(nsr["_id"]).status().units.items():
            for link, state in stated(unit.message).items():
                if state != "unconfigured":
                    yield state, f"{members.get(name.partition('/')[0])} {link}", unit.since
        return
    for answer in looking.looks(backends.home, nsr["_id"])[0]:
        for link, details in answer.shown.items():
            state = str(details.get("state"))
            if "peers" in details and state in LINK_STATES and state != "unconfigured":
                yield state, f"{answer.member} {link}", answer.at


def _charms(nsr: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    deployed = (nsr.get("_admin") or {}).get("deployed") or {}
    return list(deployed.get("VCA") or ())
