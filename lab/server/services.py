"""Network services, their operations and VNFs."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from builder.documents import DocumentError, load
from lab.errors import NbiError
from lab.nbi.engine import Started
from lab.nbi.params import InstanceRequest
from lab.records.store import NSDS, NSRS, OPS
from lab.server import schemas
from lab.server.calls import Answer, Call, Resources, accepted, known_vim, made, vims_by_id
from lab.server.problems import check, not_found


def _checked(call: Call, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked body, without the operation and service: these are in the path."""
    body = check(call.body, schema)
    return {key: body[key] for key in body if key not in ("lcmOperationType", "nsInstanceId")}


def _of_service(resources: Resources, call: Call, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked body of a request for an operation on an existing service."""
    resources.get(NSRS, call.key)
    return _checked(call, schema)


def new_service(resources: Resources, call: Call) -> Answer:
    """Record a service and instantiate it."""
    started = resources.engine.ns_create(_checked_service(resources, call))
    key = started.nsr["_id"]
    more = {"nslcmop_id": started.operation["_id"], "nsName": started.nsr["name"]}
    return made(call, "nslcm/v1/ns_instances_content", key, **more)


def _checked_service(resources: Resources, call: Call) -> InstanceRequest:
    body = _checked(call, schemas.NS_INSTANTIATE)
    step = f"getting nsd id='{body['nsdId']}' from database"
    try:
        resources.get(NSDS, body["nsdId"])
    except NbiError as error:
        raise NbiError(f"{error} while '{step}'", error.status) from None
    known_vim(resources, body["vimAccountId"])
    vims_by_id(resources, body)
    return InstanceRequest(
        body["nsName"],
        body["nsdId"],
        body["vimAccountId"],
        *_config_and_keys(body),
        body.get("nsDescription") or "",
        body.get("timeout_ns_deploy"),
    )


def _config_and_keys(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the instantiation parameters in a request for a service, and the public keys."""
    separate = ("nsName", "nsdId", "nsDescription", "vimAccountId", "ssh_keys", "timeout_ns_deploy")
    if "nsConfigTemplateId" in body:
        raise not_found("nsconfigtemps", body["nsConfigTemplateId"])
    config = {key: value for key, value in body.items() if key not in separate}
    return config, body.get("ssh_keys") or []


def _accepted(started: Started, key: str = "id") -> Answer:
    return accepted(started, "nslcm/v1/ns_lcm_op_occs", key, nsName=started.nsr["name"])


def action(resources: Resources, call: Call) -> Answer:
    """Run a day-2 primitive."""
    body = _of_service(resources, call, schemas.NS_ACTION)
    if "kdu_name" in body:
        text = f"Invalid parameter kdu_name='{body['kdu_name']}' not present at vnfd:kdu:name"
        raise NbiError(text)
    started = resources.engine.ns_action(
        call.key,
        body["primitive"],
        body["primitive_params"],
        body.get("member_vnf_index", body.get("vnf_member_index")),
        body.get("vdu_id"),
        body.get("vdu_count_index"),
        body.get("timeout_ns_action"),
    )
    return _accepted(started)


def heal(resources: Resources, call: Call) -> Answer:
    """Recreate VDUs of a service."""
    body = _of_service(resources, call, schemas.NS_HEAL)
    return _accepted(resources.engine.ns_heal(call.key, body["healVnfData"]))


def scale(resources: Resources, call: Call) -> Answer:
    """Scale a VNF of a service."""
    body = _of_service(resources, call, schemas.NS_SCALE)
    data = body["scaleVnfData"]
    step = data["scaleByStepData"]
    started = resources.engine.vnf_scale(
        call.key,
        step["member-vnf-index"],
        step["scaling-group-descriptor"],
        data["scaleVnfType"] == "SCALE_IN",
    )
    return _accepted(started)


def update(resources: Resources, call: Call) -> Answer:
    """Update a service."""
    body = _of_service(resources, call, schemas.NS_UPDATE)
    return _accepted(resources.engine.ns_update(call.key, body["updateType"], body))


def delete_service(resources: Resources, call: Call) -> Answer:
    """Terminate a service and delete it; its parameters are in the query string."""
    if resources.discarded(NSRS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSRS, call.key)
    known = schemas.NS_TERMINATE["properties"]
    try:
        given = {key: load(text) for key, text in call.query if key in known}
    except DocumentError as error:
        raise NbiError(f"Invalid query string: {error}") from None
    body = check(given, schemas.NS_TERMINATE)
    if body.get("autoremove") is False:
        text = "autoremove is false; the lab always removes the records of what it terminates"
        raise NbiError(text, HTTPStatus.NOT_IMPLEMENTED)
    skip = bool(body.get("skip_terminate_primitives"))
    limit = body.get("timeout_ns_terminate")
    started = resources.engine.ns_delete(call.key, call.force, skip, limit)
    return _accepted(started, "_id")


def delete_services(resources: Resources, call: Call) -> Answer:
    """Terminate several services."""
    keys = check(call.body, schemas.NS_TERMINATE_SEVERAL)["ns_ids"]
    for key in keys:
        resources.get(NSRS, key)
    for key in keys:
        resources.engine.ns_delete(key)
    return Answer({"ns_ids": keys}, HTTPStatus.ACCEPTED)


def cancel(resources: Resources, call: Call) -> Answer:
    """Cancel an operation on a service (SOL005, clause 6.4.12)."""
    check(call.body, schemas.CANCEL)
    resources.get(OPS, call.key)
    resources.engine.cancel(call.key)
    return Answer({}, HTTPStatus.ACCEPTED, f"/osm/nslcm/v1/ns_lcm_op_occs/{call.key}")
