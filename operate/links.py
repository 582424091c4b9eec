"""The links of an OSM's services, from what their VNFs answer to show-status."""

import json
import time
from collections.abc import Collection, Iterator, Sequence

from builder.link_table import SPARE, Answer, Link, columns
from builder.link_table import links as table
from builder.terminal import console, fitted
from operate.client import OperateError, understood
from operate.osm import SERVICES, Osm, charms_of

PRIMITIVE = "show-status"
STYLES = {"up": "green", "clear": "blue", "down": "red", "blocked": "red", "unknown": "red"}


@understood("OSM")
def links(osm: Osm, names: Collection[str]) -> list[Link]:
    """Return the links of these services, or of all, the worst first."""
    services = osm.nbi.get(SERVICES)
    unknown = sorted(set(names) - {service["name"] for service in services})
    if unknown:
        known = ", ".join(sorted(service["name"] for service in services)) or "none"
        raise OperateError(f"OSM has no service {unknown[0]}; allowed: {known}")
    answers = [
        answer
        for service in services
        if not names or service["name"] in names
        for answer in _answers(osm, str(service["_id"]), service["name"])
    ]
    return table(answers, now=time.time())


def _answers(osm: Osm, key: str, name: str) -> Iterator[Answer]:
    for member, instance in charms_of(osm.service(key)):
        problem, said = "", {}
        try:
            found = json.loads(osm.output(osm.start(key, member, PRIMITIVE, {}, instance)))
            said = found if isinstance(found, dict) else {}
        except OperateError as error:
            problem = str(error)
        except (ValueError, RecursionError):
            problem = f"{PRIMITIVE} returns no links"
        # Each instance of a VDU that scales has a charm of its own.
        called = f"{member}/{instance[1]}" if instance and instance[1] else member
        yield Answer(name, called, time.time(), said, problem)


def show(found: Sequence[Link]) -> None:
    """Print the links, in the colour of their state."""
    out = console(200)
    styles = [STYLES.get(link.state, "") for link in found]
    out.print(fitted(columns(found), out.width, SPARE, styles), crop=False)
