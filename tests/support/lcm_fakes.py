"""Small descriptors in OSM's flavour of SOL006, and fakes for VIM and VCA (tests of lab.lcm)."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

from lab.errors import LcmError
from lab.lcm.backends import ActionOutcome, BootedServer


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


class FakeCloud:
    def __init__(self, log: Log, gate: threading.Event) -> None:
        self.log, self.gate = log, gate
        self.fail_server: str | None = None
        self.fail_creation: str | None = None
        self.named = {"mgmtnet": ["mgmt-id"]}
        self.user_data: dict[str, str | None] = {}
        self.ssh_keys: dict[str, tuple[str, ...]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def find_networks(self, name: str) -> list[str]:
        return self.named.get(name, [])

    def management_network(self) -> str:
        return "mgmt-id"

    def create_network(self, network: Any, tag: str) -> str:
        self.log.add("network", network.name, tag)
        return f"net-{network.name}"

    def create_server(
        self, server: Any, networks: Any, user_data: Any, ssh_keys: Any, tag: str
    ) -> str:
        if self.fail_creation == server.key:
            raise LcmError("No space left on device.")
        self.user_data[server.key] = user_data
        self.ssh_keys[server.key] = tuple(ssh_keys)
        self.log.add("server", server.name, tag)
        return str(server.key)

    def wait_active(self, server_id: str, timeout: float) -> BootedServer:
        assert self.gate.wait(120)
        if self.fail_server == server_id:
            raise LcmError("No valid host was found.")
        with self._lock:
            self._count += 1
            number = self._count
        self.log.add("active", server_id)
        return BootedServer(server_id, (f"10.250.0.{number}", f"10.7.0.{number}"))

    def has_server(self, server_id: str | None, name: str, tag: str) -> bool:
        return server_id is not None

    def own_networks(self, tag: str) -> dict[str, str]:
        return {name: f"net-{name}" for _, name, owner in self.log.of("network") if owner == tag}

    def networks_of(self, server_id: str) -> list[str]:
        return ["mgmt-id", "net-data"]

    def recreate_server(
        self, server_id: str, server: Any, user_data: Any, ssh_keys: Any, tag: str, same: bool
    ) -> str:
        self.ssh_keys[server.key] = tuple(ssh_keys)
        self.log.add("recreate", server_id, str(same))
        return f"{server_id}+"

    def start_server(self, server_id: str) -> None:
        self.log.add("start-server", server_id)

    def stop_server(self, server_id: str) -> None:
        self.log.add("stop-server", server_id)

    def delete_server(self, server_id: str) -> None:
        self.log.add("delete-server", server_id)

    def delete_tag(self, tag: str) -> None:
        self.log.add("delete-tag", tag)


class FakeCharms:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.status: dict[str, tuple[str, str]] = {}
        self.deploy_status = ("active", "ready")
        self.actions = {"verify-ssh-credentials"}
        self.outcomes: dict[tuple[str, str], list[ActionOutcome]] = {}
        self.config: dict[str, dict[str, Any]] = {}
        self.relation_error: str | None = None
        self.failed: dict[str, str] = {}
        self.listener: Any = None

    def start(self) -> None:
        self.log.add("start")

    def stop(self) -> None:
        self.log.add("stop")

    def deploy(self, application: str, charm: Path, units: int) -> None:
        self.log.add("deploy", application, charm.name, str(units))
        self.status[application] = self.deploy_status

    def application_status(self, application: str) -> tuple[str, str]:
        if application not in self.status:
            raise LcmError(f"application {application} not found")
        return self.status[application]

    def upgrade(self, application: str, charm: Path) -> None:
        self.log.add("upgrade", application, charm.name)

    def remove(self, application: str, timeout: float) -> None:
        self.log.add("remove", application)
        self.status.pop(application, None)

    def machine(self, application: str) -> str:
        deployed = [words[1] for words in self.log.of("deploy")]
        return str(deployed.index(application)) if application in deployed else "0"

    def set_config(self, application: str, options: Any) -> None:
        self.config.setdefault(application, {}).update(options)
        self.log.add("config", application)

    def add_relation(self, one: str, other: str) -> None:
        self.log.add("relation", one, other)
        if self.relation_error is not None:
            raise LcmError(self.relation_error)

    def run_action(self, application: str, name: str, params: Any, timeout: float) -> ActionOutcome:
        self.log.add("action", application, name, repr(dict(params)))
        queue = self.outcomes.get((application, name)) or self.outcomes.get(("*", name))
        if queue:
            return queue.pop(0) if len(queue) > 1 else queue[0]
        if name == "get-ssh-public-key":
            return ActionOutcome(True, {"pubkey": f"ssh-rsa KEY-{application}"})
        return ActionOutcome(True, {"output": f"{name} done"})

    def has_action(self, application: str, name: str) -> bool:
        return name in self.actions

    def wait_idle(self, timeout: float) -> bool:
        self.log.add("idle")
        return True

    def failed_units(self) -> dict[str, str]:
        return self.failed

    def subscribe(self, callback: Any) -> None:
        self.listener = callback

    def destroy(self) -> None:
        self.log.add("destroy-model")
        self.status.clear()


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


class FakePods:
    """No cluster."""

    def destroy(self) -> None:
        pass


class FakeBackends:
    def __init__(self) -> None:
        self.log = Log()
        self.gate = threading.Event()
        self.gate.set()
        self.the_cloud = FakeCloud(self.log, self.gate)
        self.the_charms = FakeCharms(self.log)
        self.keys = FakeKeys(self.log)

    def cloud(self, vim_account: str) -> FakeCloud:
        return self.the_cloud

    def pods(self, ns_id: str) -> FakePods:
        return FakePods()

    def charms(self, ns_id: str) -> FakeCharms:
        return self.the_charms


def changed(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A deep copy with top-level keys replaced."""
    return {**copy.deepcopy(value), **more}
