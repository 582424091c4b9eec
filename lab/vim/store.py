"""State on disk: where things are, locks between processes and threads, atomic documents."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.errors import clause
from lab import files
from lab.errors import VimError
from lab.vim.model import Network, Server

#: Account names become directory names, so they are plain.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True)
class Home:
    """The lab's directory, and the names on the machine that belong to it.

    Everything the lab makes outside its directory (namespaces, control groups) carries
    ``prefix``, a hash of the directory. So two labs never conflict and a clean-up needs no record.
    """

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> "Home":
        """The home at a path, made absolute so that its prefix is always the same."""
        return cls(Path(path).expanduser().resolve())

    @property
    def prefix(self) -> str:
        """Nine characters: leaves six for a suffix where a name may have fifteen."""
        return "osm" + hashlib.sha256(os.fsencode(self.path)).hexdigest()[:6]

    @property
    def vims(self) -> Path:
        return self.path / "vims"

    def openstack(self, name: str) -> Path:
        """The record of an account that is an OpenStack."""
        return self.vims / name / "openstack.json"

    @property
    def openstacks(self) -> list[str]:
        return sorted(path.parent.name for path in self.vims.glob("*/openstack.json"))

    @property
    def lock(self) -> Path:
        """Lock for what the accounts share (their numbers, the charms' namespace)."""
        return self.path / "vim.lock"

    @property
    def vca_netns(self) -> str:
        """Name of the network namespace the charms run in."""
        return f"{self.prefix}-vca"

    @property
    def wan_netns(self) -> str:
        """Name of the network namespace in which the uplinks of all sites end."""
        return f"{self.prefix}-wan"

    def router_netns(self, number: int) -> str:
        """Name of the network namespace with the router of VIM ``number``."""
        return f"{self.prefix}-rt{number}"

    def fabric_netns(self, number: int) -> str:
        """Name of the network namespace with the bridges of VIM ``number``."""
        return f"{self.prefix}-vim{number}"


def locked(path: Path, seconds: float = 120.0) -> AbstractContextManager[None]:
    """Hold an exclusive lock file; this excludes other processes and other threads."""
    return files.locked(path, seconds, error=VimError)


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file that is replaced atomically; None if there is no object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class ServerRecord(BaseModel):
    """The record of a server, written before the server is made."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    server: Server
    vcpus: int
    ram_mib: int
    disk_gb: int
    made: bool = False  # Set after the first start; a killed create leaves it False.


class Image(BaseModel):
    """An image of the account: the machine's own root, looking like a fresh cloud image."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    default_user: str = Field(default="ubuntu", pattern=r"^[a-z_][a-z0-9_-]*$")
    #: Top-level directories shown although an image has them empty, such as "/opt".
    keep: list[str] = Field(default_factory=list)
    #: As OpenStack's property: the names of a VDU's NICs follow from it, see `nic_name`.
    hw_machine_type: Literal["pc", "q35"] = "pc"


class Uplink(BaseModel):
    """A site's connection to the others: its part of a round trip, and its rate each way."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    rate_mbit: float = Field(default=0, ge=0, le=10_000)
    rtt_ms: float = Field(default=0, ge=0, le=4000)


class SiteNetwork(BaseModel):
    """An existing network of the VIM's operator; ``routed``: connected to the site's router.

    Without ``nat`` the other sites know its range. With it they reach its servers by floating
    addresses only; ``floating`` maps fixed to floating addresses.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)
    name: str
    subnet: str
    routed: bool = True
    nat: bool = True
    floating: dict[str, str] = Field(default_factory=dict)
    #: Ranges that servers reach through the network's gateway (DHCP's option 121).
    host_routes: list[str] = Field(default_factory=list)
    #: None: the account's ``network_mtu``.
    mtu: int | None = None
    dhcp: bool = True


class Config(BaseModel):
    """The account's configuration: the part of OSM's VIM config this VIM understands.

    Other keys are left to other VIM types (as OSM does) and have no effect here.
    """

    model_config = ConfigDict(extra="ignore", defer_build=True)
    management_network_name: str = "mgmtnet"
    #: None: 10.250.<number>.0/24.
    management_subnet: str | None = None
    images: dict[str, Image] = Field(default_factory=lambda: {"ubuntu22.04": Image()})
    #: As OSM's: management interfaces get a floating address; true, or the name of a pool.
    use_floating_ip: bool | str = False
    #: Range of the floating addresses; with it the VIM has a router.
    external_subnet: str | None = None
    uplink: Uplink = Field(default_factory=Uplink)
    networks: list[SiteNetwork] = Field(default_factory=list)
    #: MTU of networks that name none: Ethernet's less 50 for VXLAN, as of tenants' in Neutron.
    network_mtu: int = 1450
    #: Neutron's option: how many ports of DHCP each subnet with DHCP has.
    dhcp_agents_per_network: int = Field(default=1, ge=0, le=10)
    #: Whether servers get network data, by a metadata service or a configuration drive. Without it
    #: a NIC has an address only where the subnet has DHCP.
    metadata: bool = True
    #: Whether errors that cloud-init reports fail the server. Nova never looks at them.
    strict_day0: bool = False
    #: Whether VDUs get images of containers from the lab, see :mod:`lab.vim.registry`.
    registry: bool = False


class Account(BaseModel):
    """The properties of an account that never change."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    name: str
    number: int
    kind: str = "namespaces"  # What its servers are, see :mod:`lab.vim.vdu`.
    config: Config


class State(BaseModel):
    """All networks and servers of one VIM."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    networks: dict[str, Network] = Field(default_factory=dict)
    servers: dict[str, ServerRecord] = Field(default_factory=dict)


Parsed = TypeVar("Parsed", bound=BaseModel)


def parsed(kind: type[Parsed], config: Mapping[str, Any]) -> Parsed:
    """Return the configuration of an account; the first mistake in it is one sentence."""
    try:
        return kind.model_validate(dict(config))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise VimError(f"The VIM configuration is wrong at '{where}': {clause(first)}.") from None
