"""The page beside the API; NiceGUI is loaded at the first request for the page."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from lab.api.tokens import Tokens
from lab.nbi.engine import Engine
from lab.page.layout import LAYOUT

GUARD: Mapping[str, str] = LAYOUT["headers"]


def _same_origin(scope: Scope) -> bool:
    """Tell whether a request is from our own page, or from no page."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


class WithPage:
    """An ASGI application: the API below /osm, the page at all other paths."""

    def __init__(self, api: ASGIApp, engine: Engine, tokens: Tokens) -> None:
        """Serve an API; the page shows the engine's records to users with a token."""
        self._api = api
        self._engine = engine
        self._tokens = tokens
        self._page: ASGIApp | None = None
        self._making = asyncio.Lock()
        self._started = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or take part in the server's start and end."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._started.aclose()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http" and f"{scope['path']}/".startswith("/osm/"):
            await self._api(scope, receive, send)
        elif not _same_origin(scope):
            refusal = PlainTextResponse("The request comes from another site's page", 403)
            close = WebSocketClose(1008, "another origin")
            await (refusal if scope["type"] == "http" else close)(scope, receive, send)
        else:

            async def guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(GUARD)
                await send(message)

            await (await self._made())(scope, receive, guarded)

    async def _made(self) -> ASGIApp:
        async with self._making:
            if self._page is None:
                folder = self._engine.store.home / "server" / "page"
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                # NiceGUI keeps the sessions of browsers in files; it reads this at import.
                os.environ["NICEGUI_STORAGE_PATH"] = str(folder)
                # In a thread: the API goes on answering meanwhile.
                module = await asyncio.to_thread(importlib.import_module, "lab.page.app")
                page = module.create_page(self._engine, self._tokens)
                await self._started.enter_async_context(page.router.lifespan_context(page))
                self._page = page
        return self._page
