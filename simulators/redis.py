"""Replaces Redis: the commands for a health check and for values in memory."""

from __future__ import annotations

import asyncio


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    line = (await reader.readuntil(b"\r\n"))[:-2]
    if not line.startswith(b"*"):
        return line.split()
    words = []
    for _ in range(int(line[1:])):
        size = int((await reader.readuntil(b"\r\n"))[1:-2])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


def _answer(values: dict[bytes, bytes], words: list[bytes]) -> bytes:
    name = words[0].upper() if words else b""
    if name == b"PING":
        return b"+PONG\r\n"
    if name == b"SET" and len(words) >= 3:
        values[words[1]] = words[2]
        return b"+OK\r\n"
    if name == b"GET" and len(words) == 2:
        value = values.get(words[1])
        return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
    if name == b"DEL":
        return b":%d\r\n" % sum(values.pop(word, None) is not None for word in words[1:])
    return b"-ERR unknown command\r\n"


async def serve(address: str, port: int) -> asyncio.Server:
    """Listen."""
    values: dict[bytes, bytes] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(_answer(values, await _command(reader)))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            writer.close()

    return await asyncio.start_server(connected, address, port)
