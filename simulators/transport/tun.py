"""TUN devices, and addresses and routes by ip(8) and nft(8)."""

import fcntl
import os
import struct
import subprocess

from simulators.errors import EpcError

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000


def open_tun(name: str) -> int:
    """Create a TUN device; return its non-blocking descriptor, whose close removes the device."""
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        raise EpcError(f"The TUN device {name} could not be made: {error.strerror}.") from None
    return fd


def ip(*words: str) -> None:
    """Run ip(8)."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EpcError(f"ip {' '.join(words)}: {done.stderr.strip() or 'failed'}")


def nft(rules: str) -> None:
    """Load rules of nft(8)."""
    done = subprocess.run(
        ["nft", "-f", "-"], input=rules, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EpcError(f"nft: {done.stderr.strip() or 'failed'}")
