"""What an instantiation and a scaling bring up, in OSM's order.

The VIM deployment and all environments run in parallel. An environment waits only where a step
says so. Steps of each environment (LCM ``_instantiate_N2VC``):

1. deploy the charm; ready when its application is active or blocked;
2. add its relations, as soon as both ends are installed;
3. with a required ssh-access: make the charm's key, read its public part;
4. wait for the VM's address, let RO put the key into the VM;
5. wait for the environments of the VDUs, if it is that of a VNF;
6. run the initial primitives by ``seq``.

So a charm gets relation events before ``config`` gives it the address of its VDU.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from builder.errors import of_file
from lab.descriptors.environments import Environment
from lab.descriptors.primitives import by_seq, map_primitive_params
from lab.descriptors.relations import Relation
from lab.descriptors.service import vnfrs_of
from lab.descriptors.topology import Server
from lab.errors import LcmError
from lab.lcm import condition
from lab.lcm.request import Place, Request
from lab.lcm.timeouts import Timeouts
from lab.lcm.vimdeploy import VimDeployment
from lab.lcm.work import Connector, Work
from lab.records.operations import ro_key_path
from lab.together import failures
from lab.vim.model import Server as VimServer

STAGES = (
    "Stage 1/5: preparation of the environment.",
    "Stage 2/5: deployment of KDUs, VMs and execution environments.",
)


@dataclass
class Report:
    """Result of an instantiation."""

    errors: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # Applications whose environment is BROKEN.
    vim_failed: bool = False
    day1_run: list[str] = field(default_factory=list)
    """Applications of which an initial primitive was started; these get terminate primitives."""
    vms_ready: float | None = None
    """Time (seconds since the epoch) at which the last VM accepted OSM's login, or was active."""


def inject(work: Work, ns_id: str, member: str, address: str, user: str, key: str) -> None:
    """Put the key of a charm into a VM; try again while the VM runs and lets nobody in."""
    ro_key = ro_key_path(work.store.home, ns_id)
    deadline, pause = time.monotonic() + work.timeouts.inject_key, 0.5
    while True:
        try:
            work.backends.keys.inject(address, user, ro_key, key)
            return
        except LcmError:
            vnfr = vnfrs_of(work.store, ns_id)[member]
            if reasons := condition.faults(condition.servers(work.backends, vnfr)):
                raise LcmError("; ".join(reasons)) from None
            if time.monotonic() > deadline:
                raise
        # A VM that has more time is not looked at more seldom than RO does.
        time.sleep(min(pause, work.timeouts.inject_interval, Timeouts.inject_interval))
        pause *= 2


class Instantiation:
    """One run, which writes into the service's records what comes up; not reusable."""

    def __init__(self, work: Work, request: Request) -> None:
        self.work = work
        self.request = request
        self.backends = work.backends
        self.journal = work.journal
        self.timeouts = work.timeouts
        # OSM keeps these in its database and polls.
        envs = request.environments
        self._addresses: dict[Place, Future[str]] = {_managed(env): Future() for env in envs}
        self._installed: dict[str, Future[None]] = {env.application: Future() for env in envs}
        self._ready: dict[str, Future[None]] = {env.application: Future() for env in envs}
        self._related: dict[Relation, str] = {}
        for place, address in request.addresses.items():
            self._set_address(place, address)
        self.report = Report()

    def run(self) -> Report:
        """Run it. Every ``LcmError`` goes into the report; any other exception is raised."""
        self.journal.write("stage", "ns", STAGES[1])
        tasks: list[tuple[str, Callable[[], None]]] = [("Deploying at VIM", self._deploy_at_vim)]
        tasks += [
            (f"Deploying VCA {env.label}", partial(self._environment, env))
            for env in self.request.environments
        ]
        self.report.errors += [f"{title}: {error}" for title, error in failures(tasks, "lcm")]
        return self.report

    # -- VIM ----------------------------------------------------------------------------------

    def _deploy_at_vim(self) -> None:
        try:
            limit = self.timeouts.vm_ip
            VimDeployment(self.backends, self.journal, self.request, limit).run(self._booted)
        except BaseException:
            self.report.vim_failed = True
            reason = "Cannot inject ssh-key because target VM is in error state"
            _fail(self._addresses.values(), reason)
            raise
        self.report.vms_ready = time.time()

    def _booted(self, server: Server, result: VimServer) -> None:
        self.work.record_server(self.request.ns_id, server, result)
        index, vdu, count = server.member_vnf_index, server.vdu_id, server.count_index
        for planned, port in zip(server.ports, result.ports, strict=True):
            reached = port.floating or port.ip
            if planned.management:
                self._set_address((index, vdu, count), reached)
            if planned.management_vnf and count == 0:
                self._set_address((index, None, 0), reached)

    def _set_address(self, place: Place, address: str) -> None:
        future = self._addresses.get(place)
        if future is not None and not future.done():
            future.set_result(address)

    # -- execution environments -----------------------------------------------------------------

    def _environment(self, env: Environment) -> None:
        step = "preparing"
        try:
            for name, action in self._steps(env):
                step = name
                action()
        except BaseException as error:
            _fail([self._installed[env.application], self._ready[env.application]], "BROKEN")
            self.report.broken.append(env.application)
            reason = of_file(error) if isinstance(error, OSError) else error
            self._say(env, f"failed: {reason}", state="BROKEN")
            if isinstance(error, LcmError):
                raise LcmError(f"{step}. {error}") from None
            raise
        self._ready[env.application].set_result(None)

    def _steps(self, env: Environment) -> list[tuple[str, Callable[[], None]]]:
        steps: list[tuple[str, Callable[[], None]]] = [
            ("create execution environment", lambda: self._install(env)),
            ("Adding vca relations", lambda: self._relate(env)),
            ("Waiting for the VM and its ssh-key", lambda: self._reach(env)),
            ("Waiting dependent vcas", lambda: self._wait_below(env)),
        ]
        primitives = by_seq(env.initial)
        for number, primitive in enumerate(primitives, start=1):
            steps.append(
                (
                    f"execute primitive '{primitive['name']}'",
                    lambda p=primitive, n=number: self._primitive(  # type: ignore[misc]
                        env, p, n, len(primitives)
                    ),
                )
            )
        return steps

    def _n2vc(self, env: Environment) -> Connector:
        vnf_id = self.request.vnf_ids.get(env.member_vnf_index, "")
        return self.work.connector(self.request.ns_id, env, vnf_id)

    def _install(self, env: Environment) -> None:
        self._say(env, "installing chart" if env.helm else "deploying charm")
        n2vc = self._n2vc(env)
        n2vc.install(self.request.charm_folder(env), env.num_units)
        self.work.record_vca(self.request.ns_id, env.application, ee_id=n2vc.ee_id)
        self._installed[env.application].set_result(None)

    def _relate(self, env: Environment) -> None:
        deadline = time.monotonic() + self.timeouts.relations
        for relation in self.request.relations:
            if env.application not in relation.applications:
                continue
            ends = [self._installed[application] for application in relation.applications]
            left = max(0.0, deadline - time.monotonic())
            if wait(ends, left, FIRST_EXCEPTION).not_done or any(e.exception() for e in ends):
                raise LcmError("Relations could not be added to VCA.")
            # As in LCM both ends add it; the "already exists" of the second is no error.
            self._n2vc(env).relate(relation)
            if self._related.setdefault(relation, env.application) == env.application:
                self.journal.write(
                    "relation", relation.name, f"{relation.provider} - {relation.requirer}"
                )

    def _reach(self, env: Environment) -> None:
        values = self.request.parameters[env.application]
        key = None
        if env.ssh_required:
            self._say(env, "making ssh key")
            key = self._n2vc(env).public_key()
        self._say(env, "waiting for the VM")
        try:
            address = self._addresses[_managed(env)].result(self.timeouts.vm_ip)
        except TimeoutError:
            raise LcmError("Not found the management address of the VM in time") from None
        if key is not None and env.ssh_user:
            self._inject(env, address, env.ssh_user, key)
        values["rw_mgmt_ip"] = address
        values["OSM"] = self.request.osm(env)

    def _inject(self, env: Environment, address: str, user: str, key: str) -> None:
        self._say(env, f"injecting ssh key at {user}@{address}")
        try:
            inject(self.work, self.request.ns_id, env.member_vnf_index, address, user, key)
        except LcmError as error:
            raise LcmError(f"Cannot inject ssh-key at {user}@{address}: {error}") from None
        # A VM is ready when a login works; it is ACTIVE long before.
        self.report.vms_ready = time.time()

    def _wait_below(self, env: Environment) -> None:
        if env.vdu_id is not None:
            return
        below = [
            self._ready[other.application]
            for other in self.request.environments
            if other.member_vnf_index == env.member_vnf_index and other.vdu_id is not None
        ]
        done, pending = wait(below, self.timeouts.dependent_vcas, FIRST_EXCEPTION)
        if any(each.exception() for each in done):
            raise LcmError("Configuration aborted because dependent charm/s has failed")
        if pending:
            raise LcmError("Timeout waiting for dependent charm/s")

    def _primitive(
        self, env: Environment, primitive: Mapping[str, Any], number: int, total: int
    ) -> None:
        name, where = str(primitive["name"]), env.member_vnf_index
        more = {"application": env.application, "number": number, "total": total}
        self.journal.write("primitive", where, name, **more)
        params = map_primitive_params(primitive, {}, self.request.parameters[env.application])
        if env.application not in self.report.day1_run:
            self.report.day1_run.append(env.application)
            self.work.record_vca(self.request.ns_id, env.application, needed_terminate=True)
        self._n2vc(env).primitive(name, params, self.timeouts.primitive)
        self.journal.write("primitive", where, name, **more, done=True)

    def _say(self, env: Environment, text: str, **more: Any) -> None:
        self.journal.write("charm", env.member_vnf_index, text, application=env.application, **more)


def _managed(env: Environment) -> Place:
    return env.member_vnf_index, env.vdu_id, env.count_index if env.vdu_id else 0


def _fail(futures: Iterable[Future[Any]], reason: str) -> None:
    """Let those fail who wait for one of these, if it has no result yet."""
    for future in futures:
        if not future.done():
            future.set_exception(LcmError(reason))
