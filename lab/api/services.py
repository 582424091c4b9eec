"""Network services and slices, and their operations."""

from http import HTTPStatus

from builder.documents import DocumentError, load
from lab.api.calls import Answer, Call, Resources, accepted, made
from lab.api.problems import not_found
from lab.errors import NbiError
from lab.nbi import requests
from lab.nbi.engine import Started
from lab.records.store import NSDS, NSIS, NSRS, NSTS, OPS


def new_service(resources: Resources, call: Call) -> Answer:
    body = requests.operation("ns", call.body)
    try:
        resources.get(NSDS, body["nsdId"])
    except NbiError as error:
        step = f"getting nsd id='{body['nsdId']}' from database"
        raise NbiError(f"{error} while '{step}'", error.status) from None
    if "nsConfigTemplateId" in body:
        raise not_found("nsconfigtemps", body["nsConfigTemplateId"])
    started = resources.engine.instantiate(body)
    more = {"nslcmop_id": started.operation["_id"], "nsName": started.nsr["name"]}
    return made("nslcm/v1/ns_instances_content", started.nsr["_id"], **more)


def new_slice(resources: Resources, call: Call) -> Answer:
    body = requests.operation("nsi", call.body)
    resources.get(NSTS, body["nstId"])
    started = resources.slices.instantiate(body)
    place = "nsilcm/v1/netslice_instances_content"
    return made(place, started.nsr["_id"], nsilcmop_id=started.operation["_id"])


def _accepted(started: Started, key: str = "id") -> Answer:
    return accepted(started, "nslcm/v1/ns_lcm_op_occs", key, nsName=started.nsr["name"])


def operate(kind: str, resources: Resources, call: Call) -> Answer:
    """Start an operation on a service: action, heal, scale or update."""
    resources.get(NSRS, call.key)
    return _accepted(resources.engine.ns_run(call.key, kind, call.body))


def delete_service(resources: Resources, call: Call) -> Answer:
    """Terminate a service and delete it; its parameters are in the query string."""
    if resources.discarded(NSRS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSRS, call.key)
    known = requests.schema("terminate")["properties"]
    try:
        given = {key: load(text) for key, text in call.query if key in known}
    except DocumentError as error:
        raise NbiError(f"Invalid query string: {error}") from None
    return _accepted(resources.engine.ns_delete(call.key, call.force, given), "_id")


def delete_services(resources: Resources, call: Call) -> Answer:
    keys = requests.check(call.body, "terminate several")["ns_ids"]
    for key in keys:
        resources.get(NSRS, key)
    for key in keys:
        resources.engine.ns_delete(key)
    return Answer({"ns_ids": keys}, HTTPStatus.ACCEPTED)


def delete_slice(resources: Resources, call: Call) -> Answer:
    if resources.discarded(NSIS, call.key):
        return Answer(None, HTTPStatus.NO_CONTENT)
    resources.get(NSIS, call.key)
    started = resources.slices.delete(call.key, call.force)
    return accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "_id")


def cancel(resources: Resources, call: Call) -> Answer:
    """Cancel an operation on a service (SOL005, clause 6.4.12)."""
    requests.check(call.body, "cancel")
    resources.get(OPS, call.key)
    resources.engine.cancel(call.key)
    return Answer({}, HTTPStatus.ACCEPTED, f"/osm/nslcm/v1/ns_lcm_op_occs/{call.key}")
