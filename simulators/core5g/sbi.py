"""Service-based interfaces (3GPP TS 29.500): HTTP/2 by Granian and httpx, and the NRF's services.

HTTP/2 is without TLS and with prior knowledge, as in deployments of OAI's functions.
"""

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError

log = logging.getLogger("sbi")
logging.getLogger("httpx").setLevel(logging.WARNING)

#: Seconds between heartbeats to the NRF, and validity of discovery results.
HEARTBEAT = 10.0
VALIDITY = 10


class SbiError(EpcError):
    """A peer answered with an error; ``status`` is from HTTP, ``cause`` from TS 29.500."""

    def __init__(self, status: int, cause: str, content: bytes = b"") -> None:
        self.status = status
        self.cause = cause
        self.content = content
        super().__init__(f"{cause} ({status})")


def problem(status: int, cause: str) -> Response:
    """Return a response with problem details (TS 29.500 clause 5.2.7)."""
    content = {"status": status, "cause": cause}
    return JSONResponse(content, status, media_type="application/problem+json")


async def body(request: Request) -> Any:
    """Return the JSON of a request; if it is invalid, the peer gets status 400."""
    try:
        return json.loads(await request.body())
    except ValueError:
        raise HTTPException(400, "INVALID_MSG_FORMAT") from None


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, SbiError):
        return problem(error.status, error.cause)
    if isinstance(error, HTTPException):
        return problem(error.status_code, error.detail)
    if isinstance(error, KeyError):
        return problem(400, "MANDATORY_IE_MISSING")
    log.error("%s %s: %s", request.method, request.url.path, error)
    return problem(500, "SYSTEM_FAILURE")


# -- messages of several parts (RFC 2387), as TS 29.500 clause 6.1.2.4 has them ------------------

_BOUNDARY = "----Boundary"
_TYPES = {"n1": "application/vnd.3gpp.5gnas", "n2": "application/vnd.3gpp.ngap"}


def related(document: Any, **parts: bytes) -> dict[str, Any]:
    """Return body and header of a request that has JSON, NAS (``n1``) and NGAP (``n2``) parts."""
    pieces = [f"--{_BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{json.dumps(document)}"]
    whole = pieces[0].encode()
    for name, octets in parts.items():
        head = f"--{_BOUNDARY}\r\nContent-Type: {_TYPES[name]}\r\nContent-Id: {name}\r\n\r\n"
        whole += b"\r\n" + head.encode() + octets
    kind = f'multipart/related; boundary="{_BOUNDARY}"'
    return {
        "content": whole + f"\r\n--{_BOUNDARY}--\r\n".encode(),
        "headers": {"content-type": kind},
    }


def parts_of(kind: str, content: bytes) -> tuple[Any, dict[str, bytes]]:
    """Return JSON, and other parts by Content-Id, of a message of type ``kind``.

    Raises:
        SbiError: it is malformed.
    """
    try:
        if not kind.startswith("multipart/related"):
            return (json.loads(content) if content else {}), {}
        mark = b"--" + kind.partition("boundary=")[2].partition(";")[0].strip('" ').encode()
        result: dict[str, bytes] = {}
        document: Any = {}
        for piece in (b"\r\n" + content).split(b"\r\n" + mark)[1:-1]:
            head, _, octets = piece.partition(b"\r\n\r\n")
            lines = (line.partition(":") for line in head.decode().splitlines())
            fields = {name.strip().lower(): value.strip() for name, _, value in lines}
            if fields.get("content-type", "").startswith("application/json"):
                document = json.loads(octets)
            else:
                result[fields.get("content-id", "")] = octets
    except ValueError:
        raise SbiError(400, "INVALID_MSG_FORMAT") from None
    return document, result


async def parts(request: Request) -> tuple[Any, dict[str, bytes]]:
    return parts_of(request.headers.get("content-type", ""), await request.body())


# -- a network function --------------------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """Configuration of a network function in the service-based architecture."""

    kind: str  # its NF type.
    # `address`, `port`: address and port of its server.
    address: str
    port: int
    http: int = 2  # HTTP version, 1 or 2.
    # Base URLs of other functions by type, if there is no NRF.
    peers: Mapping[str, str] = field(default_factory=dict)
    nrf: str = ""  # base URL of the NRF, empty for none.
    # Content of its NF profile besides type and address.
    profile: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 3.0  # seconds to wait for an answer.


class Node:
    """Server and client of one network function."""

    def __init__(self, config: Config, routes: Sequence[BaseRoute]) -> None:
        self.config = config
        self.instance = str(uuid.uuid4())
        handlers: Any = {HTTPException: _refused, EpcError: _refused, KeyError: _refused}
        self._app = Starlette(routes=list(routes), exception_handlers=handlers)
        self._client: httpx.AsyncClient | None = None
        self._server: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._known: dict[tuple[str, str], tuple[float, list[dict[str, Any]]]] = {}

    async def start(self) -> None:
        """Serve, and register with the NRF as soon as the NRF is available."""
        config = self.config
        self._client = httpx.AsyncClient(
            http1=config.http == 1,
            http2=config.http == 2,
            timeout=config.timeout,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=60),
        )
        self._server = Server(
            self._app,
            address=config.address,
            port=config.port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.auto,
            log_enabled=False,
        )
        serving = asyncio.create_task(self._server.serve())
        self._tasks.append(serving)
        done, _ = await asyncio.wait([serving], timeout=0.1)
        for task in done:
            task.result()  # raises the error that prevents serving
        if config.nrf:
            self._tasks.append(asyncio.create_task(self._registered()))

    async def stop(self) -> None:
        serving, *others = self._tasks
        for task in others:
            task.cancel()
        if self.config.nrf:
            with contextlib.suppress(EpcError):
                await self.call("DELETE", self._own())
        if self._client is not None:
            await self._client.aclose()
        if self._server is not None:
            self._server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([serving], timeout=1)

    async def call(
        self, method: str, url: str, document: Any = None, **options: Any
    ) -> httpx.Response:
        """Send a request; ``document`` is its JSON.

        Raises:
            SbiError: the answer is an error, or there is no answer (504).
        """
        assert self._client is not None  # noqa: S101
        if document is not None:
            options["json"] = document
        try:
            try:
                answer = await self._client.request(method, url, **options)
            except (httpx.ProtocolError, httpx.ReadError, httpx.WriteError):
                # The peer has restarted, or closed an idle connection: use a new connection.
                answer = await self._client.request(method, url, **options)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            log.error("%s %s: %s", method, url, reason)
            self._known.clear()
            raise SbiError(504, "TARGET_NF_NOT_REACHABLE") from None
        if answer.is_error:
            cause = "UNSPECIFIED"
            with contextlib.suppress(ValueError, AttributeError):
                answered, _ = parts_of(answer.headers.get("content-type", ""), answer.content)
                cause = str(answered.get("cause") or answered["error"]["cause"])
            raise SbiError(answer.status_code, cause, answer.content)
        return answer

    async def find(self, kind: str, **query: Any) -> list[dict[str, Any]]:
        """Return profiles of functions of a type; the NRF gets query values as JSON.

        Raises:
            SbiError: the NRF does not answer.
        """
        if kind in self.config.peers and not self.config.nrf:
            return [{"nfType": kind, "url": self.config.peers[kind]}]
        if not self.config.nrf:
            return []
        words = {name.replace("_", "-"): json.dumps(value) for name, value in query.items()}
        key = kind, json.dumps(words)
        until, profiles = self._known.get(key, (0.0, []))
        if time.monotonic() < until:
            return profiles
        words |= {"target-nf-type": kind, "requester-nf-type": self.config.kind}
        answer = await self.call(
            "GET", f"{self.config.nrf}/nnrf-disc/v1/nf-instances", params=words
        )
        document = answer.json()
        profiles = list(document["nfInstances"])
        if profiles:
            self._known[key] = (time.monotonic() + document["validityPeriod"], profiles)
        return profiles

    async def url(self, kind: str, **query: Any) -> str:
        """Base URL of a function of a type.

        Raises:
            SbiError: there is none.
        """
        for one in await self.find(kind, **query):
            return base(one)
        raise SbiError(504, f"NO_{kind}")

    # -- the NRF's management service -------------------------------------------------------------

    def _own(self) -> str:
        return f"{self.config.nrf}/nnrf-nfm/v1/nf-instances/{self.instance}"

    async def _registered(self) -> None:
        profile = {
            "nfInstanceId": self.instance,
            "nfType": self.config.kind,
            "nfStatus": "REGISTERED",
            "ipv4Addresses": [self.config.address],
            "nfServices": [
                {
                    "serviceInstanceId": self.config.kind.lower(),
                    "scheme": "http",
                    "ipEndPoints": [{"ipv4Address": self.config.address, "port": self.config.port}],
                }
            ],
        } | dict(self.config.profile)
        beat = [{"op": "replace", "path": "/nfStatus", "value": "REGISTERED"}]
        there, said = False, False
        while True:
            try:
                if there:
                    await self.call("PATCH", self._own(), beat)
                else:
                    await self.call("PUT", self._own(), profile)
                    log.info("Registered with the NRF %s", self.config.nrf)
                there, said = True, False
            except SbiError as error:
                if not said:
                    log.error("NRF: %s", error)
                restarted = there and error.status == 404  # then register again at once
                there, said = False, not restarted
                if restarted:
                    continue
            await asyncio.sleep(HEARTBEAT if there else 1.0)


def base(profile: Mapping[str, Any]) -> str:
    """Return the base URL in an NF profile."""
    if "url" in profile:
        return str(profile["url"])
    end = profile["nfServices"][0]["ipEndPoints"][0]
    return f"http://{end['ipv4Address']}:{end['port']}"


def serves(profile: Mapping[str, Any], snssai: Snssai, dnn: str) -> bool:
    """Tell whether an SMF's profile has a slice, and a DNN in it; no slices there means all."""
    information = profile.get("smfInfo") or {}
    listed: Iterable[Mapping[str, Any]] = next(
        (information[key] for key in information if key.startswith("sNssai")), ()
    )
    if not listed:
        return True
    return any(
        Snssai.of(one["sNssai"]) == snssai
        and (
            not dnn
            or any(dnn == item["dnn"] for key in one if key.startswith("dnn") for item in one[key])
        )
        for one in listed
    )
