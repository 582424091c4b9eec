"""What both ends of a PFCP association do alike: heartbeats (3GPP TS 29.244 section 6.2.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from simulators import pfcp, udp
from simulators.errors import EpcError
from simulators.tlv import Message, number

#: Seconds between heartbeats, as OAI's functions send them.
HEARTBEAT = 2.0

log = logging.getLogger("pfcp")


async def watch(
    endpoint: udp.Endpoint, peer: udp.Address, own: int, theirs: int, moved: Callable[[str], None]
) -> None:
    """Send heartbeats until the peer is silent or has restarted, then call ``moved`` with why.

    ``own`` and ``theirs`` are recovery time stamps.
    """
    while True:
        await asyncio.sleep(HEARTBEAT)
        try:
            request = Message(pfcp.HEARTBEAT_REQUEST, None, (pfcp.recovery(own),))
            response = await endpoint.request(peer, request)
            stamp = number(response.need(pfcp.RECOVERY), 4)
        except EpcError as error:
            moved(str(error))
            return
        if stamp != theirs:
            moved(f"{peer[0]} has restarted.")
            return
