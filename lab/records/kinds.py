"""The fields that a record of each kind always has, as `lab.nbi` writes it.

A record may have more fields. If one of these is missing, the file was cut, edited by hand, or
written by another version of the lab.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Object = dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        alias_generator=lambda name: name.replace("_", "-"),
        defer_build=True,
    )


class _Admin(_Part):
    created: float


class _Record(_Part):
    id_: str = Field(alias="_id")
    admin: _Admin = Field(alias="_admin")


class Vim(_Record):
    """A VIM account."""

    name: str


class Vca(_Record):
    """A Juju controller that was registered."""

    name: str


class _CreatedAdmin(_Admin):
    kind: str
    onboarding: str = Field(alias="onboardingState")
    operational: str = Field(alias="operationalState")
    usage: str = Field(alias="usageState")


class Created(_Record):
    """A package without content yet."""

    admin: _CreatedAdmin = Field(alias="_admin")


class _Descriptor(_Part):
    id: str


class _Flavoured(_Descriptor):
    df: list[Object] = Field(min_length=1)


class Package(_Record):
    """A slice template; the other packages have these fields, too."""

    id: str
    name: str | None
    folder: str
    descriptor: _Descriptor


class Nsd(Package):
    """A network service package."""

    descriptor: _Flavoured


class _Revision(_Part):
    folder: str
    software_version: str


class _VnfdAdmin(_Admin):
    revision: int
    revisions: dict[str, _Revision]


class Vnfd(Package):
    """A VNF package."""

    admin: _VnfdAdmin = Field(alias="_admin")
    descriptor: _Flavoured


class _Environment(_Part):
    application: str
    ee_id: str | None = Field(alias="ee_id")
    charm_name: str = Field(alias="charm_name")
    member_vnf_index: str | None
    vdu_id: str | None = Field(alias="vdu_id")
    vdu_count_index: int | None = Field(alias="vdu_count_index")
    status: str


class _NsrDeployed(_Part):
    environments: list[_Environment] = Field(alias="VCA")


class _ScalingGroup(_Part):
    name: str
    vnf_index: str = Field(alias="vnf_index")
    operations: int = Field(alias="nb-scale-op")


class _NsrAdmin(_Admin):
    state: str = Field(alias="nsState")
    deployed: _NsrDeployed
    scaling_group: list[_ScalingGroup] = []


class _Request(_Part):
    vim_account: str = Field(alias="vimAccountId")


class Nsr(_Record):
    """A network service."""

    id: str
    name: str
    nsd: _Flavoured
    nsd_id: str
    nsd_ref: str
    request: _Request = Field(alias="instantiate_params")
    state: str = Field(alias="nsState")
    operation: str = Field(alias="currentOperation")
    operation_id: str | None = Field(alias="currentOperationID")
    create_time: float
    operational_status: str
    config_status: str
    detailed_status: str
    error_description: str | None = Field(alias="errorDescription")
    error_detail: str | None = Field(alias="errorDetail")
    configuration_status: list[Object] = Field(alias="configurationStatus")
    members: list[str] = Field(alias="constituent-vnfr-ref")
    admin: _NsrAdmin = Field(alias="_admin")
    lab: Object


class _Interface(_Part):
    name: str
    link: str | None = Field(alias="ns-vld-id")
    ip_address: str | None
    mgmt_interface: bool
    mgmt_vnf: bool


class _Vdur(_Part):
    vdu_id_ref: str
    count_index: int
    name: str
    vim_id: str | None
    status: str
    ip_address: str | None
    params: Object | None = Field(alias="additionalParams")
    interfaces: list[_Interface]


class _InstanceAdmin(_Admin):
    state: str = Field(alias="nsState")


class Vnfr(_Record):
    """A VNF of a network service."""

    nsr_id_ref: str
    member_vnf_index_ref: str
    vnfd_id: str
    vnfd_ref: str
    revision: int
    vim_account_id: str
    params: Object = Field(alias="additionalParamsForVnf")
    ip_address: str | None
    vdur: list[_Vdur]
    admin: _InstanceAdmin = Field(alias="_admin")


class _Process(_Part):
    pid: int
    start: int


class _OperationLab(_Part):
    worker: _Process | None = None


class _Operation(_Record):
    type: str = Field(alias="lcmOperationType")
    state: str = Field(alias="operationState")
    start_time: float = Field(alias="startTime")
    entered: float = Field(alias="statusEnteredTime")
    detailed_status: Any  # of an action: its output
    error: str | None = Field(alias="errorMessage")
    params: Object = Field(alias="operationParams")
    lab: _OperationLab


class NsOperation(_Operation):
    """An operation on a network service."""

    instance: str = Field(alias="nsInstanceId")


class _Steps(_Part):
    operations: list[str] = Field(alias="nslcmops_ids")


class NsiOperation(_Operation):
    """An operation on a slice."""

    instance: str = Field(alias="netsliceInstanceId")
    steps: _Steps = Field(alias="operationParams")


class _Subnet(_Part):
    id: str = Field(alias="nsrId")
    shared: bool
    nsd_id: str
    nss_id: str
    operation: str | None = Field(alias="nslcmop_instantiate")


class _SubnetParams(_Part):
    nss_id: str


class _Link(_Part):
    id: str
    name: str
    shared: list[str] = Field(alias="shared-nsrs-list")


class _DeployedLink(_Part):
    link: str = Field(alias="vld_id")
    network: str = Field(alias="netslice_scenario_id")


class _NsiDeployed(_Part):
    links: list[_DeployedLink] = Field(alias="RO")


class _NsiAdmin(_Admin):
    state: str = Field(alias="nsiState")
    template: str = Field(alias="nst-id")
    deployed: _NsiDeployed
    links: list[_Link] = Field(alias="netslice-vld")
    subnets: list[_Subnet] = Field(alias="nsrs-detailed-list")
    params: list[_SubnetParams] = Field(alias="netslice-subnet")


class Nsi(_Record):
    """A slice."""

    id: str
    name: str
    nst_ref: str
    template: _Descriptor = Field(alias="network-slice-template")
    request: Object = Field(alias="instantiation_parameters")
    services: list[Object] = Field(alias="nsr-ref-list")
    operational_status: str
    config_status: str
    detailed_status: str
    admin: _NsiAdmin = Field(alias="_admin")
