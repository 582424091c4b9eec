"""Slices and their operations."""

from http import HTTPStatus

from lab.nbi.params import InstanceRequest
from lab.records.store import NSIS, NSTS
from lab.server import schemas
from lab.server.calls import Answer, Call, Resources, accepted, known_vim, made, vims_by_id
from lab.server.problems import check


def _checked_slice(resources: Resources, call: Call) -> InstanceRequest:
    body = check(call.body, schemas.NSI_INSTANTIATE)
    resources.get(NSTS, body["nstId"])
    known_vim(resources, body["vimAccountId"])
    vims_by_id(resources, body)
    separate = (
        "lcmOperationType", "netsliceInstanceId", "nsiName", "nstId", "nsiDescription",
        "vimAccountId", "ssh_keys", "timeout_nsi_deploy",
    )  # fmt: skip
    return InstanceRequest(
        body["nsiName"],
        body["nstId"],
        body["vimAccountId"],
        {key: value for key, value in body.items() if key not in separate},
        body.get("ssh_keys") or [],
        body.get("nsiDescription") or "",
        body.get("timeout_nsi_deploy"),
    )


def new_slice(resources: Resources, call: Call) -> Answer:
    """Record a slice and instantiate it."""
    started = resources.slices.create(_checked_slice(resources, call))
    key = started.nsr["_id"]
    place = "nsilcm/v1/netslice_instances_content"
    return made(call, place, key, nsilcmop_id=started.operation["_id"])


def delete_slice(resources: Resources, call: Call) -> Answer:
    """Terminate a slice and delete it."""
    if resources.discarded(NSIS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSIS, call.key)
    started = resources.slices.delete(call.key, call.force)
    return accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "_id")
