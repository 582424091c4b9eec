"""From the records of a service to what an operation works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.descriptors.day0 import osm_params, render_user_data
from lab.descriptors.environments import Environment, environments
from lab.descriptors.relations import Relation, relations
from lab.descriptors.topology import Plan, Server, plan
from lab.errors import LcmError
from lab.lcm.instantiate import Request
from lab.records.store import NSDS, VIMS, VNFDS, VNFRS, Document, Store


@dataclass(frozen=True)
class Service:
    """A network service with everything that follows from its descriptors."""

    nsr: Document
    vnfds: dict[str, Document]
    """member-vnf-index -> package document."""
    plan: Plan
    environments: list[Environment]
    relations: list[Relation]


def members(nsd: Mapping[str, Any], store: Store) -> dict[str, Document]:
    """Return member-vnf-index -> VNF package, in the order of the NSD's profiles.

    Raises:
        LcmError: a VNFD is not in the catalogue.
    """
    known = {d["id"]: d for d in store.all(VNFDS)}
    df = (nsd.get("df") or [{}])[0]
    found = {}
    for profile in df.get("vnf-profile") or ():
        if profile["vnfd-id"] not in known:
            raise LcmError(f"vnfd '{profile['vnfd-id']}' is not in the catalogue")
        found[str(profile["id"])] = known[profile["vnfd-id"]]
    return found


def service(nsr: Document, store: Store) -> Service:
    """Return the service of a record.

    Raises:
        LcmError: descriptors or parameters that lead nowhere.
    """
    vnfds = members(nsr["nsd"], store)
    descriptors = {index: d["descriptor"] for index, d in vnfds.items()}
    params = nsr["instantiate_params"]
    names = {v["_id"]: v["name"] for v in store.all(VIMS)}
    envs = environments(nsr["nsd"], descriptors, params)
    return Service(
        nsr,
        vnfds,
        plan(nsr["name"], nsr["nsd"], descriptors, params, names),
        envs,
        relations(nsr["nsd"], descriptors, envs),
    )


def vnfrs_of(store: Store, ns_id: str) -> dict[str, Document]:
    """Return member-vnf-index -> VNFR of a service."""
    return {r["member-vnf-index-ref"]: r for r in store.all(VNFRS) if r["nsr-id-ref"] == ns_id}


def request(svc: Service, store: Store, ro_key: Path) -> Request:
    """Return what an instantiation of the service works on."""
    records = vnfrs_of(store, svc.nsr["_id"])
    params = svc.nsr["instantiate_params"]
    return Request(
        ns_id=svc.nsr["_id"],
        plan=svc.plan,
        environments=svc.environments,
        relations=svc.relations,
        charm_folder=lambda env: charm_folder(svc, store, env),
        user_data=lambda server: _user_data(svc, store, records, server),
        parameters=shared_parameters(svc, records),
        osm=lambda env: _osm(store, svc.nsr["_id"], env),
        ssh_keys=tuple(params.get("ssh_keys") or ()),
        ro_key=ro_key,
    )


def shared_parameters(svc: Service, records: Mapping[str, Document]) -> dict[str, dict[str, Any]]:
    """Return application -> values for ``<name>``, shared between environments as LCM does.

    All instances of a VDU use one dictionary, and it is the VNF's own unless the VDU has
    additionalParams: then it has only those (no merge).
    """
    pool: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    result = {}
    for env in svc.environments:
        index = env.member_vnf_index
        if index is None:
            values = dict(svc.nsr["instantiate_params"].get("additionalParamsForNs") or {})
            values["ns_config_info"] = "osm-config-mapping: {}\n"
            result[env.application] = pool.setdefault((None, None), values)
            continue
        record = records[index]
        own = None
        for vdur in record["vdur"]:
            if vdur["vdu-id-ref"] == env.vdu_id and vdur["additionalParams"]:
                own = vdur["additionalParams"]
        key = (index, env.vdu_id if own is not None else None)
        source = record["additionalParamsForVnf"] if own is None else own
        result[env.application] = pool.setdefault(key, dict(source))
    return result


def charm_folder(svc: Service, store: Store, env: Environment) -> Path:
    """Return where a charm lies in its unpacked package (tar layout, else SOL004's Scripts)."""
    if env.member_vnf_index is None:
        document = store.get(NSDS, svc.nsr["nsd-id"])
    else:
        document = svc.vnfds[env.member_vnf_index]
    return _artifact(store, document, "charms", env.charm)


def _artifact(store: Store, document: Document, kind: str, name: str) -> Path:
    folder = store.root / str(document["folder"])
    for place in (folder / kind / name, folder / "Scripts" / kind / name):
        if place.exists():
            return place
    return folder / kind / name


def _user_data(
    svc: Service, store: Store, records: Mapping[str, Document], server: Server
) -> str | None:
    index = server.member_vnf_index
    where = f"vnf {index}, vdu {server.vdu_id}"
    if server.cloud_init is not None:
        template = server.cloud_init
    elif server.cloud_init_file is not None:
        path = _artifact(store, svc.vnfds[index], "cloud_init", server.cloud_init_file)
        try:
            template = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LcmError(
                f"Error reading vnfd[id={svc.vnfds[index]['id']}]:vdu"
                f"[id={server.vdu_id}]:cloud-init-file: {error}"
            ) from None
    else:
        return None
    record = records[index]
    own = next(
        (v["additionalParams"] for v in record["vdur"] if v["vdu-id-ref"] == server.vdu_id),
        None,
    )
    values = dict(own or record["additionalParamsForVnf"])
    values["OSM"] = osm_params(record, server.vdu_id, server.count_index)
    return render_user_data(template, values, where)


def _osm(store: Store, ns_id: str, env: Environment) -> dict[str, Any]:
    if env.member_vnf_index is None:
        return {"ns_id": ns_id}
    record = vnfrs_of(store, ns_id)[env.member_vnf_index]
    # LCM passes count index 0 to every charm of an instantiation.
    return osm_params(record, env.vdu_id, 0)
