"""The traffic on a wire, as Wireshark's dissectors see it.

tshark gets no ports and no hints: it recognises WireGuard by the format of its messages. So an
independent program decides whether a frame is protected.
"""

import collections
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

#: Layers that only carry others, so they do not show the kind of a frame.
_CARRIERS = {"eth", "ethertype", "vlan", "ip", "ipv6", "udp", "tcp", "sctp", "udpencap", "data"}
PROTECTED = frozenset({"wg", "esp", "isakmp"})
"""WireGuard, ESP (RFC 4303), and IKE, which sets up ESP (RFC 7296)."""
NEIGHBOURS = frozenset({"arp", "icmpv6-nd", "icmpv6-mld", "dhcp", "dhcpv6"})
"""Address resolution (RFC 826, RFC 4861), IPv6 multicast listener discovery (RFC 3810), and DHCP,
with which a VIM assigns addresses to its ports."""
#: ICMPv6 types of neighbour discovery and of multicast listener discovery.
_ND, _MLD = set(range(133, 138)), {130, 131, 132, 143}


@dataclass(frozen=True)
class Wire:
    """The number of frames in a capture by kind, and some of them as tshark shows them."""

    frames: dict[str, int]
    imsis: tuple[str, ...]
    excerpt: tuple[str, ...] = ()

    @property
    def clear(self) -> dict[str, int]:
        """Frames by kind, without protected ones and without those in NEIGHBOURS."""
        return {k: n for k, n in self.frames.items() if k not in PROTECTED | NEIGHBOURS}

    @property
    def protected(self) -> int:
        """Number of frames of a VPN."""
        return sum(n for kind, n in self.frames.items() if kind in PROTECTED)


EXCERPT = 2  # Number of frames of each kind in an excerpt.
_FIELDS = ("frame.protocols", "icmpv6.type", "e212.imsi", "nas_5gs.mm.suci.msin",
           "frame.time_relative", "frame.len", "ip.src", "ipv6.src", "ip.dst",
           "ipv6.dst")  # fmt: skip


def _tshark(file: Path, *words: str) -> list[str]:
    command = ["tshark", "-n", "-r", str(file), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except FileNotFoundError:
        raise click.ClickException("tshark is not installed") from None
    except subprocess.TimeoutExpired as error:
        sentence = f"tshark did not read {file.name} within {error.timeout:.0f} s"
        raise click.ClickException(sentence) from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise click.ClickException(f"tshark cannot read {file.name}: {reason}")
    return done.stdout.splitlines()


def kind(protocols: str, icmp6: str = "") -> str:
    """Return the kind of a frame, from tshark's `frame.protocols` and ICMPv6 type.

    A frame with a layer of a VPN is protected, whatever tshark shows inside that layer, but not if
    GTP-U comes first: then a UE has the VPN. For other frames, the first layer above the carriers
    counts.
    """
    layers = protocols.split(":")
    for layer in layers:
        if layer in PROTECTED | {"gtp"}:
            return layer
    if "icmpv6" in layers and icmp6.isdigit():
        number = int(icmp6)
        return "icmpv6-nd" if number in _ND else "icmpv6-mld" if number in _MLD else "icmpv6"
    named = [layer for layer in layers if layer not in _CARRIERS]
    if named:
        return named[0]
    transport = [layer for layer in layers if layer in ("udp", "tcp", "sctp", "ip", "ipv6")]
    return transport[-1] if transport else layers[-1]


def dissect(file: Path) -> Wire:
    fields = [word for name in _FIELDS for word in ("-e", name)]
    frames: collections.Counter[str] = collections.Counter()
    imsis: set[str] = set()
    shown: collections.Counter[str] = collections.Counter()
    excerpt = []
    for line in _tshark(file, "-T", "fields", *fields):
        words = (*line.split("\t"), *[""] * len(_FIELDS))[: len(_FIELDS)]
        protocols, icmp6, imsi, msin, *place = words
        imsi = imsi or msin
        what = kind(protocols, icmp6)
        frames[what] += 1
        imsis.update(filter(None, imsi.split(",")))
        tells = f"{what} with an IMSI" if imsi else what
        if what not in NEIGHBOURS and shown[tells] < EXCERPT:
            shown[tells] += 1
            excerpt.append(_line(place, protocols, imsi))
    return Wire(dict(sorted(frames.items())), tuple(sorted(imsis)), tuple(excerpt))


def _line(place: Sequence[str], protocols: str, imsi: str) -> str:
    """Return a frame as a line of an excerpt: seconds, addresses, bytes, layers, identity."""
    seconds, size, *addresses = place
    source, target = (
        one or other for one, other in zip(addresses[::2], addresses[1::2], strict=True)
    )
    identity = f", IMSI {imsi.split(',')[0]}" if imsi else ""
    return f"{float(seconds or 0):.6f} s  {source} > {target}  {size} bytes  {protocols}{identity}"
