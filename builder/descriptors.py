"""Source descriptors: SOL006 YAML with four tags that replace repeated text.

- `!day-1 {execution-environment-ref, charm, links: {link: interface}[, named-by: parameter]}`
  becomes the initial-config-primitive list: `config` with the login, one `configure` per link, then
  `configure-nf` if the charm runs a network function. With `named-by`, the name of a link that the
  charm does not have comes from that instantiation parameter. `network-function: {parameter:
  value}` sets fixed values for `configure-nf`, and `access` does so for `configure-access`.
  Links in `clear: [link]` have technology `none`. With `standby: true`, a gateway gets
  `configure-standby` after its links, with one instantiation parameter per value; any other VNF
  gets the addresses of a gateway pair from the instantiation parameter `vpn_standby_gateways`.
- `!day-2 {execution-environment-ref, charm}` becomes the config-primitive list of the charm.
- `!links {virtual link: external connection point}` becomes virtual-link-connectivity.
- `!subnets {virtual link: range}` becomes virtual-link-profile, one profile per link, without DHCP
  (docs/adr/0102-no-dhcp-on-underlays.md).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder import charms, documents
from builder.errors import BuildError, sentence
from builder.tree import Tree

LOGIN = {
    "ssh-hostname": "<rw_mgmt_ip>",
    "ssh-username": "ubuntu",
    "ssh-password": "<ssh_password>",
    "allow-experiments": "<allow_experiments>",
}
"""Charm options that the first primitive, `config`, sets."""
NOT_FOR_OPERATORS = ("generate-ssh-key", "get-ssh-public-key")
"""Actions that LCM calls itself; operators do not need them as primitives."""

SHARED = {
    "technology", "preshared-key", "post-quantum", "mtu", "keepalive", "credentials", "proposal",
    "ipsec-options",
}  # fmt: skip
"""`configure` parameters that one instantiation parameter (vpn_...) sets for all links of a VNF."""
STANDBY = "configure-standby"
ACCESS = "configure-access"
LITERAL = {"link", "underlay-interface", "listen-port", "standby-gateways"}
"""`configure` parameters that the descriptor sets itself, or leaves at the charm's default."""

DATA_TYPES = {"integer": "INTEGER", "boolean": "BOOLEAN", "string": "STRING"}


class _Tag:
    """One of the four tags with its mapping, before expansion."""

    def __init__(self, name: str, value: dict[str, Any]) -> None:
        self.name = name
        self.value = value


class _Day2(BaseModel):
    """Keys of `!day-2`."""

    model_config = ConfigDict(extra="forbid")

    execution_environment_ref: str = Field(alias="execution-environment-ref")
    charm: str


class _Day1(_Day2):
    """Keys of `!day-1`."""

    links: dict[str, str]
    clear: list[str] = Field(default_factory=list)
    standby: bool | list[str] = False
    network_function: dict[str, str] = Field(alias="network-function", default_factory=dict)
    access: dict[str, str] = Field(default_factory=dict)
    named_by: str | None = Field(alias="named-by", default=None, pattern="^[a-zA-Z_][a-zA-Z0-9_]*$")


class _Loader(yaml.SafeLoader):
    pass


def _construct(loader: _Loader, node: yaml.Node) -> _Tag:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(
            None, None, f"{node.tag} takes a mapping", node.start_mark
        )
    mapping = loader.construct_mapping(node, deep=True)
    return _Tag(node.tag, {str(key): value for key, value in mapping.items()})


for _name in ("!day-1", "!day-2", "!links", "!subnets"):
    _Loader.add_constructor(_name, _construct)


def load(tree: Tree, path: Path) -> dict[str, Any]:
    """Read a source descriptor and expand its tags."""
    document: dict[str, Any] = _expand(tree, documents.read(path, _Loader), {}, str(path))
    return document


def _expand(tree: Tree, value: Any, parent: dict[str, Any], where: str) -> Any:
    if isinstance(value, _Tag):
        try:
            return _TAGS[value.name](tree, value.value, parent)
        except ValidationError as error:
            raise BuildError(f"{where}: {value.name}: {sentence(error)}") from None
        except BuildError as error:
            raise BuildError(f"{where}: {value.name}: {error}") from None
    if isinstance(value, dict):
        return {key: _expand(tree, item, value, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(tree, item, parent, where) for item in value]
    return value


def day_1(tree: Tree, value: dict[str, Any], _: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the initial primitives of `!day-1`, with `seq` from 1."""
    tag = _Day1.model_validate(value)
    reference, named_by = tag.execution_environment_ref, tag.named_by
    charm = charms.load(tree, tag.charm)
    if not tag.links and charm.links:
        raise BuildError(f"links: charm {charm.name} has some, none is configured")
    parameters = charm.actions["configure"]["params"] if tag.links else {}
    for link in tag.clear:
        if link not in tag.links:
            raise BuildError(f"clear: {link} is none of links: {', '.join(sorted(tag.links))}")
    steps = [
        {
            "seq": 1,
            "name": "config",
            "execution-environment-ref": reference,
            "parameter": [
                {"name": name, "data-type": "STRING", "value": text} for name, text in LOGIN.items()
            ],
        }
    ]
    for seq, (link, interface) in enumerate(tag.links.items(), start=2):
        if not named_by and link not in charm.links:
            raise BuildError(
                f"charm {charm.name} has no link {link}; it has {', '.join(sorted(charm.links))}"
            )
        given = {
            "link": link if link in charm.links else f"<{named_by}>",
            "underlay-interface": interface,
        }
        if link in tag.clear:
            given["technology"] = "none"
        paired = tag.standby is True or (tag.standby and link in tag.standby)
        if paired and STANDBY not in charm.actions:
            given["standby-gateways"] = "<vpn_standby_gateways>"
        for name in parameters:
            if name in SHARED and link in tag.clear:
                continue
            if name in SHARED:
                given[name] = f"<vpn_{_key_of(name)}>"
            elif name not in LITERAL:
                given[name] = f"<{_key_of(link)}_{_key_of(name)}>"
        steps.append(
            {
                "seq": seq,
                "name": "configure",
                "execution-environment-ref": reference,
                "parameter": [
                    {"name": name, "data-type": _data_type(parameters[name]), "value": text}
                    for name, text in given.items()
                ],
            }
        )
    if tag.standby and STANDBY in charm.actions:
        steps.append(_standby(charm, tag, len(steps) + 1))
    if charm.network_function:
        steps.append(_with_fixed(charm, tag, "configure-nf", len(steps) + 1))
    if ACCESS in charm.actions:
        steps.append(_with_fixed(charm, tag, ACCESS, len(steps) + 1))
    return steps


def _standby(charm: charms.Charm, tag: _Day1, seq: int) -> dict[str, Any]:
    """Return `configure-standby`; its interface parameters keep the charm's defaults."""
    return {
        "seq": seq,
        "name": STANDBY,
        "execution-environment-ref": tag.execution_environment_ref,
        "parameter": [
            {"name": name, "data-type": _data_type(schema), "value": f"<standby_{_key_of(name)}>"}
            for name, schema in charm.actions[STANDBY]["params"].items()
            if not name.endswith("-interface")
        ],
    }


def _with_fixed(charm: charms.Charm, tag: _Day1, primitive: str, seq: int) -> dict[str, Any]:
    """Return a primitive: each value is from the descriptor, else an instantiation parameter."""
    key, prefix = ("access", "access") if primitive == ACCESS else ("network-function", "nf")
    known = tag.access if primitive == ACCESS else tag.network_function
    parameters = charm.actions[primitive]["params"]
    for name in known:
        if name not in parameters:
            raise BuildError(f"{key}: {primitive} of {charm.name} has no {name}")
    return {
        "seq": seq,
        "name": primitive,
        "execution-environment-ref": tag.execution_environment_ref,
        "parameter": [
            {
                "name": name,
                "data-type": _data_type(schema),
                "value": known.get(name, f"<{prefix}_{_key_of(name)}>"),
            }
            for name, schema in parameters.items()
        ],
    }


def _key_of(name: str) -> str:
    """Return a name NBI takes as a key of additionalParams (letters, digits and '_')."""
    return name.replace("-", "_")


def _data_type(schema: dict[str, Any]) -> str:
    return DATA_TYPES[schema.get("type", "string")]


def day_2(tree: Tree, value: dict[str, Any], _: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operators' primitives of `!day-2`."""
    tag = _Day2.model_validate(value)
    charm = charms.load(tree, tag.charm)
    return [
        {
            "name": name,
            "execution-environment-ref": tag.execution_environment_ref,
            "execution-environment-primitive": name,
            **_parameters(name, action),
        }
        for name, action in charm.actions.items()
        if name not in NOT_FOR_OPERATORS
    ]


def _parameters(primitive: str, action: dict[str, Any]) -> dict[str, Any]:
    required = action.get("required", ())
    listed = []
    for name, schema in (action.get("params") or {}).items():
        parameter: dict[str, Any] = {"name": name, "data-type": _data_type(schema)}
        if primitive == charms.KEPT and "default" not in schema:
            continue  # OSM sends a BOOLEAN in any case; configure-sgi or configure-n6 changes it.
        if name in required:
            parameter["mandatory"] = True
        else:
            default = schema.get("default", "")
            text = str(default).lower() if isinstance(default, bool) else str(default)
            if not text:
                # OSM ignores `mandatory` and demands every parameter that has no default.
                raise BuildError(
                    f"action {primitive}: {name}: an optional parameter needs a default "
                    "that is not empty"
                )
            parameter["default-value"] = text
        listed.append(parameter)
    return {"parameter": listed} if listed else {}


def _links(_: Tree, value: dict[str, Any], profile: dict[str, Any]) -> list[dict[str, Any]]:
    if "id" not in profile:
        raise BuildError("allowed only in a vnf-profile that has an id")
    return [
        {
            "virtual-link-profile-id": link,
            "constituent-cpd-id": [
                {"constituent-base-element-id": profile["id"], "constituent-cpd-id": point}
            ],
        }
        for link, point in value.items()
    ]


def _subnets(_: Tree, value: dict[str, Any], __: dict[str, Any]) -> list[dict[str, Any]]:
    profiles = []
    for link, subnet in value.items():
        try:
            version = ipaddress.ip_network(subnet).version
        except ValueError:
            raise BuildError(f"{link}: {subnet} is no range like 192.168.8.0/24") from None
        layer3 = {"ip-version": f"ipv{version}", "cidr": str(subnet), "dhcp-enabled": False}
        profiles.append(
            {
                "id": link,
                "virtual-link-desc-id": link,
                "virtual-link-protocol-data": {"l3-protocol-data": layer3},
            }
        )
    return profiles


_TAGS = {"!day-1": day_1, "!day-2": day_2, "!links": _links, "!subnets": _subnets}


def charm_names(descriptor: dict[str, Any]) -> list[str]:
    """Return the charms a descriptor names, anywhere."""
    return sorted(set(_values(descriptor, "charm")))


def cloud_init_files(descriptor: dict[str, Any]) -> list[str]:
    """Return the cloud-init files a descriptor names."""
    return sorted(set(_values(descriptor, "cloud-init-file")))


def _values(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key and isinstance(item, str):
                yield item
            else:
                yield from _values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, key)
