"""Parser for the output of `cqlsh`, and the statements of the HSS's day-2 primitives."""

from typing import Any, Dict, List

from vpnaas.base import fields
from vpnaas.base.errors import InputError

from . import provision

DATABASE = "Cassandra"
COMMAND = (provision.CONTAINER, *provision.CLIENT)


def table(text: str) -> List[Dict[str, str]]:
    """Return the rows of a table as `cqlsh` draws it."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        rule = line.strip()
        if index and rule and not rule.strip("-+") and "-" in rule:
            names = [cell.strip() for cell in lines[index - 1].split("|")]
            rows = []
            for row in lines[index + 1 :]:
                cells = [cell.strip() for cell in row.split("|")]
                if not row.strip() or len(cells) != len(names):
                    break
                rows.append(dict(zip(names, cells)))
            return rows
    return []


def select(imsi: str = "", limit: int = 0) -> str:
    """Return the statement that selects one subscriber, or up to `limit` in any order (0: all)."""
    return "SELECT imsi, msisdn, mmehost FROM vhss.users_imsi{}{};".format(  # noqa: S608
        " WHERE imsi = {}".format(provision.literal(imsi)) if imsi else "",
        " LIMIT {}".format(limit) if limit else "",
    )


def holder(msisdn: str) -> str:
    """Return the statement that selects the IMSI of an MSISDN."""
    return "SELECT imsi FROM vhss.msisdn_imsi WHERE msisdn = {};".format(int(msisdn))  # noqa: S608


def free(rows: List[Dict[str, str]], msisdn: str, imsi: str) -> None:
    """Raise InputError if the answer to `holder` shows another subscriber."""
    for row in rows:
        if row.get("imsi", imsi) != imsi:
            raise InputError(
                "add-subscriber: msisdn",
                "{} is that of {}".format(msisdn, row["imsi"]),
                "one that list-subscribers does not show",
            )


def applied(rows: List[Dict[str, str]], imsi: str) -> None:
    """Raise InputError if an INSERT found that the subscriber exists already."""
    if rows and rows[0].get("[applied]") == "False":
        raise InputError(
            "add-subscriber: imsi",
            "{} is a subscriber already".format(imsi),
            "one that list-subscribers does not show",
        )


def deletions(imsi: str, msisdn: str) -> List[str]:
    statements = [
        "DELETE FROM vhss.users_imsi WHERE imsi = {};".format(provision.literal(imsi))  # noqa: S608
    ]
    if fields.is_count(msisdn):
        statements.append(
            "DELETE FROM vhss.msisdn_imsi WHERE msisdn = {};".format(msisdn)  # noqa: S608
        )
    return statements


def shown(rows: List[Dict[str, str]], limit: int) -> Dict[str, Any]:
    """Return the answer of list-subscribers, without keys."""
    listed = sorted(rows, key=lambda row: row.get("imsi", ""))[:limit]
    return {
        "subscribers": [
            {"imsi": row.get("imsi", ""), "msisdn": row.get("msisdn", "")} for row in listed
        ],
        "more": len(rows) > limit,
    }
