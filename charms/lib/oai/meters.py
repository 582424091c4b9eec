"""Measurements of signalling: the step for the VDU, and its answer."""

import json
from typing import Any, Dict, Mapping

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, VpnaasError
from vpnaas.base.links import reference_point
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, run


def step(request: Dict[str, Any]) -> Step:
    """Return the step that runs the meter."""
    return run(
        "meter",
        *("python3", "-I", "-c", source("signalling_meter.py", "oai")),
        stdin=json.dumps(request),
        any_exit=True,
        timeout=int(request["seconds"]) + 60,
    )


def answer(link: str, results: Results) -> Dict[str, Any]:
    """Return what the meter of a link measured.

    Raises:
        VpnaasError: The meter failed, or no UE registered meanwhile.
    """
    title = reference_point(link).title
    if results.failed is not None:
        raise VpnaasError("measurement of {} failed: {}".format(title, results.failed))
    try:
        report = dict(json.loads(results.output("meter")))
    except MALFORMED:
        reason = results.error("meter").strip().splitlines() or ["no report"]
        raise VpnaasError("measurement of {} failed: {}".format(title, reason[-1]))
    if not any(isinstance(one, dict) and one.get("count") for one in report.values()):
        raise VpnaasError("no UE registered while {} was measured; nothing to tell".format(title))
    return report


def request(action: str, link: str, given: Mapping[str, Any]) -> Dict[str, Any]:
    """Parse the parameters of an action that measures signalling."""

    def number(key: str, default: int, low: int, high: int) -> int:
        return fields.integer("{}: {}".format(action, key), given.get(key, default), low, high)

    return {
        "link": link,
        "seconds": number("duration", 60, 1, 1500),
        "count": number("count", 0, 0, 1000000) or 1 << 30,
        "idle": number("idle", 0, 0, 1500),
    }
