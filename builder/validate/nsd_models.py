"""Models of an NSD in OSM's flavour (SOL 006), down to profiles of VNFs and virtual links.

`vnfd_models` explains the limits of these checks.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from builder.validate.link_models import ProtocolData, ProviderNetwork
from builder.validate.operations import NsConfiguration
from builder.validate.schema import Addresses, Flag, Free, Identifier, Model, Natural, Text, Texts


class ConstituentCpd(Model):
    """External connection point of a constituent VNF."""

    constituent_base_element_id: Text
    constituent_cpd_id: Text
    ip_address: Addresses = None


class Connectivity(Model):
    """Attachment of a VNF to a virtual link."""

    virtual_link_profile_id: Text
    constituent_cpd_id: list[ConstituentCpd] = Field(default_factory=list)


class VnfProfile(Model):
    """Constituent VNF; its id is the member-vnf-index."""

    id: Identifier
    vnfd_id: Text
    flavour_id: Text | None = None
    instantiation_level: Text | None = None
    min_number_of_instances: Natural | None = None
    max_number_of_instances: Natural | None = None
    local_affinity_or_anti_affinity_rule: Any = None
    affinity_or_anti_affinity_group: Any = None
    virtual_link_connectivity: list[Connectivity] = Field(default_factory=list)


class NsLinkProfile(Model):
    """Profile of a virtual link."""

    id: Identifier
    virtual_link_desc_id: Text | None = None
    flavour_id: Text | None = None
    local_affinity_or_anti_affinity_rule: Any = None
    affinity_or_anti_affinity_group: Any = None
    max_bitrate_requirements: Any = None
    min_bitrate_requirements: Any = None
    qos: Any = None
    service_availability_level: Any = None
    virtual_link_protocol_data: ProtocolData | None = None


class NsFlavour(Model):
    """Deployment flavour of a network service."""

    id: Identifier
    flavour_key: Text | None = None
    vnf_profile: list[VnfProfile] = Field(default_factory=list)
    pnf_profile: Any = None
    virtual_link_profile: list[NsLinkProfile] = Field(default_factory=list)
    scaling_aspect: Any = None
    affinity_or_anti_affinity_group: Any = None
    ns_instantiation_level: Any = None
    default_instantiation_level: Any = None
    default_ns_instantiation_level: Any = None
    default_ns_instantiation_level_id: Any = None
    monitored_info: Any = None
    ns_profile: Any = None
    dependencies: Any = None


class NsLink(Model):
    """Virtual link of a network service."""

    id: Identifier
    description: Text | None = None
    connectivity_type: Any = None
    df: Any = None
    test_access: Any = None
    security: Any = None
    provider_network: ProviderNetwork | None = None
    mgmt_network: Flag = False
    vim_network_name: Text | None = None


class Sap(Model):
    """Service access point."""

    id: Identifier
    virtual_link_desc: Text | None = None
    address_assignment: Flag | None = None
    vnf: Free | None = None
    pnf: Free | None = None
    ns: Free | None = None
    address_data: Any = None
    layer_protocol: Any = None
    description: Text | None = None
    cp_role: Text | None = None
    service_access_point_requirements: Any = None


class Nsd(Model):
    """etsi-nfv-nsd:nsd."""

    id: Identifier
    name: Text | None = None
    designer: Text | None = None
    version: Text | None = None
    description: Text | None = None
    logo: Text | None = None
    invariant_id: Text | None = None
    nested_nsd_id: Any = None
    vnfd_id: Texts = Field(default_factory=list)
    pnfd_id: Any = None
    sapd: list[Sap] = Field(default_factory=list)
    virtual_link_desc: list[NsLink] = Field(default_factory=list)
    vnffgd: Any = None
    autoscale_rule: Any = None
    lifecycle_management_script: Any = None
    df: list[NsFlavour] = Field(min_length=1)
    security: Any = None
    ns_configuration: NsConfiguration | None = None


class NsdList(Model):
    """Content of the `nsd:` envelope."""

    nsd: list[Nsd] = Field(min_length=1, max_length=1)
