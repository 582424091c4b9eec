"""Small descriptors in OSM's flavour of SOL006, and fakes for VIM and VCA (tests of lab.lcm)."""

from __future__ import annotations

import copy
import dataclasses
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.errors import LcmError, WaitTimeoutError
from lab.vca.status import ModelStatus
from lab.vim.model import NetworkSpec, Port, Server, ServerSpec


def vnfd(vnfd_id: str = "a_vnf", *, day12: dict[str, Any] | None = None) -> dict[str, Any]:
    """A VNFD with one VDU, a management and a data interface, and a charm at VNF level."""
    entry: dict[str, Any] = {
        "id": vnfd_id,
        "execution-environment-list": [{"id": "vpn-ee", "juju": {"charm": "demo"}}],
        "config-access": {"ssh-access": {"required": True, "default-user": "ubuntu"}},
        "initial-config-primitive": [
            {
                "seq": 2,
                "name": "configure",
                "execution-environment-ref": "vpn-ee",
                "parameter": [{"name": "inner-address", "value": "<inner>"}],
            },
            {
                "seq": 1,
                "name": "config",
                "execution-environment-ref": "vpn-ee",
                "parameter": [
                    {"name": "ssh-hostname", "value": "<rw_mgmt_ip>"},
                    {"name": "ssh-username", "value": "ubuntu"},
                ],
            },
        ],
        "terminate-config-primitive": [
            {"seq": 1, "name": "stop-it", "execution-environment-ref": "vpn-ee"}
        ],
        "config-primitive": [
            {
                "name": "touch",
                "execution-environment-ref": "vpn-ee",
                "parameter": [
                    {"name": "file", "data-type": "STRING"},
                    {"name": "times", "data-type": "INTEGER", "default-value": "1"},
                ],
            }
        ],
    }
    entry.update(day12 or {})
    return {
        "id": vnfd_id,
        "product-name": vnfd_id,
        "mgmt-cp": "mgmt-ext",
        "vdu": [
            {
                "id": "box",
                "name": "box",
                "cloud-init-file": "cloud_init.txt",
                "sw-image-desc": "ubuntu",
                "virtual-compute-desc": "compute",
                "virtual-storage-desc": ["disk"],
                "int-cpd": [
                    {
                        "id": "data-int",
                        "port-security-enabled": False,
                        "virtual-network-interface-requirement": [{"name": "eth1", "position": 2}],
                    },
                    {
                        "id": "mgmt-int",
                        "virtual-network-interface-requirement": [{"name": "eth0", "position": 1}],
                    },
                ],
            }
        ],
        "ext-cpd": [
            {"id": "mgmt-ext", "int-cpd": {"vdu-id": "box", "cpd": "mgmt-int"}},
            {"id": "data-ext", "int-cpd": {"vdu-id": "box", "cpd": "data-int"}},
        ],
        "sw-image-desc": [{"id": "ubuntu", "name": "ubuntu22.04", "image": "ubuntu22.04"}],
        "virtual-compute-desc": [
            {
                "id": "compute",
                "virtual-cpu": {"num-virtual-cpu": 2},
                "virtual-memory": {"size": 1.5},
            }
        ],
        "virtual-storage-desc": [{"id": "disk", "size-of-storage": 10}],
        "df": [
            {
                "id": "default-df",
                "instantiation-level": [
                    {"id": "one", "vdu-level": [{"vdu-id": "box", "number-of-instances": 1}]}
                ],
                "vdu-profile": [{"id": "box", "min-number-of-instances": 1}],
                "lcm-operations-configuration": {"operate-vnf-op-config": {"day1-2": [entry]}},
            }
        ],
    }


def day12_of(descriptor: dict[str, Any]) -> list[dict[str, Any]]:
    """The list of day1-2 entries of a VNFD, to be changed in place."""
    config = descriptor["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]
    entries: list[dict[str, Any]] = config["day1-2"]
    return entries


def nsd(vnfd_id: str = "a_vnf", members: tuple[str, ...] = ("1", "2")) -> dict[str, Any]:
    """An NSD joining members on a management and a data link, with one relation."""

    def profile(index: str) -> dict[str, Any]:
        return {
            "id": index,
            "vnfd-id": vnfd_id,
            "virtual-link-connectivity": [
                {
                    "virtual-link-profile-id": link,
                    "constituent-cpd-id": [
                        {
                            "constituent-base-element-id": index,
                            "constituent-cpd-id": cpd,
                        }
                    ],
                }
                for link, cpd in (("mgmt", "mgmt-ext"), ("data", "data-ext"))
            ],
        }

    return {
        "id": "an_ns",
        "name": "an_ns",
        "vnfd-id": [vnfd_id],
        "virtual-link-desc": [{"id": "mgmt", "mgmt-network": True}, {"id": "data"}],
        "df": [
            {
                "id": "default-df",
                "vnf-profile": [profile(index) for index in members],
                "virtual-link-profile": [
                    {
                        "id": "data",
                        "virtual-link-desc-id": "data",
                        "virtual-link-protocol-data": {
                            "l3-protocol-data": {"cidr": "10.7.0.0/24", "ip-version": "ipv4"}
                        },
                    }
                ],
            }
        ],
        "ns-configuration": {
            "relation": [
                {
                    "name": "link",
                    "provider": {
                        "vnf-profile-id": "1",
                        "execution-environment-ref": "vpn-ee",
                        "endpoint": "server",
                    },
                    "requirer": {
                        "vnf-profile-id": "2",
                        "execution-environment-ref": "vpn-ee",
                        "endpoint": "client",
                    },
                }
            ]
        },
    }


def params(**more: Any) -> dict[str, Any]:
    """Instantiation parameters that satisfy the samples, as NBI stores them."""
    return {
        "nsName": "demo",
        "nsdId": "nsd",
        "vimAccountId": "vim1",
        "additionalParamsForVnf": [
            {"member-vnf-index": "1", "additionalParams": {"inner": "172.16.0.1/24"}},
            {"member-vnf-index": "2", "additionalParams": {"inner": "172.16.0.2/24"}},
        ],
        **more,
    }


class Log:
    """What the fakes were asked to do, in order, from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.entries: list[tuple[str, ...]] = []

    def add(self, *words: str) -> None:
        with self._lock:
            self.entries.append(words)

    def index(self, *words: str) -> int:
        for position, entry in enumerate(self.entries):
            if entry[: len(words)] == words:
                return position
        raise AssertionError(f"{words} not in {self.entries}")

    def of(self, word: str) -> list[tuple[str, ...]]:
        return [entry for entry in self.entries if entry[0] == word]


class FakeVim:
    """Servers have the key of their plan as id."""

    def __init__(self, log: Log, gate: threading.Event) -> None:
        self.log, self.gate = log, gate
        self.fail_server: str | None = None
        self.fail_creation: str | None = None
        self.ended: dict[str, str] = {}
        """Why servers ended after they were ACTIVE."""
        self.nets = [SimpleNamespace(id="mgmt-id", name="mgmtnet", tag="")]
        self.made: dict[str, Server] = {}
        self.user_data: dict[str, str | None] = {}
        self.ssh_keys: dict[str, tuple[str, ...]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def networks(self) -> list[SimpleNamespace]:
        return self.nets

    def management_network(self) -> SimpleNamespace:
        return self.nets[0]

    def create_network(self, spec: NetworkSpec, tag: str, once: bool = False) -> SimpleNamespace:
        self.log.add("network", spec.name, tag)
        self.nets.append(SimpleNamespace(id=f"net-{spec.name}", name=spec.name, tag=tag))
        return self.nets[-1]

    def create_server(self, spec: ServerSpec, tag: str) -> Server:
        key = "/".join(spec.name.split("-")[-3:])
        if self.fail_creation == key:
            raise LcmError("No space left on device.")
        self.user_data[key] = spec.user_data
        self.log.add("server", spec.name, tag)
        return self._make(key, spec, tag)

    def _make(self, server_id: str, spec: ServerSpec, tag: str) -> Server:
        self.ssh_keys[server_id.rstrip("+")] = spec.ssh_keys
        with self._lock:
            self._count += 1
            number = self._count
        ports = tuple(
            Port(
                str(index),
                port.network_id,
                f"ens{index}",
                f"p{index}",
                port.ip or f"10.{(250, 7)[index]}.0.{number}",
                port.mac or f"02:00:00:00:{index:02}:{number:02}",
                port.port_security,
            )
            for index, port in enumerate(spec.ports)
        )
        self.made[server_id] = Server(
            server_id, spec.name, spec.hostname, tag, spec.image, "BUILD", ports
        )
        return self.made[server_id]

    def wait_active(self, server_id: str, timeout: float) -> Server:
        assert self.gate.wait(120)
        if self.fail_server == server_id:
            raise LcmError("No valid host was found.")
        self.log.add("active", server_id)
        return self.made[server_id]

    def servers(self, tag: str | None = None) -> list[Server]:
        return [server for server in self.made.values() if tag in (None, server.tag)]

    def server(self, server_id: str) -> Server:
        if server_id not in self.made:
            raise LcmError(f"Instance {server_id} could not be found.")
        server = self.made[server_id]
        if server_id not in self.ended:
            return server
        return dataclasses.replace(server, status="ERROR", fault=self.ended[server_id])

    def replace_server(self, server_id: str, spec: ServerSpec, tag: str, same: bool) -> Server:
        del self.made[server_id]
        self.log.add("recreate", server_id, str(same))
        return self._make(f"{server_id}+", spec, tag)

    def start(self, server_id: str) -> Server:
        self.log.add("start-server", server_id)
        return self.made[server_id]

    def stop(self, server_id: str) -> Server:
        self.log.add("stop-server", server_id)
        return self.made[server_id]

    def delete_server(self, server_id: str) -> None:
        if self.made.pop(server_id, None):
            self.log.add("delete-server", server_id)

    def delete_tag(self, tag: str) -> None:
        self.log.add("delete-tag", tag)

    def destroy(self) -> None:
        self.log.add("destroy")


def outcome(status: str, results: dict[str, Any] | None = None, message: str = "") -> Any:
    """How an action ended."""
    return SimpleNamespace(status=status, results=results or {}, message=message)


class FakeModel:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.uuid = ""
        self.statuses: dict[str, tuple[str, str]] = {}
        self.deploy_status = ("active", "ready")
        self.declared = {"verify-ssh-credentials"}
        self.outcomes: dict[tuple[str, str], list[Any]] = {}
        self.config: dict[str, dict[str, Any]] = {}
        self.relation_error: str | None = None
        self.failed: dict[str, str] = {}

    def __enter__(self) -> FakeModel:
        self.log.add("start")
        return self

    def __exit__(self, *_: object) -> None:
        self.log.add("stop")

    def deploy(self, application: str, charm: Path, num_units: int) -> None:
        self.log.add("deploy", application, charm.name, str(num_units))
        self.statuses[application] = self.deploy_status

    def status(self) -> Any:
        deployed = [words[1] for words in self.log.of("deploy")]
        statuses = dict(self.statuses)
        fake = SimpleNamespace(
            applications={
                name: SimpleNamespace(status=status, message=message, units={})
                for name, (status, message) in statuses.items()
            },
            units={
                f"{name}/0": SimpleNamespace(name=f"{name}/0", machine=deployed.index(name))
                for name in statuses
            },
            failed=self.failed,
        )
        fake.said = partial(ModelStatus.said, fake)
        return fake

    def upgrade_charm(self, application: str, charm: Path) -> None:
        self.log.add("upgrade", application, charm.name)

    def remove_application(self, application: str) -> None:
        self.log.add("remove", application)
        del self.statuses[application]

    def wait_for(self, predicate: Any, timeout: float, app: str) -> None:
        if not predicate(self.status()):
            raise WaitTimeoutError(f"no end after {timeout:g} s")

    def set_config(self, application: str, options: Any) -> None:
        self.config.setdefault(application, {}).update(options)
        self.log.add("config", application)

    def add_relation(self, one: str, other: str) -> None:
        self.log.add("relation", one, other)
        if self.relation_error is not None:
            raise LcmError(self.relation_error)

    def run_action(self, application: str, name: str, params: Any, timeout: float) -> Any:
        self.log.add("action", application, name, repr(dict(params)))
        queue = self.outcomes.get((application, name)) or self.outcomes.get(("*", name))
        if queue:
            return queue.pop(0) if len(queue) > 1 else queue[0]
        if name == "get-ssh-public-key":
            return outcome("completed", {"pubkey": f"ssh-rsa KEY-{application}"})
        return outcome("completed", {"output": f"{name} done"})

    def actions(self, application: str) -> set[str]:
        return self.declared

    def wait_idle(self, timeout: float) -> None:
        self.log.add("idle")

    def subscribe(self, callback: Any) -> None:
        pass


class FakeKeys:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.failures = 0

    def make_key(self, path: Path) -> str:
        return "ssh-rsa RO"

    def inject(self, address: str, user: str, private_key: Path, public_key: str) -> None:
        self.log.add("inject", user, address, public_key)
        if self.failures:
            self.failures -= 1
            raise LcmError("Permission denied (publickey).")


class FakeBackends:
    def __init__(self, store: Any = None) -> None:
        self.store = store
        self.log = Log()
        self.gate = threading.Event()
        self.gate.set()
        self.the_vim = FakeVim(self.log, self.gate)
        self.the_model = FakeModel(self.log)
        self.keys = FakeKeys(self.log)

    def vim(self, vim_account: str) -> FakeVim:
        return self.the_vim

    def destroy_pods(self, ns_id: str) -> None:
        pass

    def model(self, ns_id: str) -> FakeModel:
        self.the_model.uuid = ns_id
        return self.the_model

    def destroy_model(self, ns_id: str) -> None:
        self.log.add("destroy-model")
        self.the_model.statuses.clear()


def changed(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A deep copy with top-level keys replaced."""
    return {**copy.deepcopy(value), **more}
