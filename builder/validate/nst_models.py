"""Models of a network slice template, in OSM's own form.

`vnfd_models` explains the limits of these checks.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from builder.validate.schema import Address, Flag, Free, Identifier, Model, Short, Text


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
    type: Literal["ELAN", "ELINE"] | None = None
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
