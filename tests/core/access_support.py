"""A gateway of devices on the model of a VDU: its charm, with a store instead of Juju."""

from __future__ import annotations

import json
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from support.model import ModelVdu
from support.model_world import World, public_of
from vpnaas import actions
from vpnaas.charm import Charm
from vpnaas.environment import Environment
from vpnaas.features import access
from vpnaas.kinds.access import ACCESS

NOW = 1_800_000_000


KEYS = [f"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{letter}E=" for letter in "ABCDEFGH"]


LINK = {
    "link": "access",
    "inner-address": "172.16.61.1/29",
    "underlay-interface": "ens4",
    "allowed-prefixes": "10.254.2.0/24",
}


class Store(Environment):
    """An execution environment without relations."""

    actions = frozenset({"configure-gateway"})
    status = (False, "")

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self._disk = TemporaryDirectory()
        self.folder = self._disk.name

    def endpoints(self, interface):
        return {"access": "provider"}

    def option(self, name):
        return {"ssh-hostname": "10.0.0.1", "ssh-username": "ubuntu"}.get(name, "")

    def set_status(self, blocked, text):
        self.status = (blocked, text)

    def related(self, endpoint):
        return []

    published = related
    relation_ids = related

    def tell(self, endpoint, relation_id, answer):
        raise AssertionError("nobody is related")

    def stored(self, key):
        return self.kept.get(key, "")

    def store(self, key, value):
        self.kept[key] = value

    def settled(self):
        return self.kept.get("settled", "")

    def settle(self, digest):
        self.kept["settled"] = digest

    def announce(self, key):
        raise AssertionError("there is no other unit")


class Reached(ModelVdu):
    """The model of a VDU as the charm's edge sees one."""

    host_key = ""

    def require_shell(self):
        """Its shell runs what it is told."""

    def execute(self, steps, exclusive=True):
        return super().execute(list(steps))


class Access:
    """The charm, a new process for each action."""

    def __init__(self) -> None:
        nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.60.1/24", "ens5": "10.254.2.250/24"}
        self.vdu = Reached(World(), nics)
        self.vdu.world.clock = NOW
        self.environment = Store()
        self.reachable = True

    def charm(self) -> Charm:
        charm = Charm(ACCESS, self.environment)

        @contextmanager
        def vdu():
            if not self.reachable:
                raise access.InputError("the VDU", "it does not answer", "one that does")
            yield self.vdu

        charm.vdu = vdu
        return charm

    def run(self, action, **params):
        """Run an action that must work; return its answer."""
        answer = actions.run(
            self.charm(), action, {k.replace("_", "-"): v for k, v in params.items()}
        )
        assert not answer.failed, answer.failed
        return json.loads(answer.results["output"])

    def refused(self, action, **params) -> str:
        """Run an action that must fail, with a sentence; return it."""
        before = self.environment.stored("intent"), self.table(), dict(self.vdu.files)
        answer = actions.run(
            self.charm(), action, {k.replace("_", "-"): v for k, v in params.items()}
        )
        assert answer.failed
        assert len(answer.failed.splitlines()) == 1
        assert (self.environment.stored("intent"), self.table(), dict(self.vdu.files)) == before
        return answer.failed

    def table(self) -> dict[str, str]:
        """Return who may come in, and with which addresses."""
        interface = self.vdu.interfaces.get("wg-access")
        if interface is None:
            return {}
        return {key: ",".join(map(str, peer.allowed)) for key, peer in interface.peers.items()}

    def enrol(self, name: str, index: int, **params):
        return self.run("enrol-device", name=name, public_key=KEYS[index], **params)


def own_key(vnf: Access) -> str:
    return public_of(vnf.vdu.interfaces["wg-access"].private)
