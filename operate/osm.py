"""Services, slices and day-2 primitives of an OSM: start operations over its API and wait."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from operate.client import (
    Client,
    Instance,
    OperateError,
    Params,
    going_on,
    understood,
    waited,
)
from operate.nbi import Document, Nbi, Refused

VNFDS, NSDS, NSTS = (
    "/vnfpkgm/v1/vnf_packages",
    "/nsd/v1/ns_descriptors",
    "/nst/v1/netslice_templates",
)
SERVICES, SLICES = "/nslcm/v1/ns_instances_content", "/nsilcm/v1/netslice_instances_content"
NS_OPERATIONS, NSI_OPERATIONS = "/nslcm/v1/ns_lcm_op_occs", "/nsilcm/v1/nsi_lcm_op_occs"
OPERATIONS = {SERVICES: NS_OPERATIONS, SLICES: NSI_OPERATIONS}
INSTANCES = "/nslcm/v1/ns_instances"
VIMS = "/admin/v1/vim_accounts"


def charms_of(service: Document) -> Iterator[tuple[str, Instance]]:
    """Yield the member-vnf-index of each charm of a VNF of a service, and its instance."""
    for vca in (service.get("_admin") or {}).get("deployed", {}).get("VCA") or ():
        member, vdu = vca.get("member-vnf-index"), vca.get("vdu_id")
        instance = (str(vdu), int(vca.get("vdu_count_index") or 0)) if vdu else None
        if member:
            yield str(member), instance


@dataclass(eq=False)
class Osm:
    """Operations of an OSM."""

    nbi: Nbi  # Session.
    limit: float = 3600.0  # Seconds an operation may take.
    # Gets a line every ten seconds of an operation, with the stage from OSM.
    tell: Callable[[str], object] = lambda _: None

    # -- records ---------------------------------------------------------------------------------

    def required(self, place: str, **fields: str) -> Document:
        """Return the entry of a list that has these values."""
        record = self.nbi.find(place, **fields)
        if record is None:
            raise OperateError(f"OSM has no {', '.join(fields.values())} in {place}")
        return record

    def members(self, service: str) -> list[Document]:
        """Return the VNF records of a service, given its id."""
        members: list[Document] = self.nbi.get(f"/nslcm/v1/vnfrs?nsr-id-ref={service}")
        return members

    @understood("OSM")
    def document(self, verb: str, id: str) -> Document:
        """Return the record that a verb of the command line prints, by name or id."""
        place = {"nsi-show": SLICES, "ns-show": SERVICES, "vnf-show": "/nslcm/v1/vnfrs"}[verb]
        return dict(self.nbi.find(place, name=id) or self.nbi.get(f"{place}/{id}"))

    @understood("OSM")
    def slice_ids(self) -> dict[str, str]:
        """Return the ids of all slices by name."""
        return {str(record["name"]): str(record["_id"]) for record in self.nbi.get(SLICES)}

    def service(self, id: str) -> Document:
        record: Document = self.nbi.get(f"{SERVICES}/{id}")
        return record

    def onboard(self, place: str, package: Path) -> str:
        return self.nbi.upload(f"{place}_content", package)

    # -- operations ------------------------------------------------------------------------------

    @understood("OSM")
    def finished(self, place: str, key: str, gone: bool = False) -> Document:
        """Wait until an operation has ended; return it.

        Args:
            place: ``NS_OPERATIONS`` or ``NSI_OPERATIONS``.
            gone: whether the operation may delete its own record.
        """
        verb = "osm ns-op-show" if place == NS_OPERATIONS else "osm nsi-op-show"
        with going_on(key, verb) as how:
            late = f"is not done after {self.limit:.0f} s and {how}"
            operation = waited(
                partial(self._read, place, key, gone),
                self.limit,
                self.nbi.pause,
                lambda record: f"{record.get('stage') or key} {late}",
                self.tell,
            )
        if operation["operationState"] not in ("COMPLETED", "PARTIALLY_COMPLETED"):
            reason = operation.get("errorMessage") or operation.get("detailed-status")
            raise OperateError(str(reason or "no reason given"))
        return operation

    def _read(self, place: str, key: str, gone: bool) -> Document:
        try:
            operation: Document = self.nbi.get(f"{place}/{key}")
        except Refused as refused:
            if gone and refused.status == 404:
                return {"operationState": "COMPLETED"}
            raise
        return operation

    def start(
        self, service: str, member: str, primitive: str, params: Params, instance: Instance = None
    ) -> str:
        """Start a day-2 primitive of a VNF, or of an instance of a VDU; return the operation's id.

        OSM runs the operations of a service one after another. It checks only every ten seconds
        whether earlier ones have ended, so start the next one after this one has ended.
        """
        order: Document = {"member_vnf_index": member}
        order |= {"primitive": primitive, "primitive_params": params}
        if instance is not None:
            order |= {"vdu_id": instance[0], "vdu_count_index": instance[1]}
        with understood("OSM"):
            return str(self.nbi.post(f"{INSTANCES}/{service}/action", order)["id"])

    @understood("OSM")
    def output(self, operation: str) -> str:
        """Wait for a day-2 primitive; return its output."""
        detail = self.finished(NS_OPERATIONS, operation).get("detailed-status")
        return str(detail.get("output") if isinstance(detail, dict) else detail)

    def action(
        self, service: str, member: str, primitive: str, params: Params, instance: Instance = None
    ) -> Document:
        """Run a day-2 primitive; return its JSON output, {} if the output is no JSON object."""
        try:
            started = self.start(service, member, primitive, params, instance)
            value = json.loads(self.output(started))
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @understood("OSM")
    def operate(self, service: str, vnf: str, vdu: str, state: str) -> None:
        """Start, stop or rebuild the only instance of a VDU, given the ids of service and VNF."""
        order = {
            "updateType": "OPERATE_VNF",
            "operateVnfData": {
                "vnfInstanceId": vnf,
                "changeStateTo": state,
                "additionalParam": {"run-day1": False, "vdu_id": vdu, "count-index": 0},
            },
        }
        started = self.nbi.post(f"{INSTANCES}/{service}/update", order)
        self.finished(NS_OPERATIONS, str(started["id"]))

    # -- deletion --------------------------------------------------------------------------------

    @understood("OSM")
    def delete_named(self, place: str, name: str) -> None:
        """Delete a service or slice, if it is there."""
        record = self.nbi.find(place, name=name)
        if record is not None:
            self.delete(place, record["_id"])

    @understood("OSM")
    def delete(self, place: str, id: str) -> None:
        """Delete an entry of ``SERVICES`` or ``SLICES``; names need not be unique there."""
        answer = self.nbi.delete(f"{place}/{id}")
        if answer:
            self.finished(OPERATIONS[place], answer["_id"], gone=True)
        deadline = time.monotonic() + 60.0
        while left := [entry["name"] for entry in self.nbi.get(place) if entry["_id"] == id]:
            if time.monotonic() > deadline:
                raise OperateError(f"{left[0]} is still there after its deletion")
            time.sleep(self.nbi.pause)


Driver = Client | Osm
"""Reads records and runs day-2 primitives: by the client's command line, or over the API."""
