"""The NRF: management and discovery of network functions (3GPP TS 29.510)."""

import json
import logging
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.core5g import sbi
from simulators.core5g.snssai import Snssai

log = logging.getLogger("nrf_app")

_MISSED = 3  # Number of heartbeats that a function may miss.


class Nrf:
    """The network repository function: profiles by instance, and their last heartbeats."""

    def __init__(self, config: sbi.Config) -> None:
        self.profiles: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, float] = {}
        one = "/nnrf-nfm/v1/nf-instances/{instance}"
        self.node = sbi.Node(
            config,
            [
                Route(one, self._register, methods=["PUT"]),
                Route(one, self._update, methods=["PATCH"]),
                Route(one, self._deregister, methods=["DELETE"]),
                Route("/nnrf-nfm/v1/nf-instances", self._list),
                Route("/nnrf-disc/v1/nf-instances", self._discover),
            ],
        )

    def _alive(self) -> list[dict[str, Any]]:
        oldest = time.monotonic() - _MISSED * sbi.HEARTBEAT
        return [one for key, one in self.profiles.items() if self._heard[key] > oldest]

    async def _register(self, request: Request) -> Response:
        instance = request.path_params["instance"]
        profile = await sbi.body(request)
        kind = profile["nfType"]
        known = instance in self.profiles
        self.profiles[instance] = profile
        self._heard[instance] = time.monotonic()
        log.info("NF %s %s registered", kind, instance)
        answer = profile | {"heartBeatTimer": int(sbi.HEARTBEAT)}
        return JSONResponse(answer, 200 if known else 201)

    async def _update(self, request: Request) -> Response:
        instance = request.path_params["instance"]
        if instance not in self.profiles:
            return sbi.problem(404, "RESOURCE_URI_STRUCTURE_NOT_FOUND")
        self._heard[instance] = time.monotonic()
        return Response(status_code=204)

    async def _deregister(self, request: Request) -> Response:
        gone = self.profiles.pop(request.path_params["instance"], None)
        return Response(status_code=204) if gone else sbi.problem(404, "NOT_FOUND")

    async def _list(self, request: Request) -> Response:
        kind = request.query_params.get("nf-type")
        profiles = [one for one in self._alive() if kind in (None, one["nfType"])]
        items = [{"href": f"{request.url.path}/{one['nfInstanceId']}"} for one in profiles]
        return JSONResponse({"_links": {"item": items}})

    async def _discover(self, request: Request) -> Response:
        query = request.query_params
        slices = [Snssai.of(one) for one in json.loads(query.get("snssais", "[]"))]
        dnn = json.loads(query.get("dnn", '""'))
        profiles = [
            one
            for one in self._alive()
            if one["nfType"] == query["target-nf-type"]
            and all(sbi.serves(one, snssai, dnn) for snssai in slices)
        ]
        return JSONResponse({"validityPeriod": sbi.VALIDITY, "nfInstances": profiles})
