"""UEs: the end of NAS, the connection to a base station, TUN devices, and the program."""

import asyncio
import contextlib
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from simulators.errors import EpcError
from simulators.shared.identity import Plmn
from simulators.shared.nas_security import Context
from simulators.shared.usim import Usim
from simulators.transport import radio_link, tun

_BATCH = 64
TABLE = 10000  # the routing tables of the devices have the next numbers
RETRY = 3.0  # Seconds between attempts to connect and to register (T3411 is 10 s).


class RefusedError(EpcError):
    """The network refused with a cause of NAS; ``final`` if a retry makes no sense."""

    def __init__(
        self, what: str, cause: int, names: Mapping[int, str], final: bool = False, kind: str = ""
    ) -> None:
        self.cause = cause
        self.final = final
        number = f"{kind} cause {cause}".lstrip()
        super().__init__(f"{what} rejected: {names.get(cause, cause)} ({number}).")


class NasEnd:
    """One UE's end of NAS over a link.

    Attributes:
        released: set when the connection is gone or the network detached the UE.
    """

    def __init__(self, usim: Usim, link: radio_link.Channel, radio: int, plmn: Plmn) -> None:
        self.usim = usim
        self.link = link
        self.radio = radio
        self.plmn = plmn
        self.released = asyncio.Event()
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._security: Context | None = None

    def received(self, kind: int, content: bytes) -> None:
        """Handle a frame that is not a packet."""
        if kind == radio_link.NAS:
            self.inbox.put_nowait(content)
        elif kind == radio_link.RELEASE:
            self.released.set()
            self.inbox.put_nowait(None)

    def _restart(self) -> None:
        """Forget the security context, a release, and messages that wait."""
        self._security = None
        self.released.clear()
        while not self.inbox.empty():
            self.inbox.get_nowait()

    def _send(self, octets: bytes, new: bool = False) -> None:
        if self._security is not None:
            octets = self._security.protect(octets, new=new)
        self.link.send(radio_link.NAS, self.radio, octets)

    async def _receive(self) -> bytes:
        octets = await self.inbox.get()
        if octets is None:
            raise EpcError("The connection was released.")
        return octets

    async def _until_released(self) -> None:
        """Wait until the network has released the connection, for at most 5 s."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.released.wait(), 5)


class Radio:
    """A connection to a base station, shared by UEs."""

    def __init__(self) -> None:
        self.link: radio_link.Channel | None = None
        self.ues: dict[int, NasEnd] = {}
        self.packets: dict[int, Callable[[bytes], None]] = {}
        self._cell: asyncio.Future[str] | None = None

    async def connect(self, address: str, local: str = "") -> list[Plmn]:
        """Connect; return the PLMNs that it broadcasts."""
        loop = asyncio.get_running_loop()
        self._cell = loop.create_future()
        try:
            _, link = await asyncio.wait_for(
                loop.create_connection(
                    lambda: radio_link.Link(self.received, self._lost),
                    address,
                    radio_link.PORT,
                    local_addr=(local, 0) if local else None,
                ),
                5,
            )
            link.send(radio_link.CELL, 0)
            text = await asyncio.wait_for(self._cell, 5)
        except (TimeoutError, OSError) as error:
            reason = getattr(error, "strerror", None) or "no answer"
            raise EpcError(f"No base station at {address}:{radio_link.PORT}: {reason}.") from None
        self.link = link
        up, _, plmns = text.split()
        if up != "1":
            link.close()
            raise EpcError("The base station has no core network yet.")
        return [Plmn(*one.split(".")) for one in plmns.split(",")]

    def received(self, link: radio_link.Channel, kind: int, radio: int, content: bytes) -> None:
        """Pass a frame to its UE, or a packet to its device."""
        if kind == radio_link.PACKET:
            write = self.packets.get(radio)
            if write is not None:
                write(content)
        elif kind == radio_link.CELL:
            if self._cell is not None and not self._cell.done():
                self._cell.set_result(content.decode("ascii", "replace"))
        elif radio in self.ues:
            self.ues[radio].received(kind, content)

    def _lost(self, link: radio_link.Link) -> None:
        for ue in self.ues.values():
            ue.received(radio_link.RELEASE, b"")


class Device:
    """The TUN device of a UE's connection."""

    def __init__(
        self,
        name: str,
        table: int,
        address: str,
        mtu: int | None,
        link: radio_link.Channel,
        ue: int,
    ) -> None:
        """Create it, with the UE's address and a routing table for packets from this address.

        ``table`` counts the tables from TABLE on, ``ue`` is the number of its packets on the link.
        """
        own = str(TABLE + table)
        self.fd = tun.open_tun(name)
        self.name = name
        self.link = link
        self.ue = ue
        self.down = 0
        self.up = 0
        self._rule = ("from", address, "lookup", own)
        try:
            tun.ip("link", "set", name, "mtu", str(mtu or 1358), "up", "txqueuelen", "1000")
            tun.ip("address", "add", f"{address}/32", "dev", name)
            tun.ip("route", "replace", "default", "dev", name, "table", own)
            with contextlib.suppress(EpcError):
                tun.ip("rule", "del", *self._rule)
            tun.ip("rule", "add", *self._rule)
        except EpcError:
            os.close(self.fd)
            raise
        link.on_room.add(self._resume)
        asyncio.get_running_loop().add_reader(self.fd, self._read)

    def _resume(self) -> None:
        if self.fd >= 0:
            asyncio.get_running_loop().add_reader(self.fd, self._read)

    def _read(self) -> None:
        packets, fd, ue = [], self.fd, self.ue
        for _ in range(_BATCH):
            try:
                packet = os.read(fd, 65535)
            except OSError:  # BlockingIOError: all are read
                break
            if packet[0] >> 4 == 4:
                packets.append((ue, packet))
        self.up += len(packets)
        if packets:
            self.link.send_packets(packets)
        if self.link.full:  # packets wait in the device's queue, where the kernel may drop them
            asyncio.get_running_loop().remove_reader(fd)

    def write(self, packet: bytes) -> None:
        try:
            os.write(self.fd, packet)
            self.down += 1
        except OSError:
            pass

    def close(self) -> None:
        if self.fd >= 0:
            self.link.on_room.discard(self._resume)
            asyncio.get_running_loop().remove_reader(self.fd)
            with contextlib.suppress(EpcError):
                tun.ip("rule", "del", *self._rule)
            os.close(self.fd)
            self.fd = -1


class Terminal(ABC):
    """A program that keeps its UEs registered over one base station."""

    log: ClassVar[logging.Logger]  # its logger.
    station: ClassVar[str]  # name of a base station in messages.

    def __init__(self, radio: Radio, address: str, plmns: Iterable[Plmn]) -> None:
        """Use the base station at an address, if it broadcasts one of ``plmns``."""
        self.radio = radio
        self.address = address
        self.plmns = frozenset(plmns)

    async def run(self) -> None:
        """Connect and register, and repeat after losses, until the network finally refuses."""
        said = ""
        while True:
            try:
                plmns = await self.radio.connect(self.address)
                home = next((plmn for plmn in plmns if plmn in self.plmns), None)
                if home is None:
                    names = ", ".join(map(str, plmns))
                    raise EpcError(f"No suitable cell: the {self.station} broadcasts {names}.")
                assert self.radio.link is not None  # noqa: S101
                await self.keep(self.radio.link, home)
                said = ""
            except EpcError as error:
                if isinstance(error, RefusedError) or str(error) != said:
                    self.log.error("%s", error)
                if getattr(error, "final", False):
                    return
                said = str(error)
            self.disconnect()
            await asyncio.sleep(RETRY)

    @abstractmethod
    async def keep(self, link: radio_link.Channel, plmn: Plmn) -> None:
        """Keep the UEs registered in a network, until the connection ends.

        Raises:
            RefusedError: the network finally refuses.
        """

    def disconnect(self) -> None:
        if self.radio.link is not None:
            self.radio.link.close()

    def serve(self, device: Device) -> Device:
        """Pass downlink packets to a device; return it."""
        self.radio.packets[device.ue] = device.write
        return device

    def shut(self, device: Device) -> None:
        self.radio.packets.pop(device.ue, None)
        device.close()
