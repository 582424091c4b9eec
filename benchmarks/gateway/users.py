"""HTTP users behind the peer of a route, and a server in the core: wrk is client, Granian server.

Each user has its own permanent connection, and sends a new request as soon as it has the response.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gateway.route import SERVER, Route
from benchmarks.swan.netns import Block, run

PORT = 8080
#: Bytes of a response's body.
BODY = 64 << 10
QUANTILES = (0.5, 0.9, 0.99, 0.999)
_FILES = 65536

#: This hook makes wrk print its results as JSON.
SCRIPT = f"""
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\n{{"requests":%d,"bytes":%d,"us":%d,', summary.requests,
    summary.bytes, summary.duration))
  io.write(string.format('"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d', e.connect,
    e.read, e.write, e.status, e.timeout))
  for _, q in ipairs({{{", ".join(str(q * 100) for q in QUANTILES)}}}) do
    io.write(string.format(',"p%g":%.1f', q, latency:percentile(q)))
  end
  io.write('}}\\n')
end
"""


async def app(scope: Any, protocol: Any) -> None:
    """Answer any request with BODY bytes (RSGI)."""
    protocol.response_bytes(200, [("content-type", "application/octet-stream")], _body)


_body = bytes(BODY)


class Served(NamedTuple):
    """Results of HTTP users.

    Attributes:
        requests: Number of complete responses.
        bytes: Their size, with headers.
        seconds: Duration of wrk's run.
        errors: Number of failed requests, by wrk's name of the reason.
        latency_ms: Quantiles of the time to the end of a response, p50 and so on.
        marks: Results of `mark` before and after.
    """

    requests: int
    bytes: int
    seconds: float
    errors: dict[str, int]
    latency_ms: dict[str, float]
    marks: tuple[Any, Any]


class Server(Block):
    """Granian in the core of a route; it ends with the `with` block."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._process: subprocess.Popen[bytes] | None = None

    def set_up(self) -> None:
        # Both sides need a file descriptor for each user.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
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
        deadline = time.monotonic() + 60
        port = ("ss", "-Hlnt", "sport", "=", f":{PORT}")
        while not self.route.spaces.run("core", *port).strip():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the HTTP server does not listen: {log.read_text()[-500:]}")
            time.sleep(0.05)

    def take_down(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def ask(self, users: int, seconds: float, mark: Callable[[], Any]) -> Served:
        """Let `users` send requests for `seconds`, rounded to whole seconds for wrk.

        Raises:
            RuntimeError: wrk failed, or no user got a response.
        """
        script = self.route.folder / "wrk.lua"
        script.write_text(SCRIPT, encoding="utf-8")
        duration = f"{max(1, round(seconds))}s"
        target = ("-s", str(script), f"http://{SERVER}:{PORT}/")
        words = ("wrk", "-t", "1", "-c", str(users), "-d", duration, "--timeout", "30s", *target)
        before = mark()
        shown = run(*self.route.spaces.argv("field", *words))
        marks = (before, mark())
        report = json.loads(shown.strip().splitlines()[-1])
        if not report["requests"]:
            raise RuntimeError(f"no user of {users} got an answer: {shown}")
        return Served(
            report["requests"],
            report["bytes"],
            report["us"] / 1e6,
            {k: report[k] for k in ("connect", "read", "write", "status", "timeout")},
            {k: v / 1000 for k, v in report.items() if k.startswith("p")},
            marks,
        )
