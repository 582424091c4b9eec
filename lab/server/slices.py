"""Slices and their operations."""

from http import HTTPStatus

from lab.errors import ConflictError
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


def create_slice(resources: Resources, call: Call) -> Answer:
    """Record a slice, to be instantiated later."""
    nsi, _ = resources.slices.record(_checked_slice(resources, call))
    return made(call, "nsilcm/v1/netslice_instances", nsi["_id"], _id=nsi["_id"])


def instantiate_slice(resources: Resources, call: Call) -> Answer:
    """Instantiate a recorded slice with its recorded parameters."""
    resources.get(NSIS, call.key)
    check(call.body, schemas.NSI_INSTANTIATE)
    started = resources.slices.instantiate(call.key)
    return accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "id")


def forget_slice(resources: Resources, call: Call) -> Answer:
    """Delete the records of a slice that is not instantiated."""
    if resources.discarded(NSIS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSIS, call.key)
    if call.force:
        return delete_slice(resources, call)
    if not resources.slices.forget(call.key):
        text = (
            f"nsi '{call.key}' cannot be deleted because it is in 'INSTANTIATED' state. "
            "Launch 'terminate' operation first; or force deletion"
        )
        raise ConflictError(text)
    return Answer(None, HTTPStatus.NO_CONTENT)


def delete_slice(resources: Resources, call: Call) -> Answer:
    """Terminate a slice and delete it."""
    if resources.discarded(NSIS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSIS, call.key)
    if not call.force and resources.slices.forget(call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    started = resources.slices.delete(call.key, call.force)
    return accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "_id")


def terminate_slice(resources: Resources, call: Call) -> Answer:
    """Terminate a slice; its records are deleted too."""
    resources.get(NSIS, call.key)
    started = resources.slices.delete(call.key)
    return accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "id")
