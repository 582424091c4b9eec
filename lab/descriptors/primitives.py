"""Values of a primitive's parameters, the way LCM computes them (``_map_primitive_params``).

The quirks are kept on purpose, because a package that only works without them fails in OSM.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from builder.documents import placeholder
from lab.errors import LcmError

_YAML_MARK = "!!yaml "


def map_primitive_params(
    primitive: Mapping[str, Any], given: Mapping[str, Any], instantiation: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters an action (or ``config``) gets.

    Args:
        primitive: ``initial-config-primitive``, ``terminate-`` or ``config-primitive`` entry.
        given: values of the request (ns-action); they win over the descriptor's and are not
            substituted.
        instantiation: values for ``<name>``, which must be the whole value of the parameter.
    """
    name = primitive["name"]
    values: dict[str, Any] = {}
    for parameter in primitive.get("parameter") or ():
        key = parameter["name"]
        if key in given:
            value = given[key]
        elif "value" in parameter or "default-value" in parameter:
            value = parameter.get("value", parameter.get("default-value"))
            if wanted := placeholder(value):
                if wanted not in instantiation:
                    raise LcmError(
                        f"Parameter {value} needed to execute primitive {name} not provided"
                    )
                value = instantiation[wanted]
        else:
            raise LcmError(f"Parameter {key} needed to execute primitive {name} not provided")
        values[key] = _typed(value, parameter.get("data-type"), key, name)
    return values


def _typed(value: Any, data_type: str | None, key: str, primitive: str) -> Any:
    if isinstance(value, (dict, list, tuple)):
        value = yaml.safe_dump(value, default_flow_style=True, width=256)
    elif isinstance(value, str) and value.startswith(_YAML_MARK):
        value = value[len(_YAML_MARK) :]
    if data_type == "INTEGER":
        try:
            return int(value)
        except (ValueError, TypeError):  # of null, on which LCM fails without a sentence
            raise LcmError(f"Parameter {key} of primitive {primitive} must be integer") from None
    if data_type == "BOOLEAN":
        # LCM's own rule: everything except the word "false" is true, also "", "0" and "no".
        return str(value).lower() != "false"
    return value


def terminate_params(primitive: Mapping[str, Any], member_vnf_index: str | None) -> dict[str, Any]:
    """Return the parameters of a terminate primitive.

    LCM substitutes nothing here, except that a parameter *named* ``member_vnf_index`` gets it.
    """
    values = {p["name"]: p.get("value") for p in primitive.get("parameter") or ()}
    if "member_vnf_index" in values:
        values["member_vnf_index"] = member_vnf_index
    return values


def by_seq(primitives: Any) -> list[Mapping[str, Any]]:
    """Return the primitives that have a ``seq``, in its order (LCM drops the others)."""
    with_seq = [p for p in primitives or () if p.get("seq") is not None]
    return sorted(with_seq, key=lambda p: int(p["seq"]))
