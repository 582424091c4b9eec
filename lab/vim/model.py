"""Requests to a VIM (the specs) and its answers (networks, ports, servers).

All values are immutable snapshots: ask :class:`lab.vim.account.Vim` again for new ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lab.errors import VimError

#: The states of a server, named as OpenStack's compute API names them.
BUILD, ACTIVE, SHUTOFF, ERROR = "BUILD", "ACTIVE", "SHUTOFF", "ERROR"

#: PCI slots on the guest's bus begin here, so the first NIC of an Ubuntu cloud image is ens3.
FIRST_NIC_SLOT = 3


def nic_name(index: int, machine: str = "pc") -> str:
    """Name of the NIC at 0-based position ``index``: ens3, ens4, ...; of ``q35`` enp3s0, enp4s0."""
    number = FIRST_NIC_SLOT + index
    return f"enp{number}s0" if machine == "q35" else f"ens{number}"


@dataclass(frozen=True)
class NetworkSpec:
    """A network to make."""

    name: str  # as OSM would name it; names need not be unique, as in OpenStack.
    # Address range ("10.1.0.0/24", IPv4 or IPv6), or None for the next free 192.168.x.0/24, the
    # range OSM's resource orchestrator falls back to.
    subnet: str | None = None
    # Address announced to the servers as their default router, or None. No router is made: a
    # network is a wire.
    gateway: str | None = None
    # bytes, set on every NIC of the network; None is the account's ``network_mtu``.
    mtu: int | None = None
    # A network over which the charms reach the servers. There is one per VIM, made with the
    # account; another one is refused.
    management: bool = False
    # The site's router is its gateway; with ``nat`` other sites do not know its range.
    routed: bool = False
    nat: bool = False
    host_routes: tuple[str, ...] = ()  # ranges the servers reach through the gateway.
    dhcp: bool = True  # the subnet has DHCP, whose ports take the pool's first addresses.
    # First and last address for DHCP and for ports without a fixed address; None is the whole
    # subnet except the gateway.
    pool: tuple[str, str] | None = None


@dataclass(frozen=True)
class PortSpec:
    """A NIC to make: its network, and its address if a fixed one is wanted.

    ``port_security`` is Neutron's: when on, frames whose source MAC or IP address is not the
    port's own are dropped where they enter the network. ``management``: charms reach the server
    here; the VIM decides whether that needs a floating address. ``floating`` asks for an address of
    the external network as well: a certain one, or any. ``tag`` is Nova's device tag, by which the
    server's metadata names the NIC; OSM's RO gives the VNFD's name of the interface.
    """

    network_id: str
    ip: str | None = None
    mac: str | None = None
    port_security: bool = True
    floating: bool | str = False
    tag: str = ""
    management: bool = False


@dataclass(frozen=True)
class ServerSpec:
    """A server (VDU) to make."""

    name: str  # as the VIM lists it.
    hostname: str  # the server's own host name.
    image: str  # one of the account's images.
    # `vcpus`, `ram_mib`, `disk_gb`: the flavour. The disk is a real limit; CPU and memory are where
    # the machine's cgroup controllers allow it (see ``Server.notes``).
    vcpus: int
    ram_mib: int
    disk_gb: int
    ports: tuple[PortSpec, ...]  # in the order of their position: the first becomes ens3.
    # "#cloud-config" text, a "#!" script or a MIME multipart of these, or None.
    user_data: str | None = None
    ssh_keys: tuple[str, ...] = ()  # public keys for the image's default user.
    # An OpenStack hands the user-data over on a drive, too, and adds no keys to it.
    config_drive: bool = False


@dataclass(frozen=True)
class Network:
    """A network of the VIM; ``bridge`` is its device in the VIM's fabric namespace.

    ``dhcp_ports`` are the addresses that DHCP has taken; without one nobody answers DHCP requests.
    """

    id: str
    name: str
    tag: str
    subnet: str
    gateway: str | None
    mtu: int
    management: bool
    bridge: str
    routed: bool = False
    nat: bool = False
    host_routes: tuple[str, ...] = ()
    pool: tuple[str, str] | None = None
    dhcp_ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Port:
    """A server's NIC: ``interface`` inside the server, ``device`` in the fabric namespace."""

    id: str
    network_id: str
    interface: str
    device: str
    ip: str
    mac: str
    port_security: bool
    floating: str | None = None
    tag: str = ""

    @property
    def address(self) -> str:
        """Its address as OpenStack's connector reports it: the floating address first."""
        return f"{self.floating};{self.ip}" if self.floating else self.ip


@dataclass(frozen=True)
class Server:
    """A server as it is now.

    ``status`` is BUILD until the system and cloud-init are done, then ACTIVE; SHUTOFF after a
    stop; ERROR with the reason in ``fault``. ``notes`` says which limits of the flavour the machine
    could not enforce.
    """

    id: str
    name: str
    hostname: str
    tag: str
    image: str
    status: str
    ports: tuple[Port, ...]
    fault: str = ""
    notes: tuple[str, ...] = field(default=())

    def ip_on(self, network_id: str) -> str | None:
        """The server's address on a network, or None when it has no port there."""
        return next((port.ip for port in self.ports if port.network_id == network_id), None)


Found = TypeVar("Found")


_MISSING = {
    "image": "Image not found with this criteria",
    "network": "Network not found with this criteria",
}


def only(found: Sequence[Found], what: str, name: str) -> Found:
    """Return the one thing of a name that was found; refuse none and several, as RO does."""
    if not found:
        raise VimError(f"{_MISSING[what]}: '{name}'")
    if len(found) > 1:
        raise VimError(f"More than one {what} found with this criteria: '{name}'")
    return found[0]


def devices(ports: Iterable[Port]) -> list[dict[str, Any]]:
    """Return what Nova's metadata tells a server of its tagged NICs (meta_data.json, `devices`)."""
    return [
        {"type": "nic", "bus": "pci", "mac": port.mac, "tags": [port.tag]}
        for port in ports
        if port.tag
    ]
