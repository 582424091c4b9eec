"""Why a unit of the VDU does not start: who has its UDP port, and the end of its journal."""

import json
import re
from typing import Any, Dict, List, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED
from vpnaas.vdu.steps import Results, Step, printable, run

_SOCKET = re.compile(r'^\S+ +\d+ +\d+ +(\S+):(\d+) +\S+ *(?:users:\(\("([^"]*)")?', re.M)
"""A line of `ss -Hlunp`: address and port, and the first process that has the socket."""
KERNEL = "the kernel"
_MOST = 300
"""Characters of a journal that a sentence quotes."""


def sockets(id: str, *ports: int) -> Step:
    """Return the step that lists who has UDP ports of the VDU."""
    words = " or ".join("sport = :{}".format(port) for port in ports)
    return run(id, "ss", "-Hlunp", words, any_exit=True)


def owners(results: Results, id: str, places: Sequence[str] = ()) -> List[Tuple[int, str]]:
    """Return ports with the program that has each, KERNEL for a socket of no program.

    `places` are the addresses that count, as ss(8) writes them; without any, all do.
    """
    return [
        (int(port), printable(name) or KERNEL)
        for place, port, name in _SOCKET.findall(results.output(id))
        if place in places or not places
    ]


def holder(results: Results, id: str, address: fields.IPAddress) -> str:
    """Return which program has a port at all addresses or at this one, "" for none."""
    own, every = fields.show_endpoint(address, 1).rpartition(":")[0], "0.0.0.0"  # noqa: S104
    places = ("*", every if address.version == 4 else "[::]", own)  # As ss(8) writes them.
    return next((owner for _, owner in owners(results, id, places)), "")


def listeners(id: str, port: int) -> Step:
    """Return the step that lists who listens on a TCP port of the VDU."""
    return run(id, "ss", "-Hltnp", "sport = :{}".format(port), any_exit=True)


def look_at_journal(at: str, unit: str) -> Step:
    """Return the step that reads what the programs of a unit wrote last."""
    words = ("journalctl", "--no-pager", "-q", "-o", "cat", "-n", "9", "_SYSTEMD_UNIT=" + unit)
    return run(at + "/journal", *words, any_exit=True)


def diagnose(at: str, unit: str, port: int) -> List[Step]:
    """Return the steps that look why a unit of WireGuard failed; `at` starts their ids."""
    return [
        sockets(at + "/sockets", port),
        run(at + "/ports", "wg", "show", "all", "listen-port", any_exit=True),
        run(at + "/devices", "ip", "-j", "-d", "address", "show", any_exit=True),
        look_at_journal(at, unit),
    ]


def taken(results: Results, at: str, port: int, interface: str) -> str:
    """Return what has a UDP port that `interface` wants, "" if it is free."""
    owner = dict(owners(results, at + "/sockets")).get(port, "")
    rows = [line.split("\t") for line in results.output(at + "/ports").splitlines()]
    listening = {row[0] for row in rows if row[1:] == [str(port)]}
    names = [
        name
        for name, device in sorted(devices(results, at).items())
        if "UP" in device.get("flags", ())
        and (name in listening or str(_data(device).get("port")) == str(port))
    ]
    # Where WireGuard is a program, the name of its interface says more than that of the program.
    return "" if interface in names or not owner else (names or [owner])[0]


def devices(results: Results, at: str) -> Dict[str, Dict[str, Any]]:
    """Return the interfaces of the VDU by name, as `ip -j -d` prints them."""
    try:
        return {str(each["ifname"]): each for each in json.loads(results.output(at + "/devices"))}
    except MALFORMED:
        return {}


def _data(device: Dict[str, Any]) -> Dict[str, Any]:
    info = device.get("linkinfo")
    data = info.get("info_data") if isinstance(info, dict) else None
    return data if isinstance(data, dict) else {}


def journal(results: Results, at: str) -> str:
    """Return the last lines that the unit's programs wrote, "" for none."""
    lines = results.output(at + "/journal").splitlines()
    worded = [line.strip() for line in lines if any(map(str.isalnum, line))]
    # wg-quick(8) shows each command after this mark; wireguard-go draws a frame around a warning.
    said = [line for line in worded if not line.startswith(("[#]", "\u2502"))]
    return printable("; ".join(said[-2:]))[-_MOST:]
