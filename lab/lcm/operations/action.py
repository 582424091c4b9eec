"""A day-2 primitive."""

from collections.abc import Mapping
from typing import Any

from lab.descriptors.day0 import osm_params
from lab.descriptors.environments import Environment
from lab.descriptors.primitives import map_primitive_params
from lab.descriptors.service import Service, own_parameters, service, vnfrs_of
from lab.errors import LcmError
from lab.lcm.work import Work
from lab.records.store import NSRS, Document


def run(work: Work, operation: Document) -> str:
    params = operation["operationParams"]
    index = params["member_vnf_index"]
    ns_id = operation["nsInstanceId"]
    svc = service(work.store.get(NSRS, ns_id), work.store)
    vdu_id, count = params.get("vdu_id"), int(params.get("vdu_count_index") or 0)
    name = params["primitive"]
    try:
        env, primitive = _find(svc, index, vdu_id, count, name)
        values = map_primitive_params(
            primitive, params.get("primitive_params") or {}, _values(work, svc, env)
        )
    except LcmError as error:
        # LCM names its last step, although the error is in the primitive.
        raise LcmError(f"FAILED Getting vnfd from database: {error}") from None
    real_name = primitive.get("execution-environment-primitive") or name
    work.begin(operation, None, "RUNNING ACTION")
    timeout = float(params.get("timeout_ns_action") or work.timeouts.action)
    work.journal.write("primitive", index, name, application=env.application, number=1, total=1)
    with work.charms_running(ns_id, svc.environments) as model:
        n2vc = work.connector(ns_id, env)
        try:
            if real_name == "config":
                # LCM hides the values in one option named "params", so nothing is set.
                n2vc.verify()
                result: Mapping[str, Any] | str = {"output": "CONFIG OK"}
            else:
                result = n2vc.primitive(real_name, values, timeout)
        except LcmError as error:
            state = work.end(operation, "FAILED", str(error), str(error))
        else:
            output = result if isinstance(result, str) else dict(result)
            state = work.end(operation, "COMPLETED", output)
        work.let_settle(ns_id, model)
    return state


def _values(work: Work, svc: Service, env: Environment) -> dict[str, Any]:
    record = vnfrs_of(work.store, svc.nsr["_id"])[str(env.member_vnf_index)]
    values = own_parameters(record, env.vdu_id) or record["additionalParamsForVnf"]
    return {**values, "OSM": osm_params(record, env.vdu_id, env.count_index)}


def _find(
    svc: Service, index: str, vdu_id: str | None, count: int, name: str
) -> tuple[Environment, Mapping[str, Any]]:
    """Return the environment and ``config-primitive`` entry an action goes to."""
    for env in svc.environments:
        if (env.member_vnf_index, env.vdu_id) != (index, vdu_id):
            continue
        if vdu_id is not None and env.count_index != count:
            continue
        for primitive in env.config:
            if primitive["name"] == name:
                return env, primitive
    raise LcmError(f"Primitive {name} not found at [ns|vnf|vdu]-configuration:config-primitive ")
