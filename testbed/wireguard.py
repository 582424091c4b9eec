"""WireGuard devices in network namespaces: the kernel's, else a process of wireguard-go each."""

import base64
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from lab.vim.dataplane import probe
from testbed.netns import Namespaces, end, wait

AT_ONCE = 50


def key_pair() -> tuple[str, str]:
    """Return a private and its public key, in the form of `wg`."""
    key = X25519PrivateKey.generate()
    raw = (key.private_bytes_raw(), key.public_key().public_bytes_raw())
    return base64.b64encode(raw[0]).decode(), base64.b64encode(raw[1]).decode()


class Devices:
    """Devices with names that are unique on the machine: their control sockets share a folder.

    Attributes:
        processes: Processes of wireguard-go in the order of the devices, none with the kernel's.
    """

    def __init__(self, **environment: str) -> None:
        self.environment = {**os.environ, **environment}
        self.processes: list[subprocess.Popen[bytes]] = []

    def make(self, spaces: Namespaces, name: str, devices: Sequence[str]) -> None:
        binary = probe().binary
        if binary is None:
            spaces.batch(name, [f"link add {device} type wireguard" for device in devices])
            return
        for first in range(0, len(devices), AT_ONCE):
            some = devices[first : first + AT_ONCE]
            self.processes += [
                subprocess.Popen(
                    spaces.argv(name, str(binary), "-f", device),
                    env=self.environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for device in some
            ]
            sockets = [Path(f"/run/wireguard/{device}.sock") for device in some]
            wait(lambda: all(map(Path.exists, sockets)), 600, f"not all of {some} are there")  # noqa: B023

    def stop(self) -> None:
        """End wireguard-go; devices of the kernel end with their namespaces."""
        end(self.processes)
        self.processes = []
