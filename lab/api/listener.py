"""The HTTPS listener in front of the application."""

import asyncio
import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lab.certificates import self_signed
from lab.errors import NbiError

MAX_CONNECTIONS = 200
MAX_OF_ADDRESS = 100  # Connections from one address.
MAX_HEADERS = 64 << 10  # Bytes of a request without its body.
HEADER_SECONDS = 10.0  # Seconds for a client to send the request line and headers.


class Bounded(H11Protocol):
    """A connection that ends if the client sends no complete request in time."""

    request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        clients = [getattr(c, "client", None) for c in self.connections]
        same = [c for c in clients if c and self.client and c[0] == self.client[0]]
        if len(same) > MAX_OF_ADDRESS:
            transport.abort()
            return
        self.await_request()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        super().data_received(data)
        self.await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def await_request(self) -> None:
        """Start the timer between requests; stop it while one is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif self.request_timer is None and self in self.connections:  # else it is a WebSocket now
            self.request_timer = self.loop.call_later(HEADER_SECONDS, self.end_late)

    def stop_waiting(self) -> None:
        if self.request_timer is not None:
            self.request_timer.cancel()
            self.request_timer = None

    def end_late(self) -> None:
        """End a connection whose request did not come in time."""
        self.request_timer = None
        if self in self.connections and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()


class Listener:
    """A server on one address and port; it opens the port at once, and serves in :meth:`run`."""

    def __init__(self, app: ASGIApp, folder: Path, host: str, port: int) -> None:
        """Open the port (0: any that is free) and make a certificate in ``folder``."""
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NbiError(f"cannot listen on {host} port {port}: {reason}") from None
        # Once the port is ours: a server that runs there goes on with its own certificate.
        self.certificate, key = self_signed(folder, host)
        config = uvicorn.Config(
            app,
            ssl_certfile=str(self.certificate),
            ssl_keyfile=str(key),
            lifespan="auto",
            log_level="warning",
            http=Bounded,
            h11_max_incomplete_event_size=MAX_HEADERS,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        name = f"[{host}]" if ":" in host else host
        self.url = f"https://{name}:{self._socket.getsockname()[1]}/osm"

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or :meth:`stop`; then running requests get one second."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End :meth:`run` from another thread."""
        self._server.should_exit = True
