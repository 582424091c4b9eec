"""The fields that a record of each kind always has, as `lab.nbi` writes it.

A record may have more fields. If one of these is missing, the file was cut, edited by hand, or
written by another version of the lab.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Fields = Mapping[str, str]
"""Place in a record -> names of the fields there. A star stands for all entries of a list or
mapping; a place that is not there has nothing to lack."""

_PACKAGE = "_id id name folder descriptor _admin"
_NS_PACKAGE = {"": _PACKAGE, "_admin": "created", "descriptor": "id df"}
_OPERATION = (
    "_id lcmOperationType operationState startTime statusEnteredTime detailed-status "
    "operationParams errorMessage lab _admin"
)

VIM: Fields = {"": "_id name _admin", "_admin": "created"}
CREATED: Fields = {
    "": "_id _admin",
    "_admin": "created kind onboardingState operationalState usageState",
}
NST: Fields = {"": _PACKAGE, "_admin": "created", "descriptor": "id"}
NSD: Fields = _NS_PACKAGE
VNFD: Fields = {
    **_NS_PACKAGE,
    "_admin": "created revision revisions",
    "_admin.revisions.*": "folder software-version",
}
NSR: Fields = {
    "": "_id id name nsd nsd-id nsd-ref nsState currentOperation currentOperationID create-time "
    "operational-status config-status detailed-status errorDescription errorDetail "
    "configurationStatus constituent-vnfr-ref instantiate_params lab _admin",
    "nsd": "id df",
    "instantiate_params": "vimAccountId",
    "_admin": "created nsState deployed",
    "_admin.deployed": "VCA",
    "_admin.deployed.VCA.*": "application charm_name status ee_id member-vnf-index vdu_id "
    "vdu_count_index",
    "_admin.scaling-group.*": "name vnf_index nb-scale-op",
}
VNFR: Fields = {
    "": "_id nsr-id-ref member-vnf-index-ref vnfd-id vnfd-ref vim-account-id revision ip-address "
    "additionalParamsForVnf vdur _admin",
    "_admin": "created nsState",
    "vdur.*": "vdu-id-ref count-index name status vim-id ip-address additionalParams interfaces",
    "vdur.*.interfaces.*": "name ns-vld-id ip-address mgmt-interface mgmt-vnf",
}
NS_OPERATION: Fields = {
    "": f"nsInstanceId {_OPERATION}",
    "_admin": "created",
    "lab.worker": "pid start",
}
NSI_OPERATION: Fields = {
    **NS_OPERATION,
    "": f"netsliceInstanceId {_OPERATION}",
    "operationParams": "nslcmops_ids",
}
NSI: Fields = {
    "": "_id id name nst-ref network-slice-template instantiation_parameters nsr-ref-list "
    "operational-status config-status detailed-status _admin",
    "network-slice-template": "id",
    "_admin": "created nsiState nst-id deployed netslice-vld nsrs-detailed-list netslice-subnet",
    "_admin.deployed": "RO",
    "_admin.deployed.RO.*": "vld_id netslice_scenario_id",
    "_admin.netslice-vld.*": "id name shared-nsrs-list",
    "_admin.nsrs-detailed-list.*": "nsrId nsd-id nss-id shared nslcmop_instantiate",
    "_admin.netslice-subnet.*": "nss-id",
}


def fault(record: Any, fields: Fields) -> str:
    """Return what is wrong with a record, as the end of "the record FILE ..."; "": nothing."""
    for place, names in fields.items():
        for where, part in _parts(record, place.split(".") if place else ()):
            at = ".".join(where)
            if not isinstance(part, dict):
                return f"is damaged at '{at}'" if at else "is damaged"
            for name in names.split():
                if name not in part:
                    return f"lacks '{'.'.join((*where, name))}'"
    return ""


def _parts(
    value: Any, way: Sequence[str], where: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each part of a value at a place, with its own place; None for a place in no mapping."""
    if not way:
        yield where, value
    elif way[0] == "*" and isinstance(value, list | dict):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _parts(entry, way[1:], (*where, str(key)))
    elif not isinstance(value, dict):
        yield where, None
    elif value.get(way[0]) is not None:
        yield from _parts(value[way[0]], way[1:], (*where, way[0]))
