"""Models of VNFD, NSD and NST in OSM's flavour (SOL006 v2.7.1 with OSM's augments)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from builder.validate.operations import Day12, NsConfiguration
from builder.validate.schema import (
    Decimal,
    Flag,
    Free,
    Identifier,
    Model,
    Natural,
    Positive,
    Text,
)


class IntCpdRef(Model):
    """Internal connection point an external one leads to."""

    vdu_id: Text
    cpd: Text


class Protocol(Model):
    """Layer protocol of a connection point."""

    layer_protocol: list[Text] | Text | None = None


class ExtCpd(Model):
    """SOL006 clause 6.2: ext-cpd."""

    id: Identifier
    int_cpd: IntCpdRef | None = None
    int_virtual_link_desc: Text | None = None
    k8s_cluster_net: Text | None = None
    port_security_enabled: Flag | None = None
    port_security_disable_strategy: Literal["full", "allow-address-pairs"] | None = None
    layer_protocol: Any = None
    description: Text | None = None
    cp_role: Text | None = None
    cp_protocol: Any = None
    trunk_mode: Flag | None = None
    security_group_rule_id: list[Text] = Field(default_factory=list)
    virtual_network_interface_requirement: list[Free] = Field(default_factory=list)


class VirtualInterface(Model):
    """OSM's type of a NIC."""

    type: (
        Literal[
            "PARAVIRT",
            "OM-MGMT",
            "PCI-PASSTHROUGH",
            "SR-IOV",
            "VIRTIO",
            "E1000",
            "RTL8139",
            "PCNET",
        ]
        | None
    ) = None
    bandwidth: Text | None = None
    vpci: Text | None = None


class NetworkInterface(Model):
    """NIC of a VDU."""

    name: Identifier
    description: Text | None = None
    support_mandatory: Flag | None = None
    requirement: Any = None
    network_interface_requirements: Any = None
    nic_io_requirements: Any = None
    position: Natural | None = None
    virtual_interface: VirtualInterface | None = None
    mac_address: Text | None = None
    ip_address: Text | None = None


class IntCpd(Model):
    """Connection point of a VDU."""

    id: Identifier
    int_virtual_link_desc: Text | None = None
    virtual_network_interface_requirement: list[NetworkInterface] = Field(default_factory=list)
    port_security_enabled: Flag | None = None
    port_security_disable_strategy: Literal["full", "allow-address-pairs"] | None = None
    bitrate_requirement: Any = None
    nicio_requirements: Any = None
    layer_protocol: Any = None
    description: Text | None = None
    cp_role: Text | None = None
    order: Natural | None = None
    vnic_type: Text | None = None
    allowed_address_data: Any = None
    security_group_rule_id: list[Text] = Field(default_factory=list)
    trunk_mode: Flag | None = None


class BootData(Model):
    """Config drive of a VDU."""

    boot_data_drive: Flag | None = None


class Vdu(Model):
    """Virtualisation deployment unit."""

    id: Identifier
    name: Text | None = None
    description: Text | None = None
    int_cpd: list[IntCpd] = Field(default_factory=list)
    virtual_compute_desc: Text | None = None
    virtual_storage_desc: list[Text] | None = None
    boot_order: Any = None
    sw_image_desc: Text | None = None
    alternative_sw_image_desc: list[Text] = Field(default_factory=list)
    monitoring_parameter: list[Free] = Field(default_factory=list)
    configurable_properties: Any = None
    boot_data: Any = None
    nfvi_constraint: Any = None
    cloud_init: Text | None = None
    cloud_init_file: Text | None = None
    supplemental_boot_data: BootData | None = None
    pdu_type: Text | None = None
    alarm: list[Free] = Field(default_factory=list)


class VirtualCpu(Model):
    """Processor of a flavour."""

    num_virtual_cpu: Positive
    cpu_architecture: Text | None = None
    clock: Any = None
    oversubscription_policy: Text | None = None
    vdu_cpu_requirements: Any = None
    pinning: Free | None = None
    cpu_quota: Free | None = None


class VirtualMemory(Model):
    """Memory of a flavour, GiB."""

    size: Decimal
    oversubscription_policy: Text | None = None
    vdu_memory_requirements: Any = None
    numa_enabled: Flag | None = None
    numa_node_policy: Free | None = None
    mempage_size: Text | None = None
    mem_quota: Free | None = None


class VirtualCompute(Model):
    """Flavour of a VDU."""

    id: Identifier
    virtual_cpu: VirtualCpu
    virtual_memory: VirtualMemory
    logical_node: Any = None
    requested_additional_capability: Any = None
    virtual_disk: Any = None
    compute_requirements: Any = None


class VirtualStorage(Model):
    """Disk of a VDU, GB."""

    id: Identifier
    type_of_storage: Text | None = None
    size_of_storage: Natural | None = None
    vdu_storage_requirements: Any = None
    rdma_enabled: Flag | None = None
    sw_image_desc: Text | None = None
    disk_io_quota: Free | None = None
    block_storage_data: Any = None


class Image(Model):
    """Image by name."""

    id: Identifier
    name: Text
    version: Text | None = None
    checksum: Any = None
    container_format: Text | None = None
    disk_format: Text | None = None
    min_disk: Any = None
    min_ram: Any = None
    size: Any = None
    image: Text | None = None
    operating_system: Text | None = None
    supported_virtualization_environment: Any = None
    vim_type: Text | None = None


class InternalLink(Model):
    """Virtual link inside a VNF."""

    id: Identifier
    description: Text | None = None
    flavour: Any = None
    connectivity_type: Any = None
    test_access: Any = None
    monitoring_parameter: Any = None


class VduProfile(Model):
    """Instances of a VDU."""

    id: Identifier
    min_number_of_instances: Natural | None = None
    max_number_of_instances: Positive | None = None
    local_affinity_or_anti_affinity_rule: Any = None
    affinity_or_anti_affinity_group: Any = None
    vdu_configurable_properties: Any = None
    vnf_profile_id: Any = None


class VduLevel(Model):
    """Instances of a VDU at a level."""

    vdu_id: Text
    number_of_instances: Natural = 1
    bit_rate_requirement: Any = None


class InstantiationLevel(Model):
    """Level of a flavour."""

    id: Identifier
    description: Text | None = None
    vdu_level: list[VduLevel] = Field(default_factory=list)
    scaling_info: Any = None
    virtual_link_bit_rate_level: Any = None


class LinkProfile(Model):
    """Profile of an internal link; OSM adds the address profile."""

    id: Identifier
    flavour: Any = None
    max_bit_rate_requirements: Any = None
    min_bit_rate_requirements: Any = None
    local_affinity_or_anti_affinity_rule: Any = None
    affinity_or_anti_affinity_group: Any = None
    virtual_link_protocol_data: Any = None


class VduDelta(Model):
    """Step of a scaling aspect."""

    id: Text
    number_of_instances: Natural = 1


class Delta(Model):
    """Named step of a scaling aspect."""

    id: Identifier
    vdu_delta: list[VduDelta] = Field(default_factory=list)
    virtual_link_bit_rate_delta: Any = None
    kdu_resource_delta: Any = None


class DeltaDetails(Model):
    """Steps of a scaling aspect."""

    deltas: list[Delta] = Field(default_factory=list)
    number_of_deltas: Any = None


class ScalingCriteria(Model):
    """Threshold of a scaling policy."""

    name: Text
    vnf_monitoring_param_ref: Text | None = None
    scale_in_threshold: Any = None
    scale_in_relational_operation: Text | None = None
    scale_out_threshold: Any = None
    scale_out_relational_operation: Text | None = None


class ScalingPolicy(Model):
    """When to scale."""

    name: Text
    scaling_type: Text | None = None
    enabled: Flag | None = None
    scale_in_operation_type: Text | None = None
    scale_out_operation_type: Text | None = None
    threshold_time: Any = None
    cooldown_time: Any = None
    scaling_criteria: list[ScalingCriteria] = Field(default_factory=list)


class ScalingConfigAction(Model):
    """Primitive to run when scaling."""

    trigger: Literal["pre-scale-in", "post-scale-in", "pre-scale-out", "post-scale-out"]
    vnf_config_primitive_name_ref: Text


class ScalingAspect(Model):
    """What can be scaled."""

    id: Identifier
    name: Text | None = None
    description: Text | None = None
    max_scale_level: Natural | None = None
    aspect_delta_details: DeltaDetails | None = None
    scaling_policy: list[ScalingPolicy] = Field(default_factory=list)
    scaling_config_action: list[ScalingConfigAction] = Field(default_factory=list)


class OperateConfig(Model):
    """Where day1-2 stands."""

    day1_2: list[Day12] | None = Field(default=None, alias="day1-2")
    parameter: Any = None
    min_graceful_stop_timeout: Any = None
    max_recommended_graceful_stop_timeout: Any = None


class LcmOperations(Model):
    """LCM operations of a flavour."""

    operate_vnf_op_config: OperateConfig | None = None
    heal_vnf_op_config: Any = None
    scale_vnf_op_config: Any = None
    terminate_vnf_op_config: Any = None
    change_ext_vnf_connectivity_op_config: Any = None
    scale_vnf_to_level_op_config: Any = None


class Flavour(Model):
    """Deployment flavour; OSM uses the first only."""

    id: Identifier
    description: Text | None = None
    vdu_profile: list[VduProfile] = Field(default_factory=list)
    virtual_link_profile: list[LinkProfile] = Field(default_factory=list)
    instantiation_level: list[InstantiationLevel] = Field(default_factory=list)
    default_instantiation_level: Text | None = None
    supported_operation: Any = None
    lcm_operations_configuration: LcmOperations | None = None
    affinity_or_anti_affinity_group: Any = None
    indicator: Any = None
    monitoring_parameter: list[Free] = Field(default_factory=list)
    scaling_aspect: list[ScalingAspect] = Field(default_factory=list)
    healing_aspect: list[Free] = Field(default_factory=list)
    kdu_resource_profile: list[Free] = Field(default_factory=list)


class Vnfd(Model):
    """etsi-nfv-vnfd:vnfd."""

    id: Identifier
    provider: Text | None = None
    product_name: Text | None = None
    software_version: Text | None = None
    version: Text | None = None
    description: Text | None = None
    logo: Text | None = None
    product_info_name: Text | None = None
    product_info_description: Text | None = None
    vnfm_info: Any = None
    localization_language: Any = None
    default_localization_language: Any = None
    mgmt_cp: Text | None = None
    vdu: list[Vdu] = Field(default_factory=list)
    kdu: list[Free] = Field(default_factory=list)
    k8s_cluster: Free | None = None
    virtual_compute_desc: list[VirtualCompute] = Field(default_factory=list)
    virtual_storage_desc: list[VirtualStorage] = Field(default_factory=list)
    sw_image_desc: list[Image] = Field(default_factory=list)
    int_virtual_link_desc: list[InternalLink] = Field(default_factory=list)
    security_group_rule: Any = None
    ext_cpd: list[ExtCpd] = Field(default_factory=list)
    df: list[Flavour]
    configurable_properties: Any = None
    modifiable_attributes: Any = None
    lifecycle_management_script: Any = None
    element_group: Any = None
    indicator: Any = None
    placement_groups: Any = None


class ConstituentCpd(Model):
    """External connection point of a constituent VNF."""

    constituent_base_element_id: Text
    constituent_cpd_id: Text
    ip_address: Text | None = None


class Connectivity(Model):
    """Attachment of a VNF to a virtual link."""

    virtual_link_profile_id: Text
    constituent_cpd_id: list[ConstituentCpd]


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
    virtual_link_protocol_data: Any = None


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
    default_ns_instantiation_level: Any = None
    ns_profile: Any = None
    dependencies: Any = None


class NsLink(Model):
    """Virtual link of a network service."""

    id: Identifier
    description: Text | None = None
    connectivity_type: Any = None
    provider: Text | None = None
    df: Any = None
    test_access: Any = None
    mgmt_network: Flag = False
    vim_network_name: Text | None = None
    ip_profile_ref: Text | None = None


class Sap(Model):
    """Service access point."""

    id: Identifier
    virtual_link_desc: Text | None = None
    associated_cpd_id: Text | None = None
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
    vnfd_id: list[Text] = Field(default_factory=list)
    pnfd_id: Any = None
    sapd: list[Sap] = Field(default_factory=list)
    virtual_link_desc: list[NsLink] = Field(default_factory=list)
    vnffgd: Any = None
    autoscale_rule: Any = None
    lifecycle_management_script: Any = None
    df: list[NsFlavour]
    security: Any = None
    ns_configuration: NsConfiguration | None = None


class NsdList(Model):
    """Content of the `nsd:` envelope."""

    nsd: list[Nsd] = Field(min_length=1, max_length=1)


class Snssai(Model):
    """Slice identity (TS 23.003 clause 28.4)."""

    slice_service_type: Literal["eMBB", "URLLC", "mMTC"]
    slice_differentiator: Text | None = None


class QualityOfService(Model):
    """5QI (TS 23.501 table 5.7.4-1); stored by OSM, never enforced."""

    id: Natural
    resource_type: Text | None = None
    priority_level: Natural | None = None
    packet_delay_budget: Natural | None = None
    packet_error_rate: Any = None
    default_max_data_burst: Natural | None = None


class Subnet(Model):
    """Network service of a slice."""

    id: Identifier
    nsd_ref: Text
    is_shared_nss: Flag = False
    description: Text | None = None
    instantiation_parameters: Free | None = None


class NssPoint(Model):
    """End of a slice's link."""

    nss_ref: Text
    nsd_connection_point_ref: Text
    ip_address: Text | None = None


class SliceLink(Model):
    """Link between network services of a slice."""

    id: Identifier
    name: Text | None = None
    short_name: Text | None = None
    description: Text | None = None
    type: Text | None = None
    mgmt_network: Flag = False
    root_bandwidth: Any = None
    leaf_bandwidth: Any = None
    provider_network: Any = None
    vim_network_name: Text | None = None
    ip_profile_ref: Text | None = None
    nss_connection_point_ref: list[NssPoint] = Field(default_factory=list)


class Nst(Model):
    """Network slice template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Identifier
    name: Text
    snssai: Snssai | None = Field(default=None, alias="SNSSAI-identifier")
    quality_of_service: QualityOfService | None = Field(default=None, alias="quality-of-service")
    netslice_subnet: list[Subnet] = Field(alias="netslice-subnet")
    netslice_vld: list[SliceLink] = Field(default_factory=list, alias="netslice-vld")
    netslice_connection_point: Any = Field(default=None, alias="netslice-connection-point")
    vendor: Text | None = None
    description: Text | None = None
    version: Text | None = None
    logo: Text | None = None
