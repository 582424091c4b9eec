"""What a made-up campaign was measured on."""

from __future__ import annotations

ENVIRONMENT = {
    "host": {"cpu": "a processor", "cpus": 2, "kernel": "6.1"},
    "dataplane": {"backend": "kernel", "version": "6.1", "cipher": "ChaCha20-Poly1305"},
    "versions": {"iperf3": "3.12", "tshark": "4.0", "python": "3.11", "commit": "abc"},
}
