"""The verbs of the northbound interface, without any printing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.descriptors.environments import day12
from lab.descriptors.primitives import placeholder_name
from lab.descriptors.service import Service, members, service, shared_parameters
from lab.errors import ConflictError, LcmError, NbiError, unknown
from lab.nbi import validation
from lab.nbi.catalogue import Catalogue
from lab.nbi.params import InstanceRequest, check_references, client_params
from lab.nbi.primitives import check_action
from lab.nbi.records import new_nsr, new_operation, new_vnfrs
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
    warnings: list[str] = field(default_factory=list)


class Engine:
    """NBI of the lab in one directory."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.catalogue = Catalogue(self.store)

    # -- network services ----------------------------------------------------------------------

    def ns(self, name_or_id: str) -> Document:
        """Mark operations of dead workers FAILED, then return the record of a service."""
        self.reap()
        return self.store.resolve(NSRS, name_or_id, id_field="_id")

    def ns_create(self, request: InstanceRequest) -> Started:
        """Check a request as osmclient and NBI do, record the service and start it."""
        prepared = self._checked(request)
        self.record([prepared])
        return self._start(prepared.operation, prepared.nsr, prepared.warnings)

    def vim_key(self, name_or_id: str) -> str:
        """Return the id of a VIM account."""
        return str(self.store.resolve(VIMS, name_or_id)["_id"])

    def _checked(self, asked: InstanceRequest) -> Prepared:
        """Check a request as osmclient and NBI do; return its records."""
        nsd = self.store.resolve(NSDS, asked.descriptor)
        request = client_params(asked, nsd["_id"], self.vim_key)
        packages = list(self._members(nsd["descriptor"]).values())
        vnfds = {d["id"]: d["descriptor"] for d in packages}
        nsds = {nsd["id"]: nsd["descriptor"]}
        folders = {d["id"]: self.catalogue.folder(d) for d in packages}
        warnings = validation.parameters("ns", asked.config, vnfds, nsds, folders)
        prepared = self.prepare(nsd, request, asked.description)
        return replace(prepared, warnings=warnings)

    def prepare(self, nsd: Document, request: dict[str, Any], description: str = "") -> Prepared:
        """Check a request as NBI does; return the records of the service."""
        vims = {v["_id"]: v["name"] for v in self.store.all(VIMS)}
        check_references(request, nsd["descriptor"], vims)
        nsr = new_nsr(request, nsd, description)
        try:
            svc = service(nsr, self.store)
            vnfrs = new_vnfrs(nsr, svc.vnfds, svc.plan, request)
        except LcmError as error:
            raise NbiError(str(error)) from None
        nsr["constituent-vnfr-ref"] = [r["_id"] for r in vnfrs]
        records = {r["member-vnf-index-ref"]: r for r in vnfrs}
        _check_names(svc)
        _check_initial(svc, shared_parameters(svc, records))
        return Prepared(nsr, vnfrs, new_operation(nsr, "instantiate", request))

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

    def ns_action(
        self,
        name: str,
        primitive: str,
        params: Mapping[str, Any],
        member_vnf_index: str | None,
        vdu_id: str | None = None,
        vdu_count: int | None = None,
        timeout: int | None = None,
    ) -> Started:
        """Check an action as NBI does and start it."""
        nsr = self._instantiated(name, "action")
        vnfds = self._members(nsr["nsd"])
        if member_vnf_index is None:
            configuration = nsr["nsd"].get("ns-configuration") or {}
            primitives = list(configuration.get("config-primitive") or ())
        else:
            if member_vnf_index not in vnfds:
                text = (
                    f"Invalid parameter member_vnf_index='{member_vnf_index}' is not one of the "
                    "nsd:constituent-vnfd"
                )
                raise unknown(text, member_vnf_index, vnfds)
            descriptor = vnfds[member_vnf_index]["descriptor"]
            vdus = [vdu["id"] for vdu in descriptor.get("vdu") or ()]
            if vdu_id is not None and vdu_id not in vdus:
                text = f"Invalid parameter vdu_id='{vdu_id}' not present at vnfd:vdu:id"
                raise unknown(text, vdu_id, vdus)
            entry = day12(descriptor, vdu_id or descriptor["id"]) or {}
            primitives = list(entry.get("config-primitive") or ())
        check_action(primitives, primitive, params)
        request: dict[str, Any] = {"primitive": primitive, "primitive_params": dict(params)}
        if member_vnf_index is not None:
            request["member_vnf_index"] = member_vnf_index
        if vdu_id is not None:
            request["vdu_id"] = vdu_id
            request["vdu_count_index"] = vdu_count or 0
        return self._run(nsr, "action", request, timeout)

    def ns_heal(self, name: str, targets: Sequence[Mapping[str, Any]]) -> Started:
        """Check a healing as NBI does and start it.

        Args:
            name: of the service.
            targets: ``healVnfData`` of SOL005 with OSM's ``additionalParams``: ``vdu`` (``vdu-id``,
                ``count-index``, ``run-day1``) and ``run-day1``.
        """
        nsr = self._instantiated(name, "heal")
        if not targets:
            raise NbiError("healVnfData is empty; allowed: one entry or more")
        for target in targets:
            vnfr = self._vnfr_of(nsr, str(target.get("vnfInstanceId")))
            for vdu in (target.get("additionalParams") or {}).get("vdu") or ():
                _require_vdu(vnfr, vdu.get("vdu-id"), vdu.get("count-index", 0))
        return self._run(nsr, "heal", {"healVnfData": [dict(t) for t in targets]})

    def vnf_scale(
        self, name: str, member_vnf_index: str, scaling_group: str, scale_in: bool = False
    ) -> Started:
        """Check a scaling as NBI does and start it."""
        nsr = self._instantiated(name, "scale")
        vnfr = self.vnf(name, member_vnf_index)
        descriptor = self._members(nsr["nsd"])[vnfr["member-vnf-index-ref"]]["descriptor"]
        known = [a["id"] for a in descriptor["df"][0].get("scaling-aspect") or ()]
        if scaling_group not in known:
            text = (
                "Invalid scaleVnfData:scaleByStepData:scaling-group-descriptor="
                f"'{scaling_group}' is not present at vnf='{member_vnf_index}'"
            )
            raise unknown(text, scaling_group, known)
        request = {
            "scaleType": "SCALE_VNF",
            "scaleVnfData": {
                "scaleVnfType": "SCALE_IN" if scale_in else "SCALE_OUT",
                "scaleByStepData": {
                    "member-vnf-index": member_vnf_index,
                    "scaling-group-descriptor": scaling_group,
                },
            },
        }
        return self._run(nsr, "scale", request)

    def ns_update(self, name: str, update_type: str, data: Mapping[str, Any]) -> Started:
        """Check an update as NBI does and start it.

        Args:
            name: of the service.
            update_type: ``CHANGE_VNFPKG`` or ``OPERATE_VNF``.
            data: NBI's further parameter: ``changeVnfPackageData`` or ``operateVnfData``.
        """
        nsr = self._instantiated(name, "update")
        key = UPDATES.get(update_type)
        if key is None:
            raise NbiError(
                f"Format error at 'updateType' '{update_type} is not one of {sorted(UPDATES)}'"
            )
        if not data.get(key):
            raise NbiError(f"{update_type} needs {key}")
        value = data[key]
        request: dict[str, Any] = {"updateType": update_type, key: value}
        if not isinstance(value, Mapping):
            raise NbiError(f"Format error at '{key}' '{value} is not of type 'object''")
        vnfr = self._vnfr_of(nsr, str(value.get("vnfInstanceId")))
        if update_type == "OPERATE_VNF":
            given = value.get("additionalParam") or {}
            _require_vdu(vnfr, given.get("vdu_id"), given.get("count-index"))
            if value.get("changeStateTo") not in ("start", "stop", "rebuild"):
                raise NbiError(
                    f"changeStateTo is '{value.get('changeStateTo')}'; allowed: start, stop, "
                    "rebuild"
                )
            return self._run(nsr, "update", request)
        package = self.store.resolve(VNFDS, str(value.get("vnfdId")))
        if package["_id"] != vnfr["vnfd-id"]:
            raise NbiError(
                f"VNFD '{value.get('vnfdId')}' is not the one of vnf "
                f"'{vnfr['member-vnf-index-ref']}'"
            )
        request[key] = {**value, "vnfdId": package["_id"], "vnfInstanceId": vnfr["_id"]}
        return self._run(nsr, "update", request)

    def cancel(self, op_id: str) -> None:
        """Kill the worker of a running operation; its state becomes FAILED_TEMP, as in LCM."""
        operation = self.operation(op_id)
        if operation["operationState"] != "PROCESSING":
            raise ConflictError("Operation is not in STARTING, PROCESSING or ROLLING_BACK state")
        jobs.kill(operation)
        fail_operation(self.store, operation, "Operation was cancelled", "FAILED_TEMP")

    def ns_delete(
        self,
        name: str,
        force: bool = False,
        skip_terminate_primitives: bool = False,
        timeout: int | None = None,
    ) -> Started:
        """Terminate a service and remove its records, also after an incomplete creation.

        A running instantiation is cancelled. The worker waits for other operations (``force``:
        they are cancelled too). ``timeout`` is ``timeout_ns_terminate``, seconds.
        """
        nsr = self.ns(name)
        if not force:
            self._no_part_of_a_slice(nsr)
        operation = self.terminate(nsr, force, skip_terminate_primitives, timeout)
        return self._start(operation, nsr, [])

    def _no_part_of_a_slice(self, nsr: Document) -> None:
        for nsi in self.store.all(NSIS):
            if any(n["nsrId"] == nsr["_id"] for n in nsi["_admin"]["nsrs-detailed-list"]):
                raise ConflictError(
                    f"ns '{nsr['name']}' is a part of nsi '{nsi['name']}', delete that"
                )

    def terminate(
        self,
        nsr: Document,
        force: bool = False,
        skip_terminate_primitives: bool = False,
        timeout: int | None = None,
    ) -> Document:
        """Cancel a running instantiation (``force``: all operations); record a termination."""
        for operation in self._operations(nsr["_id"]):
            kind = operation["lcmOperationType"]
            if jobs.alive(operation) and (force or kind == "instantiate"):
                jobs.kill(operation)
                if operation["operationState"] == "PROCESSING":
                    fail_operation(self.store, operation, "Operation was cancelled")
        operation = new_operation(
            nsr,
            "terminate",
            {
                "autoremove": True,
                "force": force,
                "skip_terminate_primitives": skip_terminate_primitives or force,
                **_limit("terminate", timeout),
            },
        )
        self.store.put(OPS, operation)
        return operation

    def operations(self, name: str) -> list[Document]:
        """Return the operations of a service, oldest first."""
        return self._operations(self.ns(name)["_id"])

    def operation(self, op_id: str) -> Document:
        """Return one operation."""
        self.reap()
        return self.store.resolve(OPS, op_id, id_field="_id")

    def vnfs(self, ns: str | None = None) -> list[Document]:
        """Return the VNF records, of one service or of all."""
        records = self.store.all(VNFRS)
        if ns is None:
            return records
        ns_id = self.ns(ns)["_id"]
        return [r for r in records if r["nsr-id-ref"] == ns_id]

    def vnf(self, ns: str, index: str) -> Document:
        """Return the record of a member."""
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

    def _run(
        self, nsr: Document, kind: str, request: Mapping[str, Any], timeout: int | None = None
    ) -> Started:
        operation = new_operation(nsr, kind, {**request, **_limit(kind, timeout)})
        self.store.put(OPS, operation)
        return self._start(operation, nsr, [])

    def _vnfr_of(self, nsr: Document, vnfr_id: str) -> Document:
        vnfr = self.store.find(VNFRS, vnfr_id)
        if vnfr is None or vnfr["nsr-id-ref"] != nsr["_id"]:
            raise NbiError(f"vnf '{vnfr_id}' is not one of ns '{nsr['name']}'")
        return vnfr

    # -- internals -----------------------------------------------------------------------------

    def _start(self, operation: Document, nsr: Document, warnings: list[str]) -> Started:
        tail = jobs.start(self.store, operation)
        return Started(operation, nsr, tail, tuple(warnings))

    def _operations(self, ns_id: str) -> list[Document]:
        return [o for o in self.store.all(OPS) if o["nsInstanceId"] == ns_id]

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


def _limit(kind: str, timeout: int | None) -> dict[str, int]:
    """Return the parameter that says how long an operation may take, if there is a limit."""
    return {} if timeout is None else {f"timeout_ns_{kind}": timeout}


UPDATES = {
    "CHANGE_VNFPKG": "changeVnfPackageData",
    "OPERATE_VNF": "operateVnfData",
}
"""Update type -> request field with its parameters."""


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
    always = {"rw_mgmt_ip", "OSM", "ns_config_info"}
    for env in svc.environments:
        known = always | set(values[env.application])
        for primitive in env.initial:
            for parameter in primitive.get("parameter") or ():
                if parameter.get("value") is None:
                    raise NbiError(
                        f"parameter '{parameter.get('name')}' of initial-config-primitive "
                        f"'{primitive['name']}' has no value, on which NBI fails"
                    )
                placeholder = placeholder_name(parameter.get("value"))
                if placeholder is None or placeholder in known:
                    continue
                owner = (
                    f"nsd[id={svc.nsr['nsd']['id']}]:ns-configuration"
                    if env.member_vnf_index is None
                    else f"vnfd[id={svc.vnfds[env.member_vnf_index]['id']}]:day1-2 configuration"
                )
                raise NbiError(
                    f"Parameter '<{placeholder}>' needed for {owner}:initial-config-primitive"
                    f"[name={primitive['name']}] not supplied (member-vnf-index "
                    f"{env.member_vnf_index})"
                )
