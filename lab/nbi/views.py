"""The lab's records as NBI shows them, with the additional fields that OSM's clients read."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.errors import LcmError
from lab.records.journal import events
from lab.records.operations import operation_folder
from lab.records.store import NSDS, NSIOPS, NSIS, NSRS, NSTS, OPS, VIMS, VNFDS, VNFRS, Store

Document = dict[str, Any]

PROJECT_ID = str(uuid.uuid5(uuid.NAMESPACE_DNS, "p.osm-vpnaas-lab"))
"""Id of the one project; the same in every lab."""
_PACKAGE_LINKS = {
    VNFDS: ("/vnfpkgm/v1/vnf_packages", {"vnfd": "vnfd", "packageContent": "package_content"}),
    NSDS: ("/nsd/v1/ns_descriptors", {"nsd_content": "nsd_content"}),
    NSTS: ("/nst/v1/netslice_templates", {"nst": "nst"}),
}
_STATES = ("onboardingState", "operationalState", "usageState")


def package(kind: str, document: Document, used: bool) -> Document:
    """Return the entry of a package: its descriptor, states and links."""
    admin = {
        **_admin(document),
        "onboardingState": "ONBOARDED",
        "operationalState": "ENABLED",
        "usageState": "IN_USE" if used else "NOT_IN_USE",
        "revision": document["_admin"].get("revision", 1),
        **({"type": "vnfd"} if kind == VNFDS else {}),
    }
    return _package(kind, {**document["descriptor"], "_id": document["_id"], "_admin": admin})


def created_package(kind: str, document: Document) -> Document:
    """Return the entry of a package without content."""
    return _package(kind, {**document, "_admin": _admin(document)})


def _package(kind: str, entry: Document) -> Document:
    place, contents = _PACKAGE_LINKS[kind]
    href = f"{place}/{entry['_id']}"
    links = {"self": href, **{name: f"{href}/{part}" for name, part in contents.items()}}
    for state in _STATES:
        name = f"nsd{state[0].upper()}{state[1:]}" if kind == NSDS else state
        entry[name] = entry["_admin"][state]
    entry["_links"] = {name: {"href": target} for name, target in links.items()}
    return entry


def _vim(document: Document, store: Store) -> Document:
    """Return the record of a VIM account; its creation is one completed operation."""
    created = document["_admin"]["created"]
    creation = {
        "lcmOperationType": "create",
        "operationState": "COMPLETED",
        "startTime": created,
        "statusEnteredTime": created,
        "detailed-status": "Done",
        "operationParams": None,
    }
    admin = {**_admin(document), "operations": [creation], "current_operation": None}
    admin.setdefault("detailed-status", "Done")
    return {
        "schema_version": "1.11",
        "key": "registered",
        **document,
        "id": document["_id"],
        "_admin": admin,
    }


def _ns(document: Document, store: Store) -> Document:
    found = [store.readable(VNFRS, key) for key in document["constituent-vnfr-ref"]]
    members = [vnfr for vnfr in found if vnfr is not None]
    return {
        "admin-status": "ENABLED",
        "nsd-name-ref": document["nsd"].get("name"),
        "ns-instance-config-ref": document["_id"],
        "operational-events": [],
        "orchestration-progress": {},
        "resource-orchestrator": "osmopenmano",
        "ssh-authorized-key": document["instantiate_params"].get("ssh_keys"),
        "vnfd-id": sorted({vnfr["vnfd-id"] for vnfr in members}),
        **document,
        "lab": {**document["lab"], "charms": _charms(document, store)},
        "vld": _links(document["nsd"]),
        "deploymentStatus": _deployment(members),
        "_admin": {
            **_admin(document),
            "nslcmop": document["currentOperationID"],
            "current-operation": document["currentOperation"],
        },
    }


def _charms(nsr: Document, store: Store) -> Document:
    """Return what each charm of a service says now, and when it looked; {} without charms."""
    from lab.vca.status import status_of  # It loads slowly; few verbs need it.

    names = [vca["application"] for vca in nsr["_admin"]["deployed"]["VCA"]]
    try:
        status = status_of(store.home, nsr["_id"])
    except LcmError as error:
        return {name: {"status": "unknown", "message": str(error), "looked": 0.0} for name in names}
    return status.said(names) if status is not None else {}


def _links(nsd: Document) -> list[Document]:
    """Return the virtual links of an NSD with the connection points on each."""
    links = {
        link["id"]: {**link, "name": link["id"], "vnfd-connection-point-ref": []}
        for link in nsd.get("virtual-link-desc") or ()
    }
    for profile in nsd["df"][0].get("vnf-profile") or ():
        for connection in profile.get("virtual-link-connectivity") or ():
            links[connection["virtual-link-profile-id"]]["vnfd-connection-point-ref"] += [
                {
                    "member-vnf-index-ref": end["constituent-base-element-id"],
                    "vnfd-connection-point-ref": end["constituent-cpd-id"],
                    "vnfd-id-ref": profile["vnfd-id"],
                }
                for end in connection.get("constituent-cpd-id") or ()
            ]
    return list(links.values())


def _deployment(vnfrs: Iterable[Document]) -> Document:
    """Return the state of every network and VM, which ``ns-list --long`` summarizes."""
    nets: dict[str, str] = {}
    vnfs = []
    for vnfr in vnfrs:
        for vdur in vnfr["vdur"]:
            for port in vdur["interfaces"]:
                up = port["ip-address"] is not None
                nets[port["ns-vld-id"]] = "ACTIVE" if up else nets.get(port["ns-vld-id"], "BUILD")
        vnfs.append(
            {
                "member_vnf_index": vnfr["member-vnf-index-ref"],
                "vms": [{"name": v["name"], "status": v["status"]} for v in vnfr["vdur"]],
            }
        )
    return {
        "nets": [{"name": name, "status": status} for name, status in sorted(nets.items())],
        "vnfs": vnfs,
    }


def _vnf(document: Document, store: Store) -> Document:
    ports = [port for vdur in document["vdur"] for port in vdur["interfaces"]]
    names = [port.get("external-connection-point-ref") for port in ports]
    points = [{"id": name, "name": name} for name in names if name]
    return {
        "connection-point": points,
        "created-time": document["_admin"]["created"],
        **document,
        "id": document["_id"],
        "_admin": _admin(document),
    }


def _nsi(document: Document, store: Store) -> Document:
    return {**document, "_admin": _admin(document)}


def _operation(document: Document, store: Store) -> Document:
    """Return an operation; `stage` and, while it runs, `detailed-status` are its progress."""
    owner = next(key for key in ("nsInstanceId", "netsliceInstanceId") if key in document)
    kind = document["lcmOperationType"]
    params = {**document["operationParams"], "lcmOperationType": kind, owner: document[owner]}
    if kind == "instantiate" and owner == "nsInstanceId":
        params["nsr_id"] = document[owner]
        instance = store.readable(NSRS, document[owner]) or {}
        params.setdefault("nsDescription", instance.get("description"))
    stage = _stage(store, document["_id"])
    base, operations, instances, link = (
        ("/osm/nslcm/v1", "ns_lcm_op_occs", "ns_instances", "nsInstance")
        if owner == "nsInstanceId"
        else ("/osm/nsilcm/v1", "nsi_lcm_op_occs", "netslice_instances", "netsliceInstanceId")
    )
    running = document["operationState"] == "PROCESSING"
    return {
        **document,
        "operationParams": params,
        "queuePosition": 0 if running else None,
        "stage": stage,
        "detailed-status": document["detailed-status"] or (stage if running else ""),
        "isAutomaticInvocation": False,
        "isCancelPending": False,
        "links": {
            "self": f"{base}/{operations}/{document['_id']}",
            link: f"{base}/{instances}/{document[owner]}",
        },
        "_admin": _admin(document),
    }


def _stage(store: Store, op_id: str) -> str:
    """Return the last stage a worker wrote into the progress of its operation."""
    told = events(operation_folder(store.home, op_id) / "events.jsonl")
    return next((str(event["text"]) for event in reversed(told) if event["kind"] == "stage"), "")


def _admin(document: Mapping[str, Any]) -> Document:
    # Two lists: of one list, YAML would make an anchor and an alias.
    projects = {"projects_read": [PROJECT_ID], "projects_write": [PROJECT_ID]}
    return {**document["_admin"], **projects}


_VIEWS: dict[str, Callable[[Document, Store], Document]] = {
    VIMS: _vim,
    VNFRS: _vnf,
    NSIS: _nsi,
    NSRS: _ns,
    OPS: _operation,
    NSIOPS: _operation,
}


def view(collection: str, document: Document, store: Store) -> Document:
    """Return a record as NBI shows it; the collection is no package's."""
    return _VIEWS[collection](document, store)


def views(collection: str, store: Store, documents: Iterable[Document]) -> list[Document]:
    """Return records as NBI lists them, with a line for each damaged one of the collection."""
    shown = [view(collection, document, store) for document in documents]
    return shown + store.damaged(collection)
