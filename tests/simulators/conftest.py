"""Fixtures of the simulators' tests."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from simulators_support import Epc, hurry, running

from simulators.transport import sctp, tun


@pytest.fixture
def epc(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a coroutine function with an EPC; further arguments say how that is set up."""
    if os.geteuid() and not sctp.kernel_has_sctp():
        pytest.skip("SCTP outside the kernel needs root for its raw socket")
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inside.setblocking(False)
    monkeypatch.setattr(tun, "open_tun", lambda name: os.dup(inside.fileno()))
    hurry(monkeypatch)

    def run(go: Callable[[Epc], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            async with running(**options) as parts:
                await asyncio.wait_for(go(parts), 100)

        asyncio.run(main())
        inside.close()
        outside.close()

    return run
