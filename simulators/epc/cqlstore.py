"""The HSS's subscribers as rows of OAI's tables in Cassandra."""

import asyncio
import json
import re
from typing import Any

from simulators.epc import cassandra
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError

#: Seconds to wait for an answer of Cassandra.
TIMEOUT = 5.0
_COLUMNS = "imsi, key, opc, sqn, subscription_data, mmehost, ms_ps_status"
_TABLE = "vhss.users_imsi"


class Cassandra:
    """A store in Cassandra; each statement opens a new connection."""

    def __init__(self, host: str, port: int = cassandra.PORT) -> None:
        self.host = host
        self.port = port

    async def _execute(self, statement: str) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(TIMEOUT):
                async with cassandra.connected(self.host, self.port) as execute:
                    answer = await execute(statement)
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        except TimeoutError:
            reason = f"no answer in {TIMEOUT:g} s"
        except OSError as error:
            reason = error.strerror or str(error)
        except cassandra.CqlError as error:
            reason = str(error)
        raise EpcError(f"Cassandra at {self.host}:{self.port}: {reason}.")

    async def get(self, imsi: str) -> Subscriber | None:
        rows = await self._execute(
            f"SELECT {_COLUMNS} FROM {_TABLE} WHERE imsi = {_literal(imsi)};"  # noqa: S608
        )
        if not rows:
            return None
        row = rows[0]
        apns, up, down, msisdn = subscription(str(row["subscription_data"] or "{}"))
        try:
            return Subscriber(
                imsi,
                bytes.fromhex(str(row["key"])),
                bytes.fromhex(str(row["opc"])),
                int(row["sqn"] or 0),
                msisdn,
                apns,
                up,
                down,
                str(row["mmehost"] or "") if row["ms_ps_status"] == "NOT_PURGED" else "",
            )
        except ValueError:
            raise EpcError(f"The keys of subscriber {imsi} are not hexadecimal.") from None

    async def set_sqn(self, imsi: str, sqn: int) -> None:
        await self._execute(
            f"UPDATE {_TABLE} SET sqn = {sqn} WHERE imsi = {_literal(imsi)};"  # noqa: S608
        )

    async def set_mme(self, imsi: str, mme: str) -> None:
        host, realm = _literal(mme), _literal(mme.partition(".")[2])
        change = f"mmehost = {host}, mmerealm = {realm}, ms_ps_status = 'NOT_PURGED'"
        if not mme:
            change = "ms_ps_status = 'PURGED'"
        await self._execute(
            f"UPDATE {_TABLE} SET {change} WHERE imsi = {_literal(imsi)};"  # noqa: S608
        )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def subscription(text: str) -> tuple[tuple[str, ...], int, int, bytes]:
    """Return APNs, bit rates and MSISDN from Subscription-Data in the form of OAI's HSS.

    The JSON document repeats the key APN-Configuration once for each APN.
    """
    apns: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        apns.extend(
            value["Service-Selection"]
            for name, value in pairs
            if name == "APN-Configuration"
            and isinstance(value, dict)
            and isinstance(value.get("Service-Selection"), str)
        )
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=collect)
        data = document.get("Subscription-Data", {})
        rates = data.get("AMBR", {})
        msisdn = octets(str(data.get("MSISDN", "")))
        up = int(rates.get("Max-Requested-Bandwidth-UL", 50_000_000))
        down = int(rates.get("Max-Requested-Bandwidth-DL", 100_000_000))
    except (ValueError, AttributeError, TypeError):
        raise EpcError("Subscription-Data of a subscriber cannot be read.") from None
    return tuple(apns), up, down, msisdn


def octets(text: str) -> bytes:
    """Return the octets of a text in a document of AVPs, as freeDiameter reads it.

    "0x" and complete octets in hexadecimal are decoded; any other text stands for itself.
    """
    if re.fullmatch(r"0x([0-9a-fA-F]{2})*", text):
        return bytes.fromhex(text[2:])
    return text.encode()
