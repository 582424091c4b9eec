"""Which VPN dataplanes this machine has, found by a test of each.

Distribution and kernel version are no proof (a kernel may be built without modules). So each
capability is tested once in a network namespace, which is removed after the test.
"""

import functools
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.errors import VimError

KERNEL, USERSPACE = "kernel", "wireguard-go"

#: Where the set-up script puts a current wireguard-go, several times as fast as old ones.
BUILT = Path(__file__).resolve().parents[2] / ".cache" / "bin" / "wireguard-go"

TUN = Path("/dev/net/tun")  # The device with which userspace implementations make their interfaces.


@dataclass(frozen=True)
class Dataplane:
    """What carries the tunnels."""

    backend: str  # "kernel" or "wireguard-go".
    version: str  # kernel release, or what ``wireguard-go --version`` says.
    binary: Path | None  # the userspace program, None with the kernel backend.
    esp: bool  # the kernel takes an ESP security association (ip-xfrm(8), AES-GCM of RFC 4106).
    sctp: bool  # the kernel has SCTP sockets.


def _works_in_new_netns(*argv: str) -> bool:
    done = subprocess.run(["unshare", "--net", *argv], capture_output=True, check=False)
    return done.returncode == 0


def kernel_has_wireguard() -> bool:
    """True when a WireGuard device can be made (the kernel loads the module by itself)."""
    return _works_in_new_netns("ip", "link", "add", "probe0", "type", "wireguard")


def kernel_has_esp() -> bool:
    """True when an ESP state with AES-256-GCM can be installed."""
    key = "0x" + "00" * 36  # 32 bytes of key, 4 of salt
    ends = "src 127.0.0.1 dst 127.0.0.2 proto esp spi 0x100 mode tunnel"
    state = f"{ends} aead rfc4106(gcm(aes)) {key} 128"
    return _works_in_new_netns("ip", "xfrm", "state", "add", *state.split())


def kernel_has_sctp() -> bool:
    """True when an SCTP socket can be opened."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


def _userspace_binary() -> Path | None:
    result = [BUILT]
    on_path = shutil.which("wireguard-go", path=f"/usr/local/bin:{os.defpath}:/usr/bin")
    if on_path:
        result.append(Path(on_path))
    return next((path for path in result if os.access(path, os.X_OK)), None)


def _userspace_version(binary: Path) -> str:
    done = subprocess.run(
        [str(binary), "--version"], capture_output=True, text=True, check=False, timeout=10
    )
    lines = done.stdout.strip().splitlines()
    return lines[0].removeprefix("wireguard-go ").strip() if lines else "unknown"


@functools.cache
def probe() -> Dataplane:
    """Find this machine's dataplane (tried once per process)."""
    esp, sctp = kernel_has_esp(), kernel_has_sctp()
    if kernel_has_wireguard():
        return Dataplane(KERNEL, os.uname().release, None, esp, sctp)
    binary = _userspace_binary()
    if binary is None:
        raise VimError(
            "This kernel has no WireGuard and wireguard-go is not installed: build it with "
            "./run setup in the repository, or install the package wireguard-go."
        )
    if not TUN.exists():
        raise VimError("This machine has no /dev/net/tun, which wireguard-go needs.")
    return Dataplane(USERSPACE, _userspace_version(binary), binary, esp, sctp)
