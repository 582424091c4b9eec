"""Services whose core is a stand-in: a VNF that has the addresses of network functions."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from e2e_support import SECGW, Lab, Service, Vnf, gone, wait

MME, SGW = "10.43.1.10", "10.43.2.10"
"""What cells reach by S1-C and by S1-U."""
PORTS = """
import json, socket, sys
found = {}
for port in json.loads(sys.argv[2]):
    s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET); s.settimeout(1)
    try:
        s.connect((sys.argv[1], port)); found[port] = "open"
    except TimeoutError: found[port] = "silence"
    except OSError as error: found[port] = error.strerror
    s.close()
print(json.dumps(found))
"""
"""Tries TCP ports of an address."""


@contextmanager
def with_core(
    lab: Lab,
    name: str,
    nsd: str,
    params: str,
    packages: Sequence[str] = SECGW,
    addresses: Sequence[str] = (MME, SGW),
) -> Iterator[Service]:
    """Give a service whose member `core` answers at some addresses more; delete it afterwards."""
    lab.onboard(*packages)
    service = lab.create(name, nsd, params)
    for address in addresses:
        service["core"].out("ip", "address", "add", f"{address}/32", "dev", "lo")
    yield service
    gone(service)


def tried(vnf: Vnf, address: str, *ports: int) -> dict[str, str]:
    """Return what each TCP port of an address says to a VNF."""
    shown = vnf.out("python3", "-", address, json.dumps(ports), input=PORTS)
    found: dict[str, str] = json.loads(shown)
    return found


@contextmanager
def http_server(vnf: Vnf) -> Iterator[None]:
    """Let a VNF serve HTTP on all its addresses while the block runs."""
    vnf.out("systemd-run", "--unit=listener", "python3", "-m", "http.server", "8080")
    try:
        wait(lambda: "tcp 0.0.0.0:8080" in vnf.listening(), "something listens")
        yield
    finally:
        vnf.out("systemctl", "stop", "listener")
