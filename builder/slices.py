"""Parameter files of slices, made of the parameter files of services."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.errors import BuildError, sentence

POINT = "vnfd-connection-point-ref"
QOS = ("five_qi", "guaranteed_mbps", "maximum_mbps", "underlay_mbps")
"""Instantiation parameters of a link that say what it is to get, after its name."""


class Rates(BaseModel):
    """Rates of a slice's link in addition to its template's 5QI, in Mbit/s; 0 is none."""

    model_config = ConfigDict(extra="forbid")

    guaranteed_mbps: int = Field(alias="guaranteed-mbps", default=0, ge=0)
    maximum_mbps: int = Field(alias="maximum-mbps", default=0, ge=0)
    underlay_mbps: int = Field(alias="underlay-mbps", default=0, ge=0)


class Subnet(BaseModel):
    """Parameters of one service of a slice.

    Attributes:
        of: Parameter file of the service.
        members: Those to take, with their names in the slice's service; all where empty.
        addresses: Fixed address by link and member, instead of the service's own.
        additional_params: Values by member, instead of the service's own.
        qos: Links that get the 5QI of the template at both their ends, with their rates.
    """

    model_config = ConfigDict(extra="forbid")

    of: str
    members: dict[str, str] = Field(default_factory=dict)
    addresses: dict[str, dict[str, str]] = Field(default_factory=dict)
    additional_params: dict[str, dict[str, Any]] = Field(
        alias="additional-params", default_factory=dict
    )
    qos: dict[str, Rates] = Field(default_factory=dict)


class Slice(BaseModel):
    """One entry of params/slices.yaml: a template, and a file for `osm nsi-create`."""

    model_config = ConfigDict(extra="forbid")

    nst: str
    subnets: dict[str, Subnet] = Field(min_length=1)


def parameter_file(
    name: str, entry: Any, services: dict[str, dict[str, Any]], five_qis: Mapping[str, int]
) -> dict[str, Any]:
    """Return the parameters of a slice.

    Args:
        name: Of the entry, for messages.
        entry: As written.
        services: Parameters of services by file name.
        five_qis: 5QI by template.
    """
    where = f"params/slices.yaml: {name}"
    try:
        wanted = Slice.model_validate(entry)
    except ValidationError as error:
        raise BuildError(f"{where}: {sentence(error)}") from None
    if wanted.nst not in five_qis:
        raise BuildError(f"{where}: nst: must be one of {', '.join(sorted(five_qis))}")
    subnets = []
    for subnet_id, subnet in wanted.subnets.items():
        if subnet.of not in services:
            raise BuildError(f"{where}: of: must be one of {', '.join(sorted(services))}")
        document = _of_service(services[subnet.of], subnet, where)
        for link, rates in subnet.qos.items():
            _enforce(document, link, five_qis[wanted.nst], rates, where)
        subnets.append({"id": subnet_id, **document})
    return {"netslice-subnet": subnets}


def _enforce(document: dict[str, Any], link: str, five_qi: int, rates: Rates, where: str) -> None:
    """Set a link's 5QI at every member of the link, because OSM gives it to no member."""
    wanted = {"five_qi": five_qi, **rates.model_dump()}
    members = [
        member["additionalParams"]
        for member in document["additionalParamsForVnf"]
        if f"{link}_five_qi" in member["additionalParams"]
    ]
    if not members:
        raise BuildError(f"{where}: qos: no member has a link {link}")
    for values in members:
        values.update({f"{link}_{word}": wanted[word] for word in QOS})


def _of_service(document: dict[str, Any], subnet: Subnet, where: str) -> dict[str, Any]:
    given = {str(m["member-vnf-index"]): m for m in document["additionalParamsForVnf"]}
    members = subnet.members or {name: name for name in given}
    missing = sorted(set(members) - set(given))
    if missing:
        raise BuildError(f"{where}: members: {subnet.of} has no {missing[0]}")
    links = []
    for link in document.get("vld", ()):
        # The rest of the link is lost in a slice, where the NSD has to have it.
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
