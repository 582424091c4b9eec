"""Models of virtual links: the parts that VNFDs and NSDs share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from builder.validate.schema import Address, Flag, Model, Natural, Short, Text


class ProviderNetwork(Model):
    """Network of the provider behind a virtual link."""

    physical_network: Text | None = None
    segmentation_id: Natural | None = Field(default=None, alias="segmentation_id")


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
