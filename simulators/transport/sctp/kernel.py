"""SCTP by the kernel's one-to-one sockets (RFC 6458 section 4)."""

import asyncio
import contextlib
import socket
import struct

from simulators.errors import EpcError
from simulators.transport.sctp import base

# From linux/sctp.h.
_INITMSG, _NODELAY, _RECVRCVINFO = 2, 3, 32
_SNDINFO, _RCVINFO = 2, 3
_MSG_NOTIFICATION = 0x8000
_LONGEST = 1 << 16


def _socket(local: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, base.IPPROTO_SCTP)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    streams = struct.pack("HHHH", base.STREAMS, base.STREAMS, 0, 0)
    sock.setsockopt(base.IPPROTO_SCTP, _INITMSG, streams)
    sock.bind((local, port))
    return sock


class Association(base.Association):
    """An association of the kernel."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        super().__init__(peer)
        sock.setblocking(False)
        sock.setsockopt(base.IPPROTO_SCTP, _NODELAY, struct.pack("i", 1))
        sock.setsockopt(base.IPPROTO_SCTP, _RECVRCVINFO, struct.pack("i", 1))
        self._socket: socket.socket | None = sock
        self._parts: list[bytes] = []
        asyncio.get_running_loop().add_reader(sock.fileno(), self._readable)

    def _offer(self, stream: int, octets: bytes) -> bool:
        if self._socket is None:
            raise EpcError(f"The SCTP association with {self.peer} is closed.")
        info = struct.pack("=HHIIi", stream, 0, socket.htonl(self.ppid), 0, 0)
        try:
            self._socket.sendmsg([octets], [(base.IPPROTO_SCTP, _SNDINFO, info)])
        except BlockingIOError:
            return False
        except OSError as error:
            raise EpcError(f"SCTP to {self.peer}: {error.strerror}.") from None
        return True

    def _wait_for_room(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            done = self.flush()
        except EpcError:
            done = True  # the reader reports the end
        if done and self._socket is not None:
            asyncio.get_running_loop().remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        for _ in range(64):
            if self._socket is None:
                return
            try:
                octets, ancillary, flags, _ = self._socket.recvmsg(_LONGEST, 256)
            except BlockingIOError:
                return
            except OSError:
                octets, ancillary, flags = b"", [], 0
            if not octets:
                self._ended()
                return
            if flags & _MSG_NOTIFICATION:
                continue
            self._parts.append(octets)
            if flags & socket.MSG_EOR:
                message, self._parts = b"".join(self._parts), []
                stream = 0
                for level, kind, data in ancillary:
                    if (level, kind) == (base.IPPROTO_SCTP, _RCVINFO):
                        stream = int(struct.unpack_from("=H", data)[0])
                self.on_message(stream, message)

    def _ended(self) -> None:
        if self._socket is not None:
            self.close()
            self.on_close()

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            asyncio.get_running_loop().remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None


class Listener(base.Listener):
    """A listening socket of the kernel."""

    def __init__(self, address: str, port: int, accepted: base.Accepted) -> None:
        self._accepted = accepted
        self._socket = _socket(address, port)
        self._socket.listen(64)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._readable)

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock, peer = self._socket.accept()
            self._accepted(Association(sock, peer[0]))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()


async def connect(local: str, address: str, port: int, timeout: float) -> Association:
    sock = _socket(local, 0)
    try:
        await asyncio.wait_for(
            asyncio.get_running_loop().sock_connect(sock, (address, port)), timeout
        )
    except TimeoutError:
        sock.close()
        raise EpcError(f"{address}:{port} did not answer in {timeout:g} s.") from None
    except OSError:
        sock.close()
        raise
    return Association(sock, address)
