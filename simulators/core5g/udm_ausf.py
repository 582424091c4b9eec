"""UDR, UDM and AUSF: subscribers from the database, vectors, and the check of answers.

The services are those of TS 29.504 and 29.505 (Nudr_DR), TS 29.503 (Nudm) and TS 29.509 (Nausf).
"""

import asyncio
import contextlib
import hmac
import json
import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pymysql
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.core5g import keys, sbi
from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError
from simulators.shared.keys import next_sqn, resynchronised

log = logging.getLogger("udr_app")


@dataclass(frozen=True)
class Database:
    """Address and login of the UDR's database."""

    host: str
    port: int
    user: str
    password: str
    name: str


class Udr:
    """The unified data repository: rows of the database as resources."""

    def __init__(self, config: sbi.Config, database: Database) -> None:
        self._database = database
        self._connection: Any = None
        self._lock = asyncio.Lock()
        ue = "/nudr-dr/v1/subscription-data/{ue}"
        authentication = f"{ue}/authentication-data/authentication-subscription"
        provisioned = f"{ue}/{{plmn}}/provisioned-data"
        self.node = sbi.Node(
            config,
            [
                Route(authentication, self._authentication, methods=["GET"]),
                Route(authentication, self._sequence, methods=["PATCH"]),
                Route(f"{provisioned}/am-data", self._access),
                Route(f"{provisioned}/sm-data", self._sessions),
                Route(f"{ue}/context-data/amf-3gpp-access", self._registration, methods=["PUT"]),
            ],
        )

    async def start(self) -> None:
        """Serve, if the database answers."""
        await self.rows("SELECT ueid FROM AuthenticationSubscription LIMIT 1")
        await self.node.start()

    async def stop(self) -> None:
        await self.node.stop()

    def _run(self, sql: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
        one = self._database
        if self._connection is None:
            self._connection = pymysql.connect(
                host=one.host,
                port=one.port,
                user=one.user,
                password=one.password,
                database=one.name,
                autocommit=True,
                cursorclass=pymysql.cursors.DictCursor,
            )
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    async def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of a query."""
        async with self._lock:
            try:
                return await asyncio.to_thread(self._run, sql, values)
            except pymysql.MySQLError as error:
                with contextlib.suppress(pymysql.MySQLError, AttributeError):
                    self._connection.close()
                self._connection = None
                raise EpcError(f"MySQL {self._database.host}: {error.args[-1]}") from None

    def _imsi(self, request: Request) -> str:
        return str(request.path_params["ue"]).removeprefix("imsi-")

    async def _one(self, request: Request, table: str) -> dict[str, Any]:
        values = [self._imsi(request)]
        sql = f"SELECT * FROM {table} WHERE ueid=%s"  # noqa: S608 - a name of ours
        if "plmn" in request.path_params:
            sql += " AND servingPlmnid=%s"
            values.append(request.path_params["plmn"])
        rows = await self.rows(sql, *values)
        if not rows:
            raise sbi.SbiError(404, "USER_NOT_FOUND")
        return rows[0]

    async def _authentication(self, request: Request) -> Response:
        row = await self._one(request, "AuthenticationSubscription")
        row["sequenceNumber"] = json.loads(row["sequenceNumber"])
        return JSONResponse({name: value for name, value in row.items() if value is not None})

    async def _sequence(self, request: Request) -> Response:
        for change in await sbi.body(request):
            if change["path"] != "/sequenceNumber":
                raise sbi.SbiError(403, "MODIFICATION_NOT_ALLOWED")
            await self.rows(
                "UPDATE AuthenticationSubscription SET sequenceNumber=%s WHERE ueid=%s",
                json.dumps(change["value"]),
                self._imsi(request),
            )
        return Response(status_code=204)

    async def _access(self, request: Request) -> Response:
        row = await self._one(request, "AccessAndMobilitySubscriptionData")
        result = {}
        for name in ("nssai", "subscribedUeAmbr"):
            if row.get(name):
                result[name] = json.loads(row[name])
        return JSONResponse(result)

    async def _sessions(self, request: Request) -> Response:
        rows = await self.rows(
            "SELECT * FROM SessionManagementSubscriptionData WHERE ueid=%s AND servingPlmnid=%s",
            self._imsi(request),
            request.path_params["plmn"],
        )
        result = [
            {
                "singleNssai": json.loads(row["singleNssai"]),
                "dnnConfigurations": json.loads(row["dnnConfigurations"] or "{}"),
            }
            for row in rows
        ]
        return JSONResponse(result)

    async def _registration(self, request: Request) -> Response:
        document = await sbi.body(request)
        await self.rows(
            "REPLACE INTO Amf3GppAccessRegistration "
            "(ueid, amfInstanceId, deregCallbackUri, guami, ratType) VALUES (%s, %s, %s, %s, %s)",
            self._imsi(request),
            document["amfInstanceId"],
            document["deregCallbackUri"],
            json.dumps(document["guami"]),
            document["ratType"],
        )
        return Response(status_code=204)


class Udm:
    """The unified data management: vectors and subscriptions, from a UDR."""

    def __init__(self, config: sbi.Config) -> None:
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        make = "/nudm-ueau/v1/{supi}/security-information/generate-auth-data"
        registration = "/nudm-uecm/v1/{supi}/registrations/amf-{access}-access"
        self.node = sbi.Node(
            config,
            [
                Route(make, self._vector, methods=["POST"]),
                Route(registration, self._register, methods=["PUT"]),
                Route("/nudm-sdm/v2/{supi}/am-data", self._access),
                Route("/nudm-sdm/v2/{supi}/nssai", self._nssai),
                Route("/nudm-sdm/v2/{supi}/sm-data", self._sessions),
            ],
        )

    async def _udr(self, path: str) -> str:
        return f"{await self.node.url('UDR')}/nudr-dr/v1/subscription-data/{path}"

    async def _vector(self, request: Request) -> Response:
        supi = request.path_params["supi"]
        body = await sbi.body(request)
        network = body["servingNetworkName"]
        url = await self._udr(f"{supi}/authentication-data/authentication-subscription")
        async with self._busy[supi]:
            row = (await self.node.call("GET", url)).json()
            k, opc = bytes.fromhex(row["encPermanentKey"]), bytes.fromhex(row["encOpcKey"])
            sequence = row["sequenceNumber"]
            sqn = int(sequence["sqn"], 16)
            resync = body.get("resynchronizationInfo")
            if resync:
                rand, auts = bytes.fromhex(resync["rand"]), bytes.fromhex(resync["auts"])
                own_sqn = resynchronised(k, opc, rand, auts)
                if own_sqn is None:
                    return sbi.problem(403, "AUTHENTICATION_REJECTED")
                sqn = own_sqn
            sqn = next_sqn(sqn)
            change = {"path": "/sequenceNumber", "op": "replace"}
            change["value"] = sequence | {"sqn": f"{sqn:012x}"}
            await self.node.call("PATCH", url, [change])
        made = keys.vector(k, opc, sqn, network)
        vector = {
            "avType": "5G_HE_AKA",
            "rand": made.rand.hex(),
            "autn": made.autn.hex(),
            "xresStar": made.xres_star.hex(),
            "kausf": made.kausf.hex(),
        }
        answer = {"authType": "5G_AKA", "authenticationVector": vector, "supi": supi}
        return JSONResponse(answer)

    async def _register(self, request: Request) -> Response:
        names = request.path_params
        if names["access"] != "3gpp":  # OAI's database has no table for it
            return Response(status_code=204)
        url = await self._udr(f"{names['supi']}/context-data/amf-3gpp-access")
        await self.node.call("PUT", url, await sbi.body(request))
        return Response(status_code=204)

    async def _provisioned(self, request: Request, what: str) -> Any:
        plmn = json.loads(request.query_params["plmn-id"])
        path = f"{request.path_params['supi']}/{plmn['mcc']}{plmn['mnc']}/provisioned-data/{what}"
        return (await self.node.call("GET", await self._udr(path))).json()

    async def _access(self, request: Request) -> Response:
        return JSONResponse(await self._provisioned(request, "am-data"))

    async def _nssai(self, request: Request) -> Response:
        nssai = (await self._provisioned(request, "am-data")).get("nssai")
        return JSONResponse(nssai) if nssai else sbi.problem(404, "DATA_NOT_FOUND")

    async def _sessions(self, request: Request) -> Response:
        records = await self._provisioned(request, "sm-data")
        if "single-nssai" in request.query_params:
            snssai = Snssai.of(json.loads(request.query_params["single-nssai"]))
            records = [one for one in records if Snssai.of(one["singleNssai"]) == snssai]
        dnn = request.query_params.get("dnn")
        if dnn is not None:
            records = [one for one in records if dnn in one["dnnConfigurations"]]
        return JSONResponse(records) if records else sbi.problem(404, "DATA_NOT_FOUND")


@dataclass
class _Context:
    """An authentication in progress."""

    supi: str
    vector: dict[str, str]
    network: str


class Ausf:
    """5G-AKA in the home network (TS 33.501 section 6.1.3.2)."""

    def __init__(self, config: sbi.Config) -> None:
        self._contexts: dict[str, _Context] = {}
        base = "/nausf-auth/v1/ue-authentications"
        self._base = base
        confirm = base + "/{context}/5g-aka-confirmation"
        self.node = sbi.Node(
            config,
            [
                Route(base, self._begin, methods=["POST"]),
                Route(confirm, self._confirm, methods=["PUT"]),
            ],
        )

    async def _begin(self, request: Request) -> Response:
        body = await sbi.body(request)
        supi = body["supiOrSuci"]
        question = {
            "servingNetworkName": body["servingNetworkName"],
            "ausfInstanceId": self.node.instance,
        }
        if "resynchronizationInfo" in body:
            question["resynchronizationInfo"] = body["resynchronizationInfo"]
        path = f"/nudm-ueau/v1/{supi}/security-information/generate-auth-data"
        answer = (await self.node.call("POST", await self.node.url("UDM") + path, question)).json()
        vector = answer["authenticationVector"]
        rand, xres = bytes.fromhex(vector["rand"]), bytes.fromhex(vector["xresStar"])
        context = _Context(answer["supi"], vector, body["servingNetworkName"])
        self._contexts[context.supi] = context
        config = self.node.config
        own = f"http://{config.address}:{config.port}{self._base}/{context.supi}"
        data = {"rand": vector["rand"], "autn": vector["autn"]}
        data["hxresStar"] = keys.hres_star(rand, xres).hex()
        document = {
            "authType": "5G_AKA",
            "5gAuthData": data,
            "_links": {"5g-aka": {"href": f"{own}/5g-aka-confirmation"}},
        }
        return JSONResponse(document, 201, headers={"Location": own})

    async def _confirm(self, request: Request) -> Response:
        context = self._contexts.pop(request.path_params["context"], None)
        if context is None:
            return sbi.problem(404, "CONTEXT_NOT_FOUND")
        given = str((await sbi.body(request))["resStar"])
        if not hmac.compare_digest(given.lower().encode(), context.vector["xresStar"].encode()):
            return JSONResponse({"authResult": "AUTHENTICATION_FAILURE"})
        seaf = keys.kseaf(bytes.fromhex(context.vector["kausf"]), context.network)
        answer = {"authResult": "AUTHENTICATION_SUCCESS", "supi": context.supi}
        return JSONResponse(answer | {"kseaf": seaf.hex()})
