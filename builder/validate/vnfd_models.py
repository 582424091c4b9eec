"""Models of a VNFD in OSM's flavour (ETSI GS NFV-SOL 006 with OSM's augments).

NBI checks keys and types with pyangbind, which ignores YANG's `mandatory`, `must`, `when` and
`leafref`, and so do the models. The rules report missing keys that cause a later failure.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from builder.validate.link_models import ProtocolData, ProviderNetwork
from builder.validate.operations import Day12
from builder.validate.schema import Flag, Free, Identifier, Model, Natural, Short, Text, Texts
from builder.validate.vdu_models import Image, Operator, Vdu, VirtualCompute, VirtualStorage


class IntCpdRef(Model):
    """Internal connection point of an external one."""

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
    security_group_rule_id: Texts = Field(default_factory=list)
    virtual_network_interface_requirement: list[Free] = Field(default_factory=list)
    address_data: Any = None


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
    """What OSM does when a VDU is lost."""

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
    """The container of day1-2."""

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
