"""SCTP by libusrsctp over a raw IP socket.

The library runs without its own threads: this process's event loop transports its packets and runs
its timers. An ``AF_CONN`` address stands for a pair of local and remote IP address.
"""

import asyncio
import contextlib
import ctypes
import ctypes.util
import errno
import itertools
import os
import socket
import struct
import time

from simulators.errors import EpcError
from simulators.transport.sctp import base

# From usrsctp.h.
_AF_CONN = 123
_RTOINFO, _INITMSG, _NODELAY, _EVENT, _RECVRCVINFO = 0x01, 0x03, 0x04, 0x1E, 0x1F
_SENDV_SNDINFO, _RECVV_RCVINFO = 1, 1
_MSG_NOTIFICATION = 0x2000
_ASSOC_CHANGE = 0x0001
_COMM_UP, _COMM_LOST, _RESTART, _SHUTDOWN_COMP, _CANT_START = 1, 2, 3, 4, 5

_TICK = 0.05  # seconds between calls of the library's timers; the shortest timer is 200 ms
_LONGEST = 1 << 16

_OUTPUT = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_uint8,
    ctypes.c_uint8,
)
_UPCALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class _Sockaddr(ctypes.Structure):
    """struct sockaddr_conn."""

    _fields_ = (
        ("family", ctypes.c_uint16),
        ("port", ctypes.c_uint16),
        ("addr", ctypes.c_void_p),
    )


_TYPES = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "u": ctypes.c_uint32,
    "z": ctypes.c_size_t,
    "s": ctypes.c_ssize_t,
    "b": ctypes.c_uint8,
    "f": _UPCALL,
}
#: Types of the result and of the arguments of each function, from usrsctp.h.
_PROTOTYPES = {
    "accept": "pppp",
    "bind": "ippu",
    "close": "ip",
    "connect": "ippu",
    "conninput": "ippzb",
    "handle_timers": "iu",
    "listen": "ipi",
    "recvv": "sppzpppppp",
    "register_address": "ip",
    "sendv": "sppzpipuui",
    "set_non_blocking": "ipi",
    "set_upcall": "ipfp",
    "setsockopt": "ipiipu",
    "socket": "piiippup",
}


def _library() -> ctypes.CDLL:
    name = ctypes.util.find_library("usrsctp") or "libusrsctp.so.2"
    try:
        library = ctypes.CDLL(name, use_errno=True)
    except OSError:
        raise EpcError(
            "This kernel has no SCTP and libusrsctp is not installed: apt-get install libusrsctp2."
        ) from None
    for name, types in _PROTOTYPES.items():
        function = getattr(library, f"usrsctp_{name}")
        function.restype, *function.argtypes = (_TYPES[one] for one in types)
    return library


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


class Stack:
    """The library, once per process, and the raw sockets for its packets."""

    _only: "Stack | None" = None

    def __init__(self) -> None:
        self.library = _library()
        self._numbers = itertools.count(1)
        self._paths: dict[tuple[str, str], int] = {}
        self._carriers: dict[int, tuple[socket.socket, str]] = {}
        self._raw: dict[str, socket.socket] = {}
        self._ready: dict[int, None] = {}
        self.sockets: dict[int, Association | Listener] = {}
        self.full: set[Association] = set()
        self._buffer = ctypes.create_string_buffer(_LONGEST)
        self._output = _OUTPUT(self._send)
        self._upcall = _UPCALL(self._wake)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticked = time.monotonic()
        self.library.usrsctp_init_nothreads(ctypes.c_uint16(0), self._output, None)

    @classmethod
    def get(cls) -> "Stack":
        """Return the process's stack, and let the running loop serve it."""
        if cls._only is None:
            cls._only = cls()
        cls._only._attach()
        return cls._only

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        for raw in self._raw.values():  # sockets from an earlier loop
            loop.add_reader(raw.fileno(), self._receive, raw)
        self._tick()

    def _tick(self) -> None:
        assert self._loop is not None  # noqa: S101
        self._loop.call_later(_TICK, self._tick)  # first: an error below must not end the timers
        now = time.monotonic()
        elapsed = int((now - self._ticked) * 1000)
        if elapsed:
            self._ticked += elapsed / 1000
            self.library.usrsctp_handle_timers(elapsed)
            self._serve()
        for association in list(self.full):
            with contextlib.suppress(EpcError):  # the reader reports the end
                if not association.flush():
                    continue
            self.full.discard(association)

    # -- packets ----------------------------------------------------------------------------------

    def path(self, local: str, remote: str) -> int:
        """Return the number that stands for a pair of addresses in AF_CONN addresses."""
        number = self._paths.get((local, remote))
        if number is None:
            number = next(self._numbers)
            self.carrier(local)
            self._paths[local, remote] = number
            self._carriers[number] = (self._raw[local], remote)
            self.library.usrsctp_register_address(number)
        return number

    def remote(self, path: int) -> str:
        return self._carriers[path][1]

    def carrier(self, local: str) -> None:
        """Open the raw socket of a local address.

        Raises:
            OSError: no permission, or the address is not local.
        """
        if local in self._raw:
            return
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, base.IPPROTO_SCTP)
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        try:
            raw.bind((local, 0))
        except OSError:
            raw.close()
            raise
        self._raw[local] = raw
        assert self._loop is not None  # noqa: S101
        self._loop.add_reader(raw.fileno(), self._receive, raw)

    def _send(self, path: int, octets: int, size: int, tos: int, set_df: int) -> int:
        carrier = self._carriers.get(path)
        if carrier is None:
            return errno.EHOSTUNREACH
        raw, remote = carrier
        with contextlib.suppress(OSError):  # SCTP sends a lost packet again
            raw.sendto(ctypes.string_at(octets, size), (remote, 0))
        return 0

    def _receive(self, raw: socket.socket) -> None:
        local = raw.getsockname()[0]
        for _ in range(64):
            try:
                packet, (remote, _) = raw.recvfrom(_LONGEST)
            except OSError:
                break
            start = (packet[0] & 0x0F) * 4
            if len(packet) < start + 12:
                continue
            payload = packet[start:]
            self.library.usrsctp_conninput(self.path(local, remote), payload, len(payload), 0)
        self._serve()

    # -- sockets ----------------------------------------------------------------------------------

    def _wake(self, sock: int, argument: int, flags: int) -> None:
        self._ready[sock] = None

    def _serve(self) -> None:
        while self._ready:
            number = next(iter(self._ready))
            del self._ready[number]
            owner = self.sockets.get(number)
            if owner is not None:
                owner.ready()

    def socket(self) -> int:
        made = self.library.usrsctp_socket(
            _AF_CONN, socket.SOCK_STREAM, base.IPPROTO_SCTP, None, None, 0, None
        )
        if not made:
            raise _error("socket")
        self.prepare(made)
        return int(made)

    def prepare(self, sock: int) -> None:
        """Set the options that every socket has."""
        level = base.IPPROTO_SCTP
        self.library.usrsctp_set_non_blocking(sock, 1)
        one = struct.pack("i", 1)
        event = struct.pack("=IHBx", 0, _ASSOC_CHANGE, 1)
        streams = struct.pack("=HHHH", base.STREAMS, base.STREAMS, 0, 0)
        timeouts = struct.pack("=IIII", 0, 1000, 4000, 200)  # initial, max, min in ms
        for option, value in (
            (_NODELAY, one),
            (_RECVRCVINFO, one),
            (_EVENT, event),
            (_INITMSG, streams),
            (_RTOINFO, timeouts),
        ):
            self.library.usrsctp_setsockopt(sock, level, option, value, len(value))
        self.library.usrsctp_set_upcall(sock, self._upcall, None)

    def bind(self, sock: int, port: int, path: int | None) -> None:
        address = _Sockaddr(_AF_CONN, socket.htons(port), path)
        if self.library.usrsctp_bind(sock, ctypes.byref(address), ctypes.sizeof(address)):
            raise _error("bind")

    def read(self, sock: int) -> tuple[int, int, bytes, int]:
        """Return result, flags, octets and stream of the next part of a message.

        The result is that of ``usrsctp_recvv``, or the negated errno if the call failed.
        """
        address, size = _Sockaddr(), ctypes.c_uint32(ctypes.sizeof(_Sockaddr))
        info = ctypes.create_string_buffer(64)
        info_size, info_type = ctypes.c_uint32(64), ctypes.c_uint(0)
        flags = ctypes.c_int(0)
        done = self.library.usrsctp_recvv(
            sock,
            self._buffer,
            _LONGEST,
            ctypes.byref(address),
            ctypes.byref(size),
            info,
            ctypes.byref(info_size),
            ctypes.byref(info_type),
            ctypes.byref(flags),
        )
        if done < 0:
            return -ctypes.get_errno(), 0, b"", 0
        stream = 0
        if info_type.value == _RECVV_RCVINFO:
            stream = int(struct.unpack_from("=H", info.raw)[0])
        return done, flags.value, self._buffer.raw[:done], stream


class Association(base.Association):
    """An association of libusrsctp."""

    def __init__(self, stack: Stack, sock: int, peer: str) -> None:
        super().__init__(peer)
        self.stack = stack
        self.up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket = sock
        self._parts: list[bytes] = []
        stack.sockets[sock] = self

    def _offer(self, stream: int, octets: bytes) -> bool:
        if not self._socket:
            raise EpcError(f"The SCTP association with {self.peer} is closed.")
        info = struct.pack("=HHIII", stream, 0, socket.htonl(self.ppid), 0, 0)
        done = self.stack.library.usrsctp_sendv(
            self._socket, octets, len(octets), None, 0, info, len(info), _SENDV_SNDINFO, 0
        )
        if done < 0:
            number = ctypes.get_errno()
            if number == errno.EAGAIN:
                return False
            raise EpcError(f"SCTP to {self.peer}: {os.strerror(number)}.")
        return True

    def _wait_for_room(self) -> None:
        self.stack.full.add(self)

    def ready(self) -> None:
        """Read all available messages."""
        while self._socket:
            done, flags, octets, stream = self.stack.read(self._socket)
            if done in (-errno.EAGAIN, -errno.EINPROGRESS, -errno.ENOTCONN):
                return
            if done <= 0:
                self._ended(os.strerror(-done) if done else "closed by the peer")
                return
            if flags & _MSG_NOTIFICATION:
                self._notified(octets)
                continue
            self._parts.append(octets)
            if flags & socket.MSG_EOR:
                message, self._parts = b"".join(self._parts), []
                self.on_message(stream, message)

    def _notified(self, octets: bytes) -> None:
        if len(octets) < 10 or struct.unpack_from("=H", octets)[0] != _ASSOC_CHANGE:
            return
        state = struct.unpack_from("=H", octets, 8)[0]
        if state == _COMM_UP:
            if not self.up.done():
                self.up.set_result(None)
        elif state in (_COMM_LOST, _SHUTDOWN_COMP, _CANT_START):
            self._ended("refused" if state == _CANT_START else "lost")
        elif state == _RESTART:
            self._ended("restarted by the peer")

    def _ended(self, reason: str) -> None:
        if not self._socket:
            return
        self.close()
        if not self.up.done():
            self.up.set_exception(EpcError(f"SCTP to {self.peer}: {reason}."))
            self.up.exception()
        self.on_close()

    def close(self) -> None:
        if self._socket:
            self.stack.sockets.pop(self._socket, None)
            self.stack.library.usrsctp_close(self._socket)
            self._socket = 0


class Listener(base.Listener):
    """A listening socket of libusrsctp."""

    def __init__(self, address: str, port: int, accepted: base.Accepted) -> None:
        self.stack = Stack.get()
        self.stack.carrier(address)
        self._accepted = accepted
        self._socket = self.stack.socket()
        self.stack.bind(self._socket, port, None)
        if self.stack.library.usrsctp_listen(self._socket, 64):
            raise _error("listen")
        self.stack.sockets[self._socket] = self

    def ready(self) -> None:
        """Accept all waiting associations."""
        while self._socket:
            address, size = _Sockaddr(), ctypes.c_uint32(ctypes.sizeof(_Sockaddr))
            made = self.stack.library.usrsctp_accept(
                self._socket, ctypes.byref(address), ctypes.byref(size)
            )
            if not made:
                return
            self.stack.prepare(made)
            association = Association(self.stack, made, self.stack.remote(address.addr or 0))
            self._accepted(association)
            association.ready()

    def close(self) -> None:
        if self._socket:
            self.stack.sockets.pop(self._socket, None)
            self.stack.library.usrsctp_close(self._socket)
            self._socket = 0


async def connect(local: str, address: str, port: int, timeout: float) -> Association:
    stack = Stack.get()
    path = stack.path(local, address)
    sock = stack.socket()
    association = Association(stack, sock, address)
    try:
        stack.bind(sock, 0, path)
        target = _Sockaddr(_AF_CONN, socket.htons(port), path)
        done = stack.library.usrsctp_connect(sock, ctypes.byref(target), ctypes.sizeof(target))
        if done and ctypes.get_errno() != errno.EINPROGRESS:
            raise _error("connect")
        await asyncio.wait_for(association.up, timeout)
    except TimeoutError:
        association.close()
        raise EpcError(f"{address}:{port} did not answer in {timeout:g} s.") from None
    except OSError:
        association.close()
        raise
    return association
