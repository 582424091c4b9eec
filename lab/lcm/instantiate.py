"""Instantiation of a network service in OSM's order.

The VIM deployment and all environments run in parallel. An environment waits only where a step
says so. Steps of each environment (LCM ``_instantiate_N2VC``):

1. deploy the charm; ready when its application is active or blocked;
2. add its relations, as soon as both ends are installed;
3. with a required ssh-access: make the charm's key, read its public part;
4. wait for the VM's address, let RO put the key into the VM;
5. wait for the environments below (VNF: its VDUs; NS: all);
6. run the initial primitives by ``seq``.

So a charm gets relation events before ``config`` gives it the address of its VDU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.descriptors.environments import Environment
from lab.descriptors.primitives import by_seq, map_primitive_params
from lab.descriptors.relations import Relation
from lab.descriptors.topology import Plan, Server
from lab.errors import LcmError
from lab.lcm.backends import Backends, BootedServer
from lab.lcm.board import Board
from lab.lcm.charmops import CharmOps
from lab.lcm.helmops import HelmOps
from lab.lcm.keys import OpenSshInjector
from lab.lcm.timeouts import INJECT_TRIES, Timeouts
from lab.lcm.vimdeploy import UserData, VimDeployment
from lab.records.journal import Journal

STAGES = (
    "Stage 1/5: preparation of the environment.",
    "Stage 2/5: deployment of KDUs, VMs and execution environments.",
)


@dataclass(frozen=True)
class Request:
    """Input of an instantiation; ``lab.lcm.request`` builds it from the records."""

    ns_id: str
    plan: Plan
    environments: Sequence[Environment]
    relations: Sequence[Relation]
    charm_folder: Callable[[Environment], Path]
    user_data: UserData
    parameters: Mapping[str, dict[str, Any]]
    """Application -> values for ``<name>``. Environments may share one dictionary, as in LCM,
    where the instances of a VDU overwrite each other's ``rw_mgmt_ip``."""
    osm: Callable[[Environment], dict[str, Any]]
    """The ``OSM`` dictionary for an environment, made after the VM has its addresses."""
    ssh_keys: tuple[str, ...]
    ro_key: Path
    vnf_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids of the VNF records, by member."""
    addresses: Mapping[tuple[str, str | None, int], str] = field(default_factory=dict)
    """Addresses that are known: (member, VDU or ``None`` for the VNF, count index) -> address."""


@dataclass
class Report:
    """Result of an instantiation."""

    errors: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Applications whose environment is BROKEN."""
    vim_failed: bool = False
    day1_run: list[str] = field(default_factory=list)
    """Applications of which an initial primitive was started; these get terminate primitives."""
    vms_ready: float | None = None
    """Time (seconds since the epoch) at which the last VM accepted OSM's login, or was active."""


Connector = CharmOps | HelmOps
"""LCM has one for each kind of execution environment."""


def connector(
    backends: Backends, env: Environment, ns_id: str, timeouts: Timeouts, vnf_id: str = ""
) -> Connector:
    """Return LCM's connector for an execution environment."""
    if env.helm:
        return HelmOps(backends.pods(ns_id), env, ns_id, timeouts, vnf_id)
    return CharmOps(backends.charms(ns_id), ns_id, timeouts)


def inject(
    keys: OpenSshInjector, address: str, user: str, ro_key: Path, key: str, timeouts: Timeouts
) -> None:
    """Put the key of a charm into a VM; try again while the VM lets nobody in.

    Raises:
        LcmError: the last try failed, or the time is over.
    """
    deadline = time.monotonic() + timeouts.inject_key
    for attempt in range(1, INJECT_TRIES + 1):
        try:
            keys.inject(address, user, ro_key, key)
            return
        except LcmError:
            if attempt == INJECT_TRIES or time.monotonic() > deadline:
                raise
        time.sleep(min(timeouts.inject_interval, 0.5 * 2 ** (attempt - 1)))


class Instantiation:
    """One run; not reusable."""

    def __init__(
        self,
        request: Request,
        backends: Backends,
        journal: Journal,
        timeouts: Timeouts,
        on_booted: Callable[[Server, BootedServer], None],
        on_day1: Callable[[str], None],
        on_installed: Callable[[str, str], None],
    ) -> None:
        """Prepare a run.

        Args:
            request: what to make.
            backends: access to VIMs and VCA.
            journal: where progress goes.
            timeouts: waiting times.
            on_booted: called from several threads when a server is up, to keep records.
            on_day1: called before the first primitive of an application, to keep records.
            on_installed: called with an application and the id of its execution environment.
        """
        self.request = request
        self.backends = backends
        self.journal = journal
        self.timeouts = timeouts
        self.board = Board()
        for (index, vdu, count), address in request.addresses.items():
            self.board.set_address(index, vdu, count, address)
        self.report = Report()
        self._on_booted = on_booted
        self._on_day1 = on_day1
        self._on_installed = on_installed

    def run(self) -> Report:
        """Run it. Every ``LcmError`` goes into the report; any other exception is raised."""
        self.journal.write("stage", "ns", STAGES[1])
        workers = 1 + len(self.request.environments)
        with ThreadPoolExecutor(workers, thread_name_prefix="lcm") as pool:
            tasks: list[tuple[str, Future[None]]] = [
                ("Deploying at VIM", pool.submit(self._deploy_at_vim))
            ]
            tasks += [
                (f"Deploying VCA {env.label}", pool.submit(self._environment, env))
                for env in self.request.environments
            ]
        for title, task in tasks:
            error = task.exception()
            if isinstance(error, LcmError):
                self.report.errors.append(f"{title}: {error}")
            elif error is not None:
                raise error
        return self.report

    # -- VIM ----------------------------------------------------------------------------------

    def _deploy_at_vim(self) -> None:
        try:
            public = self.backends.keys.make_key(self.request.ro_key)
            deployment = VimDeployment(
                self.backends,
                self.journal,
                self.request.ns_id,
                (public, *self.request.ssh_keys),
                self.timeouts.vm_ip,
            )
            deployment.run(self.request.plan, self.request.user_data, self._booted)
        except BaseException:
            self.report.vim_failed = True
            self.board.set_vim_failed()
            raise
        self.report.vms_ready = time.time()

    def _booted(self, server: Server, result: BootedServer) -> None:
        self._on_booted(server, result)
        index, vdu, count = server.member_vnf_index, server.vdu_id, server.count_index
        for port, address in zip(server.ports, result.addresses, strict=True):
            if address is None:
                continue
            reached = address.partition(";")[0]
            if port.management:
                self.board.set_address(index, vdu, count, reached)
            if port.management_vnf and count == 0:
                self.board.set_address(index, None, 0, reached)

    # -- execution environments -----------------------------------------------------------------

    def _environment(self, env: Environment) -> None:
        step = "preparing"
        try:
            for name, action in self._steps(env):
                step = name
                action()
        except BaseException as error:
            self.board.set_outcome(env.application, "BROKEN")
            self.report.broken.append(env.application)
            self._say(env, f"failed: {error}", state="BROKEN")
            if isinstance(error, LcmError):
                raise LcmError(f"{step}. {error}") from None
            raise
        self.board.set_outcome(env.application, "READY")

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
        vnf_id = self.request.vnf_ids.get(env.member_vnf_index or "", "")
        return connector(self.backends, env, self.request.ns_id, self.timeouts, vnf_id)

    def _install(self, env: Environment) -> None:
        self._say(env, "installing chart" if env.helm else "deploying charm")
        self._n2vc(env).install(env.application, self.request.charm_folder(env), env.num_units)
        self._on_installed(env.application, self._n2vc(env).environment(env.application))
        self.board.set_installed(env.application)

    def _relate(self, env: Environment) -> None:
        deadline = time.monotonic() + self.timeouts.relations
        for relation in self.request.relations:
            if env.application not in relation.applications:
                continue
            left = max(0.0, deadline - time.monotonic())
            if not self.board.wait_installed(relation.applications, left):
                raise LcmError("Relations could not be added to VCA.")
            # As in LCM both ends add it; the "already exists" of the second is no error.
            self._n2vc(env).relate(relation)
            if self.board.claim_relation(relation.name):
                self.journal.write(
                    "relation", relation.name, f"{relation.provider} - {relation.requirer}"
                )

    def _reach(self, env: Environment) -> None:
        values = self.request.parameters[env.application]
        if env.member_vnf_index is None:
            values["rw_mgmt_ip"] = None
            values["OSM"] = self.request.osm(env)
            return
        key = None
        if env.ssh_required:
            self._say(env, "making ssh key")
            key = self._n2vc(env).public_key(env.application)
        self._say(env, "waiting for the VM")
        address = self.board.wait_address(env, self.timeouts.vm_ip)
        if key is not None and env.ssh_user:
            self._inject(env, address, env.ssh_user, key)
        values["rw_mgmt_ip"] = address
        values["OSM"] = self.request.osm(env)

    def _inject(self, env: Environment, address: str, user: str, key: str) -> None:
        self._say(env, f"injecting ssh key at {user}@{address}")
        keys, ro_key = self.backends.keys, self.request.ro_key
        try:
            inject(keys, address, user, ro_key, key, self.timeouts)
        except LcmError as error:
            raise LcmError(f"Cannot inject ssh-key at {user}@{address}: {error}") from None
        # A VM is ready when a login works; it is ACTIVE long before.
        self.report.vms_ready = time.time()

    def _wait_below(self, env: Environment) -> None:
        if env.level == "vdu":
            return
        below = tuple(
            other.application
            for other in self.request.environments
            if other is not env
            and (
                env.level == "ns"
                or (other.member_vnf_index == env.member_vnf_index and other.level == "vdu")
            )
        )
        self.board.wait_outcomes(below, self.timeouts.dependent_vcas)

    def _primitive(
        self, env: Environment, primitive: Mapping[str, Any], number: int, total: int
    ) -> None:
        name, where = str(primitive["name"]), env.member_vnf_index or "ns"
        more = {"application": env.application, "number": number, "total": total}
        self.journal.write("primitive", where, name, **more)
        params = map_primitive_params(primitive, {}, self.request.parameters[env.application])
        if env.application not in self.report.day1_run:
            self.report.day1_run.append(env.application)
            self._on_day1(env.application)
        self._n2vc(env).primitive(env.application, name, params, self.timeouts.primitive)
        self.journal.write("primitive", where, name, **more, done=True)

    def _say(self, env: Environment, text: str, **more: Any) -> None:
        self.journal.write(
            "charm", env.member_vnf_index or "ns", text, application=env.application, **more
        )
