"""A gateway pair under a 1 kHz probe: what two cells of it lose, and for how long."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e_core import MME, SGW
from e2e_support import InBackground, Service, Vnf, wait

from testbed import probe as probing

VIRTUAL = "192.168.121.254"
PORT = "9000"
#: Cell, its address, and whom it asks: both links and both cells are seen.
FLOWS = (("cell1", "10.41.0.11", MME), ("cell2", "10.42.0.12", SGW))
PROGRAM = Path(probing.__file__)


@dataclass(frozen=True)
class Told:
    """What a probe told.

    Attributes:
        gap_ms: Longest time between two answered probes of a flow, the worst of all flows.
        lost: Probes without an answer, the most of all flows.
        duplicates: Probes the core received twice.
    """

    gap_ms: float
    lost: int
    duplicates: int


def probe(service: Service, seconds: float, action: Callable[[], object], what: str) -> Told:
    """Probe the core from both cells every millisecond while something happens; print the gap."""
    core = service["core"]
    text = PROGRAM.read_text(encoding="utf-8")
    core.out("tee", "/run/probe.py", input=text)
    for number, (_, _, target) in enumerate(FLOWS):
        words = ("python3", "/run/probe.py", "echo", target, PORT)
        file = f"StandardOutput=truncate:/run/echo{number}.json"
        core.out("systemd-run", "--quiet", f"--unit=echo{number}", "-p", file, *words)
    try:
        for _, _, target in FLOWS:
            wait(lambda target=target: f"{target}:{PORT}" in core.out("ss", "-Hlnu"), "echo")
        senders = [
            InBackground(
                lambda flow=flow: service[flow[0]].out(
                    "python3", "-", "send", flow[2], PORT, str(seconds), "0.001", flow[1],
                    input=text, timeout=seconds + 60,
                )
            )
            for flow in FLOWS
        ]  # fmt: skip
        before = received(core)
        # Both flows run before anything happens to them.
        wait(lambda: received(core) > before + 400, "the probe reaches the core")
        action()
        flows = [json.loads(sender.result(seconds + 90))["flows"][0] for sender in senders]
    finally:
        core.run("systemctl", "stop", *(f"echo{number}" for number in range(len(FLOWS))))
    echoes = [json.loads(core.out("cat", f"/run/echo{n}.json")) for n in range(len(FLOWS))]
    print([{k: round(v, 1) for k, v in f.items()} for f in flows], echoes)
    result = Told(
        gap_ms=max(flow["gap-ms"] for flow in flows),
        lost=max(flow["lost"] for flow in flows),
        duplicates=sum(echo["duplicates"] for echo in echoes),
    )
    print(f"{what}: gap {result.gap_ms:.0f} ms, {result.lost} lost of {1000 * seconds:.0f}")
    return result


def received(vnf: Vnf) -> int:
    return probing.received(vnf.out("cat", "/proc/net/snmp"))


def active(service: Service) -> str:
    """Return the gateways that hold the virtual address, "1", "2", "12" or ""."""
    found = ""
    for number in "12":
        gateway = service[f"gateway{number}"]
        if gateway.server.status != "ACTIVE":
            continue
        if gateway.run("ip", "-o", "address", "show", "to", VIRTUAL).stdout.strip():
            found += number
    return found


def is_active(service: Service, names: str, seconds: float = 60.0) -> None:
    """Wait until exactly these gateways hold the virtual address."""
    service.wait(lambda: active(service) == names, f"active is {names or 'none'}", seconds)


def carriers(service: Service) -> str:
    """Return the gateways whose tunnels carry what cells send now, "1", "2" or "12"."""

    def heard(number: str) -> int:
        listed = service[f"gateway{number}"].out("swanctl", "--list-sas", "--raw")
        return sum(int(count) for count in re.findall(r"packets-in=(\d+)", listed))

    before = {number: heard(number) for number in "12"}
    for cell, own, target in FLOWS:
        words = ("ping", "-n", "-q", "-c", "5", "-i", "0.05", "-I", own, target)
        service[cell].run(*words)
    return "".join(number for number in "12" if heard(number) > before[number])


def whole(service: Service) -> None:
    """Wait until both gateways have all tunnels and the primary is active.

    Cells call a gateway again on their own within a minute; asking the gateways to reconcile, as
    Juju does every five minutes, brings them together sooner.
    """

    gateways = [service[f"gateway{number}"] for number in "12"]

    def ready() -> bool:
        # One that was just switched on has no console yet.
        if any(gateway.server.status != "ACTIVE" for gateway in gateways):
            return False
        healths = [
            gateway.run("cat", "/run/osm-vpnaas-tunnels").stdout.strip() for gateway in gateways
        ]
        return healths == ["150", "150"] and active(service) == "1"

    service.wait(ready, "both gateways have all tunnels, the primary is active", 180)


def files(vnf: Vnf) -> str:
    """Return digests of all that the charm wrote on a VNF, but for its own record."""
    folders = ("/etc/osm-vpnaas", "/etc/swanctl", "/etc/strongswan.d", "/etc/systemd/system")
    return vnf.out("find", *folders, "-type", "f", "-exec", "sha256sum", "{}", "+")
