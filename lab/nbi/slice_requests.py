"""The verbs of the northbound interface for network slice instances, without any printing.

As in OSM, the S-NSSAI and quality-of-service of a template are stored in its record but not used.
"""

import copy
import time
from collections.abc import Mapping
from typing import Any

from lab.errors import ConflictError, NbiError
from lab.nbi import validation
from lab.nbi.engine import Engine, Instances, Prepared, Started
from lab.nbi.params import slice_params
from lab.records import jobs
from lab.records.ids import admin, new_id
from lab.records.operations import SLICE_ENDING, end_slice_operation
from lab.records.store import NSDS, NSIOPS, NSIS, NSRS, NSTS, VNFDS, Document


class Slices(Instances):
    """Slices of a lab."""

    collection, running, owner = NSIS, NSIOPS, "netsliceInstanceId"
    nsi = Instances.find
    client = staticmethod(slice_params)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = engine.store

    # -- reading ------------------------------------------------------------------------------

    def all(self) -> list[Document]:
        """Return the records of all slices, oldest first."""
        self.reap()
        return self.store.all(NSIS)

    def reap(self) -> None:
        """Mark operations FAILED if their worker died without a result."""
        self.engine.reap()
        for operation in self.store.all(NSIOPS):
            if operation["operationState"] == "PROCESSING" and not jobs.alive(operation):
                end_slice_operation(self.store, operation, jobs.ending(self.store, operation))

    # -- create -------------------------------------------------------------------------------

    def instantiate(
        self, request: dict[str, Any], written: Mapping[str, Any] | None = None
    ) -> Started:
        """Check a request for a slice as NBI does, record the slice and start it."""
        nst = self.store.get(NSTS, request["nstId"])
        template: Document = copy.deepcopy(nst["descriptor"])
        params = request if written is None else written
        packages = self.store.all(VNFDS), self.store.all(NSDS)
        known = validation.catalog(self.store.root, *packages, [nst])
        warnings = validation.parameters("nsi", params, known)
        self.engine.check(request)
        _check_template(template)
        with self.store.lock(NSIS):
            name = request["nsiName"]
            if any(n["name"] == name for n in self.store.all(NSIS)):
                raise ConflictError(f"nsi with name '{name}' already exists for this project")
            nsi = _new_nsi(request, template)
            services: list[Prepared] = []
            for subnet in template.get("netslice-subnet") or ():
                entry, params = self._subnet(subnet, request, services, warnings)
                nsi["_admin"]["nsrs-detailed-list"].append(entry)
                nsi["_admin"]["netslice-subnet"].append({**params, "nss-id": subnet["id"]})
                nsi["nsr-ref-list"].append({"nsr-ref": entry["nsrId"]})
            _note_shared(nsi)
            for prepared in services:
                prepared.operation["operationParams"]["netsliceInstanceId"] = nsi["_id"]
            steps = [e["nslcmop_instantiate"] for e in nsi["_admin"]["nsrs-detailed-list"]]
            operation = self._new(nsi, "instantiate", {**request, "nslcmops_ids": steps})
            self.engine.record(services)
            self.store.put(NSIOPS, operation)
            self.store.put(NSIS, nsi)
        return self._start(operation, nsi, warnings)

    def _used_by_others(self, nsi: Document) -> set[str]:
        return {
            entry["nsrId"]
            for other in self.store.all(NSIS)
            if other["_id"] != nsi["_id"] and other["operational-status"] not in SLICE_ENDING
            for entry in other["_admin"]["nsrs-detailed-list"]
            if entry["shared"]
        }

    def _subnet(
        self,
        subnet: Mapping[str, Any],
        request: Mapping[str, Any],
        services: list[Prepared],
        warnings: list[str],
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (entry, parameters) of a subnet's service; a new one is added to ``services``."""
        shared = bool(subnet.get("is-shared-nss"))
        listed = request.get("netslice-subnet") or ()
        given: Mapping[str, Any] = next((s for s in listed if s["id"] == subnet["id"]), {})
        running = self._running(subnet) if shared else None
        if running is not None:
            entry, params = running
            if given:
                name = self.store.get(NSRS, entry["nsrId"])["name"]
                warnings.append(
                    f"netslice-subnet '{subnet['id']}' is shared and runs as ns '{name}': "
                    "its parameters are ignored"
                )
            return entry, params
        nsd = self.store.resolve(NSDS, subnet["nsd-ref"])
        params = {
            **copy.deepcopy(subnet.get("instantiation-parameters") or {}),
            "nsdId": nsd["_id"],
            "nsName": f"{request['nsiName']}.{subnet['id']}",
            "vimAccountId": request["vimAccountId"],
            "nsDescription": subnet["description"],
        }
        if request.get("ssh_keys"):
            params["ssh_keys"] = request["ssh_keys"]
        params.update({key: value for key, value in given.items() if key != "id"})
        prepared = self.engine.prepare(nsd, copy.deepcopy(params))
        services.append(prepared)
        entry = {
            "nsrId": prepared.nsr["_id"],
            "shared": shared,
            "nsd-id": subnet["nsd-ref"],
            "nss-id": subnet["id"],
            "nslcmop_instantiate": prepared.operation["_id"],
        }
        return entry, params

    def _running(self, subnet: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return (entry, parameters) of the shared service if another slice has it already."""
        for nsi in self.store.all(NSIS):
            if nsi["operational-status"] in SLICE_ENDING:
                continue
            for entry in nsi["_admin"]["nsrs-detailed-list"]:
                same = (entry["nsd-id"], entry["nss-id"]) == (subnet["nsd-ref"], subnet["id"])
                started = entry["shared"] and entry["nslcmop_instantiate"] is not None
                if same and started and self.store.readable(NSRS, entry["nsrId"]):
                    params = next(
                        p for p in nsi["_admin"]["netslice-subnet"] if p["nss-id"] == subnet["id"]
                    )
                    return dict(entry), dict(params)
        return None

    # -- delete -------------------------------------------------------------------------------

    def delete(self, name: str, force: bool = False) -> Started:
        """Terminate a slice, also an incomplete one, and its services that no other slice uses."""
        nsi = self.nsi(name)
        for operation in self._operations(nsi["_id"]):
            if jobs.alive(operation):
                jobs.kill(operation)
            if operation["operationState"] == "PROCESSING":
                end_slice_operation(self.store, operation, "Operation was cancelled")
        with self.store.lock(NSIS):
            # Read it again: the worker may have changed it before the kill.
            nsi = self.store.get(NSIS, nsi["_id"])
            kept = self._used_by_others(nsi)
            steps = []
            for entry in nsi["_admin"]["nsrs-detailed-list"]:
                nsr = self.store.readable(NSRS, entry["nsrId"])
                if nsr is not None and entry["nsrId"] not in kept:
                    steps.append(self.engine.terminate(nsr, force)["_id"])
            operation = self._new(
                nsi, "terminate", {"autoremove": True, "force": force, "nslcmops_ids": steps}
            )
            nsi["operational-status"] = "terminating"
            self.store.put(NSIS, nsi)
            self.store.put(NSIOPS, operation)
        return self._start(operation, nsi)


def _check_template(template: Mapping[str, Any]) -> None:
    for link in template.get("netslice-vld") or ():
        if not link.get("nss-connection-point-ref"):
            raise NbiError(
                f"netslice-vld '{link.get('id')}' has no nss-connection-point-ref, on which NBI "
                "fails"
            )
    for subnet in template.get("netslice-subnet") or ():
        if "description" not in subnet:
            raise NbiError(
                f"netslice-subnet '{subnet['id']}' has no description, on which NBI fails"
            )


def _new_nsi(request: Mapping[str, Any], template: Document) -> Document:
    key = new_id()
    links = [
        {**copy.deepcopy(vld), "shared-nsrs-list": [], "vimAccountId": request["vimAccountId"]}
        for vld in template.get("netslice-vld") or ()
    ]
    return {
        "_id": key,
        "id": key,
        "name": request["nsiName"],
        "description": request.get("nsiDescription") or "",
        "datacenter": request["vimAccountId"],
        "nst-ref": template["id"],
        "instantiation_parameters": dict(request),
        "network-slice-template": template,
        "additionalParamsForNsi": request.get("additionalParamsForNsi"),
        "nsr-ref-list": [],
        "vlr-list": [],
        "create-time": time.time(),
        "operational-status": "init",
        "config-status": "init",
        "detailed-status": "scheduled",
        "_admin": {
            **admin(),
            "nsiState": "NOT_INSTANTIATED",
            "nst-id": request["nstId"],
            "deployed": {"RO": []},
            "netslice-vld": links,
            "netslice-subnet": [],
            "nsrs-detailed-list": [],
        },
    }


def _note_shared(nsi: Document) -> None:
    """Write into each link the ids of the shared services connected to it."""
    for entry in nsi["_admin"]["nsrs-detailed-list"]:
        for vld in nsi["_admin"]["netslice-vld"]:
            ends = {p["nss-ref"] for p in vld.get("nss-connection-point-ref") or ()}
            if entry["shared"] and entry["nss-id"] in ends:
                vld["shared-nsrs-list"].append(entry["nsrId"])
