"""HTTP users behind the peer of a route, and a server in the core: wrk is client, Granian server.

Each user has its own permanent connection, and sends a new request as soon as it has the response.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from testbed.netns import Block, end, run, wait
from testbed.route import SERVER, Route

PORT = 8080
BODY = 64 << 10  # Bytes of a response's body.

SCRIPT = Path(__file__).with_name("wrk.lua")


async def app(scope: Any, protocol: Any) -> None:
    """Answer any request with BODY bytes (RSGI)."""
    protocol.response_bytes(200, [("content-type", "application/octet-stream")], _body)


_body = bytes(BODY)


class Server(Block):
    """Granian in the core of a route; it ends with the `with` block."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._process: subprocess.Popen[bytes] | None = None

    def set_up(self) -> None:
        words = (sys.executable, "-m", "granian", "--interface", "rsgi", "--host", SERVER)
        options = ("--port", str(PORT), "--no-ws", "--log-level", "error", "--backlog", "4096")
        log = self.route.folder / f"{self.route.tag}-http.log"
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                self.route.spaces.argv("core", *words, *options, f"{__name__}:app"),
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                stdout=stream,
                stderr=stream,
            )
        port = ("ss", "-Hlnt", "sport", "=", f":{PORT}")
        wait(
            lambda: self.route.spaces.run("core", *port).strip(),
            60,
            lambda: f"the HTTP server does not listen: {log.read_text()[-500:]}",
        )

    def take_down(self) -> None:
        if self._process is not None:
            end([self._process])

    def ask(self, users: int, seconds: float) -> tuple[dict[str, Any], float]:
        """Let `users` send requests for `seconds`, rounded to whole seconds for wrk.

        Return what wrk reports (`bytes` are with headers, `us` is the duration), and the gateway's
        processor time in seconds.

        Raises:
            RuntimeError: wrk failed, or no user got a response.
        """
        duration = f"{max(1, round(seconds))}s"
        target = ("-s", str(SCRIPT), f"http://{SERVER}:{PORT}/")
        words = ("wrk", "-t", "1", "-c", str(users), "-d", duration, "--timeout", "30s", *target)
        before = self.route.spent()
        shown = run(*self.route.spaces.argv("field", *words))
        spent = self.route.spent() - before
        report = json.loads(shown.strip().splitlines()[-1])
        if not report["requests"]:
            raise RuntimeError(f"no user of {users} got an answer: {shown}")
        return report, spent
