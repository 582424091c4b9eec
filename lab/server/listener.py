"""The HTTPS listener in front of the application."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from lab.certificates import self_signed
from lab.errors import NbiError


class Listener:
    """A server on one address and port; it opens the port at once, and serves in :meth:`run`."""

    def __init__(self, app: ASGIApp, folder: Path, host: str, port: int) -> None:
        """Open the port (0: any that is free) and make a certificate in ``folder``.

        Raises:
            NbiError: the address or port is not available.
        """
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
            limit_concurrency=200,
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
