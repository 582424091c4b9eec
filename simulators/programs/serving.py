"""Running a network function until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any


async def until_signalled(stop: Callable[[], Awaitable[None] | None]) -> None:
    """Wait for SIGTERM or SIGINT, then stop."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    done = stop()
    if done is not None:
        await done
    await asyncio.sleep(0.05)  # let the transports send pending data


async def serve(made: Any) -> None:
    """Run a network function until a signal ends it."""
    await made.start()
    await until_signalled(made.stop)


def file_of(words: list[str], flag: str) -> str:
    """Return the file after a flag in the arguments."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(flag, dest="file", required=True)
    return str(parser.parse_known_args(words)[0].file)


async def keep(made: Any) -> None:
    """Run a terminal until a signal ends it."""
    running = asyncio.create_task(made.run())

    async def stop() -> None:
        await made.switch_off()
        running.cancel()

    await until_signalled(stop)
