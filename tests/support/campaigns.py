"""Made-up campaigns: what they were measured on, and their runs."""

from __future__ import annotations

from experiments.model import Cell, Run

ENVIRONMENT = {
    "host": {"cpu": "a processor", "cpus": 2, "kernel": "6.1"},
    "dataplane": {"backend": "kernel", "version": "6.1", "cipher": "ChaCha20-Poly1305"},
    "versions": {"iperf3": "3.12", "tshark": "4.0", "python": "3.11", "commit": "abc"},
}


def performance(
    name: str, path: str, load: str, repetition: int, mbps: float, rtt: float, link: str = "s6a"
) -> Run:
    params = {"slice": name, "link": link, "path": path, "neighbour": load, "seconds": 1}
    result = {"mbps": mbps, "rtt_ms": rtt, "jitter_ms": 0.01, "loss_percent": 0.0, "sent": 50,
              "limited": True, "rtt_within": [[0, rtt / 2], [50, rtt], [100, 2 * rtt]]}  # fmt: skip
    cell = Cell("performance", params)
    return Run(
        "performance", params, cell.key, repetition, repetition, 1e9, 1.0, 0.5, result, busy=0.1
    )
