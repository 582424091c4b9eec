"""Rows of the HSS in Cassandra: subscribers, and the MMEs that may connect.

The tables are those of OAI's HSS (release 14). The program `fill` runs this module on the VDU.
"""

import json
import os
from typing import Any, Dict, Iterator, List, Sequence

CLIENT = ("cqlsh", "127.0.0.1")
CONTAINER = "osm-vpnaas-cassandra"
SCHEMA = "schema.cql"
PROBE = "SELECT idmmeidentity FROM vhss.mmeidentity LIMIT 1;"
"""A statement that Cassandra answers once it is filled."""
RAND = "2683b376d1056746de3b254012908e0e"
"""Any value: the HSS makes a random number of its own for each vector ("randv")."""
ACCESS_RESTRICTION = 41
"""No UTRAN, I-HSPA evolution, or handover to non-3GPP access (TS 29.272 clause 7.3.31)."""

Subscription = Dict[str, Any]


def schema() -> List[str]:
    """Return the statements of SCHEMA beside this file, which make what is missing."""
    with open(os.path.join(os.path.dirname(__file__), SCHEMA), encoding="utf-8") as stream:
        return [" ".join(one.split()) + ";" for one in stream.read().split(";")[:-1]]


def literal(value: object) -> str:
    """Return a CQL literal of a text or a whole number."""
    if isinstance(value, int):
        return str(value)
    return "'{}'".format(str(value).replace("'", "''"))


def insert(table: str, row: Dict[str, Any], once: bool = False) -> str:
    """Return an INSERT; with `once` it does not change an existing row."""
    names = sorted(row)
    return "INSERT INTO vhss.{} ({}) VALUES ({}){};".format(  # noqa: S608 - `literal` quotes
        table,
        ", ".join(names),
        ", ".join(literal(row[name]) for name in names),
        " IF NOT EXISTS" if once else "",
    )


def tbcd(digits: str) -> str:
    """Return digits as telephony BCD (TS 29.002 clause 17.7.8): nibbles swapped, F as filler."""
    filled = digits + "f" * (len(digits) % 2)
    return "".join(filled[at + 1] + filled[at] for at in range(0, len(filled), 2))


def subscription_data(msisdn: str, apns: Sequence[str]) -> str:
    """Return the Subscription-Data AVP (TS 29.272 clause 7.3.2) as the JSON the HSS keeps."""
    ambr = {"Max-Requested-Bandwidth-UL": 50000000, "Max-Requested-Bandwidth-DL": 100000000}

    def context(number: int, apn: str) -> Dict[str, Any]:
        return {
            "Context-Identifier": number,
            "PDN-Type": 0,
            "Service-Selection": apn,
            "EPS-Subscribed-QoS-Profile": {
                "QoS-Class-Identifier": 9,
                "Allocation-Retention-Priority": {
                    "Priority-Level": 15,
                    "Pre-emption-Capability": 0,
                    "Pre-emption-Vulnerability": 0,
                },
            },
            "AMBR": ambr,
            "PDN-GW-Allocation-Type": 0,
        }

    data = {
        "Access-Restriction-Data": ACCESS_RESTRICTION,
        "Subscriber-Status": 0,
        "Network-Access-Mode": 2,
        "MSISDN": "0x" + tbcd(msisdn),
        "AMBR": ambr,
        "APN-Configuration-Profile": {
            "Context-Identifier": 0,
            "All-APN-Configurations-Included-Indicator": 0,
            "APN-Configuration": None,
        },
        "Subscribed-Periodic-RAU-TAU-Timer": 0,
    }
    text = _compact({"Subscription-Data": data})
    # One member per APN, all of the same name: OAI writes it like this, and its HSS reads it so.
    contexts = [_compact({"APN-Configuration": context(n, apn)}) for n, apn in enumerate(apns)]
    members = ",".join(item[1:-1] for item in contexts)
    return text.replace('"APN-Configuration":null', members)


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def subscriber(imsi: str, msisdn: str, common: Subscription) -> List[str]:
    """Return the statements that add one subscriber; an existing one keeps its row."""
    row = {
        "imsi": imsi,
        "msisdn": int(msisdn),
        "access_restriction": ACCESS_RESTRICTION,
        "key": common["key"],
        "opc": common["opc"],
        "mmehost": common["mmes"][0],
        "mmeidentity_idmmeidentity": common["mme_id"],
        "mmerealm": common["realm"],
        "rand": RAND,
        "sqn": 96,
        "subscription_data": subscription_data(msisdn, common["apns"]),
    }
    return [
        insert("users_imsi", row, once=True),
        insert("msisdn_imsi", {"msisdn": int(msisdn), "imsi": imsi}),
    ]


def mme(common: Subscription) -> List[str]:
    """Return the statements that admit the MMEs; the HSS refuses a connection from others."""
    result = []
    for number, host in enumerate(common["mmes"], start=common["mme_id"]):
        row = {
            "idmmeidentity": number,
            "mmeisdn": "mme-isdn",
            "mmehost": host,
            "mmerealm": common["realm"],
            "ue_reachability": 1,
        }
        result += [insert("mmeidentity", row), insert("mmeidentity_host", row)]
    return result


def renewal(msisdn: str, common: Subscription, own_key: bool = False) -> Dict[str, Any]:
    """Return the columns that a subscriber of an earlier content gets from this one.

    SQN goes on: a USIM with another key takes any higher one.
    """
    row = {"subscription_data": subscription_data(msisdn, common["apns"])}
    return row if own_key else dict(row, key=common["key"], opc=common["opc"])


def update(imsi: str, row: Dict[str, Any]) -> str:
    """Return the statement that changes columns of a subscriber if there is one."""
    return "UPDATE vhss.users_imsi SET {} WHERE imsi = {} IF EXISTS;".format(  # noqa: S608
        ", ".join("{} = {}".format(name, literal(row[name])) for name in sorted(row)),
        literal(imsi),
    )


def statements(document: Dict[str, Any]) -> Iterator[str]:
    """Yield all statements that fill the database, each in one line.

    `changes` of the document are what actions changed, as `fill` reads them.
    """
    common, changes = document["subscription"], document.get("changes", {})
    own = {
        imsi: change
        for imsi, change in sorted(changes.items())
        if not change.get("removed") and "msisdn" in change
    }
    taken = {change["msisdn"] for change in own.values()}
    for statement in schema() + mme(common):
        yield statement
    for index in range(document["subscribers"]):
        imsi = str(int(document["first_imsi"]) + index).zfill(15)
        msisdn = str(int(document["first_msisdn"]) + index)
        if imsi in changes:
            continue
        row, number = subscriber(imsi, msisdn, common)
        yield row
        if msisdn not in taken:
            yield number
        renewed = dict(renewal(msisdn, common), imsi=imsi, msisdn=int(msisdn))
        yield insert("users_imsi", renewed)
    for imsi, change in own.items():
        yield update(imsi, renewal(change["msisdn"], common, bool(change.get("own_key"))))
