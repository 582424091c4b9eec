"""UEs of a service, and their packets."""

import json
from collections.abc import Sequence
from typing import Any

from e2e_support import Service, Vnf, wait

from simulators.shared.milenage import opc

SGI = "10.254.1.203"
DEVICE = "oaitun_ue1"
OP, K = "1006020f0a478bf6b699f15c062e42b3", "449c4b91aeacd0ace182cf3a5a72bfa1"
FIRST_IMSI = 242881234500000
#: Seconds for what takes a second or two on a machine that has nothing else to do.
LONG = 120


def reaches(service: Service, *options: str) -> bool:
    """Say whether the UE reaches the packet data network."""
    words = ("ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "2", "-I", DEVICE)
    return service["ue"].run(*words, *options, SGI).returncode == 0


def attached(service: Service) -> None:
    """Wait until the UE is attached and its packets go."""
    wait(lambda: reaches(service, "-c", "1"), "the UE reaches SGi", LONG)


LAUNCH = "/usr/lib/osm-lab/launch"


def load(
    enb: Vnf, count: int, rate: float, after: int = 100, by: Sequence[str] = (LAUNCH,)
) -> dict[str, Any]:
    """Let UEs of an eNB attach, so many a second, and stay until all are done."""
    request = {
        "enb": "127.0.0.1",
        "first_imsi": str(FIRST_IMSI + after),
        "k": K,
        "opc": opc(bytes.fromhex(K), bytes.fromhex(OP)).hex(),
        "plmn": "242/88",
        "count": count,
        "rate": rate,
        "hold": True,
    }
    result: dict[str, Any] = json.loads(
        enb.out(*by, "load", input=json.dumps(request), timeout=300)
    )
    return result
