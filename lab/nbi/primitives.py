"""Checks of an ns-action, in NBI's order and words (``NsLcmOpTopic._check_ns_operation``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from lab.errors import NbiError, unknown


def check_action(
    primitives: Sequence[Mapping[str, Any]], name: str, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the ``config-primitive`` entry of an action.

    A parameter without a *non-empty* ``default-value`` must be given: NBI does not look at
    ``mandatory``.
    """
    for primitive in primitives:
        if primitive.get("name") != name:
            continue
        extra = dict(given)
        for parameter in primitive.get("parameter") or ():
            if parameter["name"] in extra:
                del extra[parameter["name"]]
            elif not parameter.get("default-value"):
                raise NbiError(
                    f"Needed parameter {parameter['name']} not provided for primitive '{name}'"
                )
        if extra:
            text = f"parameter/s '{list(extra)}' not present at vnfd /nsd for primitive '{name}'"
            names = [parameter["name"] for parameter in primitive.get("parameter") or ()]
            raise unknown(text, next(iter(extra)), names)
        return primitive
    text = f"Invalid primitive '{name}' is not present at vnfd/nsd"
    raise unknown(text, name, [str(primitive.get("name")) for primitive in primitives])
