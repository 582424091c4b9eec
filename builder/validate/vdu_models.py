"""Models of a VDU: its connection points, compute, storage, image, alarms and boot data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from builder.validate.schema import (
    Address,
    Decimal,
    Flag,
    Free,
    Identifier,
    Model,
    Natural,
    Short,
    Text,
    Texts,
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
    security_group_rule_id: Texts = Field(default_factory=list)
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
    virtual_storage_desc: Texts | None = None
    boot_order: Any = None
    sw_image_desc: Text | None = None
    alternative_sw_image_desc: Texts = Field(default_factory=list)
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
