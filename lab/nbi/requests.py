"""Bodies of requests, as NBI allows them (osm_nbi/validation.py).

The validator of packages and parameters checks instantiation parameters in full. Here are only
their keys.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from lab.errors import NbiError
from lab.nbi.params import NAME, NAME_LENGTH, InstanceRequest

_NAME = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "pattern": NAME}
_SHORT_NAME = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^,;()\\.\\$'\"]+$"}
_STRING = {"type": "string", "minLength": 1, "maxLength": 255}
_DESCRIPTION = {"type": ["string", "null"], "maxLength": 255, "pattern": "^[^'\"]+$"}
_ID = {
    "type": "string",
    "pattern": "^[a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}$",
}
_BOOLEAN = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "integer", "minimum": 1}
_OBJECT = {"type": "object"}
_LIST = {"type": "array", "minItems": 1, "items": {"type": "object"}}
_KEYS = {"type": "array", "items": {"type": "string"}}


def _body(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _operation(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an operation; its body may repeat operation and id of the path."""
    return _body({"lcmOperationType": _STRING, "nsInstanceId": _ID, **properties}, *required)


TOKEN = {
    "type": "object",
    "properties": {
        "username": {"type": "string"},
        "password": {"type": "string"},
        "project_id": {"type": ["string", "null"]},
    },
}

_VIM = {
    "name": _NAME,
    "description": _DESCRIPTION,
    "vim": _NAME,
    "datacenter": _NAME,
    "vim_type": _SHORT_NAME,
    "vim_url": _DESCRIPTION,
    "vim_tenant_name": _NAME,
    "vim_user": _STRING,
    "vim_password": {"type": "string", "minLength": 1, "maxLength": 60},
    "vca": _ID,
    "config": _OBJECT,
    "prometheus-config": _OBJECT,
}

_SCHEMA = {
    "schema_version": {"type": "string", "enum": ["1.0"]},
    "schema_type": {"type": "string"},
}

VIM_ACCOUNT = _body(
    _SCHEMA | _VIM,
    "name",
    "vim_url",
    "vim_type",
    "vim_user",
    "vim_password",
    "vim_tenant_name",
)

VIM_EDIT = _body(_VIM)

_VCA = {
    "name": _NAME,
    "description": _DESCRIPTION,
    "endpoints": {"type": "array", "minItems": 1, "items": _DESCRIPTION},
    "user": _STRING,
    "secret": {"type": "string", "minLength": 1, "maxLength": 60},
    "cacert": {"type": ["string", "null"], "maxLength": 3000, "pattern": "^[^'\"]+$"},
    "lxd-cloud": _SHORT_NAME,
    "lxd-credentials": _SHORT_NAME,
    "k8s-cloud": _SHORT_NAME,
    "k8s-credentials": _SHORT_NAME,
    "model-config": _OBJECT,
}

VCA = _body(
    _SCHEMA | _VCA,
    *(name for name in _VCA if name not in ("description", "model-config")),
)

VCA_EDIT = _body({"port": _POSITIVE} | _VCA)

NS_INSTANTIATE = _operation(
    {
        "nsName": _NAME,
        "nsDescription": _DESCRIPTION,
        "nsConfigTemplateId": _ID,
        "nsdId": _ID,
        "vimAccountId": _ID,
        "wimAccountId": {"type": ["string", "boolean", "null"]},
        "placement-engine": _STRING,
        "placement-constraints": _OBJECT,
        "additionalParamsForNs": _OBJECT,
        "additionalParamsForVnf": _LIST,
        "config-units": _POSITIVE,
        "k8s-namespace": _NAME,
        "ssh_keys": _KEYS,
        "timeout_ns_deploy": _POSITIVE,
        "vduImage": _NAME,
        "vnf": _LIST,
        "vld": _LIST,
    },
    "nsName",
    "nsdId",
    "vimAccountId",
)

NS_ACTION = _operation(
    {
        "member_vnf_index": _NAME,
        "vnf_member_index": _NAME,
        "vdu_id": _NAME,
        "vdu_count_index": _COUNT,
        "primitive": _NAME,
        "timeout_ns_action": _POSITIVE,
        "primitive_params": _OBJECT,
    },
    "primitive",
    "primitive_params",
)

_HEALED_VDU = _body({"run-day1": _BOOLEAN, "vdu-id": _NAME, "count-index": _COUNT}, "vdu-id")

NS_HEAL = _operation(
    {
        "healVnfData": {
            "type": "array",
            "minItems": 1,
            "items": _body(
                {
                    "vnfInstanceId": _ID,
                    "cause": _DESCRIPTION,
                    "additionalParams": _body(
                        {
                            "run-day1": _BOOLEAN,
                            "vdu": {"type": "array", "items": _HEALED_VDU},
                        }
                    ),
                },
                "vnfInstanceId",
            ),
        },
    },
    "healVnfData",
)

NS_SCALE = _operation(
    {
        "scaleType": {"enum": ["SCALE_VNF"]},
        "scaleVnfData": _body(
            {
                "vnfInstanceId": _NAME,
                "scaleVnfType": {"enum": ["SCALE_OUT", "SCALE_IN"]},
                "scaleByStepData": _body(
                    {
                        "scaling-group-descriptor": _NAME,
                        "member-vnf-index": _NAME,
                        "scaling-policy": _NAME,
                    },
                    "scaling-group-descriptor",
                    "member-vnf-index",
                ),
            },
            "scaleVnfType",
            "scaleByStepData",
        ),
    },
    "scaleType",
    "scaleVnfData",
)

UPDATES = {"CHANGE_VNFPKG": "changeVnfPackageData", "OPERATE_VNF": "operateVnfData"}
"""Type of an update -> field with its parameters."""

NS_UPDATE = _operation(
    {
        "timeout_ns_update": _POSITIVE,
        "updateType": {"enum": list(UPDATES)},
        "changeVnfPackageData": {
            "type": "object",
            "properties": {"vnfInstanceId": _ID, "vnfdId": _STRING},
            "required": ["vnfInstanceId", "vnfdId"],
        },
        "operateVnfData": {
            "type": "object",
            "properties": {
                "vnfInstanceId": _ID,
                "changeStateTo": {"enum": ["start", "stop", "rebuild"]},
                "additionalParam": {
                    "type": "object",
                    "properties": {"vdu_id": _NAME, "count-index": _COUNT},
                    "required": ["vdu_id", "count-index"],
                },
            },
            "required": ["vnfInstanceId", "changeStateTo", "additionalParam"],
        },
    },
    "updateType",
)

NS_TERMINATE = _operation(
    {
        "autoremove": _BOOLEAN,
        "timeout_ns_terminate": _POSITIVE,
        "skip_terminate_primitives": _BOOLEAN,
    }
)

OPERATIONS = {
    "action": NS_ACTION,
    "heal": NS_HEAL,
    "scale": NS_SCALE,
    "update": NS_UPDATE,
    "terminate": NS_TERMINATE,
}

NS_TERMINATE_SEVERAL = {
    "type": "object",
    "properties": {"ns_ids": {"type": "array", "items": _ID}},
    "required": ["ns_ids"],
}

CANCEL = _body(
    {"nsLcmOpOccId": _ID, "cancelMode": {"enum": ["GRACEFUL", "FORCEFUL"]}}, "cancelMode"
)

NSI_INSTANTIATE = _body(
    {
        "lcmOperationType": _STRING,
        "netsliceInstanceId": _ID,
        "nsiName": _NAME,
        "nsiDescription": _DESCRIPTION,
        "nstId": _STRING,
        "vimAccountId": _ID,
        "timeout_nsi_deploy": _POSITIVE,
        "ssh_keys": _KEYS,
        "additionalParamsForNsi": _OBJECT,
        "additionalParamsForSubnet": _LIST,
        "netslice-subnet": _LIST,
        "netslice-vld": _LIST,
    },
    "nsiName",
    "nstId",
    "vimAccountId",
)

_INSTANCES = {"ns": (NS_INSTANTIATE, "nsdId"), "nsi": (NSI_INSTANTIATE, "nstId")}


def check(document: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's body, checked against a JSON schema."""
    import jsonschema  # It loads slowly; few verbs need it.

    try:
        jsonschema.Draft202012Validator(schema).validate(document)
    except jsonschema.ValidationError as error:
        place = "at '" + ":".join(str(part) for part in error.path) + "'" if error.path else ""
        text = f"Format error {place} '{error.message}' "
        raise NbiError(text, HTTPStatus.UNPROCESSABLE_ENTITY) from None
    result: dict[str, Any] = document
    return result


def operation(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked body of an operation, without what the path says: operation, service."""
    checked = check(dict(body), OPERATIONS[kind])
    return {k: v for k, v in checked.items() if k not in ("lcmOperationType", "nsInstanceId")}


def instance(kind: str, body: Mapping[str, Any]) -> InstanceRequest:
    """Return the request in a checked body for a service (``kind`` ns) or a slice (nsi)."""
    schema, descriptor = _INSTANCES[kind]
    left = check(dict(body), schema) | {}
    for key in ("lcmOperationType", "nsInstanceId", "netsliceInstanceId"):
        left.pop(key, None)
    return InstanceRequest(
        left.pop(f"{kind}Name"),
        left.pop(descriptor),
        left.pop("vimAccountId"),
        ssh_keys=left.pop("ssh_keys", None) or [],
        description=left.pop(f"{kind}Description", None) or "",
        timeout=left.pop(f"timeout_{kind}_deploy", None),
        config=left,
    )
