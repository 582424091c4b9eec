"""Rows of the UDR in MySQL: subscribers with their keys, slices and 5QIs.

The tables are those of OAI's UDR, but for one key: a subscriber has a
row of session management data for each slice. The program `fill` runs this module on the VDU.
"""

import json
import os
from typing import Any, Dict, Iterator, List, Mapping, Sequence

CONTAINER = "osm-vpnaas-mysql"
DATABASE = "oai_db"
USER = "oai"
CLIENT = (
    "sh",
    "-c",
    'MYSQL_PWD="$MYSQL_PASSWORD" exec mysql --user={} --batch {}'.format(USER, DATABASE),
)
"""The client in the container. It takes the password from the container's environment."""
SCHEMA = "schema.sql"
PROBE = "SELECT ueid FROM AuthenticationSubscription LIMIT 1;"
"""A statement that MySQL answers once it is filled."""
BATCH = 100
"""Subscribers per statement."""
FIRST_SQN = "000000000020"
AMF_FIELD = "8000"
"""Authentication management field: the separation bit, as 5G-AKA wants (TS 33.501, 6.1.3.2)."""


def schema() -> List[str]:
    """Return the statements of SCHEMA beside this file, which make what is missing."""
    with open(os.path.join(os.path.dirname(__file__), SCHEMA), encoding="utf-8") as stream:
        return [" ".join(one.split()) + ";" for one in stream.read().split(";")[:-1]]


def literal(value: object) -> str:
    """Return an SQL literal of a text, or of a document as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "''"))


def insert(verb: str, table: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return INSERT, INSERT IGNORE or REPLACE of rows with the same columns."""
    names = sorted(rows[0])
    listed = ("({})".format(", ".join(literal(row[name]) for name in names)) for row in rows)
    return "{} INTO {} ({}) VALUES {};".format(verb, table, ", ".join(names), ", ".join(listed))


def delete(table: str, where: str) -> str:
    return "DELETE FROM {} WHERE {};".format(table, where)  # noqa: S608 - `literal` quotes


def _snssai(session: Dict[str, Any]) -> Dict[str, Any]:
    return {"sst": session["sst"], "sd": session["sd"]}


def dnn_configuration(session: Dict[str, Any], ambr_mbps: int) -> Dict[str, Any]:
    """Return a subscriber's DnnConfiguration of a data network (TS 29.503)."""
    rate = "{}Mbps".format(ambr_mbps)
    arp = {"priorityLevel": 1, "preemptCap": "NOT_PREEMPT", "preemptVuln": "NOT_PREEMPTABLE"}
    profile = {"5qi": session["five_qi"], "arp": arp, "priorityLevel": session["priority"]}
    return {
        "pduSessionTypes": {"defaultSessionType": "IPV4"},
        "sscModes": {"defaultSscMode": "SSC_MODE_1"},
        "5gQosProfile": profile,
        "sessionAmbr": {"uplink": rate, "downlink": rate},
    }


def authentication(imsis: Sequence[str], key: str, opc: str) -> str:
    """Return the statement with subscribers' keys; an existing subscriber keeps its row."""
    common = {
        "authenticationMethod": "5G_AKA",
        "encPermanentKey": key,
        "protectionParameterId": key,
        "sequenceNumber": {
            "sqn": FIRST_SQN,
            "sqnScheme": "NON_TIME_BASED",
            "lastIndexes": {"ausf": 0},
        },
        "authenticationManagementField": AMF_FIELD,
        "algorithmId": "milenage",
        "encOpcKey": opc,
    }  # type: Dict[str, object]
    rows = [dict(common, ueid=imsi, supi=imsi) for imsi in imsis]
    return insert("INSERT IGNORE", "AuthenticationSubscription", rows)


def _among(imsis: Sequence[str]) -> str:
    return "ueid IN ({})".format(", ".join(literal(imsi) for imsi in imsis))


def keys(imsis: Sequence[str], key: str, opc: str) -> str:
    """Return the statement that sets subscribers' keys.

    SQN goes on: a USIM with another key takes any higher one.
    """
    row = {"encPermanentKey": key, "protectionParameterId": key, "encOpcKey": opc}
    return "UPDATE AuthenticationSubscription SET {} WHERE {};".format(  # noqa: S608
        ", ".join("{} = {}".format(name, literal(row[name])) for name in sorted(row)),
        _among(imsis),
    )


def subscription(
    imsis: Sequence[str], plmn: str, sessions: List[Dict[str, Any]], ambr: int
) -> List[str]:
    """Return the statements that set which slices subscribers may use, and how.

    Each of `sessions` has `sst`, `sd`, `dnn`, `five_qi` and `priority`; `ambr` is the
    Session-AMBR in Mbit/s.
    """
    allowed = []  # type: List[Dict[str, Any]]
    for session in sessions:
        if _snssai(session) not in allowed:
            allowed.append(_snssai(session))
    # OAI's UE requests no NSSAI, so all are default ones (TS 23.501 clause 5.15.3).
    nssai = {"defaultSingleNssais": allowed}
    access = [{"ueid": imsi, "servingPlmnid": plmn, "nssai": nssai} for imsi in imsis]
    management = [
        {
            "ueid": imsi,
            "servingPlmnid": plmn,
            "singleNssai": one,
            "dnnConfigurations": {
                session["dnn"]: dnn_configuration(session, ambr)
                for session in sessions
                if _snssai(session) == one
            },
        }
        for imsi in imsis
        for one in allowed
    ]
    where = "{} AND servingPlmnid = {}".format(_among(imsis), literal(plmn))
    return [
        insert("REPLACE", "AccessAndMobilitySubscriptionData", access),
        delete("SessionManagementSubscriptionData", where),
        insert("INSERT", "SessionManagementSubscriptionData", management),
    ]


def statements(document: Dict[str, Any]) -> Iterator[str]:
    """Yield all statements that fill the database, each in one line.

    `changes` of the document are what actions changed, as `fill` reads them.
    """
    changes = document.get("changes", {})
    key, opc = document["key"], document["opc"]
    for statement in schema():
        yield statement
    first, count = int(document["first_imsi"]), document["subscribers"]
    for start in range(0, count, BATCH):
        numbers = range(first + start, first + min(start + BATCH, count))
        imsis = [str(number).zfill(15) for number in numbers]
        present = [imsi for imsi in imsis if not changes.get(imsi, {}).get("removed")]
        keyed = [imsi for imsi in present if not changes.get(imsi, {}).get("own_key")]
        if keyed:
            yield authentication(keyed, key, opc)
            yield keys(keyed, key, opc)
        alike = [imsi for imsi in present if not changes.get(imsi, {}).get("own_slices")]
        if alike:
            ambr = document["ambr_mbps"]
            for statement in subscription(alike, document["plmn"], document["sessions"], ambr):
                yield statement
    # Those that were added with the key of the range, also beyond it.
    added = [imsi for imsi, change in sorted(changes.items()) if change.get("own_key") is False]
    for start in range(0, len(added), BATCH):
        yield keys(added[start : start + BATCH], key, opc)
