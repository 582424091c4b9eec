"""A network service with all that follows from its descriptors and parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from builder.documents import profiles_of
from lab.descriptors.environments import Environment, Instances, environments
from lab.descriptors.relations import Relation, relations
from lab.descriptors.topology import Plan, plan
from lab.errors import LcmError
from lab.records.store import VIMS, VNFDS, VNFRS, Document, Store


@dataclass(frozen=True)
class Service:
    """A network service with everything that follows from its descriptors."""

    nsr: Document
    vnfds: dict[str, Document]  # member-vnf-index -> package document.
    vims: dict[str, str]  # Id of a VIM account -> its name.
    environments: list[Environment]
    relations: list[Relation]
    instances: Instances  # Count indexes of the VDUs, as scaling changed them.

    @cached_property
    def plan(self) -> Plan:
        """Return its networks, servers and ports; they are computed at the first use."""
        descriptors = {index: d["descriptor"] for index, d in self.vnfds.items()}
        params = self.nsr["instantiate_params"]
        return plan(
            self.nsr["name"], self.nsr["nsd"], descriptors, params, self.vims, self.instances
        )


def members(nsd: Mapping[str, Any], store: Store) -> dict[str, Document]:
    """Return member-vnf-index -> VNF package, in the order of the NSD's profiles."""
    known = {d["id"]: d for d in store.all(VNFDS)}
    result = {}
    for index, profile in profiles_of(nsd).items():
        if profile["vnfd-id"] not in known:
            raise LcmError(f"vnfd '{profile['vnfd-id']}' is not in the catalogue")
        result[index] = known[profile["vnfd-id"]]
    return result


def service(nsr: Document, store: Store) -> Service:
    vnfds = members(nsr["nsd"], store)
    descriptors = {index: d["descriptor"] for index, d in vnfds.items()}
    instances: dict[tuple[str, str], list[int]] = {}
    for index, vnfr in vnfrs_of(store, nsr["_id"]).items():
        for vdur in vnfr["vdur"]:
            instances.setdefault((index, vdur["vdu-id-ref"]), []).append(vdur["count-index"])
    envs = environments(nsr["nsd"], descriptors, nsr["instantiate_params"], instances)
    return Service(
        nsr,
        vnfds,
        {v["_id"]: v["name"] for v in store.all(VIMS)},
        envs,
        relations(nsr["nsd"], descriptors, envs),
        instances,
    )


def vnfrs_of(store: Store, ns_id: str) -> dict[str, Document]:
    return {r["member-vnf-index-ref"]: r for r in store.all(VNFRS) if r["nsr-id-ref"] == ns_id}


def vdur_of(vnfr: Document, vdu_id: str, count: int) -> Document:
    for vdur in vnfr["vdur"]:
        if (vdur["vdu-id-ref"], vdur["count-index"]) == (vdu_id, count):
            match: Document = vdur
            return match
    raise LcmError("Target vdu is not found")


def own_parameters(vnfr: Document, vdu_id: str | None) -> dict[str, Any] | None:
    """Return a VDU's own additionalParams, None where it uses those of its VNF."""
    for vdur in vnfr["vdur"]:
        if vdur["vdu-id-ref"] == vdu_id and vdur["additionalParams"]:
            return dict(vdur["additionalParams"])
    return None


def shared_parameters(svc: Service, records: Mapping[str, Document]) -> dict[str, dict[str, Any]]:
    """Return application -> values for ``<name>``, shared between environments as LCM does.

    All instances of a VDU use one dictionary: the VNF's. If the VDU has additionalParams, the
    dictionary has only these (no merge).
    """
    pool: dict[tuple[str, str | None], dict[str, Any]] = {}
    result = {}
    for env in svc.environments:
        index = env.member_vnf_index
        record = records[index]
        own = own_parameters(record, env.vdu_id)
        key = (index, env.vdu_id if own is not None else None)
        source = record["additionalParamsForVnf"] if own is None else own
        result[env.application] = pool.setdefault(key, dict(source))
    return result
