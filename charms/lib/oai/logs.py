"""Parsers for the logs of MME, AMF and SMF: who is connected."""

import re
from typing import Any, Callable, Dict, List, Mapping

from vpnaas.base import fields
from vpnaas.base.errors import VpnaasError

TABLED = ("mme", "amf")
"""Kinds of network functions that log tables of who is connected."""
STATISTICS_SECONDS = 10
"""Time between two tables."""
SILENCE = 3 * STATISTICS_SECONDS
"""Seconds without a line after which such a network function hangs."""
ROWS = {
    "Connected eNBs": "enbs",
    "Attached UEs": "attached-ues",
    "Connected UEs": "connected-ues",
    "Default Bearers": "default-bearers",
    "S1-U Bearers": "s1u-bearers",
}
_ROW = r"({})\s*\|\s*([0-9]{{1,18}})\s*\|".format("|".join(ROWS))

_TITLE = r"\|-*(gNBs|UEs)' [Ii]nformation-*\|"
_CELLS = r"\|(.*)\|\s*$"
GNBS = ("status", "id", "name", "plmn")
UES = ("state", "imsi", "guti", "ran-ue-ngap-id", "amf-ue-ngap-id", "plmn", "cell")

_LABELS = "SUPI|PDU Session ID|DNN|S-NSSAI|PAA IPv4|Default QFI"
_LABELLED = r"\A\s*({}):\s*(\S.*?)?\s*\Z".format(_LABELS)
_SLICE = r"sst, sd: *([0-9]{1,3}), *([0-9A-Fa-f]{6})"


def statistics(log: str) -> Dict[str, int]:
    """Return the numbers of the last complete table of the MME."""
    table: Dict[str, int] = {}
    complete: Dict[str, int] = {}
    for match in re.finditer(_ROW, log):
        name = ROWS[match.group(1)]
        if name in table:
            table = {}
        table[name] = int(match.group(2))
        if len(table) == len(ROWS):
            complete, table = table, {}
    if not complete:
        raise VpnaasError("the MME has shown no statistics yet; it does so every 10 s")
    return complete


def connected(log: str) -> Dict[str, List[Dict[str, str]]]:
    """Return gNBs and UEs of the last complete tables of the AMF."""
    complete: Dict[str, List[Dict[str, str]]] = {}
    title, rows, started = "", [], False  # type: str, List[Dict[str, str]], bool
    for line in log.splitlines():
        named = re.search(_TITLE, line)
        if named:
            title, rows, started = named.group(1), [], False
            continue
        match = re.search(_CELLS, line)
        if not title or not match:
            continue
        cells = [cell.strip() for cell in match.group(1).split("|")]
        if cells[0] == "Index":
            started = True
        elif cells[0].strip("-") == "" and len(cells) == 1:
            if started:
                complete[title], title = rows, ""
        elif fields.is_count(cells[0]):
            names = GNBS if title == "gNBs" else UES
            rows.append(dict(zip(names, cells[1:])))
    if len(complete) < 2:
        raise VpnaasError("the AMF has shown no tables yet; it does so every 10 s")
    return {"gnbs": complete["gNBs"], "ues": complete["UEs"]}


def sessions(log: str) -> Dict[str, List[Dict[str, Any]]]:
    """Return PDU sessions by slice, of the last context that the SMF logged of each subscriber."""
    contexts: Dict[str, List[Dict[str, str]]] = {}
    supi = ""
    for line in log.splitlines():
        if line.strip() == "SMF CONTEXT:":
            supi = ""
        match = re.match(_LABELLED, line)
        if not match:
            continue
        name, value = match.group(1), match.group(2) or ""
        if name == "SUPI":
            supi = value
            contexts[supi] = []
        elif supi and name == "PDU Session ID":
            contexts[supi].append({name: value})
        elif supi and contexts[supi]:
            contexts[supi][-1].setdefault(name, value)
    result: Dict[str, List[Dict[str, Any]]] = {}
    for supi, listed in sorted(contexts.items()):
        for session in listed:
            slice = re.search(_SLICE, session.get("S-NSSAI", ""))
            name = "{}-{}".format(slice.group(1), slice.group(2).upper()) if slice else "unknown"
            result.setdefault(name, []).append(
                {
                    "imsi": supi.replace("imsi-", ""),
                    "id": session["PDU Session ID"],
                    "dnn": session.get("DNN", ""),
                    "address": session.get("PAA IPv4", ""),
                    "qfi": session.get("Default QFI", ""),
                }
            )
    return result


CONNECTED: Dict[str, Callable[[str], Mapping[str, Any]]] = {
    "mme": statistics,
    "amf": connected,
    "smf": lambda log: {"sessions": sessions(log)},
}
"""What show-connected says, from the log of a kind of network function."""
