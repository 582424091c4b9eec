"""Operations that change a running service: heal and update.

Source: OSM 19, LCM ``heal``, ``heal_N2VC``, ``update``, ``rebuild_start_stop``; RO
``recreate``. The lab leaves out what LCM leaves out: a healed VDU gets the charm's key, but no
relations, no ``config`` and no initial primitives. A rebuilt VDU does not get the key either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from builder.archive import digest
from lab.descriptors.environments import Environment
from lab.descriptors.service import Service, service, vdur_of, vnfrs_of
from lab.descriptors.topology import Server
from lab.errors import LcmError
from lab.lcm.instantiate import Connector, faults, inject
from lab.lcm.request import charm_folder, request
from lab.lcm.vimdeploy import VimDeployment, server_spec
from lab.records.operations import ro_key_path
from lab.records.packages import prune_revisions
from lab.records.store import NSRS, VNFDS, VNFRS, Document
from lab.vca import WaitTimeoutError
from lab.vim import VimConnector

if TYPE_CHECKING:
    from lab.lcm.operations import Operations

NO_VERSION = "1.0"
"""What LCM takes for the software version of a VNFD that has none."""


@dataclass(frozen=True)
class _Target:
    """The VDU instance on which an operation works."""

    vnfr: Document
    vdur: Document
    run_day1: bool = False

    @property
    def index(self) -> str:
        """The member."""
        return str(self.vnfr["member-vnf-index-ref"])

    @property
    def is_vnf(self) -> bool:
        """Whether this VDU has the VNF's management address."""
        return bool(self.vnfr["ip-address"] == self.vdur["ip-address"])


# -- heal ------------------------------------------------------------------------------------------


def heal(ops: Operations, operation: Document) -> str:
    """Replace VDUs by new ones and put the keys of their charms into them."""
    ns_id = operation["nsInstanceId"]
    ops.begin(operation, None, "HEALING")
    svc = service(ops.store.get(NSRS, ns_id), ops.store)
    targets = [
        target
        for vnf_data in operation["operationParams"]["healVnfData"]
        for target in _to_heal(ops, vnf_data)
    ]
    for target in targets:
        _recreate(ops, svc, target, same=False)
    with ops.charms_running(ns_id, svc.environments) as model:
        connected = ops.connected(ns_id)
        for target in targets:
            for env in _of_target(svc, target):
                _inject_key(ops, connected(env), env, target)
                if target.run_day1:
                    _break_day1(ops, ns_id, env)
        state = ops.end(operation, "COMPLETED", "Done")
        ops.let_settle(ns_id, model)
    return state


def _to_heal(ops: Operations, vnf_data: Mapping[str, Any]) -> Iterator[_Target]:
    vnfr = ops.store.get(VNFRS, vnf_data["vnfInstanceId"])
    given = vnf_data.get("additionalParams") or {}
    listed = given.get("vdu") or [
        {"vdu-id": v["vdu-id-ref"], "count-index": v["count-index"]} for v in vnfr["vdur"]
    ]
    for entry in listed:
        run_day1 = bool(entry.get("run-day1") or given.get("run-day1"))
        yield _Target(vnfr, vdur_of(vnfr, entry["vdu-id"], entry.get("count-index", 0)), run_day1)


def _recreate(ops: Operations, svc: Service, target: _Target, same: bool) -> None:
    """Replace a server as RO does; write its new id and addresses into the record."""
    ns_id = svc.nsr["_id"]
    server = _server(svc, target)
    work = request(svc, ops.store)
    keys = (ops.backends.keys.make_key(work.ro_key), *work.ssh_keys)
    label = {"vdu": server.vdu_id, "count": server.count_index}
    ops.journal.write("vm", target.index, "rebuilding", state="BUILD", **label)
    vim = ops.backends.vim(server.vim)
    old = target.vdur["vim-id"]
    new = recreate(vim, old, server, work.user_data(server), keys, ns_id, same)

    def forget(vnfr: Document) -> None:
        vdur = vdur_of(vnfr, server.vdu_id, server.count_index)
        vdur["vim-id"] = new
        if target.is_vnf:
            vnfr["ip-address"] = None
        vdur["ip-address"] = None

    ops.store.update(VNFRS, target.vnfr["_id"], forget)
    if new is None:  # its first creation failed
        work = replace(work, plan=svc.plan.part((server,)))
        own = {n.name: n.id for n in vim.networks() if n.tag == ns_id}
        known = {n.key: own[n.name] for n in work.plan.networks if n.name in own}
        deployment = VimDeployment(ops.backends, ops.journal, work, ops.timeouts.vm_ip, known)
        deployment.run(partial(ops.record_server, ns_id))
    else:
        made = vim.wait_active(new, ops.timeouts.vm_ip)
        ops.record_server(ns_id, server, made)
        for note in made.notes:
            ops.journal.write("note", target.index, note)
    ops.journal.write("vm", target.index, "active", state="ACTIVE", **label)
    fresh = ops.store.get(VNFRS, target.vnfr["_id"])
    target.vnfr.update(fresh)
    target.vdur.update(vdur_of(fresh, server.vdu_id, server.count_index))


def recreate(
    vim: VimConnector,
    server_id: str,
    server: Server,
    user_data: str | None,
    ssh_keys: Sequence[str],
    tag: str,
    same: bool,
) -> str | None:
    """Replace a server by a new one on its networks; return the new id.

    Fixed addresses stay, and others as :meth:`VimConnector.replace_server` says. If there is no
    server with this id, the service's server of this name is replaced: an instantiation or a
    healing that failed may not have recorded its id. If there is none either, the result is
    ``None``, and with ``same`` an error.
    """
    present = {each.name: each.id for each in vim.servers(tag)}
    if server_id not in present.values():
        if server.name not in present and not same:
            return None
        server_id = present.get(server.name, server_id)
    on = [port.network_id for port in vim.server(server_id).ports]
    spec = server_spec(server, on, user_data, ssh_keys)
    return vim.replace_server(server_id, spec, tag, same).id


def _server(svc: Service, target: _Target) -> Server:
    key = f"{target.index}/{target.vdur['vdu-id-ref']}/{target.vdur['count-index']}"
    for server in svc.plan.servers:
        if server.key == key:
            return server
    raise LcmError("Target vdu is not found")


def _of_target(svc: Service, target: _Target) -> list[Environment]:
    """Return the environments LCM heals: the VDU's, and the VNF's if this VDU has its address."""
    place = (target.vdur["vdu-id-ref"], target.vdur["count-index"])
    return [
        env
        for env in svc.environments
        if env.member_vnf_index == target.index
        and ((env.vdu_id is None and target.is_vnf) or (env.vdu_id, env.count_index) == place)
    ]


def _inject_key(ops: Operations, n2vc: Connector, env: Environment, target: _Target) -> None:
    if not env.ssh_required or not env.ssh_user:
        return
    key = n2vc.public_key(env.application)
    ro_key = ro_key_path(ops.store.home, n2vc.ns_id)
    address = str(target.vdur["ip-address"])

    def ended() -> list[str]:
        return faults(ops.backends, vnfrs_of(ops.store, n2vc.ns_id)[target.index])

    try:
        inject(ops.backends.keys, address, env.ssh_user, ro_key, key, ops.timeouts, ended)
    except LcmError as error:
        raise LcmError(f"Reaching max tries injecting key. Error: {error}") from None


def _break_day1(ops: Operations, ns_id: str, env: Environment) -> None:
    """Handle ``run-day1`` as LCM does: no primitive runs, the environment becomes BROKEN.

    LCM looks for the parameters of the initial primitives in the heal request, which has none.
    """
    ops.record_vca(ns_id, env.application, status="BROKEN")
    ops.journal.write("note", "ns", f"{env.application}: run-day1 ran no primitive, as in OSM")


# -- update ----------------------------------------------------------------------------------------


def update(ops: Operations, operation: Document) -> str:
    """Run an update of one of LCM's types."""
    ops.begin(operation, None, "UPDATING")
    params = operation["operationParams"]
    if params["updateType"] == "CHANGE_VNFPKG":
        return _change_package(ops, operation, params["changeVnfPackageData"])
    _operate(ops, operation["nsInstanceId"], params["operateVnfData"])
    return _updated(ops, operation)


def _updated(ops: Operations, operation: Document) -> str:
    state = ops.end(operation, "COMPLETED", "Done")
    ops.journal.write("settled", "ns", "updated", idle=True)
    return state


def _change_package(ops: Operations, operation: Document, data: Mapping[str, Any]) -> str:
    """Refresh the charms of a VNF that differ in the latest revision of its package."""
    ns_id = operation["nsInstanceId"]
    vnfr = ops.store.get(VNFRS, data["vnfInstanceId"])
    package = ops.store.get(VNFDS, data["vnfdId"])
    latest = package["_admin"].get("revision", 1)
    current = vnfr.get("revision", 1)
    if current == latest:
        return _updated(ops, operation)
    revisions = package["_admin"]["revisions"]
    old = revisions[str(current)]
    svc = service(ops.store.get(NSRS, ns_id), ops.store)
    index = str(vnfr["member-vnf-index-ref"])
    mine = [env for env in svc.environments if env.member_vnf_index == index]
    version = package["descriptor"].get("software-version", NO_VERSION)
    if version != old["software-version"] and mine:
        raise LcmError(
            "FAILED Checking if existing VNF has charm: Software version change is not supported "
            f"as VNF instance {vnfr['_id']} has charm."
        )
    changed = []
    for env in mine:
        folder = charm_folder(svc, ops.store, env)
        before = (
            ops.store.root / old["folder"] / folder.relative_to(ops.store.root / package["folder"])
        )
        if digest(before) != digest(folder):
            changed.append((env, folder))

    def revise() -> None:
        ops.store.update(VNFRS, vnfr["_id"], lambda record: record.update(revision=latest))
        prune_revisions(ops.store)

    if not changed:
        revise()
        return _updated(ops, operation)
    with ops.charms_running(ns_id, svc.environments) as model:
        if model is None:
            raise LcmError("KDUs deployed with Helm do not support charm upgrade")
        for env, folder in changed:
            ops.journal.write("charm", index, "refreshing charm", application=env.application)
            model.upgrade_charm(env.application, folder)
        revise()
        with suppress(WaitTimeoutError):
            model.wait_idle(ops.timeouts.settle)
        state = ops.end(operation, "COMPLETED", "Done")
        ops.let_settle(ns_id, model)
    return state


def _operate(ops: Operations, ns_id: str, data: Mapping[str, Any]) -> None:
    """Start, stop or rebuild a VDU. As in OSM, no charm gets an event."""
    vnfr = ops.store.get(VNFRS, data["vnfInstanceId"])
    given = data["additionalParam"]
    target = _Target(vnfr, vdur_of(vnfr, given["vdu_id"], given["count-index"]))
    svc = service(ops.store.get(NSRS, ns_id), ops.store)
    vim = ops.backends.vim(vnfr["vim-account-id"])
    kind = data["changeStateTo"]
    if kind == "start":
        vim.start(target.vdur["vim-id"])
        vim.wait_active(target.vdur["vim-id"], ops.timeouts.vm_ip)
    elif kind == "stop":
        vim.stop(target.vdur["vim-id"])
    else:
        # A new disk from the image, with the same user data and RO's key; ports and addresses stay.
        _recreate(ops, svc, target, same=True)
