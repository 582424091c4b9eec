"""Healing: VDUs are replaced by new ones.

Source: OSM 19, LCM ``heal``, ``heal_N2VC``; RO ``recreate``. The lab leaves out what LCM leaves
out: a healed VDU gets the charm's key, but no relations, no ``config`` and no initial primitives.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lab.descriptors.environments import Environment
from lab.descriptors.service import Service, service, vdur_of
from lab.errors import LcmError
from lab.lcm.bring_up import inject
from lab.lcm.recreate import Target, recreate
from lab.lcm.work import Work
from lab.records.store import NSRS, VNFRS, Document


def run(work: Work, operation: Document) -> str:
    """Replace VDUs by new ones and put the keys of their charms into them."""
    ns_id = operation["nsInstanceId"]
    work.begin(operation, None, "HEALING")
    svc = service(work.store.get(NSRS, ns_id), work.store)
    targets = [
        target
        for vnf_data in operation["operationParams"]["healVnfData"]
        for target in _to_heal(work, vnf_data)
    ]
    for target in targets:
        recreate(work, svc, target, same=False)
    with work.charms_running(ns_id, svc.environments) as model:
        for target in targets:
            for env in _of_target(svc, target):
                _inject_key(work, ns_id, env, target)
                if target.run_day1:
                    _break_day1(work, ns_id, env)
        state = work.end(operation, "COMPLETED", "Done")
        work.let_settle(ns_id, model)
    return state


def _to_heal(work: Work, vnf_data: Mapping[str, Any]) -> Iterator[Target]:
    vnfr = work.store.get(VNFRS, vnf_data["vnfInstanceId"])
    given = vnf_data.get("additionalParams") or {}
    listed = given.get("vdu") or [
        {"vdu-id": v["vdu-id-ref"], "count-index": v["count-index"]} for v in vnfr["vdur"]
    ]
    for entry in listed:
        run_day1 = bool(entry.get("run-day1") or given.get("run-day1"))
        yield Target(vnfr, vdur_of(vnfr, entry["vdu-id"], entry.get("count-index", 0)), run_day1)


def _of_target(svc: Service, target: Target) -> list[Environment]:
    """Return the environments LCM heals: the VDU's, and the VNF's if this VDU has its address."""
    place = (target.vdur["vdu-id-ref"], target.vdur["count-index"])
    return [
        env
        for env in svc.environments
        if env.member_vnf_index == target.index
        and ((env.vdu_id is None and target.is_vnf) or (env.vdu_id, env.count_index) == place)
    ]


def _inject_key(work: Work, ns_id: str, env: Environment, target: Target) -> None:
    if not env.ssh_required or not env.ssh_user:
        return
    key = work.connector(ns_id, env).public_key()
    address = str(target.vdur["ip-address"])
    try:
        inject(work, ns_id, target.index, address, env.ssh_user, key)
    except LcmError as error:
        raise LcmError(f"Reaching max tries injecting key. Error: {error}") from None


def _break_day1(work: Work, ns_id: str, env: Environment) -> None:
    """Handle ``run-day1`` as LCM does: no primitive runs, the environment becomes BROKEN.

    LCM looks for the parameters of the initial primitives in the heal request, which has none.
    """
    work.record_vca(ns_id, env.application, status="BROKEN")
    work.journal.write("note", "ns", f"{env.application}: run-day1 ran no primitive, as in OSM")
