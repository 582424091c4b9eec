"""The measurement of S6a as a step for the VDU, and its answer."""

import json
from typing import Any, Dict

from vpnaas.base.errors import VpnaasError
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, run

from . import s6a_meter


def step(request: Dict[str, Any]) -> Step:
    """Return the step that runs the meter."""
    return run(
        "s6a-meter",
        *("python3", "-I", "-c", source("s6a_meter.py", "oai")),
        stdin=json.dumps(request),
        any_exit=True,
        timeout=int(request["seconds"]) + 60,
    )


def answer(results: Results) -> Dict[str, Any]:
    """Return what the meter measured.

    Raises:
        VpnaasError: It did not run, or saw no answer of the HSS.
    """
    if results.failed is not None:
        raise VpnaasError("measurement of S6a failed: {}".format(results.failed))
    try:
        report = dict(json.loads(results.output("s6a-meter")))
    except ValueError:
        reason = results.error("s6a-meter").strip().splitlines() or ["no report"]
        raise VpnaasError("measurement of S6a failed: {}".format(reason[-1]))
    if not any(report[name]["count"] for name in s6a_meter.COMMANDS.values()):
        raise VpnaasError("no UE registered while S6a was measured; nothing to tell")
    return report
