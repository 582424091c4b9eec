"""Day-0 user data as RO renders it.

RO passes every cloud-init file through Jinja2 with undefined variables as errors and with HTML
escaping on, which turns ``&`` in a value into ``&amp;`` unless the template says ``|safe``. The lab
does the same, so that a template that fails in OSM also fails here.
"""

from collections.abc import Mapping
from typing import Any

from builder.userdata import environment
from lab.errors import LcmError


def render_user_data(template: str, params: Mapping[str, Any], where: str) -> str:
    """Return the user data of one VDU.

    Args:
        template: content of the cloud-init file.
        params: additionalParams of the VDU (or, without any, of its VNF) and the key ``OSM``.
        where: VNF and VDU, for the error.
    """
    # It loads slowly; only operations that make VDUs need it.
    from jinja2 import TemplateError, UndefinedError

    try:
        return environment().from_string(template).render(dict(params))
    except UndefinedError as error:
        raise LcmError(
            f"Variable {error} at {where} must be provided in the instantiation parameters "
            "inside the 'additionalParamsForVnf' block"
        ) from None
    except TemplateError as error:
        raise LcmError(f"Error parsing Jinja2 to cloud-init content at {where}: {error}") from None


def osm_params(vnfr: Mapping[str, Any], vdu_id: str | None, count_index: int) -> dict[str, Any]:
    """Return the dictionary OSM offers as ``OSM`` to cloud-init and primitives.

    Addresses are usually unknown to cloud-init and known to primitives.
    """
    values: dict[str, Any] = {
        "ns_id": vnfr["nsr-id-ref"],
        "vnf_id": vnfr["_id"],
        "member_vnf_index": vnfr["member-vnf-index-ref"],
        "vdu": {},
    }
    values |= _given(vnfr, "ip-address", "vim-account-id", "vnfd-id", "vnfd-ref")
    for vdur in vnfr.get("vdur", ()):
        values["vdu"][f"{vdur['vdu-id-ref']}-{vdur['count-index']}"] = {
            "count_index": vdur["count-index"],
            "vdu_id": vdur["vdu-id-ref"],
            "interfaces": {
                port["name"]: _given(port, "mac-address", "ip-address", "name")
                for port in vdur.get("interfaces", ())
            },
            **_given(vdur, "ip-address"),
        }
    if vdu_id is not None:
        values["vdu_id"] = vdu_id
        values["count_index"] = count_index
    return values


def _given(record: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """Return fields of a record that have a value, with names as Jinja2 takes them."""
    return {field.replace("-", "_"): record[field] for field in fields if record.get(field)}
