"""The networks of a VIM: bridges in a separate network namespace, and the rules on their ports.

The namespace has no addresses, so network services may use equal ranges. The charms' namespace
(VCA) has an interface in the management network of every VIM and forwards between them, as a
provider's network does. Nothing is ever added to the machine's own namespace.
"""

import contextlib
import ipaddress
import os
import re
import signal
import subprocess
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from string import Template

from lab.errors import VimError
from lab.procs import last_words
from lab.vim.addresses import link_local
from lab.vim.model import Network, Port
from lab.vim.run import ip_batch, start, tool

NETNS = Path("/run/netns")
_RULES = Template(Path(__file__).with_name("ports.nft").read_text(encoding="utf-8"))

#: No IPv6 of the fabric itself: a capture shows the servers' frames only.
_QUIET = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null; \
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 2>/dev/null; true"
_FORWARD = "echo 1 >/proc/sys/net/ipv4/ip_forward; \
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding 2>/dev/null; true"


def enter(netns: str) -> list[str]:
    """Words to put before a command so that it runs in a named network namespace.

    nsenter and not "ip netns exec": the latter makes a mount namespace per command, which
    would keep the lab's mounts alive for as long as the command runs.
    """
    return ["nsenter", f"--net={NETNS / netns}", "--"]


def netns_exists(name: str) -> bool:
    """True when there is a named network namespace (and not just its name, as after a crash)."""
    try:
        # The name is a file; the namespace, of another file system, is mounted on it.
        return (NETNS / name).stat().st_dev != NETNS.stat().st_dev
    except FileNotFoundError:
        return False


def netns_names(prefix: str) -> list[str]:
    """Named network namespaces that begin with a lab's prefix."""
    if not NETNS.is_dir():
        return []
    return sorted(path.name for path in NETNS.iterdir() if path.name.startswith(f"{prefix}-"))


def _make_netns(name: str, setup: str) -> None:
    if netns_exists(name):
        return
    with contextlib.suppress(FileNotFoundError):
        (NETNS / name).unlink()  # a name without a namespace, left by a crash
    tool(["ip", "netns", "add", name])
    ip_batch(name, "link set lo up")
    tool([*enter(name), "sh", "-c", setup])


def make_fabric(netns: str) -> None:
    """Make a VIM's namespace if it is missing."""
    _make_netns(netns, _QUIET)


def make_vca(netns: str) -> None:
    """Make the charms' namespace if it is missing."""
    _make_netns(netns, _FORWARD)


def delete_netns(name: str) -> None:
    """Remove a named network namespace with all its devices, if it exists."""
    if (NETNS / name).exists():
        tool(["ip", "netns", "delete", name])


def device_exists(netns: str, device: str) -> bool:
    words = ["ip", "-n", netns, "link", "show", "dev", device]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def make_network(netns: str, network: Network) -> None:
    """Make a network's bridge if it is missing."""
    if device_exists(netns, network.bridge):
        return
    ip_batch(
        netns,
        # No spanning tree and no delay: a port carries frames as soon as it is up.
        f"link add {network.bridge} mtu {network.mtu} type bridge "
        "stp_state 0 forward_delay 0 mcast_snooping 0",
        f"link set {network.bridge} up",
    )


def delete_device(netns: str, device: str) -> None:
    """Remove a device, if it and its namespace exist."""
    if netns_exists(netns) and device_exists(netns, device):
        try:
            tool(["ip", "-n", netns, "link", "delete", device])
        except VimError:
            # A veth disappears with its other end, and the other end's namespace may be ending now.
            if netns_exists(netns) and device_exists(netns, device):
                raise


def forget(netns: str, addresses: Iterable[str]) -> None:
    """Let a namespace forget whose MACs the addresses had; the next port has another one.

    A server boots in less time than the kernel trusts what it knows.
    """
    if netns_exists(netns):
        ip_batch(netns, *(f"neigh flush to {address}" for address in addresses))


def plug(fabric: str, network: Network, port: str, netns: str, device: str, address: str) -> None:
    """Connect a namespace to a network by a veth pair; ``device`` there gets the address."""
    ip_batch(
        fabric,
        f"link add {port} mtu {network.mtu} type veth peer name {device} netns {netns}",
        f"link set {port} master {network.bridge} up",
    )
    length = ipaddress.ip_network(network.subnet).prefixlen
    flags = " nodad" if ":" in address else ""
    given = f"address add {address}/{length} dev {device}{flags}"
    ip_batch(netns, f"link set {device} up", given)


def join_vca(netns: str, vca: str, number: int, network: Network) -> None:
    """Connect the charms' namespace to a management network, with the gateway address."""
    device = f"vim{number}"
    if device_exists(vca, device):
        return
    # If the charms' namespace was removed, the other end of its old device may still exist.
    delete_device(netns, "vca")
    plug(netns, network, "vca", vca, device, str(network.gateway))


def add_host(netns: str, prefix: str, network: Network, taken: Container[str]) -> tuple[str, str]:
    """Make a namespace with an interface ``eth0`` on a network, without rules on what it sends.

    Args:
        prefix: Of the names of the lab's namespaces.
        taken: Addresses that others on the network have.

    Returns:
        The name of the namespace, and the host's address with prefix length.
    """
    subnet = ipaddress.ip_network(network.subnet)
    edge = int(subnet.broadcast_address) - (subnet.version == 4)
    last = (str(type(subnet.network_address)(edge - back)) for back in range(subnet.num_addresses))
    free = (address for address in last if address not in taken)
    # The number is free in the whole lab, so no other host has the address.
    number, address = next(
        pair for pair in enumerate(free) if not netns_exists(f"{prefix}-host{pair[0]}")
    )
    name, device = f"{prefix}-host{number}", f"host{number}"
    _make_netns(name, "true")
    plug(netns, network, device, name, "eth0", address)
    ip_batch(name, f"link set eth0 mtu {network.mtu}")
    return name, f"{address}/{subnet.prefixlen}"


def remove_host(name: str) -> None:
    """End what runs in a host's namespace, such as a wireguard-go, and remove it."""
    for pid in tool(["ip", "netns", "pids", name]).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)
    delete_netns(name)


def port_rules(ports: Iterable[Port], shared: Container[str] = ()) -> str:
    """An nft script with the anti-spoofing rules of all ports that have port security.

    ``shared`` are ids of networks of many services: the management network. If it is an IPv4
    network, all IPv6 of its servers is dropped. Otherwise they could reach each other by link-local
    addresses, and no rule on their IPv4 addresses would apply. In a cloud the security groups
    prevent this.

    As Neutron's: the source MAC, the ARP sender and the source IP of a frame must be the
    port's own; a DHCP request and IPv6 address detection may come from the unspecified
    address; other protocols than IP and ARP are dropped.
    """
    ports = list(ports)
    guarded = [port for port in ports if port.port_security]
    apart = [f'"{p.device}"' for p in ports if p.network_id in shared and ":" not in p.ip]
    names = [f'"{port.device}"' for port in guarded]
    macs = [f'"{port.device}" . {port.mac}' for port in guarded]
    ip4 = [f'"{port.device}" . {port.ip}' for port in guarded if ":" not in port.ip]
    ip6 = [f'"{port.device}" . {port.ip}' for port in guarded if ":" in port.ip]
    ip6 += [f'"{port.device}" . {link_local(port.mac)}' for port in guarded]

    return _RULES.substitute(
        guarded=_elements(names),
        apart=_elements(apart),
        port_mac=_elements(macs),
        port_ip4=_elements(ip4),
        port_ip6=_elements(ip6),
    )


def _elements(values: list[str]) -> str:
    return f" elements = {{ {', '.join(values)} }};" if values else ""


def apply_rules(netns: str, ports: Iterable[Port], shared: Container[str]) -> None:
    """Replace the rules of a VIM by those for the given ports, see `port_rules`."""
    tool([*enter(netns), "nft", "-f", "-"], port_rules(ports, shared))


_LARGEST_FRAME = 65550  # bytes: the largest a veth passes on unsegmented, and its Ethernet header
_BUFFER_KIB = 16384
CAPTURE_LIMIT = 512 * 1024 * 1024
"""Largest size of a capture, bytes. It also holds after the process that started it was killed."""
#: tcpdump's report on SIGUSR1: frames written, frames received by its filter, frames dropped.
_COUNTS = re.compile(rb"(\d+) packets? captured, (\d+) packets? received by filter, (\d+) packets?")


def _catch_up(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until tcpdump has written all frames received so far; when it ends, the rest is lost."""
    end = time.monotonic() + 10
    known, due = 0, None
    while time.monotonic() < end:
        if process.poll() == -signal.SIGXFSZ:
            raise VimError(f"a capture has more than {CAPTURE_LIMIT} bytes: it is not complete")
        process.send_signal(signal.SIGUSR1)
        while len(counts := _COUNTS.findall(log.read_bytes())) == known:
            if process.poll() is not None or time.monotonic() > end:
                break
            time.sleep(0.005)
        if len(counts) > known:
            known = len(counts)
            written, received, dropped = (int(number) for number in counts[-1])
            due = received - dropped if due is None else due
            if written >= due:
                return
        time.sleep(0.005)
    raise VimError(f"tcpdump has not written all frames after 10 s: {last_words(log)}")


@contextlib.contextmanager
def capture(netns: str, device: str, path: Path) -> Iterator[None]:
    """Write every frame on a device of the fabric to a pcap file while the block runs."""
    if not path.absolute().parent.is_dir():
        raise VimError(f"{path}: {path.parent} is no folder")
    # The kernel ends tcpdump at the limit (RLIMIT_FSIZE), without a core file.
    limits = ["prlimit", f"--fsize={CAPTURE_LIMIT}", "--core=0"]
    # -Z root: written as root, since the lab's directory is not open to tcpdump's own user.
    # In immediate mode the kernel keeps a slot of the largest size for each frame; the default of
    # 2 MiB and 256 KiB has room for 8 while tcpdump waits for a processor.
    slots = ["-s", str(_LARGEST_FRAME), "-B", str(_BUFFER_KIB)]
    argv = [*limits, "tcpdump", "-i", device, "-n", "-U", "--immediate-mode", "-Z", "root", *slots]
    argv += ["-w", str(path.absolute())]
    log = path.with_name(path.name + ".log")
    log.unlink(missing_ok=True)
    try:
        process = start(
            [*enter(netns), *argv],
            log,
            lambda _: b"listening on" in log.read_bytes(),
            f"tcpdump on {device} did not start",
        )
        try:
            yield
            _catch_up(process, log)
        finally:
            process.terminate()
            process.wait(10)
    finally:
        log.unlink(missing_ok=True)
