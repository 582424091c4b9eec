"""The verbs of the northbound interface, without any printing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from builder.documents import placeholder
from lab.descriptors.environments import day12
from lab.descriptors.service import Service, members, service, shared_parameters
from lab.errors import ConflictError, LcmError, NbiError, unknown
from lab.nbi import requests, validation
from lab.nbi.catalogue import Catalogue
from lab.nbi.new_records import new_nsr, new_operation, new_vnfrs
from lab.nbi.params import PRIVATE, InstanceRequest, client_params
from lab.nbi.requests import check_action
from lab.records import jobs
from lab.records.journal import Tail
from lab.records.operations import fail_operation
from lab.records.store import NSDS, NSIS, NSRS, OPS, VIMS, VNFDS, VNFRS, Document, Store


@dataclass(frozen=True)
class Started:
    """An operation that was started."""

    operation: Document
    nsr: Document
    tail: Tail
    warnings: tuple[str, ...] = ()
    collection: str = OPS
    """Collection of ``operation``; for a slice NSIOPS, and ``nsr`` is the slice's record."""


@dataclass(frozen=True)
class Prepared:
    """A service that was checked and is not recorded yet."""

    nsr: Document
    vnfrs: list[Document]
    operation: Document


class Instances:
    """What the engines of services and of slices have alike."""

    store: Store
    collection = NSRS  # Of the instances.
    running = OPS  # Collection of the operations on them.
    owner = "nsInstanceId"  # Field of an operation with the id of its instance.
    client = staticmethod(client_params)  # Makes osmclient's request of a user's.

    def create(self, asked: InstanceRequest) -> Started:
        """Do as osmclient: make a user's request one with ids, and send it."""
        return self.instantiate(self.client(asked, self.store), asked.config)

    def instantiate(
        self, request: dict[str, Any], written: Mapping[str, Any] | None = None
    ) -> Started:
        """Check a request as NBI does, record the instance and start it.

        Args:
            request: as clients send it.
            written: the parameters as their user wrote them, for the warnings.
        """
        raise NotImplementedError

    def find(self, name_or_id: str) -> Document:
        """Mark operations of dead workers FAILED, then return the record of an instance."""
        self.reap()
        return self.store.resolve(self.collection, name_or_id, id_field="_id")

    def operations(self, name: str) -> list[Document]:
        """Return the operations on an instance, oldest first."""
        return self._operations(self.find(name)["_id"])

    def operation(self, op_id: str) -> Document:
        self.reap()
        return self.store.resolve(self.running, op_id, id_field="_id")

    def reap(self) -> None:
        """Mark operations FAILED if their worker died without a result."""
        raise NotImplementedError

    def _operations(self, key: str) -> list[Document]:
        return [o for o in self.store.all(self.running) if o[self.owner] == key]

    def _new(self, instance: Document, kind: str, params: Mapping[str, Any]) -> Document:
        return new_operation(instance, kind, params, self.owner)

    def _start(
        self, operation: Document, instance: Document, warnings: Sequence[str] = ()
    ) -> Started:
        tail = jobs.start(self.store, operation, self.running)
        return Started(operation, instance, tail, tuple(warnings), self.running)


class Engine(Instances):
    """NBI of the lab in one directory: its services."""

    ns, ns_create = Instances.find, Instances.create

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.catalogue = Catalogue(self.store)

    # -- network services ----------------------------------------------------------------------

    def instantiate(
        self, request: dict[str, Any], written: Mapping[str, Any] | None = None
    ) -> Started:
        """Check a request for a service as NBI does, record the service and start it."""
        nsd = self.store.get(NSDS, request["nsdId"])
        packages = self._members(nsd["descriptor"]).values()
        params = request if written is None else written
        known = validation.catalog(self.store.root, packages, [nsd])
        warnings = validation.parameters("ns", params, known)
        prepared = self.prepare(nsd, request)
        self.record([prepared])
        return self._start(prepared.operation, prepared.nsr, warnings)

    def check(self, request: Mapping[str, Any]) -> None:
        """Refuse a private key, and VIM accounts that do not exist.

        As a key of `vim-network-name` NBI takes a name, and LCM fails later.
        """
        vims = [request.get("vimAccountId")]
        vims += [vnf.get("vimAccountId") for vnf in request.get("vnf") or ()]
        for link in (*(request.get("vld") or ()), *(request.get("netslice-vld") or ())):
            networks = link.get("vim-network-name")
            vims += networks if isinstance(networks, dict) else ()
        for vim in vims:
            if vim is not None and self.store.find(VIMS, vim) is None:
                raise NbiError(f"Invalid vimAccountId='{vim}' not present for the project")
        # The keys are stored and shown: the text says nothing of them.
        if PRIVATE in str(request.get("ssh_keys")):
            raise NbiError(
                "Format error at 'ssh_keys': it has a private key; allowed: public keys",
                HTTPStatus.UNPROCESSABLE_ENTITY,
            )

    def prepare(self, nsd: Document, request: dict[str, Any]) -> Prepared:
        """Check a request as NBI does; return the records of the service."""
        self.check(request)
        nsr = new_nsr(request, nsd)
        try:
            svc = service(nsr, self.store)
            vnfrs = new_vnfrs(nsr, svc.vnfds, svc.plan, request)
        except LcmError as error:
            raise NbiError(str(error)) from None
        nsr["constituent-vnfr-ref"] = [r["_id"] for r in vnfrs]
        records = {r["member-vnf-index-ref"]: r for r in vnfrs}
        _check_names(svc)
        _check_initial(svc, shared_parameters(svc, records))
        return Prepared(nsr, vnfrs, self._new(nsr, "instantiate", request))

    def record(self, services: list[Prepared]) -> None:
        """Write the records of services and their operations, all or none."""
        with self.store.lock(NSRS):
            names = {n["name"] for n in self.store.all(NSRS)}
            for prepared in services:
                if prepared.nsr["name"] in names:
                    raise ConflictError(
                        f"ns with name '{prepared.nsr['name']}' already exists for this project"
                    )
            for prepared in services:
                # Records of the members first: a service without them could not be deleted.
                for vnfr in prepared.vnfrs:
                    self.store.put(VNFRS, vnfr)
                self.store.put(OPS, prepared.operation)
                self.store.put(NSRS, prepared.nsr)

    def ns_run(self, name: str, kind: str, body: Mapping[str, Any]) -> Started:
        """Check an operation on a service as NBI does and start it.

        Args:
            kind: ``action``, ``heal``, ``scale`` or ``update``.
            body: NBI's request, see :mod:`lab.nbi.requests`.
        """
        nsr = self._instantiated(name, kind)
        request = requests.operation(kind, body)
        checks = {
            "action": self._check_action,
            "heal": self._check_heal,
            "scale": self._check_scale,
            "update": self._check_update,
        }
        checks[kind](nsr, request)
        operation = self._new(nsr, kind, request)
        self.store.put(OPS, operation)
        return self._start(operation, nsr)

    def _check_action(self, nsr: Document, request: dict[str, Any]) -> None:
        if "vnf_member_index" in request:
            request["member_vnf_index"] = request.pop("vnf_member_index")
        index, vdu_id = request.get("member_vnf_index"), request.get("vdu_id")
        vnfds = self._members(nsr["nsd"])
        if index is None:
            primitives = []
        else:
            if index not in vnfds:
                text = (
                    f"Invalid parameter member_vnf_index='{index}' is not one of the "
                    "nsd:constituent-vnfd"
                )
                raise unknown(text, index, vnfds)
            descriptor = vnfds[index]["descriptor"]
            vdus = [vdu["id"] for vdu in descriptor.get("vdu") or ()]
            if vdu_id is not None and vdu_id not in vdus:
                text = f"Invalid parameter vdu_id='{vdu_id}' not present at vnfd:vdu:id"
                raise unknown(text, vdu_id, vdus)
            entry = day12(descriptor, vdu_id or descriptor["id"]) or {}
            primitives = list(entry.get("config-primitive") or ())
        check_action(primitives, request["primitive"], request["primitive_params"])
        if vdu_id is not None:
            request.setdefault("vdu_count_index", 0)

    def _check_heal(self, nsr: Document, request: dict[str, Any]) -> None:
        for target in request["healVnfData"]:
            vnfr = self._vnfr_of(nsr, target["vnfInstanceId"])
            for vdu in (target.get("additionalParams") or {}).get("vdu") or ():
                _require_vdu(vnfr, vdu["vdu-id"], vdu.get("count-index", 0))

    def _check_scale(self, nsr: Document, request: dict[str, Any]) -> None:
        step = request["scaleVnfData"]["scaleByStepData"]
        vnfr = self.vnf(nsr["_id"], step["member-vnf-index"])
        descriptor = self._members(nsr["nsd"])[vnfr["member-vnf-index-ref"]]["descriptor"]
        known = [a["id"] for a in descriptor["df"][0].get("scaling-aspect") or ()]
        group = step["scaling-group-descriptor"]
        if group not in known:
            text = (
                "Invalid scaleVnfData:scaleByStepData:scaling-group-descriptor="
                f"'{group}' is not present at vnf='{step['member-vnf-index']}'"
            )
            raise unknown(text, group, known)

    def _check_update(self, nsr: Document, request: dict[str, Any]) -> None:
        kind = request["updateType"]
        key = requests.UPDATES[kind]
        if key not in request:
            raise NbiError(f"{kind} needs {key}")
        value = request[key]
        vnfr = self._vnfr_of(nsr, value["vnfInstanceId"])
        if kind == "OPERATE_VNF":
            given = value["additionalParam"]
            _require_vdu(vnfr, given["vdu_id"], given["count-index"])
            return
        package = self.store.resolve(VNFDS, value["vnfdId"])
        if package["_id"] != vnfr["vnfd-id"]:
            raise NbiError(
                f"VNFD '{value['vnfdId']}' is not the one of vnf '{vnfr['member-vnf-index-ref']}'"
            )
        request[key] = {**value, "vnfdId": package["_id"]}

    def cancel(self, op_id: str) -> None:
        """Kill the worker of a running operation; its state becomes FAILED_TEMP, as in LCM."""
        operation = self.operation(op_id)
        if operation["operationState"] != "PROCESSING":
            raise ConflictError("Operation is not in STARTING, PROCESSING or ROLLING_BACK state")
        jobs.kill(operation)
        fail_operation(self.store, operation, "Operation was cancelled", "FAILED_TEMP")

    def ns_delete(self, name: str, force: bool = False, body: Mapping[str, Any] = {}) -> Started:
        """Terminate a service and remove its records, also after an incomplete creation.

        A running instantiation is cancelled. The worker waits for other operations (``force``:
        they are cancelled too). ``body`` is NBI's request.
        """
        request = requests.operation("terminate", body)
        if request.get("autoremove") is False:
            text = "autoremove is false; the lab always removes the records of what it terminates"
            raise NbiError(text, HTTPStatus.NOT_IMPLEMENTED)
        nsr = self.ns(name)
        if not force:
            self._no_part_of_a_slice(nsr)
        return self._start(self.terminate(nsr, force, request), nsr)

    def _no_part_of_a_slice(self, nsr: Document) -> None:
        for nsi in self.store.all(NSIS):
            if any(n["nsrId"] == nsr["_id"] for n in nsi["_admin"]["nsrs-detailed-list"]):
                raise ConflictError(
                    f"ns '{nsr['name']}' is a part of nsi '{nsi['name']}', delete that"
                )

    def terminate(
        self, nsr: Document, force: bool = False, request: Mapping[str, Any] = {}
    ) -> Document:
        """Cancel a running instantiation (``force``: all operations); record a termination."""
        for operation in self._operations(nsr["_id"]):
            kind = operation["lcmOperationType"]
            if jobs.alive(operation) and (force or kind == "instantiate"):
                jobs.kill(operation)
                if operation["operationState"] == "PROCESSING":
                    fail_operation(self.store, operation, "Operation was cancelled")
        skip = bool(request.get("skip_terminate_primitives")) or force
        params = {**request, "autoremove": True, "force": force, "skip_terminate_primitives": skip}
        operation = self._new(nsr, "terminate", params)
        self.store.put(OPS, operation)
        return operation

    def vnfs(self, ns: str | None = None) -> list[Document]:
        """Return the VNF records, of one service or of all."""
        records = self.store.all(VNFRS)
        if ns is None:
            return records
        ns_id = self.ns(ns)["_id"]
        return [r for r in records if r["nsr-id-ref"] == ns_id]

    def vnf(self, ns: str, index: str) -> Document:
        records = self.vnfs(ns)
        for record in records:
            if record["member-vnf-index-ref"] == index:
                return record
        known = [record["member-vnf-index-ref"] for record in records]
        raise unknown(f"ns '{ns}' has no vnf '{index}'", index, known)

    def reap(self) -> None:
        """Mark operations FAILED if their worker died without a result."""
        for operation in self.store.all(OPS):
            if jobs.lost(self.store, operation):
                fail_operation(self.store, operation, jobs.ending(self.store, operation))

    def _vnfr_of(self, nsr: Document, vnfr_id: str) -> Document:
        vnfr = self.store.find(VNFRS, vnfr_id)
        if vnfr is None or vnfr["nsr-id-ref"] != nsr["_id"]:
            raise NbiError(f"vnf '{vnfr_id}' is not one of ns '{nsr['name']}'")
        return vnfr

    # -- internals -----------------------------------------------------------------------------

    def _members(self, nsd: Document) -> dict[str, Document]:
        try:
            return members(nsd, self.store)
        except LcmError as error:
            raise NbiError(str(error)) from None

    def _instantiated(self, name: str, operation: str) -> Document:
        nsr = self.ns(name)
        if nsr["_admin"]["nsState"] == "NOT_INSTANTIATED":
            raise ConflictError(
                f"ns '{nsr['name']}' cannot be '{operation}' because it is not instantiated"
            )
        return nsr


def _require_vdu(vnfr: Document, vdu_id: Any, count: Any) -> None:
    known = {(v["vdu-id-ref"], v["count-index"]) for v in vnfr["vdur"]}
    if (vdu_id, count) not in known:
        listed = ", ".join(f"{vdu} {number}" for vdu, number in sorted(known))
        raise NbiError(
            f"vnf '{vnfr['member-vnf-index-ref']}' has no vdu '{vdu_id}' with count-index {count}; "
            f"allowed: {listed}"
        )


def _check_names(svc: Service) -> None:
    """Refuse what has no name where NBI reads one."""
    nameless = [f"nsd '{svc.nsr['nsd']['id']}'"] if not svc.nsr["nsd"].get("name") else []
    for document in svc.vnfds.values():
        vdus = document["descriptor"].get("vdu") or ()
        nameless += [f"vdu '{v['id']}' of vnfd '{document['id']}'" for v in vdus if "name" not in v]
    if nameless:
        raise NbiError(f"{nameless[0]} has no name, on which NBI fails")


def _check_initial(svc: Service, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse an instantiation that lacks a value of an initial primitive."""
    always = {"rw_mgmt_ip", "OSM"}
    for env in svc.environments:
        known = always | set(values[env.application])
        for primitive in env.initial:
            for parameter in primitive.get("parameter") or ():
                if parameter.get("value") is None:
                    raise NbiError(
                        f"parameter '{parameter.get('name')}' of initial-config-primitive "
                        f"'{primitive['name']}' has no value, on which NBI fails"
                    )
                wanted = placeholder(parameter["value"])
                if not wanted or wanted in known:
                    continue
                owner = f"vnfd[id={svc.vnfds[env.member_vnf_index]['id']}]:day1-2 configuration"
                raise NbiError(
                    f"Parameter '<{wanted}>' needed for {owner}:initial-config-primitive"
                    f"[name={primitive['name']}] not supplied (member-vnf-index "
                    f"{env.member_vnf_index})"
                )
