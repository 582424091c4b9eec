"""`probe.py` between two network namespaces."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from testbed import probe
from testbed.netns import Block, Namespaces, end

PORT = "9000"


class Probe(Block):
    """A sender in one namespace and an echo in another; the block begins when datagrams arrive.

    Args:
        ends: Names of the sender's namespace and of the echo's.
        target: Address of the echo.
        sources: Addresses of the sender, one for each flow.
        seconds: Duration, if no signal ends the sender earlier.
        period: Seconds between two datagrams of a flow.
    """

    sender: subprocess.Popen[bytes]
    echo: subprocess.Popen[bytes]

    def __init__(
        self,
        spaces: Namespaces,
        ends: tuple[str, str],
        target: str,
        sources: Sequence[str],
        seconds: float,
        period: float,
    ) -> None:
        self.spaces, self.ends, self.seconds = spaces, ends, seconds
        self._echo = ("echo", target, PORT)
        self._send = ("send", target, PORT, str(seconds), str(period), *sources)
        self._started: list[subprocess.Popen[bytes]] = []

    def set_up(self) -> None:
        near, far = self.ends
        self.echo = self._start(far, self._echo)
        time.sleep(0.5)
        before = self._received()
        self.sender = self._start(near, self._send)
        # A slow machine may need seconds to start a program.
        while self._received() == before and self.sender.poll() is None:
            time.sleep(0.05)

    def take_down(self) -> None:
        end(self._started, signal.SIGKILL)

    def _start(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        argv = self.spaces.argv(name, sys.executable, probe.__file__, *words)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        self._started.append(process)
        return process

    def _received(self) -> int:
        return probe.received(self.spaces.run(self.ends[1], "cat", "/proc/net/snmp"))

    def result(self) -> dict[str, Any]:
        """Wait for the end of the sender; return what it prints, with that of the echo.

        Raises:
            RuntimeError: One of both failed, so that its figures are missing.
        """
        sent = self.sender.communicate(timeout=self.seconds + 30)[0]
        self.echo.terminate()
        echoed = self.echo.communicate(timeout=30)[0]
        if self.sender.returncode or self.echo.returncode:
            raise RuntimeError("the probe ended early")
        return {**json.loads(sent), "echo": json.loads(echoed)}
