"""Network slices as OSM's LCM runs them: links first, then all network services side by side.

A slice consists of network services with links between them. LCM gives each link (netslice-vld) an
id. It writes the id into the parameters of every service at an end of the link. RO makes one
network for each id. Like OSM, the lab does not read the slice's S-NSSAI and quality-of-service.

Source: OSM 19, LCM ``netslice.py``, NBI ``instance_topics.py``.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lab.errors import LcmError
from lab.lcm.work import Work
from lab.records import jobs
from lab.records.operations import SLICE_ENDING, end_slice_operation, fail_operation, remove_slice
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, VIMS, Document, Store

_POLL = 0.2


def link_id(nsi_id: str, name: str) -> str:
    """Return the id LCM gives to a link of a slice."""
    return f"nsir:{nsi_id}:vld.{name}"


def deployed_links(nsi: Document, others: Iterable[Document]) -> list[dict[str, Any]]:
    """Return the links of a slice with their ids; ``others`` are all slices, oldest first.

    If a link ends in a shared service of an older slice, and that slice has a link of the same
    name, both links are one: the shared service has only one port for it. The older slice may
    still be starting, without recorded ids; then its id is computed. An id that the slice has
    already, because it inherited the link, stays.
    """
    older = itertools.takewhile(lambda other: other["_id"] != nsi["_id"], others)
    known_slices = [*older, nsi]
    links = []
    for vld in nsi["_admin"]["netslice-vld"]:
        scenario = link_id(nsi["_id"], vld["name"])
        for other in known_slices:
            users = {n["nsrId"] for n in other["_admin"]["nsrs-detailed-list"]}
            names = {link["name"] for link in other["_admin"]["netslice-vld"]}
            if vld["name"] not in names or not users & set(vld["shared-nsrs-list"]):
                continue
            known = {ro["vld_id"]: ro for ro in other["_admin"]["deployed"]["RO"]}
            network = known.get(vld["name"], {}).get("netslice_scenario_id")
            scenario = network or link_id(other["_id"], vld["name"])
            break
        links.append({"vld_id": vld["name"], "netslice_scenario_id": scenario})
    return links


def service_links(
    nsi: Document, nss_id: str, nsd: Mapping[str, Any], params: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the parameter ``vld`` of a service in a slice, as LCM writes it.

    LCM replaces the whole list by the links the slice connects. The ``ip-profile`` and the network
    names of all other links are lost, so their subnets must be in the NSD. Fixed addresses stay,
    because NBI has copied them into the VNF records before.
    """
    given = {link["name"]: dict(link) for link in params.get("vld") or ()}
    slice_params = {
        link["name"]: {key: value for key, value in link.items() if key != "name"}
        for link in nsi["instantiation_parameters"].get("netslice-vld") or ()
    }
    saps = {sap["id"]: sap.get("virtual-link-desc") for sap in nsd.get("sapd") or ()}
    templates = {vld["id"]: vld for vld in nsi["_admin"]["netslice-vld"]}
    connected: dict[str, dict[str, Any]] = {}
    for deployed in nsi["_admin"]["deployed"]["RO"]:
        template = templates.get(deployed["vld_id"], {})
        for point in template.get("nss-connection-point-ref") or ():
            link = saps.get(point["nsd-connection-point-ref"])
            if point["nss-ref"] == nss_id and link is not None:
                connected[link] = {
                    **given.get(link, {}),
                    "name": link,
                    "common_id": deployed["netslice_scenario_id"],
                    **slice_params.get(deployed["vld_id"], {}),
                }
    addresses = "vnfd-connection-point-ref"
    rest = [
        {"name": name, addresses: link[addresses]}
        for name, link in given.items()
        if name not in connected and link.get(addresses)
    ]
    return [*connected.values(), *rest]


def _vims(nsi: Document) -> set[str]:
    """Return the VIM accounts of a slice and its services."""
    params = nsi["_admin"]["netslice-subnet"]
    given = [*params, *(vnf for each in params for vnf in each.get("vnf") or ())]
    return {nsi["datacenter"], *(p["vimAccountId"] for p in given if p.get("vimAccountId"))}


class SliceOperations:
    """Runs the operations of slices from their documents."""

    def __init__(self, work: Work, start: Callable[[Store, Document], object] = jobs.start) -> None:
        """``start`` starts a worker for a service."""
        self.work = work
        self.store = work.store
        self._start = start

    def run(self, op_id: str) -> str:
        """Run the operation and return its final state, ``COMPLETED`` or ``FAILED``."""
        operation = self.store.get(NSIOPS, op_id)
        kind = operation["lcmOperationType"]
        handler = {"instantiate": self._instantiate, "terminate": self._terminate}[kind]
        try:
            return handler(operation)
        except LcmError as error:
            return self._end(operation, str(error))

    # -- instantiate --------------------------------------------------------------------------

    def _instantiate(self, operation: Document) -> str:
        nsi_id = operation["netsliceInstanceId"]
        self._state(nsi_id, "init", "Instantiating netslice VLDs before NS instantiation")
        with self.store.lock(NSIS):
            nsi = self.store.get(NSIS, nsi_id)
            nsi["_admin"]["deployed"]["RO"] = deployed_links(nsi, self.store.all(NSIS))
            self.store.put(NSIS, nsi)
        self._state(nsi_id, "init", "Instantiating netslice subnets")
        own = []
        for op_id in operation["operationParams"]["nslcmops_ids"]:
            step = self.store.readable(OPS, op_id)
            # The operation of a shared service belongs to the slice that made it.
            if step is None or step["operationParams"].get("netsliceInstanceId") != nsi_id:
                continue
            self._give_links(nsi, step)
            own.append(op_id)
        for op_id in own:
            self._start(self.store, self.store.get(OPS, op_id))
        given = operation["operationParams"].get("timeout_nsi_deploy")
        limit = float(given or self.work.timeouts.ns_deploy)
        failures = self._wait(nsi_id, operation["operationParams"]["nslcmops_ids"], limit)
        state = self._end(operation, "; ".join(failures))
        self._wait_workers(own)
        self.work.journal.write("settled", "nsi", "all services idle", idle=True)
        return state

    def _give_links(self, nsi: Document, step: Document) -> None:
        nsr_id = step["nsInstanceId"]
        nss_id = next(
            n["nss-id"] for n in nsi["_admin"]["nsrs-detailed-list"] if n["nsrId"] == nsr_id
        )
        with self.store.edit(NSRS, nsr_id) as nsr:
            params = nsr["instantiate_params"]
            params["vld"] = service_links(nsi, nss_id, nsr["nsd"], params)
        with self.store.edit(OPS, step["_id"]) as document:
            document["operationParams"]["vld"] = nsr["instantiate_params"]["vld"]

    # -- terminate ----------------------------------------------------------------------------

    def _terminate(self, operation: Document) -> str:
        nsi_id = operation["netsliceInstanceId"]
        params = operation["operationParams"]
        self._state(nsi_id, "terminating", "Terminating Netslice Subnets")
        nsi = self.store.get(NSIS, nsi_id)
        steps = params["nslcmops_ids"]
        for op_id in steps:
            step = self.store.readable(OPS, op_id)
            if step is not None:
                self._start(self.store, step)
        failures = self._wait(nsi_id, steps, self.work.timeouts.ns_deploy)
        self._wait_workers(steps)
        failures += self._delete_links(nsi, leave=not failures or bool(params.get("force")))
        if failures and not params.get("force"):
            return self._end(operation, "; ".join(failures))
        remove_slice(self.store, nsi_id)
        self.work.journal.write("end", "nsi", "Done", state="COMPLETED", detail="Done")
        self.work.journal.write("settled", "nsi", "deleted", idle=True)
        return "COMPLETED"

    def _delete_links(self, nsi: Document, leave: bool) -> list[str]:
        """Delete the networks of the slice that no other slice uses; return what went wrong.

        VIMs that the slice does not use are asked too: a link of several slices may have a network
        there. Failures at other VIMs are ignored.
        """
        used = self._used_links(nsi, leave)
        own = _vims(nsi)
        failures = []
        for deployed in nsi["_admin"]["deployed"]["RO"]:
            scenario = deployed["netslice_scenario_id"]
            if scenario in used:
                continue
            for vim in self.store.all(VIMS):
                try:
                    self.work.backends.vim(vim["_id"]).delete_tag(scenario)
                except LcmError as error:
                    if vim["_id"] in own:
                        failures.append(f"netslice-vld {deployed['vld_id']}: {error}")
        return failures

    def _used_links(self, nsi: Document, leave: bool) -> set[str]:
        """Return the ids of the links that other slices use; note if this one leaves its own.

        Two slices may end together: the second sees the first's mark. A slice that has no ids yet
        takes the shared links over.
        """
        own = {ro["netslice_scenario_id"] for ro in nsi["_admin"]["deployed"]["RO"]}
        used: set[str] = set()
        with self.store.lock(NSIS):
            slices = self.store.all(NSIS)
            for other in slices:
                deployed = other["_admin"]["deployed"]
                if other["_id"] == nsi["_id"]:
                    continue
                if not deployed["RO"] and other["operational-status"] not in SLICE_ENDING:
                    links = deployed_links(other, slices)
                    deployed["RO"] = [ro for ro in links if ro["netslice_scenario_id"] in own]
                    self.store.put(NSIS, other)
                used |= {ro["netslice_scenario_id"] for ro in deployed["RO"] if not ro.get("left")}
            if leave:
                record = self.store.get(NSIS, nsi["_id"])
                for ro in record["_admin"]["deployed"]["RO"]:
                    ro["left"] = True
                self.store.put(NSIS, record)
        return used

    # -- both ---------------------------------------------------------------------------------

    def _wait(self, nsi_id: str, op_ids: Sequence[str], limit: float) -> list[str]:
        """Wait until operations on services have ended; return what failed."""
        deadline = time.monotonic() + limit
        states: dict[str, str] = {}
        failures: dict[str, str] = {}
        names = {n["_id"]: n["name"] for n in self.store.all(NSRS)}
        while len(states) < len(set(op_ids)):
            for op_id in set(op_ids) - set(states):
                step = self.store.readable(OPS, op_id)
                if step is None:  # the termination of a service deletes its operations
                    states[op_id] = "COMPLETED"
                    continue
                if step["operationState"] == "PROCESSING":
                    if not jobs.lost(self.store, step):
                        continue
                    fail_operation(self.store, step, jobs.ending(self.store, step))
                    step = self.store.get(OPS, op_id)
                states[op_id] = step["operationState"]
                name = str(names.get(step["nsInstanceId"], step["nsInstanceId"]))
                if states[op_id] in ("FAILED", "FAILED_TEMP"):
                    failures[op_id] = f"NS {name} {states[op_id]}: {step['errorMessage']}"
                self.work.journal.write("ns", name, f"{step['lcmOperationType']} {states[op_id]}")
                self._note(nsi_id, step)
            if time.monotonic() > deadline:
                return [*failures.values(), "Timeout waiting nsi to be ready."]
            time.sleep(_POLL)
        return list(failures.values())

    def _wait_workers(self, op_ids: Sequence[str]) -> None:
        """Wait until the workers end: after an operation they still wait for idle charms."""
        deadline = time.monotonic() + self.work.timeouts.settle
        while time.monotonic() < deadline:
            steps = [self.store.readable(OPS, op_id) for op_id in op_ids]
            if not any(step is not None and jobs.alive(step) for step in steps):
                break
            time.sleep(_POLL)

    def _note(self, nsi_id: str, step: Document) -> None:
        if self.store.readable(NSIS, nsi_id) is not None:
            with self.store.edit(NSIS, nsi_id) as nsi:
                for entry in nsi["_admin"]["nsrs-detailed-list"]:
                    if entry["nsrId"] == step["nsInstanceId"]:
                        entry["status"] = step["operationState"]
                        entry["detailed-status"] = step["detailed-status"]
                        entry["instantiated"] = True

    def _state(self, nsi_id: str, operational: str, detail: str) -> None:
        with self.store.edit(NSIS, nsi_id) as nsi:
            nsi["_admin"]["nsiState"] = "INSTANTIATED"
            nsi["operational-status"] = operational
            nsi["config-status"] = "terminating" if operational == "terminating" else "init"
            nsi["detailed-status"] = detail
        self.work.journal.write("stage", "nsi", detail)

    def _end(self, operation: Document, error: str) -> str:
        state = end_slice_operation(self.store, operation, error)
        self.work.journal.write("end", "nsi", error or "Done", state=state, detail=error or "Done")
        if error and operation["lcmOperationType"] == "terminate":
            self.work.journal.write("settled", "nsi", "failed", idle=True)
        return state
