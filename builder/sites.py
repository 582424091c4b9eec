"""Site files: one description of a core, from which the parameters of every VNF follow.

`params/sites/NAME.site.yaml` names what network functions have to agree on once (network, keys,
APN, pool, addresses), and which parameter files to make of it.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from builder.errors import BuildError, sentence
from builder.tree import Tree

Digits = Annotated[str, StringConstraints(pattern=r"^[0-9]+$")]
Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{32}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )


class File(_Model):
    """One parameter file to make."""

    software: Literal["oai", "none"]
    ue: bool = False


class Network(_Model):
    """The mobile network and its MME (TS 23.003)."""

    mcc: Annotated[str, StringConstraints(pattern=r"^[0-9]{3}$")]
    mnc: Annotated[str, StringConstraints(pattern=r"^[0-9]{2,3}$")]
    realm: str
    tac: int = Field(ge=1, le=65533)
    mme_group: int = Field(ge=0, le=65535)
    mme_code: int = Field(ge=0, le=255)
    mme_name: Name = "mme"


class Subscribers(_Model):
    """Whom the HSS starts with."""

    operator_key: Key
    subscriber_key: Key
    first_imsi: Annotated[str, StringConstraints(pattern=r"^[0-9]{15}$")]
    first_msisdn: Digits
    count: int = Field(ge=0, le=100000)


class DataNetwork(_Model):
    """What UEs attach to."""

    apn: str
    second_apn: str = "none"
    dns: IPv4Address
    second_dns: IPv4Address
    ue_pool: IPv4Network
    ue_mtu: int = Field(ge=576, le=9000)
    sgi_nat: bool = True
    gateway_id: int = Field(default=1, ge=1, le=255)


EnbId = Annotated[int, Field(ge=0, le=1048575)]
"""Identifies an eNB in its network (20 bits of the global eNB ID, TS 36.413, 9.2.1.37)."""


class Radio(_Model):
    """The cells: the same carrier in all, and an eNB ID each.

    Attributes:
        enb_id: Of the member `enb`.
        more_enbs: eNB ID by member, for further eNBs.
    """

    enb_id: EnbId
    more_enbs: dict[Name, EnbId] = Field(default_factory=dict)
    downlink_mhz: int = Field(default=2680, ge=2620, le=2690)
    resource_blocks: Literal[25, 50, 100] = 25


class Equipment(_Model):
    """A UE, for the files of `ue-files`; one of the subscribers."""

    imsi: Annotated[str, StringConstraints(pattern=r"^[0-9]{15}$")]
    msisdn: Digits


class End(_Model):
    """Addresses of one member on a link."""

    underlay: IPv4Address
    inner: IPv4Address


class Link(_Model):
    """A secured link: its underlay network, the subnet in its tunnels, and two ends or more."""

    underlay: IPv4Network
    inner: IPv4Network
    ends: dict[Name, End] = Field(min_length=2)


class Plain(_Model):
    """A network without a tunnel."""

    underlay: IPv4Network
    ends: dict[Name, IPv4Address]


class Site(_Model):
    """A site file."""

    files: dict[str, File] = Field(min_length=1)
    order: list[Name] = Field(min_length=1)
    network: Network
    subscribers: Subscribers
    data_network: DataNetwork
    radio: Radio
    ue: Equipment | None = None
    image_prefix: str = "docker.io"
    image_pins: str = "none"
    vpn: dict[str, Any]
    links: dict[str, Link]
    networks: dict[str, Plain] = Field(default_factory=dict)


def load(path: Path) -> Site:
    """Read a site file.

    Raises:
        BuildError: The file is invalid.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Site.model_validate(document)
    except yaml.YAMLError as error:
        raise BuildError(f"{path.name}: not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise BuildError(f"{path.name}: {sentence(error)}") from None


def parameter_files(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return the parameter files of all site files, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(tree.root.glob("params/sites/*.site.yaml")):
        site = load(path)
        for name, file in site.files.items():
            if name in found:
                raise BuildError(f"{path.name}: {name}: another site file makes it as well")
            found[name] = document(site, file)
    return found


def document(site: Site, file: File) -> dict[str, Any]:
    """Return the instantiation parameters of a site, for one of its files."""
    software = file.software
    if file.ue and site.ue is None:
        raise BuildError("files: ue is true, but the site file has no ue")
    return {
        "vld": [_vld(name, link) for name, link in (site.links | site.networks).items()],
        "additionalParamsForVnf": [
            {
                "member-vnf-index": member,
                "additionalParams": _shared(site, member)
                | _link_params(site, member)
                | _nf_params(site, member, software),
            }
            for member in [*site.order, *(["ue"] if file.ue else [])]
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
            "dhcp-params": {"enabled": True},
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


def _shared(site: Site, member: str) -> dict[str, Any]:
    """Return what every member gets; a UE has no links, and so nothing of a VPN."""
    given = site.vpn.items()
    return {key: v for key, v in given if member != "ue" or not key.startswith("vpn_")}


def _link_params(site: Site, member: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, link in site.links.items():
        if member in link.ends:
            address = link.ends[member].inner
            given[f"{name}_inner_address"] = f"{address}/{link.inner.prefixlen}"
            given[f"{name}_gateway"] = "auto"
            given[f"{name}_allowed_prefixes"] = "none"
            given[f"{name}_accept_prefixes"] = "none"
    return given


def _nf_params(site: Site, member: str, software: str) -> dict[str, Any]:
    network, data, users = site.network, site.data_network, site.subscribers
    area: dict[str, Any] = {"tac": network.tac}
    access = {"apn": data.apn, "second_apn": data.second_apn}
    user_plane = {"ue_pool": str(data.ue_pool), "gateway_id": data.gateway_id}
    own: dict[str, dict[str, Any]] = {
        "hss": {
            "operator_key": users.operator_key,
            "subscriber_key": users.subscriber_key,
            "first_imsi": users.first_imsi,
            "first_msisdn": users.first_msisdn,
            "subscribers": users.count,
            "mme_names": network.mme_name,
            **access,
        },
        "mme": {
            **area,
            "mme_group": network.mme_group,
            "mme_code": network.mme_code,
            "mme_name": network.mme_name,
        },
        "spgwc": {
            **area,
            **access,
            **user_plane,
            "dns": str(data.dns),
            "second_dns": str(data.second_dns),
            "ue_mtu": data.ue_mtu,
        },
        # OSM takes every text except "false" and similar ones for true.
        "spgwu": {**user_plane, "sgi_nat": "true" if data.sgi_nat else "false"},
    }
    for enb, number in {"enb": site.radio.enb_id, **site.radio.more_enbs}.items():
        own[enb] = {
            **area,
            "enb_id": number,
            "downlink_mhz": site.radio.downlink_mhz,
            "resource_blocks": site.radio.resource_blocks,
        }
    if site.ue is not None:
        own["ue"] = {
            "operator_key": users.operator_key,
            "subscriber_key": users.subscriber_key,
            "imsi": site.ue.imsi,
            "msisdn": site.ue.msisdn,
            "downlink_mhz": site.radio.downlink_mhz,
            "resource_blocks": site.radio.resource_blocks,
        }
    common = {
        "software": software,
        "image_prefix": site.image_prefix,
        "image_pins": site.image_pins,
        "mcc": network.mcc,
        "mnc": network.mnc,
        "realm": network.realm,
    }
    return {f"nf_{name}": value for name, value in (common | own.get(member, {})).items()}
