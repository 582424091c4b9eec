"""Measurements of signalling: the step for the VDU, and its answer."""

from typing import Any, Dict, Mapping

from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError
from vpnaas.base.links import reference_point
from vpnaas.extras import measure
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, ask


def step(request: Dict[str, Any]) -> Step:
    """Return the step that runs the meter."""
    program = source("signalling_meter.py", "oai")
    return ask("meter", program, request, int(request["seconds"]) + 60)


def answer(link: str, results: Results) -> Dict[str, Any]:
    """Return what the meter of a link measured."""
    title = reference_point(link).title
    report = measure.answer(results, "meter", "measurement of {}".format(title))
    if not any(isinstance(one, dict) and one.get("count") for one in report.values()):
        raise VpnaasError("no UE registered while {} was measured; nothing to tell".format(title))
    return report


def request(action: str, link: str, params: Mapping[str, Any]) -> Dict[str, Any]:
    """Parse the parameters of an action that measures signalling."""
    given = fields.Parameters(action, params)
    return {
        "link": link,
        "seconds": given.integer("duration", 60, 1, 1500),
        "count": given.integer("count", 0, 0, 1000000) or 1 << 30,
        "idle": given.integer("idle", 0, 0, 1500),
    }
