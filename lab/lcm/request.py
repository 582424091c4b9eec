"""The input of an instantiation, from the records of its service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.descriptors.day0 import osm_params, render_user_data
from lab.descriptors.environments import Environment
from lab.descriptors.relations import Relation
from lab.descriptors.service import Service, own_parameters, shared_parameters, vnfrs_of
from lab.descriptors.topology import Plan, Server
from lab.errors import LcmError
from lab.records.operations import ro_key_path
from lab.records.store import Document, Store

Place = tuple[str | None, str | None, int]
"""A VDU instance, or with ``None`` for the VDU a VNF: (member, VDU, count index)."""


@dataclass(frozen=True)
class Request:
    """Input of an instantiation."""

    ns_id: str
    plan: Plan
    environments: Sequence[Environment]
    relations: Sequence[Relation]
    charm_folder: Callable[[Environment], Path]
    user_data: Callable[[Server], str | None]
    parameters: Mapping[str, dict[str, Any]]
    """Application -> values for ``<name>``. Environments may share one dictionary, as in LCM,
    where the instances of a VDU overwrite each other's ``rw_mgmt_ip``."""
    osm: Callable[[Environment], dict[str, Any]]
    """The ``OSM`` dictionary for an environment, made after the VM has its addresses."""
    ssh_keys: tuple[str, ...]
    ro_key: Path
    vnf_ids: Mapping[str, str]  # Ids of the VNF records, by member.
    addresses: Mapping[Place, str] = field(default_factory=dict)  # Addresses that are known.


def request(svc: Service, store: Store) -> Request:
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
        vnf_ids={index: str(record["_id"]) for index, record in records.items()},
        osm=lambda env: _osm(store, svc.nsr["_id"], env),
        ssh_keys=tuple(params.get("ssh_keys") or ()),
        ro_key=ro_key_path(store.home, svc.nsr["_id"]),
    )


def charm_folder(svc: Service, store: Store, env: Environment) -> Path:
    """Return the folder of a charm or chart in its package (tar layout, else SOL004's Scripts)."""
    document = svc.vnfds[env.member_vnf_index]
    return _artifact(store, document, "helm-charts" if env.helm else "charms", env.charm)


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
    values = own_parameters(record, server.vdu_id) or record["additionalParamsForVnf"]
    osm = osm_params(record, server.vdu_id, server.count_index)
    return render_user_data(template, {**values, "OSM": osm}, where)


def _osm(store: Store, ns_id: str, env: Environment) -> dict[str, Any]:
    record = vnfrs_of(store, ns_id)[env.member_vnf_index]
    # LCM passes count index 0 to every charm of an instantiation.
    return osm_params(record, env.vdu_id, 0)
