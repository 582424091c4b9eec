"""Models of instantiation parameters: NBI's ns_instantiate and nsi_instantiate.

NBI checks them with JSON schema, so it does not convert a number to text, and neither does this.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from builder.validate.schema import Address, Free, Model


def _matching(pattern: str, allowed: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


OCTET = r"(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
Name = Annotated[str, Field(strict=True, min_length=1, max_length=255)]
Uuid = Annotated[Name, _matching(r"[a-fA-F0-9]{8}(-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}", "a UUID")]
Mac = Annotated[
    Name,
    _matching(
        r"[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}", "a unicast MAC address, a:b:c:d:e:f"
    ),
]
Subnet4 = Annotated[
    Name,
    _matching(
        rf"({OCTET}\.){{3}}{OCTET}/(30|[12]?[0-9])", "an IPv4 subnet with a prefix of /0 to /30"
    ),
]
Address4 = Annotated[Name, _matching(rf"({OCTET}\.){{3}}{OCTET}", "an IPv4 address")]
Positive = Annotated[int, Field(strict=True, ge=1, lt=1 << 64)]
Flag = Annotated[bool, Field(strict=True)]


def _wim(value: Any) -> Any:
    if value is None or (isinstance(value, (bool, str)) and value != ""):
        return value
    raise ValueError("false, or a WIM")


def _network(value: Any) -> Any:
    names = list(value.values()) if isinstance(value, dict) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("the name of a network, or a mapping from VIM to name")
    return value


# Not a union, because pydantic reports one error for each type of a union.
Wim = Annotated[Any, BeforeValidator(_wim)]
Network = Annotated[Any, BeforeValidator(_network)]


class Params(Model):
    """A mapping that NBI requires to have a minimum number of keys."""

    @model_validator(mode="after")
    def is_enough(self) -> Params:
        """Refuse a mapping with fewer keys."""
        need = MINIMUM.get(type(self).__name__, 0)
        if len(self.model_fields_set) < need:
            raise ValueError(f"a mapping of at least {need} keys")
        return self


MINIMUM = {"VduParams": 2, "VnfParams": 2, "PointRef": 3, "InternalVld": 2, "Vnf": 2}


class VduParams(Params):
    """Parameters of one VDU."""

    vdu_id: Name = Field(alias="vdu_id")
    additional: Free | None = Field(default=None, alias="additionalParams")
    config_units: Positive | None = None


class VnfParams(Params):
    """Parameters of one VNF."""

    member_vnf_index: Name
    additional: Free | None = Field(default=None, alias="additionalParams")
    config_units: Positive | None = None
    vdus: list[VduParams] = Field(default_factory=list, alias="additionalParamsForVdu")
    kdus: list[Free] = Field(default_factory=list, alias="additionalParamsForKdu")
    k8s_namespace: Name | None = None
    affinity_or_anti_affinity_group: list[Free] = Field(default_factory=list)


class DnsServer(Params):
    """Name server."""

    address: Address


class Dhcp(Params):
    """DHCP of a subnet."""

    enabled: Flag | None = None
    count: Positive | None = None
    start_address: Address4 | None = None


class IpProfile(Params):
    """Subnet of a virtual link."""

    ip_version: Literal["ipv4", "ipv6"] | None = None
    subnet_address: Subnet4 | None = None
    gateway_address: Address4 | None = None
    dns_server: Annotated[list[DnsServer], Field(min_length=1)] | None = None
    dhcp_params: Dhcp | None = None


class PointRef(Params):
    """Fixed address of a connection point."""

    member_vnf_index_ref: Name
    vnfd_connection_point_ref: Name
    ip_address: Address | None = None


class Vld(Params):
    """Virtual link of the network service."""

    name: Name
    vim_network_name: Network = None
    vim_network_id: Network = None
    ns_net: Free | None = None
    wim_account_id: Wim = Field(default=None, alias="wimAccountId")
    wim_account: Wim = Field(default=None, alias="wim_account")
    ip_profile: IpProfile | None = None
    provider_network: Free | None = None
    vnfd_connection_point_ref: Annotated[list[PointRef], Field(min_length=1)] | None = None


class InterfaceParams(Params):
    """NIC of a VDU."""

    name: Name
    ip_address: Address | None = None
    mac_address: Mac | None = None
    floating_ip_required: Flag | None = None


class Volume(Params):
    """Existing volume of a VDU."""

    name: Name
    vim_volume_id: Name


class VnfVdu(Params):
    """VDU of a VNF."""

    id: Name
    vim_flavor_id: Name | None = None
    vim_flavor_name: Name | None = None
    instance_name: Name | None = Field(default=None, alias="instance_name")
    security_group_name: Name | None = None
    volume: Annotated[list[Volume], Field(min_length=1)] | None = None
    interface: Annotated[list[InterfaceParams], Field(min_length=1)] | None = None


class InternalVld(Params):
    """Virtual link inside a VNF."""

    name: Name
    vim_network_name: Name | None = None
    vim_network_id: Name | None = None
    ip_profile: IpProfile | None = None
    provider_network: Free | None = None
    internal_connection_point: list[Free] | None = None


class Vnf(Params):
    """Placement of one VNF."""

    member_vnf_index: Name
    vim_account_id: Uuid | None = Field(default=None, alias="vimAccountId")
    vim_account: Name | None = Field(default=None, alias="vim_account")
    vdu: Annotated[list[VnfVdu], Field(min_length=1)] | None = None
    internal_vld: Annotated[list[InternalVld], Field(min_length=1)] | None = None


class NsParams(Params):
    """NBI's ns_instantiate; keys that osmclient sets from its command line are optional."""

    ns_name: Name | None = Field(default=None, alias="nsName")
    ns_description: str | None = Field(default=None, alias="nsDescription")
    nsd_id: Name | None = Field(default=None, alias="nsdId")
    vim_account_id: Uuid | None = Field(default=None, alias="vimAccountId")
    template_id: Uuid | None = Field(default=None, alias="nsConfigTemplateId")
    wim_account_id: Wim = Field(default=None, alias="wimAccountId")
    wim_account: Wim = Field(default=None, alias="wim_account")
    for_ns: Free | None = Field(default=None, alias="additionalParamsForNs")
    for_vnf: list[VnfParams] = Field(default_factory=list, alias="additionalParamsForVnf")
    config_units: Positive | None = None
    k8s_namespace: Name | None = None
    ssh_keys: list[str] | None = Field(default=None, alias="ssh_keys")
    timeout_ns_deploy: Positive | None = Field(default=None, alias="timeout_ns_deploy")
    nsr_id: Uuid | None = Field(default=None, alias="nsr_id")
    vdu_image: Name | None = Field(default=None, alias="vduImage")
    placement_engine: Name | None = None
    placement_constraints: Free | None = None
    vnf: Annotated[list[Vnf], Field(min_length=1)] | None = None
    vld: Annotated[list[Vld], Field(min_length=1)] | None = None


class NsiSubnet(NsParams):
    """Parameters of one network service of a slice."""

    id: Name


class NsiVld(Params):
    """Link of a slice."""

    name: Name
    vim_network_name: Network = None
    vim_network_id: Network = None
    ip_profile: IpProfile | None = None


class NsiParams(Params):
    """NBI's nsi_instantiate."""

    nsi_name: Name | None = Field(default=None, alias="nsiName")
    nsi_description: str | None = Field(default=None, alias="nsiDescription")
    nst_id: Name | None = Field(default=None, alias="nstId")
    vim_account_id: Uuid | None = Field(default=None, alias="vimAccountId")
    ssh_keys: list[str] | None = Field(default=None, alias="ssh_keys")
    timeout_nsi_deploy: Positive | None = Field(default=None, alias="timeout_nsi_deploy")
    for_nsi: Free | None = Field(default=None, alias="additionalParamsForNsi")
    netslice_subnet: list[NsiSubnet] = Field(default_factory=list)
    netslice_vld: list[NsiVld] = Field(default_factory=list)


MODELS: dict[str, type[BaseModel]] = {"ns": NsParams, "nsi": NsiParams}


def normalised(kind: str, document: Any) -> dict[str, Any]:
    """Return parameters in the form of the schema.

    Raises:
        ValidationError: They do not fit the schema.
    """
    return MODELS[kind].model_validate(document).model_dump(by_alias=True, exclude_unset=True)
