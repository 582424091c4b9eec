"""Another server in place of a VDU's: what RO does for a healing and for a rebuild."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from lab.descriptors.service import Service, vdur_of
from lab.descriptors.topology import Server
from lab.errors import LcmError
from lab.lcm.request import request
from lab.lcm.vimdeploy import VimDeployment, server_spec
from lab.lcm.work import Work
from lab.records.store import VNFRS, Document
from lab.vim.connector import VimConnector


@dataclass(frozen=True)
class Target:
    """The VDU instance on which an operation works."""

    vnfr: Document
    vdur: Document
    run_day1: bool = False

    @property
    def index(self) -> str:
        return str(self.vnfr["member-vnf-index-ref"])

    @property
    def is_vnf(self) -> bool:
        """Whether this VDU has the VNF's management address."""
        return bool(self.vnfr["ip-address"] == self.vdur["ip-address"])


def recreate(work: Work, svc: Service, target: Target, same: bool) -> None:
    """Replace a server as RO does; write its new id and addresses into the record."""
    ns_id = svc.nsr["_id"]
    server = _server(svc, target)
    wanted = request(svc, work.store)
    keys = (work.backends.keys.make_key(wanted.ro_key), *wanted.ssh_keys)
    label = {"vdu": server.vdu_id, "count": server.count_index}
    work.journal.write("vm", target.index, "rebuilding", state="BUILD", **label)
    vim = work.backends.vim(server.vim)
    old = target.vdur["vim-id"]
    new = replaced(vim, old, server, wanted.user_data(server), keys, ns_id, same)
    with work.store.edit(VNFRS, target.vnfr["_id"]) as vnfr:
        vdur = vdur_of(vnfr, server.vdu_id, server.count_index)
        vdur["vim-id"] = new
        if target.is_vnf:
            vnfr["ip-address"] = None
        vdur["ip-address"] = None
    if new is None:  # its first creation failed
        wanted = replace(wanted, plan=svc.plan.part((server,)))
        own = {n.name: n.id for n in vim.networks() if n.tag == ns_id}
        known = {n.key: own[n.name] for n in wanted.plan.networks if n.name in own}
        deployment = VimDeployment(work.backends, work.journal, wanted, work.timeouts.vm_ip, known)
        deployment.run(partial(work.record_server, ns_id))
    else:
        made = vim.wait_active(new, work.timeouts.vm_ip)
        work.record_server(ns_id, server, made)
        for note in made.notes:
            work.journal.write("note", target.index, note)
    work.journal.write("vm", target.index, "active", state="ACTIVE", **label)
    fresh = work.store.get(VNFRS, target.vnfr["_id"])
    target.vnfr.update(fresh)
    target.vdur.update(vdur_of(fresh, server.vdu_id, server.count_index))


def replaced(
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


def _server(svc: Service, target: Target) -> Server:
    key = f"{target.index}/{target.vdur['vdu-id-ref']}/{target.vdur['count-index']}"
    for server in svc.plan.servers:
        if server.key == key:
            return server
    raise LcmError("Target vdu is not found")
