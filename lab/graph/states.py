"""The state of a service's links in a few words, with its age, from the status of its charms."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from builder.link_table import UNKNOWN, span
from lab.descriptors.service import service
from lab.errors import LcmError
from lab.graph.model import LINK_STATES, stated
from lab.lcm import looking
from lab.records.store import Store
from lab.vca.status import status_of


def links_of(store: Store, *services: Mapping[str, Any]) -> str:
    """Return the worst state of the links of services, whose it is, and its age; "" without any."""
    try:
        found = [end for nsr in services for end in _ends(store, nsr)]
    except LcmError as error:
        return str(error)
    if not found:
        return ""
    # What nobody saw is worse than all that somebody saw.
    worst, end, _ = min(found, key=lambda each: (each[0] != UNKNOWN, LINK_STATES.index(each[0])))
    age = span(round(time.time() - min(at for _, _, at in found)))
    named = worst if worst in ("up", "clear") else f"{worst} ({end})"
    return f"{named}, seen {age} ago"


def _ends(store: Store, nsr: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield the state of each end of a link, its name, and when somebody looked.

    A VNF that has links, and whose charm could not see them, is one end.
    """
    if status := status_of(store.home, nsr["_id"]):
        deployed = nsr["_admin"]["deployed"]["VCA"]
        members = {vca["application"]: vca["member-vnf-index"] for vca in deployed}
        for name, unit in status.units.items():
            application = name.partition("/")[0]
            links = stated(unit.message)
            for link, state in links.items():
                if state != "unconfigured":
                    yield state, f"{members.get(application)} {link}", unit.since
            blind = not links and unit.workload in ("blocked", "error", "unknown")
            if blind and application in _with_links(store, nsr):
                yield UNKNOWN, str(members.get(application)), unit.since
        return
    for answer in looking.looks(store.home, nsr["_id"])[0]:
        if answer.problem:
            yield UNKNOWN, answer.member, answer.at
        for link, details in answer.shown.items():
            state = str(details.get("state"))
            if "peers" in details and state in LINK_STATES and state != "unconfigured":
                yield state, f"{answer.member} {link}", answer.at


def _with_links(store: Store, nsr: Mapping[str, Any]) -> set[str]:
    """Return the applications of a service that tell of links."""
    return {
        env.application
        for env in service(dict(nsr), store).environments
        if any(primitive["name"] == looking.PRIMITIVE for primitive in env.config)
    }
