"""Core files: one description of a mobile core, for the parameters of all its VNFs.

`params/cores/NAME.core.yaml` has each value that several network functions share only once
(network, keys, APN, pool, addresses). It also lists the parameter files to make.
"""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from builder import documents
from builder.errors import BuildError
from builder.strict import Strict, checked
from builder.tree import Tree

Imsi = Annotated[str, StringConstraints(pattern=r"^[0-9]{15}$")]
Digits = Annotated[str, StringConstraints(pattern=r"^[0-9]+$")]
Key = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{32}|store)$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]


class File(Strict):
    """One parameter file to make."""

    software: Literal["oai", "none"]
    ue: bool = False


class _Network(Strict):
    """The codes of a mobile network (TS 23.003 clause 12.1)."""

    mcc: Annotated[str, StringConstraints(pattern=r"^[0-9]{3}$")]
    mnc: Annotated[str, StringConstraints(pattern=r"^[0-9]{2,3}$")]


class Network(_Network):
    """The mobile network and its MME."""

    realm: str
    tac: int = Field(ge=1, le=65533)
    mme_group: int = Field(ge=0, le=65535)
    mme_code: int = Field(ge=0, le=255)
    mme_name: Name = "mme"


class _Subscribers(Strict):
    """The subscribers that the HSS or UDR creates at its start."""

    operator_key: Key
    subscriber_key: Key
    first_imsi: Imsi
    subscribers: int = Field(alias="count", ge=0, le=100000)


class Subscribers(_Subscribers):
    """The subscribers of an EPC."""

    first_msisdn: Digits


class _DataNetwork(Strict):
    """DNS servers and MTU of the UEs."""

    dns: IPv4Address
    second_dns: IPv4Address
    ue_mtu: int = Field(ge=576, le=9000)


class DataNetwork(_DataNetwork):
    """The packet data network of the UEs, and its gateway."""

    apn: str
    second_apn: str = "none"
    ue_pool: IPv4Network
    sgi_nat: bool = True
    gateway_id: int = Field(default=1, ge=1, le=255)


EnbId = Annotated[int, Field(ge=0, le=1048575)]
"""Identifies an eNB in its network (20 bits of the global eNB ID, TS 36.413, 9.2.1.37)."""


class Radio(Strict):
    """The cells: all have the same carrier, and each has its own eNB ID."""

    enb_id: EnbId  # eNB ID of the member `enb`.
    # eNB ID by member, for further eNBs.
    more_enbs: dict[Name, EnbId] = Field(default_factory=dict)
    downlink_mhz: int = Field(default=2680, ge=2620, le=2690)
    resource_blocks: Literal[25, 50, 100] = 25


class Equipment(Strict):
    """A UE, for the files of `ue-files`; one of the subscribers."""

    imsi: Imsi
    msisdn: Digits


class End(Strict):
    """Addresses of one member on a link."""

    underlay: IPv4Address
    inner: IPv4Address


class Link(Strict):
    """A secured link: its underlay network, the subnet in its tunnels, and two ends or more."""

    underlay: IPv4Network
    inner: IPv4Network
    ends: dict[Name, End] = Field(min_length=2)


class Plain(Strict):
    """A network without a tunnel."""

    underlay: IPv4Network
    ends: dict[Name, IPv4Address]


class Core(Strict):
    """A core file: the part that is the same for EPS and 5GS."""

    files: dict[FileName, File] = Field(min_length=1)
    order: list[Name] = Field(min_length=1)
    network: _Network
    image_prefix: str = "docker.io"
    image_pins: str = "none"
    vpn: dict[str, Any]
    links: dict[str, Link]
    networks: dict[str, Plain] = Field(default_factory=dict)

    @model_validator(mode="after")
    def names_are_of_one_kind(self) -> "Core":
        """Refuse a network that is called like a link."""
        for name in sorted(set(self.links) & set(self.networks)):
            raise ValueError(f"networks: {name} is a link already; allowed: another name")
        return self

    def functions(self) -> dict[str, dict[str, Any]]:
        """Return the other parameters of each network function, by member; `ue` is the UE."""
        raise NotImplementedError


class Epc(Core):
    """A core file of an EPC."""

    network: Network
    subscribers: Subscribers
    data_network: DataNetwork
    radio: Radio
    ue: Equipment | None = None

    def functions(self) -> dict[str, dict[str, Any]]:
        values = _values(self.network, self.subscribers, self.data_network, self.radio)
        values["mme_names"] = self.network.mme_name
        own = {member: _chosen(member, values) for member in ("hss", "mme", "spgwc", "spgwu")}
        for enb, number in {"enb": self.radio.enb_id, **self.radio.more_enbs}.items():
            own[enb] = _chosen("enb", values | {"enb_id": number})
        if self.ue is not None:
            own["ue"] = _chosen("ue", values | _values(self.ue))
        return own


class Network5g(_Network):
    """The mobile network and its AMF."""

    tac: int = Field(ge=1, le=0xFFFFFD)
    amf_region: int = Field(default=1, ge=0, le=255)
    amf_set: int = Field(default=1, ge=0, le=1023)
    amf_pointer: int = Field(default=1, ge=0, le=63)


class Subscribers5g(_Subscribers):
    """The subscribers of a 5G core; they may use every slice."""

    ambr_mbps: int = Field(default=1000, ge=1)


class Slice(Strict):
    """A slice of the network: its S-NSSAI, its data network, and its SMF and UPF."""

    # SST-SD, or SST alone.
    id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}(-[0-9a-fA-F]{6})?$")]
    dnn: str  # Data network name.
    five_qi: int = Field(ge=1, le=255)  # 5QI of the default QoS flow of its PDU sessions.
    ue_pool: IPv4Network  # Prefix of its UEs.
    smf: Name | None = None  # Member that is its SMF; None if the SMF is in another service.
    upf: Name | None = None  # Member that is its UPF; None if the UPF is in another service.


class DataNetwork5g(_DataNetwork):
    """DNS servers, MTU and NAT for the UEs of all slices."""

    n6_nat: bool = True


class Radio5g(Strict):
    """The gNB."""

    gnb_id: int = Field(ge=0, le=0xFFFFFFF)


class Wifi(Strict):
    """The N3IWF: its number, and the prefix of addresses inside the IPsec of its UEs."""

    n3iwf_id: int = Field(ge=1, le=0xFFFF)
    inner_pool: IPv4Network
    liveness_seconds: int = Field(default=60, ge=0, le=3600)


class Equipment5g(Strict):
    """A UE; one of the subscribers, with a PDU session in some of the slices."""

    imsi: Imsi
    slices: list[str] = Field(min_length=1)


class Core5g(Core):
    """A core file of a 5G core."""

    core: Literal["5gs"]
    network: Network5g
    subscribers: Subscribers5g
    slices: list[Slice] = Field(min_length=1)
    data_network: DataNetwork5g
    radio: Radio5g | None = None
    wifi: Wifi | None = None
    ue: Equipment5g | None = None

    @model_validator(mode="after")
    def slices_are_separate(self) -> "Core5g":
        """Refuse a UE's slice that is not there, and a function of two slices."""
        known = [one.id for one in self.slices]
        for wanted in self.ue.slices if self.ue else ():
            if wanted not in known:
                raise ValueError(f"ue: no slice {wanted}; allowed: {', '.join(known)}")
        owners: dict[str, str] = {}
        for one in self.slices:
            for member in filter(None, (one.smf, one.upf)):
                if (other := owners.get(member)) is not None:
                    raise ValueError(f"slices: {member} serves {other} and {one.id}; allowed: one")
                owners[member] = one.id
        return self

    def functions(self) -> dict[str, dict[str, Any]]:
        values = _values(self.network, self.subscribers, self.data_network)
        offered = ",".join(f"{one.id}/{one.dnn}/{one.five_qi}" for one in self.slices)
        own = {"amf": _chosen("amf", values | {"slices": offered})}
        values["slices"] = ",".join(one.id for one in self.slices)
        if self.radio is not None:
            own["gnb"] = _chosen("gnb", values | _values(self.radio))
        if self.wifi is not None:
            own["n3iwf"] = _chosen("n3iwf", values | _values(self.wifi))
        for one in self.slices:
            served = values | _values(one) | {"slice": one.id}
            own |= {
                m: _chosen(kind, served) for kind, m in (("smf", one.smf), ("upf", one.upf)) if m
            }
        if self.ue is not None:
            used = (one for one in self.slices if one.id in self.ue.slices)
            sessions = ",".join(f"{one.id}/{one.dnn}" for one in used)
            own["ue"] = _chosen("nr_ue", values | _values(self.ue) | {"sessions": sessions})
        return own


_PARAMETERS: dict[str, list[str]] = documents.read(Path(__file__).with_suffix(".yaml"))
"""The parameters of `configure-nf` that each kind of network function gets from a core file."""


def _values(*sections: Strict) -> dict[str, Any]:
    """Return the values of sections as parameters: names, addresses and truth values as text."""
    result: dict[str, Any] = {}
    for section in sections:
        for name, value in section:
            if isinstance(value, bool):  # OSM takes all but "false" and similar words as true.
                result[name] = "true" if value else "false"
            else:
                result[name] = str(value) if isinstance(value, IPv4Address | IPv4Network) else value
    return result


def _chosen(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _PARAMETERS[kind]}


def load(path: Path) -> Core:
    document = documents.read(path)
    return checked(Core5g if "core" in document else Epc, document, path.name)


def parameter_files(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return the parameter files of all core files, by name."""
    result: dict[str, dict[str, Any]] = {}
    for path in sorted(tree.root.glob("params/cores/*.core.yaml")):
        core = load(path)
        for name, file in core.files.items():
            if name in result:
                raise BuildError(f"{path.name}: {name}: another core file makes it as well")
            result[name] = document(core, file)
    return result


def document(core: Core, file: File) -> dict[str, Any]:
    functions = core.functions()
    if file.ue and "ue" not in functions:
        raise BuildError("files: ue is true, but the core file has no ue")
    common = {
        "software": file.software,
        "image_prefix": core.image_prefix,
        "image_pins": core.image_pins,
        **{name: v for name, v in core.network if name in ("mcc", "mnc", "realm")},
    }
    return {
        "vld": [_vld(name, link) for name, link in (core.links | core.networks).items()],
        "additionalParamsForVnf": [
            {
                "member-vnf-index": member,
                "additionalParams": _shared(core, member)
                | _link_params(core, member)
                | {f"nf_{n}": value for n, value in (common | functions.get(member, {})).items()},
            }
            for member in [*core.order, *(["ue"] if file.ue else [])]
        ],
    }


def _vld(name: str, network: Link | Plain) -> dict[str, Any]:
    ends = {
        member: end.underlay if isinstance(end, End) else end
        for member, end in network.ends.items()
    }
    return {
        "name": name,
        "ip-profile": {
            "ip-version": "ipv4",
            "subnet-address": str(network.underlay),
            "dhcp-params": {"enabled": False},
        },
        "vnfd-connection-point-ref": [
            {
                "member-vnf-index-ref": member,
                "vnfd-connection-point-ref": f"{name}-ext",
                "ip-address": str(address),
            }
            for member, address in ends.items()
        ],
    }


def _shared(core: Core, member: str) -> dict[str, Any]:
    """Return the parameters of every member; a UE has no links, so it gets no VPN parameters."""
    given = core.vpn.items()
    return {key: v for key, v in given if member != "ue" or not key.startswith("vpn_")}


def _link_params(core: Core, member: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, link in core.links.items():
        if member in link.ends:
            address = link.ends[member].inner
            key = name.replace("-", "_")  # NBI takes no other keys
            given[f"{key}_inner_address"] = f"{address}/{link.inner.prefixlen}"
            given[f"{key}_gateway"] = "auto"
            given[f"{key}_allowed_prefixes"] = "none"
            given[f"{key}_accept_prefixes"] = "none"
    return given
