"""Whether what a service consists of runs: the records of its VMs, and READY or DEGRADED."""

from collections.abc import Mapping

from lab.descriptors.service import vnfrs_of
from lab.lcm.backends import Backends
from lab.records.store import NSRS, VNFRS, Document
from lab.vim.model import ACTIVE, ERROR, SHUTOFF, Server

STATES = {ACTIVE: "ACTIVE", SHUTOFF: "INACTIVE", ERROR: "ERROR"}  # Of a VM at a VIM, and in OSM.
_STEADY = ("READY", "DEGRADED")  # States of a service that these two replace each other in.


def servers(backends: Backends, vnfr: Document) -> dict[str, Server]:
    """Return the VMs of a VNF by their ids, as its VIM has them now."""
    vim = backends.vim(vnfr["vim-account-id"])
    return {v["vim-id"]: vim.server(v["vim-id"]) for v in vnfr["vdur"] if v["vim-id"]}


def faults(found: Mapping[str, Server]) -> list[str]:
    """Return why VMs do not run that nobody stopped."""
    return sorted({server.fault for server in found.values() if server.status == ERROR})


def note(backends: Backends, nsr: Document, failed: Mapping[str, str]) -> None:
    """Make a service DEGRADED while units are in error, or VDUs do not run that nobody stopped.

    OSM does so, too. The records of its VNFs get the states of its VMs. ``failed`` has the reason
    for each unit.
    """
    detail = "; ".join(f"{unit}: {reason}" for unit, reason in sorted(failed.items()))
    ended: dict[str, list[str]] = {}
    for index, vnfr in vnfrs_of(backends.store, nsr["_id"]).items():
        found = servers(backends, vnfr)
        _note_states(backends, vnfr, found)
        if reasons := faults(found):
            ended[index] = reasons
    if ended:
        words = " ".join(f"--vnf {index}" for index in sorted(ended))
        why = "; ".join(sorted({reason for reasons in ended.values() for reason in reasons}))
        detail = f"{why}: ns-heal {nsr['name']} {words} makes them anew"
    state = "DEGRADED" if detail else "READY"
    told = nsr["nsState"], nsr["errorDetail"] or ""
    if told == (state, detail) or nsr["nsState"] not in _STEADY:
        return
    with backends.store.edit(NSRS, nsr["_id"]) as record:
        if record["nsState"] in _STEADY and record["currentOperation"] == "IDLE":
            record["nsState"], record["errorDetail"] = state, detail or None


def _note_states(backends: Backends, vnfr: Document, found: Mapping[str, Server]) -> None:
    """Write into the record of a VNF in which states its VMs are, as RO does."""
    states = {key: STATES[each.status] for key, each in found.items() if each.status in STATES}
    if any(vdur["status"] != states.get(vdur["vim-id"], vdur["status"]) for vdur in vnfr["vdur"]):
        with backends.store.edit(VNFRS, vnfr["_id"]) as record:
            for vdur in record["vdur"]:
                vdur["status"] = states.get(vdur["vim-id"], vdur["status"])
