"""Parser for the `mysql` client's output, and statements of day-2 primitives on subscribers."""

import json
import re
from typing import Any, Dict, List

from vpnaas.base.errors import MALFORMED, VpnaasError

from . import provision_5g

DATABASE = "MySQL"
COMMAND = (provision_5g.CONTAINER, *provision_5g.CLIENT)
SUBSCRIBERS = "AuthenticationSubscription"
SESSIONS = "SessionManagementSubscriptionData"

Row = Dict[str, str]


def table(text: str) -> List[Row]:
    """Return the rows of a table in the client's batch form: tabs between, names in line one."""
    lines = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(lines[0], cells)) for cells in lines[1:] if len(cells) == len(lines[0])]


def select(imsi: str) -> str:
    return _select("ueid", SUBSCRIBERS, "ueid = " + provision_5g.literal(imsi)) + ";"


def some(limit: int) -> str:
    """Return the statement that selects the first `limit` subscribers."""
    return _select("ueid", SUBSCRIBERS, "ueid <> ''") + " ORDER BY ueid LIMIT {};".format(limit)


def sessions(first: str, last: str) -> str:
    """Return the statement that selects the sessions of a range of subscribers."""
    ends = (provision_5g.literal(first), provision_5g.literal(last))
    where = "ueid >= {} AND ueid <= {}".format(*ends)
    return _select("ueid, singleNssai, dnnConfigurations", SESSIONS, where) + " ORDER BY ueid;"


def removal(imsi: str) -> List[str]:
    """Return the statements that remove a subscriber from all tables."""
    tables = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", " ".join(provision_5g.schema()))
    return [provision_5g.delete(name, "ueid = " + provision_5g.literal(imsi)) for name in tables]


def _select(columns: str, name: str, where: str) -> str:
    return "SELECT {} FROM {} WHERE {}".format(columns, name, where)  # noqa: S608


def held(rows: List[Row]) -> Dict[str, List[Dict[str, Any]]]:
    """Parse the rows of `sessions`; return the sessions by IMSI."""
    result: Dict[str, List[Dict[str, Any]]] = {}
    for row in rows:
        try:
            slice, configurations = _json(row["singleNssai"]), _json(row["dnnConfigurations"])
            for dnn, its in sorted(configurations.items()):
                profile = its.get("5gQosProfile", {})
                result.setdefault(row["ueid"], []).append(
                    {
                        "sst": int(slice.get("sst", 0)),
                        "sd": str(slice.get("sd", "")),
                        "dnn": dnn,
                        "five_qi": int(profile.get("5qi", 0)),
                        "priority": int(profile.get("priorityLevel", 0)),
                    }
                )
        except MALFORMED:
            raise VpnaasError("a row of the UDR is not in the form of a session")
    return result


def imsis(rows: List[Row]) -> List[str]:
    """Return the IMSIs of the rows of `some`."""
    if not all("ueid" in row for row in rows):
        raise VpnaasError("these are not the rows of the UDR: they have no column ueid")
    return [row["ueid"] for row in rows]


def _json(text: str) -> Any:
    # The client writes a backslash as two.
    return json.loads(text.replace("\\\\", "\\"))
