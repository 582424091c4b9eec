"""Parameter files of slices, made of the parameter files of services."""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.errors import BuildError, sentence

POINT = "vnfd-connection-point-ref"


class Subnet(BaseModel):
    """Parameters of one service of a slice.

    Attributes:
        of: Parameter file of the service.
        members: Those to take, with their names in the slice's service; all where empty.
        addresses: Fixed address by link and member, instead of the service's own.
        additional_params: Values by member, instead of the service's own.
    """

    model_config = ConfigDict(extra="forbid")

    of: str
    members: dict[str, str] = Field(default_factory=dict)
    addresses: dict[str, dict[str, str]] = Field(default_factory=dict)
    additional_params: dict[str, dict[str, Any]] = Field(
        alias="additional-params", default_factory=dict
    )


class Slice(BaseModel):
    """One entry of params/slices.yaml: a template, and a file for `osm nsi-create`."""

    model_config = ConfigDict(extra="forbid")

    nst: str
    subnets: dict[str, Subnet] = Field(min_length=1)


def parameter_file(name: str, entry: Any, services: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a slice.

    Args:
        name: Of the entry, for messages.
        entry: As written.
        services: Parameters of services by file name.
    """
    where = f"params/slices.yaml: {name}"
    try:
        wanted = Slice.model_validate(entry)
    except ValidationError as error:
        raise BuildError(f"{where}: {sentence(error)}") from None
    subnets = []
    for subnet_id, subnet in wanted.subnets.items():
        if subnet.of not in services:
            raise BuildError(f"{where}: of: must be one of {', '.join(sorted(services))}")
        subnets.append({"id": subnet_id, **_of_service(services[subnet.of], subnet, where)})
    return {"netslice-subnet": subnets}


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
