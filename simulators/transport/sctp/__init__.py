"""SCTP associations (RFC 9260) for S1AP and NGAP, by the kernel if it has SCTP, else by usrsctp.

In both cases packets are SCTP over IP (protocol 132). A kernel with SCTP must be used, because it
aborts the associations of other stacks. On other kernels, libusrsctp runs the protocol in this
process, and a raw socket carries its packets.
"""

import socket

from simulators.errors import EpcError
from simulators.transport.sctp.base import (
    IPPROTO_SCTP,
    Accepted,
    Association,
    Listener,
    stream_of,
)

__all__ = [
    "Accepted",
    "Association",
    "Listener",
    "connect",
    "kernel_has_sctp",
    "listen",
    "stream_of",
]


def kernel_has_sctp() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


def listen(address: str, port: int, accepted: Accepted, ppid: int) -> Listener:
    """Listen; ``accepted`` is called with each new association."""

    def connected(association: Association) -> None:
        association.ppid = ppid
        accepted(association)

    try:
        if kernel_has_sctp():
            from simulators.transport.sctp import kernel

            return kernel.Listener(address, port, connected)
        from simulators.transport.sctp import userspace

        return userspace.Listener(address, port, connected)
    except OSError as error:
        raise EpcError(f"SCTP {address}:{port}: {error.strerror or error}.") from None


async def connect(
    local: str, address: str, port: int, ppid: int, timeout: float = 5.0
) -> Association:
    """Set up an association from a local address."""
    try:
        if kernel_has_sctp():
            from simulators.transport.sctp import kernel

            made: Association = await kernel.connect(local, address, port, timeout)
        else:
            from simulators.transport.sctp import userspace

            made = await userspace.connect(local, address, port, timeout)
    except OSError as error:
        raise EpcError(f"SCTP {address}:{port}: {error.strerror or error}.") from None
    made.ppid = ppid
    return made
