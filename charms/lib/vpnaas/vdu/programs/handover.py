#!/usr/bin/python3
"""Give a rotating peer's prefixes to its next key as soon as a handshake proves it is in use.

Usage: handover INTERFACE KEY PREFIXES SECONDS
Ends by itself after SECONDS, or when the interface or the key is gone.
"""

import subprocess
import sys
import time


def main(interface: str, key: str, prefixes: str, seconds: str) -> int:
    """Watch for the handshake; return an exit code."""
    deadline = time.monotonic() + float(seconds)
    while time.monotonic() < deadline:
        shown = subprocess.run(
            ["wg", "show", interface, "latest-handshakes"], stdout=subprocess.PIPE, check=False
        )
        times = dict(line.split("\t") for line in shown.stdout.decode().splitlines())
        if shown.returncode or key not in times:
            return 0
        if times[key] != "0":
            command = ["wg", "set", interface, "peer", key, "allowed-ips", prefixes]
            return subprocess.run(command, check=False).returncode
        time.sleep(0.1)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
