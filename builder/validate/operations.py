"""Model of `day1-2` and `ns-configuration` (OSM's module common-augments)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from builder.validate.schema import Flag, Free, Identifier, Model, Natural, Scalar, Text

DataType = Literal["STRING", "INTEGER", "BOOLEAN"]


class Juju(Model):
    """A charm."""

    charm: Text | None = None
    proxy: Flag = True
    cloud: Literal["lxd", "k8s"] | None = None


class ExecutionEnvironment(Model):
    """Where primitives run."""

    id: Identifier
    juju: Juju | None = None
    helm_chart: Text | None = None
    helm_version: Literal["v2", "v3"] | None = None
    external_connection_point_ref: Text | None = None
    metric_service: Text | None = None


class SshAccess(Model):
    """Key injection."""

    required: Flag = False
    default_user: Text | None = None


class ConfigAccess(Model):
    """How the execution environment logs in to the VDU."""

    ssh_access: SshAccess | None = None


class InitialParameter(Model):
    """Parameter of an initial or terminate primitive."""

    name: Text
    data_type: DataType = "STRING"
    value: Scalar = None


class InitialPrimitive(Model):
    """Primitive LCM runs once."""

    seq: Natural
    name: Text
    execution_environment_ref: Text | None = None
    parameter: list[InitialParameter] = Field(default_factory=list)
    user_defined_script: Text | None = None


class Parameter(Model):
    """Parameter of a primitive an operator runs."""

    name: Text
    data_type: DataType = "STRING"
    mandatory: Flag = False
    default_value: Text | None = None
    parameter_pool: Text | None = None
    read_only: Flag | None = None
    hidden: Flag | None = None


class Primitive(Model):
    """Primitive an operator or a policy runs."""

    name: Text
    execution_environment_ref: Text | None = None
    execution_environment_primitive: Text | None = None
    parameter: list[Parameter] = Field(default_factory=list)
    user_defined_script: Text | None = None


class RelationEnd(Model):
    """One end of a relation."""

    vnf_profile_id: Text | None = None
    vdu_profile_id: Text | None = None
    kdu_resource_profile_id: Text | None = None
    execution_environment_ref: Text | None = None
    endpoint: Text | None = None


class RelationEntity(Model):
    """One end of a relation, in the deprecated form."""

    id: Text
    endpoint: Text | None = None


class Relation(Model):
    """Juju relation between two execution environments."""

    name: Text
    provider: RelationEnd | None = None
    requirer: RelationEnd | None = None
    entities: list[RelationEntity] = Field(default_factory=list)


class Metric(Model):
    """Metric of a charm."""

    name: Text


class Configuration(Model):
    """Configuration keys that VNFs, VDUs, KDUs and network services share."""

    juju: Juju | None = None
    script: Free | None = None
    execution_environment_list: list[ExecutionEnvironment] = Field(default_factory=list)
    initial_config_primitive: list[InitialPrimitive] = Field(default_factory=list)
    terminate_config_primitive: list[InitialPrimitive] = Field(default_factory=list)
    config_primitive: list[Primitive] = Field(default_factory=list)
    metrics: list[Metric] = Field(default_factory=list)
    relation: list[Relation] = Field(default_factory=list)


class Day12(Configuration):
    """Configuration of a VNF, VDU or KDU."""

    id: Identifier
    config_access: ConfigAccess | None = None
    blacklist_config_primitive: list[Literal["upgrade", "rollback"]] = Field(default_factory=list)


class NsConfiguration(Configuration):
    """Configuration of a network service; its charm is in `juju`."""
