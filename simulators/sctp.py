"""SCTP associations (RFC 9260) for S1AP and NGAP, by the kernel if it has SCTP, else by usrsctp.

In both cases packets are SCTP over IP (protocol 132). A kernel with SCTP would abort the
associations of another stack, so it must be used. Without it, libusrsctp runs the protocol in this
process and a raw socket carries its packets.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from simulators.errors import EpcError

#: Streams asked for in each direction, as OAI's eNB and MME do.
STREAMS = 8
IPPROTO_SCTP = 132
#: Messages that wait for room in the stack's buffer before the association counts as stuck.
QUEUE = 1 << 14


def stream_of(ue: int) -> int:
    """The stream for a UE's messages by its number; stream 0 is for messages about no UE."""
    return 1 + ue % (STREAMS - 1)


class Association(ABC):
    """One association.

    Attributes:
        peer: the other end's address.
        on_message: called with stream and octets of each message.
        on_close: called once when the association ended.
        ppid: payload protocol identifier of what we send.
    """

    ppid: int

    def __init__(self, peer: str) -> None:
        """Be the association with a peer."""
        self.peer = peer
        self.on_message: Callable[[int, bytes], None] = lambda stream, octets: None
        self.on_close: Callable[[], None] = lambda: None
        self._unsent: deque[tuple[int, bytes]] = deque()

    def send(self, stream: int, octets: bytes) -> None:
        """Send a message on a stream, or as soon as the stack has room for it.

        Raises:
            EpcError: the association is gone, or does not move on.
        """
        if len(self._unsent) >= QUEUE:
            raise EpcError(f"SCTP to {self.peer}: {QUEUE} messages wait to be sent.")
        if self._unsent or not self._offer(stream, octets):
            self._unsent.append((stream, octets))
            self._wait_for_room()

    def flush(self) -> bool:
        """Send what waits; True when nothing does any more."""
        while self._unsent and self._offer(*self._unsent[0]):
            self._unsent.popleft()
        return not self._unsent

    @abstractmethod
    def _offer(self, stream: int, octets: bytes) -> bool:
        """Hand a message to the stack; False when its buffer is full.

        Raises:
            EpcError: the association is gone.
        """

    @abstractmethod
    def _wait_for_room(self) -> None:
        """See to it that ``flush`` is called when there may be room."""

    @abstractmethod
    def close(self) -> None:
        """End the association with SHUTDOWN."""


Accepted = Callable[[Association], None]


class Listener(ABC):
    """A listening end."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""


def kernel_has_sctp() -> bool:
    """True when the kernel has SCTP sockets."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


def listen(address: str, port: int, accepted: Accepted, ppid: int) -> Listener:
    """Listen; ``accepted`` is called with each new association.

    Raises:
        EpcError: that is not possible; the text says why.
    """

    def connected(association: Association) -> None:
        association.ppid = ppid
        accepted(association)

    try:
        if kernel_has_sctp():
            from simulators import sctp_kernel

            return sctp_kernel.Listener(address, port, connected)
        from simulators import sctp_userspace

        return sctp_userspace.Listener(address, port, connected)
    except OSError as error:
        raise EpcError(f"SCTP {address}:{port}: {error.strerror or error}.") from None


async def connect(
    local: str, address: str, port: int, ppid: int, timeout: float = 5.0
) -> Association:
    """Set up an association from a local address.

    Raises:
        EpcError: no answer in ``timeout`` seconds, or refused.
    """
    try:
        if kernel_has_sctp():
            from simulators import sctp_kernel

            made: Association = await sctp_kernel.connect(local, address, port, timeout)
        else:
            from simulators import sctp_userspace

            made = await sctp_userspace.connect(local, address, port, timeout)
    except OSError as error:
        raise EpcError(f"SCTP {address}:{port}: {error.strerror or error}.") from None
    made.ppid = ppid
    return made
