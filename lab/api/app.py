"""The ASGI application: routes, tokens, bodies, and all errors in NBI's form."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from lab.api import bodies, problems
from lab.api.calls import Answer, Call, Resources
from lab.api.calls import Route as Resource
from lab.api.routes import ROUTES
from lab.api.tokens import Tokens
from lab.errors import LcmError, NbiError
from lab.nbi.engine import Engine

log = logging.getLogger(__name__)
WRONG_SECONDS = 1.0
"""Seconds until a wrong password is answered; a client has a limited number of connections."""


def create_app(engine: Engine, tokens: Tokens, vca: bool = True) -> Starlette:
    """Return the application for one lab; ``vca``: a Juju controller shows in the list of VCAs."""
    resources = Resources(engine, tokens, vca)
    uploads = engine.store.root / "uploads"
    by_path: dict[str, dict[str, Resource]] = {}
    for resource in ROUTES:
        by_path.setdefault(resource.path, {})[resource.method] = resource
    routes = [
        Route(
            path,
            _endpoint(resources, methods, uploads),
            methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"],
        )
        for path, methods in by_path.items()
    ]
    return Starlette(
        routes=[Mount("/osm", Router(routes, redirect_slashes=False))],
        middleware=[Middleware(_one_slash)],
        exception_handlers={HTTPException: _no_such_path, Exception: _broken},
    )


def _one_slash(app: ASGIApp) -> ASGIApp:
    """Remove a final slash and double slashes from a path, as NBI's server does."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            parts = [part for part in scope["path"].split("/") if part]
            if len(parts) > 1:
                scope = {**scope, "path": "/" + "/".join(parts)}
        await app(scope, receive, send)

    return answer


def _endpoint(
    resources: Resources, methods: dict[str, Resource], uploads: Path
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            resource = methods.get(request.method)
            if resource is None:
                text = f"Method {request.method} not supported for this URL"
                raise NbiError(text, HTTPStatus.METHOD_NOT_ALLOWED)
            token = {}
            if not resource.open:
                token = resources.tokens.authorize(request.headers.get("authorization"))
            async with _call(request, resource, token, uploads) as call:
                result = await run_in_threadpool(resource.handler, resources, call)
            return _response(request, result)
        except NbiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED and request.method == "POST":
                await asyncio.sleep(WRONG_SECONDS)
            return _refuse(request, error.status, str(error))
        except LcmError as error:
            return _refuse(request, HTTPStatus.BAD_REQUEST, str(error))
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)

    return answer


@asynccontextmanager
async def _call(
    request: Request, resource: Resource, token: dict[str, object], uploads: Path
) -> AsyncIterator[Call]:
    method, path = request.method, dict(request.path_params)
    query = list(request.query_params.multi_items())
    if resource.upload:
        async with bodies.package(request, uploads) as file:
            yield Call(method, path, query, {}, token, file)
    else:
        body = {} if method == "GET" else await bodies.document(request, resource.open)
        accept = request.headers.get("accept", "")
        client = request.client.host if request.client else ""
        yield Call(method, path, query, body, token, accept=accept, client=client)


def _response(request: Request, result: Answer) -> Response:
    if result.file is not None:
        return FileResponse(result.file.path, media_type=result.file.media_type)
    return bodies.answer(request, result.value, result.status, result.location)


def _refuse(request: Request, status: HTTPStatus, detail: str) -> Response:
    answer = bodies.answer(request, problems.body(status, detail), status)
    if status == HTTPStatus.UNAUTHORIZED:
        # What a client sent may be in the text: only what a quoted string of a header may have.
        plain = re.sub(r"[^ !#-\[\]-~]", "?", detail)
        answer.headers["WWW-Authenticate"] = f'Bearer realm="{plain}"'
    return answer


async def _no_such_path(request: Request, error: Exception) -> Response:
    parts = request.url.path.strip("/").split("/")
    text = f"Unexpected URL item {parts[-1]}"
    if len(parts) < 4:
        text = "URL must contain at least 'main_topic/version/topic'"
    return _refuse(request, HTTPStatus.METHOD_NOT_ALLOWED, text)


async def _broken(request: Request, error: Exception) -> Response:
    """Answer as NBI does after an internal error; the traceback is in the log."""
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    text = "internal error; the log of the server says more"
    return _refuse(request, HTTPStatus.BAD_REQUEST, text)
