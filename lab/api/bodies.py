"""Bodies of requests and answers: documents in JSON or YAML, packages as files."""

import asyncio
import json
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from builder.documents import DocumentError, bounded, load
from lab.errors import NbiError
from lab.nbi.params import as_json

MAX_DOCUMENT = 4 << 20  # Largest body of a request without a package, in bytes.

MAX_BYTES = 1 << 30  # Largest package, in bytes.
MAX_OPEN = 16 << 10
"""Largest body of a request without a token, in bytes; the client has OPEN_SECONDS to send it."""
OPEN_SECONDS = 10.0
SECONDS = 60.0  # Time to send the body of another request without a package.
PACKAGE_SECONDS = 1800.0  # Time to send a package; the largest one then needs 5 Mbit/s.


async def _chunks(request: Request, limit: int, seconds: float) -> AsyncIterator[bytes]:
    """Yield a request's body; refuse one of more than ``limit`` bytes, or of more ``seconds``."""
    refusal = NbiError(
        f"The body is larger than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    )
    if int(request.headers.get("content-length") or 0) > limit:
        raise refusal
    size = 0
    stream = aiter(request.stream())
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(stream, None)
        except TimeoutError:
            text = "The body comes too slowly"
            raise NbiError(text, HTTPStatus.REQUEST_TIMEOUT) from None
        if chunk is None:
            return
        size += len(chunk)
        if size > limit:
            raise refusal
        yield chunk


async def document(request: Request, open: bool = False) -> dict[str, Any]:
    """Return the mapping in a request's body (JSON or YAML); an empty body is an empty mapping.

    Args:
        open: Whether it needs no token.
    """
    limit, seconds = (MAX_OPEN, OPEN_SECONDS) if open else (MAX_DOCUMENT, SECONDS)
    data = b"".join([chunk async for chunk in _chunks(request, limit, seconds)])
    if not data.strip():
        return {}
    kind = "json" if "application/json" in request.headers.get("content-type", "") else "yaml"
    # In a thread: large YAML takes seconds, and other requests are answered meanwhile.
    return await run_in_threadpool(_mapping, data, kind)


def _mapping(data: bytes, kind: str) -> dict[str, Any]:
    try:
        try:
            value = json.loads(data)
        except ValueError:
            if kind == "json":
                raise
            value = load(data)
        else:
            bounded(value)
    except (DocumentError, ValueError, RecursionError) as error:
        raise NbiError(f"Invalid {kind} format {error}") from None
    if not isinstance(value, dict):
        raise NbiError("Expected application/yaml or application/json Content-Type")
    return as_json(value, "The body")


@asynccontextmanager
async def package(request: Request, folder: Path) -> AsyncIterator[Path]:
    """Save the package of a request below ``folder``; remove it after the block."""
    content_type = request.headers.get("content-type", "")
    place = folder / secrets.token_hex(8)
    place.mkdir(parents=True, mode=0o700)
    try:
        path = place / _file_name(content_type, request.headers.get("content-filename", ""))
        await _save(request, path)
        yield path
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _file_name(content_type: str, given: str) -> str:
    """Return a file name with the ending of its content, whatever name the client gives it."""
    name = PurePosixPath(given.replace("\\", "/")).name
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", name.partition(".")[0])[:80] or "package"
    if "gzip" in content_type:
        return f"{stem}.tar.gz"
    if "application/zip" in content_type:
        return f"{stem}.zip"
    return f"{stem}.json" if "json" in content_type else f"{stem}.yaml"


async def _save(request: Request, path: Path) -> None:
    size = 0
    with path.open("wb") as stream:
        async for chunk in _chunks(request, MAX_BYTES, PACKAGE_SECONDS):
            size += stream.write(chunk)
    if not size:
        raise NbiError("empty file or content")


def answer(request: Request, value: Any, status: HTTPStatus, location: str = "") -> Response:
    """Return an answer as JSON if the client accepts it, otherwise as YAML."""
    headers = {"Location": location} if location else {}
    if value is None:
        return Response(status_code=status, headers=headers)
    if "application/json" in request.headers.get("accept", ""):
        text = json.dumps(value, indent=4) + "\n"
        media_type = "application/json; charset=utf-8"
    else:
        text = yaml.safe_dump(value, explicit_start=True, default_flow_style=False)
        media_type = "application/yaml"
    return Response(text, status, headers, media_type)
