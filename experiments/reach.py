"""Which VNFs reach VNFs that they must not reach (experiment `reach`).

Every VNF tries every address of all VNFs without a link to it, in the same slice and in others. It
tries in three ways: by its routes, through the far management interface, and with a forged source
(the inner address of one of the target's peers). A TCP attempt tells whether a connection opened. A
UDP attempt carries a token, and the result is whether the target's program received it.

The control is the allowed peer: the same listeners must answer it through the tunnel.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from experiments.testbed import InBackground, Slice, Testbed, Vnf

PORT = 7777
"""Where each VNF has a service of its own on each of its inner addresses, TCP and UDP."""
SERVICES = (22, 2123, 2152, 3868, 4043, 5199, 5201, 7777, 8805, 36412)
"""TCP ports tried besides all those on which some VNF listens: SSH, the EPC's, our own."""


def by_design(found: Mapping[str, Any]) -> bool:
    """Tell whether an attempt was allowed to reach its target.

    OSM and Juju log in over the management network, which all slices share.
    """
    way = (found["address"], found["protocol"], found["port"])
    return way == ("management", "tcp", 22)


_STOP = "stop"

_LISTEN = r"""
import json, select, socket, sys, time
request = json.load(sys.stdin)
streams, datagrams = [], []
for address in request["addresses"]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for kind, table in ((socket.SOCK_STREAM, streams), (socket.SOCK_DGRAM, datagrams)):
        sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, request["port"]))
        if kind == socket.SOCK_STREAM:
            sock.listen(128)
        table.append(sock)
tokens, end = [], time.monotonic() + request["seconds"]
while time.monotonic() < end:
    ready, _, _ = select.select(streams + datagrams, [], [], 0.2)
    for sock in ready:
        if sock in streams:
            sock.accept()[0].close()
        else:
            tokens.append(sock.recv(200).decode("ascii", "replace"))
            if tokens[-1] == request["stop"]:
                end = 0
json.dump(tokens, sys.stdout)
"""

_ATTEMPT = r"""
import asyncio, errno, json, socket, struct, subprocess, sys
request = json.load(sys.stdin)

def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET

async def connect(address, port, gate):
    async with gate:
        try:
            opening = asyncio.open_connection(address, port, family=family(address))
            _, writer = await asyncio.wait_for(opening, request["patience"])
        except asyncio.TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"
        except OSError as error:
            return errno.errorcode.get(error.errno, "error").lower()
        writer.close()
        return "open"

def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def forged(source, target, port, text):
    data = text.encode()
    udp = struct.pack("!HHHH", port, port, 8 + len(data), 0) + data
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp

async def main():
    gate = asyncio.Semaphore(400)
    routed = []
    for route in request["routes"]:
        done = subprocess.run(["ip", "route", "add", route["to"], "via", route["via"], "dev",
                               route["dev"], "onlink"], capture_output=True)
        if done.returncode == 0:
            routed.append(route)
    try:
        found = await asyncio.gather(*(connect(a, p, gate) for a, p in request["tcp"]))
        plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        sent = []
        for item in request["udp"]:
            try:
                if item["source"]:
                    raw.sendto(forged(item["source"], item["to"], item["port"], item["token"]),
                               (item["to"], 0))
                else:
                    plain.sendto(item["token"].encode(), (item["to"], item["port"]))
                sent.append("sent")
            except OSError as error:
                sent.append(errno.errorcode.get(error.errno, "error").lower())
        await asyncio.sleep(0.2)
    finally:
        for route in routed:
            subprocess.run(["ip", "route", "del", route["to"], "via", route["via"]],
                           capture_output=True)
    json.dump({"tcp": found, "udp": sent}, sys.stdout)

asyncio.run(main())
"""


def addresses(found: Slice, vnf: Vnf) -> dict[str, str]:
    """Return the addresses of a VNF by their role: management, outer/LINK, inner/LINK."""
    table = {vnf.management: "management"}
    for kind, known in (("outer", found.addresses.outer), ("inner", found.addresses.inner)):
        for (name, link), address in known.items():
            if name == vnf.name:
                table[address] = f"{kind}/{link}"
    return table


def related(found: Slice, one: Vnf, other: Vnf) -> bool:
    """Tell whether two VNFs are the ends of a link of a slice."""
    return one.slice == other.slice == found.name and any(
        {link.near, link.far} == {one.name, other.name} for link in found.links.values()
    )


def own(found: Slice, vnf: Vnf) -> list[str]:
    """Return a VNF's addresses inside its tunnels; none for a UE."""
    table = addresses(found, vnf).items()
    return [address for address, kind in table if kind.startswith("inner/")]


def strangers(bed: Testbed) -> Iterator[tuple[Vnf, Vnf]]:
    """Yield each pair of VNFs that have no link with each other."""
    everyone = bed.all_vnfs()
    for one in everyone:
        for other in everyone:
            if one != other and not related(bed.slices[one.slice], one, other):
                yield one, other


def listening(vnf: Vnf) -> set[int]:
    """Return the TCP ports on which anything of a VNF listens, on whatever address."""
    rows = vnf.out("ss", "-Hlnt").splitlines()
    return {int(row.split()[3].rpartition(":")[2]) for row in rows}


def _requests(
    bed: Testbed, one: Vnf, others: list[Vnf], ports: list[int], patience: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a VNF tries against others: by which way, and the request to its VDU."""
    routes: list[dict[str, str]] = []
    routed, inner = [], []
    udp: list[dict[str, Any]] = []
    forged: list[dict[str, Any]] = []
    nic = one.vim.server(one.server).ports[0].interface
    for other in others:
        target = bed.slices[other.slice]
        token = f"{one}>{other}"
        for address, kind in addresses(target, other).items():
            routed += [(address, port) for port in ports]
            udp.append({"to": address, "port": PORT, "source": "", "token": f"{token} WAY {kind}"})
            if kind != "management":
                routes.append({"to": f"{address}/32", "via": other.management, "dev": nic})
            if not kind.startswith("inner/"):
                continue
            inner.append((address, PORT))
            for link in target.links.values():
                if other.name in (link.near, link.far):
                    peer = link.near if other.name == link.far else link.far
                    source, text = target.inner(peer, link.name), f"{token} forged-{peer} {kind}"
                    forged.append({"to": address, "port": PORT, "source": source, "token": text})
    for way, tcp in (("routed", routed), ("forced", inner)):
        named = [dict(item, token=item["token"].replace("WAY", way)) for item in udp]
        force = routes if way == "forced" else []
        yield way, {"routes": force, "tcp": tcp, "udp": named, "patience": patience}
    yield "forged", {"routes": routes, "tcp": [], "udp": forged, "patience": patience}


def run(bed: Testbed, ports: str, patience: float) -> tuple[dict[str, Any], bool]:
    """Check that all forbidden attempts fail, and that all allowed ones work.

    Args:
        bed: with the slices.
        ports: "listening" tries the TCP ports on which any VNF listens and those of the EPC; "all"
            tries every port of the management addresses besides.
        patience: seconds a TCP attempt may stay without an answer.

    Returns:
        The number of attempts by result, and every attempt that reached a target. Also whether only
        those open by design did, and every control did.
    """
    everyone = bed.all_vnfs()
    tried = sorted({port for vnf in everyone for port in listening(vnf)} | set(SERVICES))
    control: list[str] = []
    outcomes: dict[str, dict[str, int]] = {"routed": {}, "forced": {}, "forged": {}}
    reached: list[dict[str, Any]] = []
    listeners = {}
    for vnf in everyone:
        at = own(bed.slices[vnf.slice], vnf)
        if not at:
            continue
        request = {"addresses": at, "port": PORT, "seconds": 600, "stop": _STOP}
        listeners[str(vnf)] = InBackground(lambda v=vnf, r=request: v.python(_LISTEN, r, 650))  # type: ignore[misc]
    try:
        for vnf in everyone:
            if str(vnf) in listeners:
                _wait_listening(vnf)

        by_attacker: dict[str, tuple[Vnf, list[Vnf]]] = {}
        for one, other in strangers(bed):
            by_attacker.setdefault(str(one), (one, []))[1].append(other)

        def attack(one: Vnf, others: list[Vnf]) -> list[tuple[str, dict[str, Any], Any]]:
            return [
                (way, request, one.python(_ATTEMPT, request, 300))
                for way, request in _requests(bed, one, others, tried, patience)
            ]

        work = {
            name: InBackground(lambda o=one, t=others: attack(o, t))  # type: ignore[misc]
            for name, (one, others) in by_attacker.items()
        }
        whose = {
            address: (str(vnf), kind)
            for vnf in everyone
            for address, kind in addresses(bed.slices[vnf.slice], vnf).items()
        }
        for name, background in work.items():
            for way, request, told in background.result(600):
                for (address, port), outcome in zip(request["tcp"], told["tcp"], strict=True):
                    _count(outcomes[way], f"tcp {outcome}")
                    if outcome == "open":
                        whom, kind = whose[address]
                        reached.append({"from": name, "to": whom, "way": way, "port": port,
                                        "protocol": "tcp", "address": kind})  # fmt: skip
                for outcome in told["udp"]:
                    _count(outcomes[way], f"udp {outcome}")
        if ports == "all":
            reached += _every_port(bed, outcomes["routed"], patience)
        for vnf in everyone:
            control += _control(bed, vnf, patience)
    finally:
        tokens = _stop(bed, listeners)
    for token in tokens:
        if token != _STOP and not token.startswith("control "):
            pair, way, kind = token.split(" ", 2)
            start, _, end = pair.partition(">")
            reached.append({"from": start, "to": end, "way": way.partition("-")[0], "port": PORT,
                            "protocol": "udp", "address": kind})  # fmt: skip
    missing = [token for token in control if token not in tokens]
    unexpected = [r for r in reached if not by_design(r)]
    return {
        "pairs": len(list(strangers(bed))),
        "tcp-ports": ("1-65535 on management; " if ports == "all" else "") + _join(tried),
        "outcomes": outcomes,
        "unexpected": unexpected,
        "open-by-design": len(reached) - len(unexpected),
        "control": {"attempts": len(control), "failed": missing},
    }, not unexpected and bool(control) and not missing


def _join(ports: list[int]) -> str:
    return ", ".join(str(port) for port in ports)


def _count(table: dict[str, int], name: str) -> None:
    table[name] = table.get(name, 0) + 1


def _wait_listening(vnf: Vnf) -> None:
    until = time.monotonic() + 30
    while PORT not in listening(vnf):
        if time.monotonic() > until:
            raise click.ClickException(f"{vnf}: the listener does not come up")
        time.sleep(0.1)


def _control(bed: Testbed, vnf: Vnf, patience: float) -> list[str]:
    """Ask the far end of each link that a VNF starts, through the tunnel; return the tokens."""
    tokens = []
    for link in bed.slices[vnf.slice].links.values():
        if link.near == vnf.name:
            address = bed.slices[vnf.slice].target(link.name, "tunnel")
            token = f"control {vnf} {link.name}"
            item = {"to": address, "port": PORT, "source": "", "token": token}
            request = {"routes": [], "tcp": [(address, PORT)], "udp": [item], "patience": 5.0}
            told = vnf.python(_ATTEMPT, request)
            tokens.append(token if told["tcp"] == ["open"] else f"{token} (TCP {told['tcp'][0]})")
    return tokens


def _every_port(bed: Testbed, outcomes: dict[str, int], patience: float) -> list[dict[str, Any]]:
    """Try all TCP ports of each management address from one VNF of another slice."""
    reached = []
    first = {name: next(iter(found.vnfs.values())) for name, found in bed.slices.items()}
    for other in bed.all_vnfs():
        one = next(vnf for name, vnf in first.items() if name != other.slice)
        attempts = [(other.management, port) for port in range(1, 65536)]
        request = {"routes": [], "tcp": attempts, "udp": [], "patience": patience}
        told = one.python(_ATTEMPT, request, 600)
        for (_, port), outcome in zip(attempts, told["tcp"], strict=True):
            _count(outcomes, f"tcp {outcome}")
            if outcome == "open":
                reached.append({"from": str(one), "to": str(other), "way": "routed", "port": port,
                                "protocol": "tcp", "address": "management"})  # fmt: skip
    return reached


def _stop(bed: Testbed, listeners: dict[str, InBackground]) -> list[str]:
    """End the listeners and return every token any of them received."""
    tokens: list[str] = []
    for vnf in bed.all_vnfs():
        if str(vnf) not in listeners:
            continue
        at = own(bed.slices[vnf.slice], vnf)[0]
        item = {"to": at, "port": PORT, "source": "", "token": _STOP}
        vnf.python(_ATTEMPT, {"routes": [], "tcp": [], "udp": [item], "patience": 1.0})
        tokens += listeners[str(vnf)].result(60)
    return tokens
