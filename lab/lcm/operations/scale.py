"""Scaling of a VNF by one of its aspects: instances of VDUs come and go, with their charms.

Source: OSM 19, LCM ``scale``. Charms of added instances get no relations: LCM relates the first
instance of a VDU only. A VNF-level charm is deployed again for each added instance. It manages the
VNF's address, which is the address of the first instance.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from builder.documents import walk
from lab.descriptors.day0 import osm_params
from lab.descriptors.environments import Environment, vdu_count
from lab.descriptors.service import Service, service, vdur_of, vnfrs_of
from lab.descriptors.topology import Plan, Server
from lab.errors import LcmError
from lab.lcm import charmops
from lab.lcm.bring_up import Instantiation
from lab.lcm.removal import run_terminate_primitives
from lab.lcm.request import request
from lab.lcm.vimdeploy import VimDeployment
from lab.lcm.work import Work
from lab.records.store import NSRS, VNFRS, Document
from lab.together import for_each
from lab.vca.model import Model

MOST = 10  # Maximum number of instances of a VDU if its profile has no maximum.


Places = set[tuple[str, int]]  # Instances of VDUs that come or go: (VDU, count index).


def run(work: Work, operation: Document) -> str:
    """Scale a VNF out or in by one step of an aspect."""
    ns_id = operation["nsInstanceId"]
    data = operation["operationParams"]["scaleVnfData"]
    step = data["scaleByStepData"]
    index, group = str(step["member-vnf-index"]), str(step["scaling-group-descriptor"])
    out = data["scaleVnfType"] == "SCALE_OUT"
    work.begin(operation, None, "SCALING")
    nsr = work.store.get(NSRS, ns_id)
    svc = service(nsr, work.store)
    record = vnfrs_of(work.store, ns_id)[index]
    done, places = _places(nsr, record, svc.vnfds[index]["descriptor"], group, out)

    def counted() -> None:
        with work.store.edit(NSRS, ns_id) as document:
            groups = document["_admin"].setdefault("scaling-group", [])
            groups[:] = [g for g in groups if (g["name"], g["vnf_index"]) != (group, index)]
            groups.append({"name": group, "vnf_index": index, "nb-scale-op": done})

    with work.charms_running(ns_id, svc.environments) as model:
        if model is None:
            raise LcmError("the lab scales services with charms only")
        errors: list[str] = []
        if out:
            errors = _scale_out(work, svc, record, places, counted)
        else:
            _scale_in(work, svc, record, places, model)
            counted()
        if errors:
            text = f"FAILED Scaling: {'; '.join(errors)}"
            state = work.end(operation, "FAILED", text, text)
        else:
            state = work.end(operation, "COMPLETED", "Done")
        work.let_settle(ns_id, model)
    return state


def _places(
    nsr: Document, vnfr: Document, vnfd: Mapping[str, Any], group: str, out: bool
) -> tuple[int, Places]:
    """Return the total number of instances this aspect has added, and those of this step."""
    flavour = vnfd["df"][0]
    aspects = {a.get("name"): a for a in flavour.get("scaling-aspect") or ()}
    if group not in aspects:
        raise LcmError(
            f"input parameter 'scaleByStepData':'scaling-group-descriptor':'{group}' is not "
            "present at vnfd:scaling-group-descriptor"
        )
    done = 0
    for entry in nsr["_admin"].get("scaling-group") or ():
        if (entry["name"], entry["vnf_index"]) == (group, vnfr["member-vnf-index-ref"]):
            done = entry["nb-scale-op"]
    profiles = {p["id"]: p for p in flavour.get("vdu-profile") or ()}
    places: Places = set()
    for _, entry, _ in walk(aspects[group], "aspect-delta-details/deltas[]/vdu-delta[]"):
        vdu_id, number = entry["id"], int(entry.get("number-of-instances", 1))
        present = sorted(v["count-index"] for v in vnfr["vdur"] if v["vdu-id-ref"] == vdu_id)
        profile = profiles.get(vdu_id, {})
        done += number if out else -number
        count = done + vdu_count(vnfd, vdu_id)
        key, limit = ("max", MOST) if out else ("min", 0)
        limit = int(profile.get(f"{key}-number-of-instances", limit))
        if count > limit if out else count < limit:
            raise LcmError(
                f"reached the limit of {done} ({key}-instance-count) scaling-"
                f"{'out' if out else 'in'} operations for the scaling-group-descriptor "
                f"'{group}'"
            )
        first_new = len(present)
        counts = range(first_new, first_new + number) if out else present[::-1][:number]
        places.update((vdu_id, count) for count in counts)
    return done, places


# -- out -------------------------------------------------------------------------------------------


def _scale_out(
    work: Work, svc: Service, vnfr: Document, added: Places, counted: Callable[[], object]
) -> list[str]:
    ns_id, index = svc.nsr["_id"], str(vnfr["member-vnf-index-ref"])
    known = _networks(work, svc, vnfr)
    with work.store.edit(VNFRS, vnfr["_id"]) as record:
        for vdu_id, count in sorted(added):
            first = next(v for v in record["vdur"] if v["vdu-id-ref"] == vdu_id)
            record["vdur"].append(_instance(first, count))
    # As in LCM a step that fails counts, so that scaling in takes back what there is of it.
    counted()
    before = {env.application for env in svc.environments}
    svc = service(svc.nsr, work.store)
    servers = tuple(
        s
        for s in svc.plan.servers
        if s.member_vnf_index == index and (s.vdu_id, s.count_index) in added
    )
    with work.store.edit(VNFRS, vnfr["_id"]) as record:
        for server in servers:
            vdur_of(record, server.vdu_id, server.count_index)["name"] = server.name

    def made(server: Server, server_id: str) -> None:
        with work.store.edit(VNFRS, vnfr["_id"]) as record:
            vdur_of(record, server.vdu_id, server.count_index)["vim-id"] = server_id

    wanted = replace(request(svc, work.store), plan=svc.plan.part(servers))
    limit = work.timeouts.vm_ip
    deployment = VimDeployment(work.backends, work.journal, wanted, limit, known, made)
    deployment.run(partial(work.record_server, ns_id))
    fresh = [env for env in svc.environments if env.application not in before]
    if not fresh:
        return []
    work.add_environments(ns_id, fresh)
    return _deploy_charms(work, svc, index, fresh)


def _deploy_charms(work: Work, svc: Service, index: str, fresh: list[Environment]) -> list[str]:
    ns_id = svc.nsr["_id"]
    record = vnfrs_of(work.store, ns_id)[index]
    addresses = {
        (index, v["vdu-id-ref"], v["count-index"]): v["ip-address"] for v in record["vdur"]
    }
    addresses[index, None, 0] = record["ip-address"]
    wanted = replace(
        request(svc, work.store),
        plan=Plan((), ()),
        environments=fresh,
        relations=(),
        addresses={place: address for place, address in addresses.items() if address},
        # LCM passes the count index to charms here, but not in an instantiation.
        osm=lambda env: osm_params(
            vnfrs_of(work.store, ns_id)[index], env.vdu_id, env.count_index if env.vdu_id else 0
        ),
    )
    report = Instantiation(work, wanted).run()
    for env in fresh:
        broken = env.application in report.broken
        work.record_vca(ns_id, env.application, status="BROKEN" if broken else "READY")
    return report.errors


def _instance(first: Document, count: int) -> Document:
    """Return the record of a new instance of a VDU, without id and addresses."""
    instance: Document = copy.deepcopy(first)
    instance.update({"count-index": count, "vim-id": None, "status": "BUILD", "ip-address": None})
    for interface in instance["interfaces"]:
        interface["ip-address"] = interface["mac-address"] = None
        interface["mgmt-vnf"] = False
    return instance


def _networks(work: Work, svc: Service, vnfr: Document) -> dict[str, str]:
    """Return the ids of the networks that a VNF's servers are on, by the plan's key."""
    result: dict[str, str] = {}
    index = str(vnfr["member-vnf-index-ref"])
    for server in svc.plan.servers:
        if server.member_vnf_index == index and (
            vim_id := vdur_of(vnfr, server.vdu_id, server.count_index)["vim-id"]
        ):
            made = work.backends.vim(server.vim).server(vim_id).ports
            ports = zip(server.ports, made, strict=True)
            result.update({planned.network_id: port.network_id for planned, port in ports})
    return result


# -- in --------------------------------------------------------------------------------------------


def _scale_in(work: Work, svc: Service, vnfr: Document, gone: Places, model: Model) -> None:
    index = str(vnfr["member-vnf-index-ref"])
    counts = {count for _, count in gone}
    # LCM compares only the count index, not the VDU.
    leaving = [
        env
        for env in svc.environments
        if env.member_vnf_index == index and env.count_index in counts
    ]
    if leaving:
        _remove_charms(work, svc, leaving, model)
    vim = work.backends.vim(vnfr["vim-account-id"])
    server_ids = [
        v["vim-id"]
        for v in vnfr["vdur"]
        if (v["vdu-id-ref"], v["count-index"]) in gone and v["vim-id"] is not None
    ]
    for_each(vim.delete_server, server_ids)
    with work.store.edit(VNFRS, vnfr["_id"]) as record:
        record["vdur"] = [
            v for v in record["vdur"] if (v["vdu-id-ref"], v["count-index"]) not in gone
        ]


def _remove_charms(work: Work, svc: Service, leaving: Sequence[Environment], model: Model) -> None:
    ns_id = svc.nsr["_id"]
    names = {env.application for env in leaving}
    day1_run = {
        v["application"]
        for v in svc.nsr["_admin"]["deployed"]["VCA"]
        if v.get("needed_terminate") and v["application"] in names
    }
    run_terminate_primitives(work, ns_id, leaving, day1_run)
    for application in sorted(names):
        charmops.remove(model, application, work.timeouts.terminate_primitives)
    work.remove_environments(ns_id, names)
