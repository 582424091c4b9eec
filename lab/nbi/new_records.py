"""Records of a network service: one NSR, one VNFR per member, one document per operation.

Field names are those OSM shows with ``ns-show``, ``vnf-show`` and ``ns-op-show``. Fields that only
the lab has are below the key ``lab``.
"""

import time
from collections.abc import Mapping
from typing import Any

from lab.descriptors.environments import entry_of
from lab.descriptors.topology import Plan
from lab.records.ids import admin, new_id
from lab.records.store import Document


def new_nsr(request: Mapping[str, Any], nsd: Document) -> Document:
    """Return the record of a service to instantiate."""
    key = new_id()
    return {
        "_id": key,
        "id": key,
        "name": request["nsName"],
        "description": request.get("nsDescription") or "",
        "nsd-id": nsd["_id"],
        "nsd-ref": nsd["id"],
        "nsd": nsd["descriptor"],
        "datacenter": request["vimAccountId"],
        "create-time": time.time(),
        "instantiate_params": dict(request),
        "nsState": "NOT_INSTANTIATED",
        "currentOperation": "IDLE",
        "currentOperationID": None,
        "operational-status": "init",
        "config-status": "init",
        "detailed-status": "scheduled",
        "errorDescription": None,
        "errorDetail": None,
        "configurationStatus": [],
        "_admin": {
            **admin(),
            "nsState": "NOT_INSTANTIATED",
            "deployed": {"VCA": []},
        },
        "lab": {},
    }


def new_vnfrs(
    nsr: Document, vnfds: Mapping[str, Document], plan: Plan, request: Mapping[str, Any]
) -> list[Document]:
    """Return the records of the members, ``vnfds`` being member-vnf-index -> package document."""
    records = []
    for index, vnfd in vnfds.items():
        given = entry_of(request.get("additionalParamsForVnf"), "member-vnf-index", index)
        servers = [s for s in plan.servers if s.member_vnf_index == index]
        networks = {n.key: n for n in plan.networks}
        records.append(
            {
                "_id": new_id(),
                "nsr-id-ref": nsr["_id"],
                "member-vnf-index-ref": index,
                "vnfd-id": vnfd["_id"],
                "vnfd-ref": vnfd["id"],
                "revision": vnfd["_admin"].get("revision", 1),
                "vim-account-id": servers[0].vim if servers else request["vimAccountId"],
                "additionalParamsForVnf": given.get("additionalParams") or {},
                "ip-address": None,
                "vdur": [
                    {
                        "vdu-id-ref": server.vdu_id,
                        "count-index": server.count_index,
                        "name": server.name,
                        "vim-id": None,
                        "status": "BUILD",
                        "ip-address": None,
                        "additionalParams": vdu_params(given, server.vdu_id),
                        "interfaces": [
                            {
                                "name": port.tag,
                                "device": port.device,
                                "external-connection-point-ref": port.cpd,
                                "ns-vld-id": networks[port.network_id].link,
                                "ip-address": None,
                                "mac-address": None,
                                "mgmt-interface": port.management,
                                "mgmt-vnf": port.management_vnf,
                            }
                            for port in server.ports
                        ],
                    }
                    for server in servers
                ],
                "_admin": {**admin(), "nsState": "NOT_INSTANTIATED"},
            }
        )
    return records


def new_operation(
    instance: Document, kind: str, params: Mapping[str, Any], owner: str = "nsInstanceId"
) -> Document:
    """Return the document of an operation; ``kind`` is its ``lcmOperationType``.

    ``owner`` is the field with the id of the instance; the default is that of a service.
    """
    now = time.time()
    return {
        "_id": (key := new_id()),
        "id": key,
        owner: instance["_id"],
        "lcmOperationType": kind,
        "operationState": "PROCESSING",
        "startTime": now,
        "statusEnteredTime": now,
        "operationParams": dict(params),
        "detailed-status": "",
        "errorMessage": None,
        "_admin": admin(),
        "lab": {},
    }


def vdu_params(given: Mapping[str, Any], vdu_id: str) -> dict[str, Any] | None:
    """Return a VDU's own additionalParams, ``None`` when it uses its VNF's."""
    entry = entry_of(given.get("additionalParamsForVdu"), "vdu_id", vdu_id)
    return dict(entry.get("additionalParams") or {}) if entry else None
