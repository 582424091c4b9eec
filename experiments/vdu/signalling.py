"""Actions that measure signalling, while UEs register."""

from typing import Any, Dict, Mapping

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError
from vpnaas.base.links import reference_point
from vpnaas.features.measure import measure
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, ask


def step(request: Dict[str, Any]) -> Step:
    program = source("signalling_meter.py", __package__)
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


class Signalling(Actions):
    """Measures the signalling of one of the links of an MME or AMF."""

    @action("measure-s6a")
    def measure_s6a(self, given: Params) -> Dict[str, Any]:
        return self._measure("measure-s6a", "s6a", given)

    @action("measure-n2")
    def measure_n2(self, given: Params) -> Dict[str, Any]:
        return self._measure("measure-n2", "n2", given)

    def _measure(self, name: str, link: str, given: Params) -> Dict[str, Any]:
        """Measure the signalling of a link for an action, while UEs register."""
        meter = request(name, link, given)
        with self.charm.vdu() as vdu:
            decided = self.charm.plan(self.charm.charm_state(), vdu).links.get(link)
            if decided is None or not decided.interface:
                raise VpnaasError("{} is not configured; run configure first".format(link))
            meter["interface"] = decided.interface
            results = vdu.execute([step(meter)], exclusive=False)
        return dict(answer(link, results), technology=decided.params.technology)
