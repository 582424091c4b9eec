"""The common part of associations by the kernel and by libusrsctp."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from simulators.errors import EpcError

#: Requested number of streams in each direction, as in OAI's eNB and MME.
STREAMS = 8
IPPROTO_SCTP = 132
#: Maximum number of messages that wait for room in the stack's buffer; more are an error.
QUEUE = 1 << 14


def stream_of(ue: int) -> int:
    """The stream for a UE's messages by its number; stream 0 is for messages about no UE."""
    return 1 + ue % (STREAMS - 1)


class Association(ABC):
    """One association.

    Attributes:
        peer: the other end's address.
        on_message: called with stream and octets of each message.
        on_close: called once when the association has ended.
        ppid: payload protocol identifier of sent messages.
    """

    ppid: int

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.on_message: Callable[[int, bytes], None] = lambda stream, octets: None
        self.on_close: Callable[[], None] = lambda: None
        self._unsent: deque[tuple[int, bytes]] = deque()

    def send(self, stream: int, octets: bytes) -> None:
        """Send a message on a stream, or as soon as the stack has room for it."""
        if len(self._unsent) >= QUEUE:
            raise EpcError(f"SCTP to {self.peer}: {QUEUE} messages wait to be sent.")
        if self._unsent or not self._offer(stream, octets):
            self._unsent.append((stream, octets))
            self._wait_for_room()

    def flush(self) -> bool:
        """Send waiting messages; return True if none is left."""
        while self._unsent and self._offer(*self._unsent[0]):
            self._unsent.popleft()
        return not self._unsent

    @abstractmethod
    def _offer(self, stream: int, octets: bytes) -> bool:
        """Pass a message to the stack; return False if its buffer is full."""

    @abstractmethod
    def _wait_for_room(self) -> None:
        """Arrange a call of ``flush`` when there may be room."""

    @abstractmethod
    def close(self) -> None:
        """End the association with SHUTDOWN."""


Accepted = Callable[[Association], None]


class Listener(ABC):
    """A listening end."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""
