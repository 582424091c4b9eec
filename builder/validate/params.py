"""Instantiation parameters (`ns-create --config_file`, `nsi-create`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from builder.validate.charm_rules import BUILT_IN, PARAM_KEY, WHOLE
from builder.validate.context import Catalog, Document, ids, numbered
from builder.validate.problem import Problem
from builder.validate.schema import Flag, Free, Identifier, Model, Positive, Text, problems_of


class VduParams(Model):
    """Parameters of one VDU."""

    vdu_id: Text = Field(alias="vdu_id")
    additionalParams: Free | None = Field(default=None, alias="additionalParams")
    config_units: Positive | None = None


class VnfParams(Model):
    """Parameters of one VNF."""

    member_vnf_index: Text
    additionalParams: Free | None = Field(default=None, alias="additionalParams")
    config_units: Positive | None = None
    additionalParamsForVdu: list[VduParams] = Field(
        default_factory=list, alias="additionalParamsForVdu"
    )
    additionalParamsForKdu: list[Free] = Field(default_factory=list, alias="additionalParamsForKdu")
    k8s_namespace: Text | None = None


class DnsServer(Model):
    """Name server."""

    address: Text


class IpProfile(Model):
    """Subnet of a virtual link."""

    ip_version: Literal["ipv4", "ipv6"] | None = None
    subnet_address: Text | None = None
    gateway_address: Text | None = None
    dns_server: list[DnsServer] = Field(default_factory=list)
    security_group: Text | None = None
    dhcp_params: Free | None = None


class PointRef(Model):
    """Fixed address of a connection point."""

    member_vnf_index_ref: Text
    vnfd_connection_point_ref: Text
    ip_address: Text | None = None


class Vld(Model):
    """Virtual link of the network service."""

    name: Identifier
    vim_network_name: Text | dict[str, Text] | None = None
    vim_network_id: Text | dict[str, Text] | None = None
    ns_net: Free | None = None
    wimAccountId: Text | bool | None = Field(default=None, alias="wimAccountId")
    wim_account: Text | bool | None = Field(default=None, alias="wim_account")
    ip_profile: IpProfile | None = None
    provider_network: Free | None = None
    vnfd_connection_point_ref: list[PointRef] = Field(default_factory=list)


class InterfaceParams(Model):
    """NIC of a VDU."""

    name: Text
    ip_address: Text | None = None
    mac_address: Text | None = None
    floating_ip_required: Flag | None = None


class VnfVdu(Model):
    """VDU of a VNF."""

    id: Text
    name: Text | None = None
    vim_flavor_id: Text | None = None
    vim_flavor_name: Text | None = None
    instance_name: Text | None = None
    security_group_name: Text | None = None
    volume: list[Free] = Field(default_factory=list)
    interface: list[InterfaceParams] = Field(default_factory=list)


class InternalVld(Model):
    """Virtual link inside a VNF."""

    name: Text
    vim_network_name: Text | None = None
    vim_network_id: Text | None = None
    ip_profile: IpProfile | None = None
    provider_network: Free | None = None
    internal_connection_point: list[Free] = Field(default_factory=list)


class Vnf(Model):
    """Placement of one VNF."""

    member_vnf_index: Text
    vimAccountId: Text | None = Field(default=None, alias="vimAccountId")
    vim_account: Text | None = Field(default=None, alias="vim_account")
    vdu: list[VnfVdu] = Field(default_factory=list)
    internal_vld: list[InternalVld] = Field(default_factory=list)


class NsParams(Model):
    """NBI's ns_instantiate, with what osmclient adds and maps."""

    nsName: Text | None = Field(default=None, alias="nsName")
    nsDescription: Text | None = Field(default=None, alias="nsDescription")
    nsdId: Text | None = Field(default=None, alias="nsdId")
    vimAccountId: Text | None = Field(default=None, alias="vimAccountId")
    wimAccountId: Text | bool | None = Field(default=None, alias="wimAccountId")
    additionalParamsForNs: Free | None = Field(default=None, alias="additionalParamsForNs")
    additionalParamsForVnf: list[VnfParams] = Field(
        default_factory=list, alias="additionalParamsForVnf"
    )
    config_units: Positive | None = None
    k8s_namespace: Text | None = None
    ssh_keys: Any = Field(default=None, alias="ssh_keys")
    timeout_ns_deploy: Positive | None = Field(default=None, alias="timeout_ns_deploy")
    nsr_id: Text | None = Field(default=None, alias="nsr_id")
    vduImage: Text | None = Field(default=None, alias="vduImage")
    placement_engine: Text | None = None
    placement_constraints: Free | None = None
    vnf: list[Vnf] = Field(default_factory=list)
    vld: list[Vld] = Field(default_factory=list)


class NsiSubnet(NsParams):
    """Parameters of one network service of a slice."""

    id: Identifier


class NsiVld(Model):
    """Link of a slice."""

    name: Text
    vim_network_name: Text | dict[str, Text] | None = None
    vim_network_id: Text | dict[str, Text] | None = None
    ip_profile: IpProfile | None = None


class NsiParams(Model):
    """NBI's nsi_instantiate."""

    nsiName: Text | None = Field(default=None, alias="nsiName")
    nsiDescription: Text | None = Field(default=None, alias="nsiDescription")
    nstId: Text | None = Field(default=None, alias="nstId")
    vimAccountId: Text | None = Field(default=None, alias="vimAccountId")
    ssh_keys: Any = Field(default=None, alias="ssh_keys")
    timeout_nsi_deploy: Positive | None = Field(default=None, alias="timeout_nsi_deploy")
    additionalParamsForNsi: Free | None = Field(default=None, alias="additionalParamsForNsi")
    netslice_subnet: list[NsiSubnet] = Field(default_factory=list)
    netslice_vld: list[NsiVld] = Field(default_factory=list)


MODELS: dict[str, type[BaseModel]] = {"ns": NsParams, "nsi": NsiParams}


def validate_params(kind: str, document: Any, catalog: Catalog, name: str = "") -> list[Problem]:
    """Validate instantiation parameters.

    Args:
        kind: "ns" or "nsi".
        document: The parameters.
        catalog: Holds the NSD; where it holds several, the one that `nsdId` names.
        name: Name of the file, for messages.
    """
    model = MODELS[kind]
    where = name or "parameters"
    if not isinstance(document, dict):
        return [Problem(where, "refused", "params-form", "the parameters must be a mapping")]
    try:
        model.model_validate(document)
    except ValidationError as error:
        found = problems_of(error, model, where, "")
        return [
            Problem(
                p.path, p.severity, p.code, p.sentence, f"Format error at {p.path}: {p.sentence}"
            )
            for p in found
        ]
    if kind != "ns":
        return []
    wanted = document.get("nsdId")
    choices = [nsd for nsd in catalog.nsds.values() if wanted in (None, nsd["id"], nsd.get("_id"))]
    return sorted(_ns(document, choices[0], catalog, where)) if len(choices) == 1 else []


def _ns(document: Document, nsd: Document, catalog: Catalog, where: str) -> Iterator[Problem]:
    members = {
        str(profile["id"]): catalog.vnfds.get(profile["vnfd-id"], {})
        for flavour in nsd.get("df") or ()
        for profile in flavour.get("vnf-profile") or ()
    }
    links = ids(nsd.get("virtual-link-desc"))

    def member(place: str, value: Any) -> Iterator[Problem]:
        if str(value) not in members:
            text = f"Invalid parameter member_vnf_index='{value}' is not present at nsd:df"
            known = ", ".join(sorted(members))
            sentence = f"{value!r} is no member of {nsd['id']}; allowed: {known}"
            yield Problem(f"{where}: {place}", "refused", "params-member", sentence, text)

    for place, link in numbered("vld", document.get("vld")):
        if link["name"] not in links:
            yield Problem(
                f"{where}: {place}/name",
                "refused",
                "params-vld",
                f"{link['name']!r} is no virtual link of {nsd['id']}; "
                f"allowed: {', '.join(sorted(links))}",
                f"Invalid parameter vld:name='{link['name']}' is not present at nsd:vld",
            )
        for at, point in numbered(
            f"{place}/vnfd-connection-point-ref", link.get("vnfd-connection-point-ref")
        ):
            index = point["member-vnf-index-ref"]
            yield from member(f"{at}/member-vnf-index-ref", index)
            points = ids(members.get(str(index), {}).get("ext-cpd"))
            if points and point["vnfd-connection-point-ref"] not in points:
                yield Problem(
                    f"{where}: {at}/vnfd-connection-point-ref",
                    "silent",
                    "params-cpd",
                    f"{point['vnfd-connection-point-ref']!r} is no connection point of {index}; "
                    f"allowed: {', '.join(sorted(points))}",
                )
    for place, entry in numbered("vnf", document.get("vnf")):
        yield from member(f"{place}/member-vnf-index", entry["member-vnf-index"])
        vnfd = members.get(str(entry["member-vnf-index"]), {})
        for at, vdu in numbered(f"{place}/vdu", entry.get("vdu")):
            if vnfd and vdu["id"] not in ids(vnfd.get("vdu")):
                yield Problem(
                    f"{where}: {at}/id",
                    "refused",
                    "params-vdu",
                    f"{vdu['id']!r} is no vdu of {entry['member-vnf-index']}",
                    f"Invalid parameter vnf[member-vnf-index='{entry['member-vnf-index']}']:"
                    f"vdu:id='{vdu['id']}' is not present at vnf:vdu",
                )
            for inner, nic in numbered(f"{at}/interface", vdu.get("interface")):
                if nic.get("floating-ip-required"):
                    yield Problem(
                        f"{where}: {inner}",
                        "silent",
                        "params-floating-ip",
                        "floating-ip-required is stored by NBI and read by nobody",
                    )
    given: dict[str, Document] = {}
    for place, entry in numbered("additionalParamsForVnf", document.get("additionalParamsForVnf")):
        yield from member(f"{place}/member-vnf-index", entry["member-vnf-index"])
        params = entry.get("additionalParams") or {}
        given[str(entry["member-vnf-index"])] = params
        for key in params:
            if not PARAM_KEY.match(str(key)):
                yield Problem(
                    f"{where}: {place}/additionalParams",
                    "refused",
                    "params-key",
                    f"key {key!r}; allowed: letters, digits and '_', not starting with a digit",
                )
    for index, vnfd in members.items():
        for name, primitive in _needed(vnfd):
            if name not in given.get(index, {}):
                yield Problem(
                    f"{where}: additionalParamsForVnf[{index}]",
                    "refused",
                    "params-missing",
                    f"primitive {primitive} of {index} needs the parameter {name!r}",
                    f"Parameter <{name}> needed for vnfd[id={vnfd.get('id')}]:day1-2 "
                    "configuration:initial-config-primitive not supplied",
                )


def _needed(vnfd: Document) -> Iterator[tuple[str, str]]:
    """Return (parameter, primitive) of every <parameter> a VNFD's initial primitives have."""
    seen = set()
    flavour = (vnfd.get("df") or [{}])[0]
    operations = flavour.get("lcm-operations-configuration") or {}
    for entry in (operations.get("operate-vnf-op-config") or {}).get("day1-2") or ():
        for primitive in entry.get("initial-config-primitive") or ():
            for parameter in primitive.get("parameter") or ():
                value = parameter.get("value")
                if isinstance(value, str) and WHOLE.match(value):
                    name = value[1:-1]
                    if name not in BUILT_IN and name not in seen:
                        seen.add(name)
                        yield name, primitive["name"]
