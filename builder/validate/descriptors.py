"""Models of VNFD, NSD and NST in OSM's flavour (ETSI GS NFV-SOL 006 with OSM's augments).

NBI checks keys and types with pyangbind, which ignores YANG's `mandatory`, `must`, `when` and
`leafref`: so does this. What is missing and breaks something later is a matter of the rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from builder.validate.operations import Day12, NsConfiguration
from builder.validate.schema import (
    Address,
    Addresses,
    Decimal,
    Flag,
    Free,
    Identifier,
    Model,
    Natural,
    Short,
    Text,
)

Operator = Literal["GE", "LE", "GT", "LT", "EQ", "NE"]


class Quota(Model):
    """Limit, reservation and weight of a resource."""

    limit: Natural | None = None
    reserve: Natural | None = None
    shares: Natural | None = None


class Pair(Model):
    """SOL006's key and value."""

    key: Text
    value: Text | None = None


class ProviderNetwork(Model):
    """Network of the provider behind a virtual link."""

    physical_network: Text | None = None
    segmentation_id: Natural | None = Field(default=None, alias="segmentation_id")


class IntCpdRef(Model):
    """Internal connection point an external one leads to."""

    vdu_id: Text
    cpd: Text


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
    role: Text | None = None
    protocol: Any = None
    nicio_requirements: Text | None = None
    trunk_mode: Flag | None = None
    security_group_rule_id: list[Text] = Field(default_factory=list)
    virtual_network_interface_requirement: list[Free] = Field(default_factory=list)
    address_data: Any = None


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
    bandwidth: Natural | None = None
    vpci: Text | None = None


class NetworkInterface(Model):
    """NIC of a VDU."""

    name: Identifier
    description: Text | None = None
    support_mandatory: Flag | None = None
    requirement: Any = None
    network_interface_requirements: Any = None
    nicio_requirements: Any = None
    position: Natural | None = None
    virtual_interface: VirtualInterface | None = None
    mac_address: Text | None = None
    ip_address: Address | None = None
    vif_quota: Quota | None = None


class IntCpd(Model):
    """Connection point of a VDU."""

    id: Identifier
    int_virtual_link_desc: Text | None = None
    virtual_network_interface_requirement: list[NetworkInterface] = Field(default_factory=list)
    port_security_enabled: Flag | None = None
    port_security_disable_strategy: Literal["full", "allow-address-pairs"] | None = None
    bitrate_requirement: Natural | None = None
    layer_protocol: Any = None
    description: Text | None = None
    cp_role: Text | None = None
    cp_protocol: Any = None
    role: Text | None = None
    protocol: Any = None
    nicio_requirements: Text | None = None
    order: Any = None
    vnic_type: Text | None = None
    address_data: Any = None
    security_group_rule_id: list[Text] = Field(default_factory=list)
    trunk_mode: Flag | None = None


class Alarm(Model):
    """Alarm of a VDU."""

    alarm_id: Text
    vnf_monitoring_param_ref: Text | None = None
    name: Text | None = None
    description: Text | None = None
    vdur_id: Text | None = None
    repeat: Flag | None = None
    enabled: Flag | None = None
    severity: Text | None = None
    statistic: Text | None = None
    operation: Operator | None = None
    value: Any = None
    period: Natural | None = None
    evaluations: Natural | None = None
    actions: Free | None = None


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
    alarm: list[Alarm] = Field(default_factory=list)


class Pinning(Model):
    """Placement of virtual on physical processors."""

    policy: Literal["static", "dynamic"] | None = None
    thread_policy: Literal["AVOID", "SEPARATE", "REQUIRE", "ISOLATE", "PREFER"] | None = None
    rule: list[Pair] = Field(default_factory=list)


class VirtualCpu(Model):
    """Processor of a flavour."""

    num_virtual_cpu: Annotated[Short, Field(ge=1)] = 1
    cpu_architecture: Text | None = None
    clock: Natural | None = None
    oversubscription_policy: Text | None = None
    vdu_cpu_requirements: list[Pair] = Field(default_factory=list)
    pinning: Pinning | None = None
    cpu_quota: Quota | None = None


class Numa(Model):
    """Memory nodes of a guest."""

    node_cnt: Short | None = None
    mem_policy: Literal["STRICT", "PREFERRED"] | None = None
    node: list[Free] = Field(default_factory=list)


class VirtualMemory(Model):
    """Memory of a flavour, GiB."""

    size: Decimal = 1
    over_subscription_policy: Text | None = None
    vdu_mem_requirements: list[Pair] = Field(default_factory=list)
    numa_enabled: Flag | None = None
    numa_node_policy: Numa | None = None
    mempage_size: Literal["LARGE", "SMALL", "SIZE_2MB", "SIZE_1GB", "PREFER_LARGE"] | None = None
    mem_quota: Quota | None = None


class VirtualCompute(Model):
    """Flavour of a VDU."""

    id: Identifier
    virtual_cpu: VirtualCpu | None = None
    virtual_memory: VirtualMemory | None = None
    logical_node: Any = None
    request_additional_capability: Any = None
    compute_requirements: Any = None


class VirtualStorage(Model):
    """Disk of a VDU, GB."""

    id: Identifier
    description: Text | None = None
    type_of_storage: Text | None = None
    size_of_storage: Natural | None = None
    vdu_storage_requirements: list[Pair] = Field(default_factory=list)
    rdma_enabled: Flag | None = None
    sw_image_desc: Text | None = None
    disk_io_quota: Quota | None = None
    device_bus: Literal["ide", "usb", "virtio", "scsi"] | None = None
    block_storage_data: Any = None


class Image(Model):
    """Image by name."""

    id: Identifier
    name: Text | None = None
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
    monitoring_parameters: list[Free] = Field(default_factory=list)
    provider_network: ProviderNetwork | None = None


class VduProfile(Model):
    """Instances of a VDU."""

    id: Identifier
    min_number_of_instances: Short | None = None
    max_number_of_instances: Short | None = None
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


class Layer2(Model):
    """Properties of a network below IP."""

    name: Text | None = None
    network_type: Literal["flat", "vlan", "vxlan", "gre"] | None = None
    vlan_transparent: Flag | None = None
    mtu: Short | None = None


class Layer3(Model):
    """Subnet of a network."""

    name: Text | None = None
    description: Text | None = None
    ip_version: Literal["ipv4", "ipv6"] | None = None
    cidr: Text | None = None
    ip_allocation_pools: Any = None
    gateway_ip: Address | None = None
    dhcp_enabled: Flag | None = None
    ipv6_address_mode: Literal["slaac", "dhcpv6-stateful", "dhcpv6-stateless"] | None = None
    security_group: Text | None = None


class ProtocolData(Model):
    """SOL006: virtual-link-protocol-data."""

    associated_layer_protocol: Text | None = None
    l2_protocol_data: Layer2 | None = None
    l3_protocol_data: Layer3 | None = None


class LinkProfile(Model):
    """Profile of an internal link; OSM adds the address profile."""

    id: Identifier
    flavour: Any = None
    max_bit_rate_requirements: Any = None
    min_bit_rate_requirements: Any = None
    local_affinity_or_anti_affinity_rule: Any = None
    affinity_or_anti_affinity_group: Any = None
    virtual_link_protocol_data: ProtocolData | None = None


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
    step_deltas: Any = None


class ScalingCriteria(Model):
    """Threshold of a scaling policy."""

    name: Text
    vnf_monitoring_param_ref: Text | None = None
    scale_in_threshold: Any = None
    scale_in_relational_operation: Operator | None = None
    scale_out_threshold: Any = None
    scale_out_relational_operation: Operator | None = None


class ScalingPolicy(Model):
    """When to scale."""

    name: Text
    scaling_type: Literal["manual", "automatic"] | None = None
    enabled: Flag | None = None
    scale_in_operation_type: Literal["AND", "OR"] | None = None
    scale_out_operation_type: Literal["AND", "OR"] | None = None
    threshold_time: Natural | None = None
    cooldown_time: Natural | None = None
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


class HealingPolicy(Model):
    """What to do about a VDU that is gone."""

    vdu_id: Text
    event_name: Text | None = None
    recovery_type: Literal["manual", "automatic"] | None = None
    action_on_recovery: Literal["REDEPLOY_ONLY", "REBOOT", "REBOOT_THEN_REDEPLOY"] | None = None
    cooldown_time: Natural | None = None
    day1: Flag | None = None


class HealingAspect(Model):
    """What can be healed."""

    id: Identifier
    healing_policy: list[HealingPolicy] = Field(default_factory=list)


class Exporters(Model):
    """Where the VNF offers its metrics."""

    metric_path: Text | None = None
    metric_port: Short | None = None
    external_connection_point_ref: Text | None = None


class OperateConfig(Model):
    """Where day1-2 stands."""

    day1_2: list[Day12] | None = Field(default=None, alias="day1-2")
    parameter: Any = None
    min_graceful_stop_timeout: Any = None
    max_recommended_graceful_stop_timeout: Any = None


class LcmOperations(Model):
    """LCM operations of a flavour."""

    operate_vnf_op_config: OperateConfig | None = None
    instantiate_vnf_op_config: Any = None
    heal_vnf_op_config: Any = None
    scale_vnf_op_config: Any = None
    terminate_vnf_op_config: Any = None
    change_ext_vnf_connectivity_op_config: Any = None
    change_vnf_flavour_op_config: Any = None
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
    supported_vnf_interfaces: Any = None
    lcm_operations_configuration: LcmOperations | None = None
    affinity_or_anti_affinity_group: Any = None
    indicator: Any = None
    monitoring_parameter: list[Free] = Field(default_factory=list)
    scaling_aspect: list[ScalingAspect] = Field(default_factory=list)
    healing_aspect: list[HealingAspect] = Field(default_factory=list)
    migration_aspect: list[Free] = Field(default_factory=list)
    exporters_endpoints: Exporters | None = None
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
    df: list[Flavour] = Field(min_length=1)
    configurable_properties: Any = None
    modifiable_attributes: Any = None
    lifecycle_management_script: Any = None
    element_group: Any = None
    indicator: Any = None
    auto_scale: Any = None
    service: list[Free] = Field(default_factory=list)
    placement_groups: Any = None


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
    vnfd_id: list[Text] = Field(default_factory=list)
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


class Snssai(Model):
    """Slice identity (TS 23.003 clause 28.4)."""

    slice_service_type: Literal["eMBB", "URLLC", "mMTC"]
    slice_differentiator: Text | None = None


class QualityOfService(Model):
    """5QI (TS 23.501 table 5.7.4-1); stored by OSM, never enforced."""

    id: Short
    resource_type: Literal["delay-critical-GBR", "GBR", "non-GBR"] | None = None
    priority_level: Short | None = None
    packet_delay_budget: Short | None = None
    packet_error_rate: Short | None = None
    default_max_data_burst: Short | None = None


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
    ip_address: Address | None = None


class SliceLink(Model):
    """Link between network services of a slice."""

    id: Identifier
    name: Text | None = None
    short_name: Text | None = None
    vendor: Text | None = None
    version: Text | None = None
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

    id: Identifier
    name: Text | None = None
    snssai: Snssai | None = Field(default=None, alias="SNSSAI-identifier")
    quality_of_service: QualityOfService | None = None
    netslice_subnet: list[Subnet] = Field(default_factory=list)
    netslice_vld: list[SliceLink] = Field(default_factory=list)
    netslice_connection_point: list[Free] = Field(default_factory=list)
    netslicefgd: list[Free] = Field(default_factory=list)
