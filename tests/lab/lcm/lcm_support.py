"""A service of fakes, whose operations run in this process."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

from support.lcm_fakes import FakeBackends, day12_of, nsd, params, vnfd

from lab.descriptors import service as model
from lab.lcm.timeouts import Timeouts
from lab.lcm.work import Work
from lab.lcm.worker import perform
from lab.nbi.new_records import new_nsr, new_operation, new_vnfrs
from lab.records.ids import admin
from lab.records.journal import Journal
from lab.records.store import NSDS, NSRS, OPS, VIMS, VNFDS, VNFRS, Document, Store

APP1, APP2 = "vpn-ee-z0-z1-vnf", "vpn-ee-z0-z2-vnf"

# Generous where a slow machine must not fail a test, short where a test waits for the end.
FAST = dataclasses.replace(
    Timeouts().scaled(0.01), verify_interval=0.005, inject_interval=0.005, inject_key=1.0
)


class World:
    """A store with the samples onboarded and a service recorded."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.backends = FakeBackends(self.store)
        self.journal = Journal(home / "events.jsonl")
        self.descriptor = vnfd()
        self.nsd = nsd()
        self.request = params()
        self.timeouts = FAST
        self.aborted: list[int] = []

    def record(self) -> Document:
        store = self.store
        store.put(VIMS, {"_id": "vim1", "name": "north", "_admin": admin()})
        for kind, key, descriptor in ((VNFDS, "v", self.descriptor), (NSDS, "n", self.nsd)):
            folder = store.root / "packages" / key / "pkg"
            (folder / "charms" / "demo").mkdir(parents=True, exist_ok=True)
            (folder / "cloud_init").mkdir(exist_ok=True)
            (folder / "cloud_init" / "cloud_init.txt").write_text(
                "#cloud-config\n# {{ inner }} {{ OSM.vnf_id }}\n"
            )
            store.put(
                kind,
                {
                    "_id": key,
                    "id": descriptor["id"],
                    "name": descriptor["id"],
                    "descriptor": descriptor,
                    "folder": f"packages/{key}/pkg",
                    "_admin": {**admin(), "revision": 1, "revisions": {}},
                },
            )
        nsd_document = store.get(NSDS, "n")
        self.nsr = new_nsr(self.request, nsd_document)
        svc = model.service(self.nsr, store)
        vnfrs = new_vnfrs(self.nsr, svc.vnfds, svc.plan, self.request)
        self.nsr["constituent-vnfr-ref"] = [record["_id"] for record in vnfrs]
        store.put(NSRS, self.nsr)
        for record in vnfrs:
            store.put(VNFRS, record)
        operation = new_operation(self.nsr, "instantiate", self.request)
        store.put(OPS, operation)
        return operation

    def run(self, operation: Document | None = None) -> str:
        operation = operation or self.record()
        self.operation = operation
        work = Work(self.store, self.backends, self.timeouts, self.journal, self.aborted.append)
        return perform(work, operation["_id"])

    def start(self, kind: str, **values: Any) -> str:
        operation = new_operation(self.nsr, kind, values)
        self.store.put(OPS, operation)
        return self.run(operation)

    @property
    def ns(self) -> Document:
        return self.store.get(NSRS, self.nsr["_id"])

    @property
    def states(self) -> tuple[str, str, str]:
        ns = self.ns
        return ns["nsState"], ns["operational-status"], ns["config-status"]

    def touch(self) -> str:
        """Run the action of the first VNF."""
        given = {"primitive": "touch", "primitive_params": {"file": "x"}, "member_vnf_index": "1"}
        return self.start("action", **given)

    def add_vdu_environment(self) -> None:
        """Give the VDU an environment of its own, as its VNF has one."""
        box = copy.deepcopy(day12_of(self.descriptor)[0])
        box["id"] = "box"
        box["execution-environment-list"][0]["id"] = "box-ee"
        for primitive in box["initial-config-primitive"]:
            primitive["execution-environment-ref"] = "box-ee"
        day12_of(self.descriptor).append(box)

    @property
    def op(self) -> Document:
        return self.store.get(OPS, self.operation["_id"])

    @property
    def log(self) -> Any:
        return self.backends.log
