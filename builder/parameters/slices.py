"""Parameter files of slices, made from the parameter files of services."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from builder.errors import BuildError
from builder.strict import Strict, checked

POINT = "vnfd-connection-point-ref"
QOS = ("five_qi", "guaranteed_mbps", "maximum_mbps", "underlay_mbps")
"""Ends of the names of a link's QoS parameters: LINK_five_qi and so on."""


SST = {"eMBB": 1, "URLLC": 2, "mMTC": 3}
"""Standardised slice/service types (TS 23.501 table 5.15.2.2-1, where mMTC is MIoT)."""


@dataclass(frozen=True)
class Template:
    """Values of a slice template: its 5QI, and its S-NSSAI as network functions write it."""

    five_qi: int
    snssai: str

    @classmethod
    def of(cls, nst: Mapping[str, Any]) -> "Template":
        snssai = nst["SNSSAI-identifier"]
        sd = snssai.get("slice-differentiator")
        sst = SST.get(snssai["slice-service-type"], 1)
        return cls(int(nst["quality-of-service"]["id"]), f"{sst}-{sd}" if sd else str(sst))


class Rates(Strict):
    """Rates of a slice's link in addition to its template's 5QI, in Mbit/s; 0 is none."""

    guaranteed_mbps: int = Field(default=0, ge=0)
    maximum_mbps: int = Field(default=0, ge=0)
    underlay_mbps: int = Field(default=0, ge=0)


class Subnet(Strict):
    """Parameters of one service of a slice."""

    of: str  # Parameter file of the service.
    # Members to take, with their names in the slice's service; if empty, all.
    members: dict[str, str] = Field(default_factory=dict)
    # Fixed address by link and member; replaces the service's own.
    addresses: dict[str, dict[str, str]] = Field(default_factory=dict)
    # Values by member; replace the service's own.
    additional_params: dict[str, dict[str, Any]] = Field(default_factory=dict)
    # Links that get the 5QI of the template at both their ends, with their rates.
    qos: dict[str, Rates] = Field(default_factory=dict)
    # Names of the slices that the AMF and gNB of the service offer.
    offers: list[str] = Field(default_factory=list)


class Slice(Strict):
    """One entry of params/slices.yaml: a template, and a file for `osm nsi-create`."""

    nst: str  # The template.
    dnn: str | None = None  # Data network name, for a slice of a 5G core.
    # 5QI of subscribers' default QoS flow; if None, that of the template. It must be non-GBR (TS
    # 23.501 clause 5.7.2.7), so a GBR template needs this value.
    default_five_qi: int | None = None
    subnets: dict[str, Subnet] = Field(min_length=1)  # Parameters of its services.


def parameter_files(
    entries: Mapping[str, Any],
    services: dict[str, dict[str, Any]],
    templates: Mapping[str, Template],
) -> dict[str, dict[str, Any]]:
    """Return the parameters of all slices, by name; ``services`` are those of services, by file."""
    slices = {}
    for name, entry in entries.items():
        slices[name] = checked(Slice, entry, f"params/slices.yaml: {name}")
        nst = slices[name].nst
        if nst not in templates:
            allowed = ", ".join(sorted(templates))
            raise BuildError(f"params/slices.yaml: {name}: nst: must be one of {allowed}")
    return {name: _parameter_file(name, slices, services, templates) for name in slices}


def _parameter_file(
    name: str,
    entries: Mapping[str, Slice],
    services: dict[str, dict[str, Any]],
    templates: Mapping[str, Template],
) -> dict[str, Any]:
    where, slice_ = f"params/slices.yaml: {name}", entries[name]
    template = templates[slice_.nst]
    subnets = []
    for subnet_id, subnet in slice_.subnets.items():
        if subnet.of not in services:
            raise BuildError(f"{where}: of: must be one of {', '.join(sorted(services))}")
        document = _of_service(services[subnet.of], subnet, where)
        for link, rates in subnet.qos.items():
            _enforce(document, link, template.five_qi, rates, where)
        for other in subnet.offers:
            if other not in entries or not entries[other].dnn:
                raise BuildError(f"{where}: offers: {other} is no slice with a dnn")
        offered = {other: entries[other] for other in subnet.offers}
        if slice_.dnn:
            _identify(document, template, slice_.dnn, offered, templates)
        subnets.append({"id": subnet_id, **document})
    return {"netslice-subnet": subnets}


def _identify(
    document: dict[str, Any],
    template: Template,
    dnn: str,
    offered: Mapping[str, Slice],
    templates: Mapping[str, Template],
) -> None:
    """Give the template's S-NSSAI to every network function of 5GS that takes one."""
    listed = [(templates[one.nst].snssai, one) for one in offered.values()]
    sessions = ",".join(
        f"{snssai}/{one.dnn}/{one.default_five_qi or templates[one.nst].five_qi}"
        for snssai, one in listed
    )
    for member in document["additionalParamsForVnf"]:
        values = member["additionalParams"]
        if "nf_slice" in values:
            values |= {"nf_slice": template.snssai, "nf_dnn": dnn}
        elif "nf_sessions" in values:
            values["nf_sessions"] = f"{template.snssai}/{dnn}"
        elif "nf_amf_region" in values:
            values["nf_slices"] = sessions
        elif "nf_slices" in values:
            values["nf_slices"] = ",".join(snssai for snssai, _ in listed)


def _enforce(document: dict[str, Any], link: str, five_qi: int, rates: Rates, where: str) -> None:
    """Set a link's 5QI at every member of the link, because OSM gives it to no member."""
    qos = {"five_qi": five_qi, **rates.model_dump()}
    members = [
        member["additionalParams"]
        for member in document["additionalParamsForVnf"]
        if f"{link}_five_qi" in member["additionalParams"]
    ]
    if not members:
        raise BuildError(f"{where}: qos: no member has a link {link}")
    for values in members:
        values.update({f"{link}_{word}": qos[word] for word in QOS})


def _of_service(document: dict[str, Any], subnet: Subnet, where: str) -> dict[str, Any]:
    given = {str(m["member-vnf-index"]): m for m in document["additionalParamsForVnf"]}
    members = subnet.members or {name: name for name in given}
    missing = sorted(set(members) - set(given))
    if missing:
        raise BuildError(f"{where}: members: {subnet.of} has no {missing[0]}")
    links = []
    for link in document.get("vld", ()):
        # In a slice LCM drops the rest of the link; the NSD must have it.
        points = [
            {**point, "member-vnf-index-ref": members[point["member-vnf-index-ref"]]}
            for point in link.get(POINT, ())
            if point["member-vnf-index-ref"] in members
        ]
        for point in points:
            own = subnet.addresses.get(link["name"], {})
            point["ip-address"] = own.get(point["member-vnf-index-ref"], point["ip-address"])
        if points:
            links.append({"name": link["name"], POINT: points})
    params = []
    for name, renamed in members.items():
        values = copy.deepcopy(given[name]["additionalParams"])
        for key, value in subnet.additional_params.get(renamed, {}).items():
            if key not in values:
                raise BuildError(f"{where}: additional-params: {renamed} has no parameter {key}")
            values[key] = value
        params.append({"member-vnf-index": renamed, "additionalParams": values})
    return {"vld": links, "additionalParamsForVnf": params}
