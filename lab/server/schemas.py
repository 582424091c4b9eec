"""Bodies of requests, as NBI allows them (osm_nbi/validation.py).

The validator of packages and parameters checks instantiation parameters in full. Here are only
their keys.
"""

from typing import Any

from lab.nbi.params import NAME, NAME_LENGTH

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
        "kdu_name": _NAME,
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

NS_UPDATE = _operation(
    {
        "updateType": {
            "enum": [
                "CHANGE_VNFPKG",
                "MODIFY_VNF_INFORMATION",
                "OPERATE_VNF",
                "VERTICAL_SCALE",
            ]
        },
        "changeVnfPackageData": {
            "type": "object",
            "properties": {"vnfInstanceId": _ID, "vnfdId": _ID},
            "required": ["vnfInstanceId", "vnfdId"],
        },
        "operateVnfData": _OBJECT,
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
