"""No VNF may reach a VNF with which it has no link (experiment `reach`).

Every VNF tries every address of all VNFs without a link to it, in the same slice and in others. It
tries in three ways: by its routes, through the target's management interface, and with a forged
source (the inner address of one of the target's peers). The result of a TCP attempt is whether a
connection opened. A UDP attempt carries a token; the result is whether the target received it.

The control is the allowed peer: the same listeners must answer it through the tunnel.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from experiments.model import Result
from experiments.testbed import Slice, Testbed, Vnf, linked

SECONDS = 1800  # Seconds after which the listeners end by themselves.
PORT = 7777  # Port of the test service of each VNF on all its inner addresses, TCP and UDP.
TOKEN = 100  # Most characters of a token of `probe`.
CONTROL_PATIENCE = 10.0
"""Seconds to wait for an allowed peer: on a busy machine the first packets may be lost."""
RADIO = {"ue", "gnb"}  # A UE and its gNB may reach each other over Uu.
SERVICES = (22, 2123, 2152, 3868, 4043, 5199, 5201, 7777, 8805, 36412)
"""TCP ports to try besides the ports on which any VNF listens: SSH, those of the EPC, our own."""


def by_design(attempt: Mapping[str, Any]) -> bool:
    """Tell whether an attempt may reach its target.

    OSM and Juju log in over the management network, which all slices share.
    """
    way = (attempt["address"], attempt["protocol"], attempt["port"])
    return way == ("management", "tcp", 22)


def addresses(slice_: Slice, vnf: Vnf) -> dict[str, str]:
    """Return the addresses of a VNF by their role: management, outer/LINK, inner/LINK."""
    table = {vnf.management: "management"}
    for kind, known in (("outer", slice_.addresses.outer), ("inner", slice_.addresses.inner)):
        for (name, link), address in known.items():
            if name == vnf.name:
                table[address] = f"{kind}/{link}"
    return table


def related(bed: Testbed, one: Vnf, other: Vnf) -> bool:
    """Tell whether two VNFs are the ends of a link, or UE and gNB."""
    pair = {str(one), str(other)}
    if one.slice == other.slice and {one.name, other.name} == RADIO:
        return True
    return any(
        {str(slice_[link.near]), str(slice_[link.far])} == pair
        for slice_, link in linked(bed.slices)
    )


def strangers(bed: Testbed) -> Iterator[tuple[Vnf, Vnf]]:
    """Yield each pair of VNFs that have no link with each other."""
    for one, other in itertools.permutations(bed.all_vnfs(), 2):
        if not related(bed, one, other):
            yield one, other


def attempts(
    bed: Testbed, one: Vnf, others: Iterable[Vnf], ports: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a VNF's attempts to reach others; the label of each is its way."""
    made: list[dict[str, Any]] = []
    for other in others:
        target = bed.slices[other.slice]
        token = f"{one}>{other}"
        for address, kind in addresses(target, other).items():
            made.append({"to": address, "ports": list(ports), "datagram": PORT,
                         "token": f"{token} routed {kind}", "label": "routed"})  # fmt: skip
            if kind == "management":
                continue
            inner = kind.startswith("inner/")
            forced = {"to": address, "via": other.management, "datagram": PORT}
            made.append({**forced, "ports": [PORT] if inner else [],
                         "token": f"{token} forced {kind}", "label": "forced"})  # fmt: skip
            for slice_, link in linked(bed.slices):
                near, far = slice_[link.near], slice_[link.far]
                if inner and other in (near, far):
                    peer = near if other == far else far
                    forged = {**forced, "source": slice_.inner(peer.name, link.name)}
                    name = peer.name if peer.slice == other.slice else str(peer)
                    made.append({**forged, "token": f"{token} forged-{name} {kind}",
                                 "label": "forged"})  # fmt: skip
    return made


def controls(slice_: Slice, vnf: Vnf) -> list[dict[str, Any]]:
    """Return a VNF's attempts through the tunnel to the far end of each link that it starts."""
    return [
        {"to": slice_.inner(link.far, link.name), "ports": [PORT], "datagram": PORT,
         "token": f"control {vnf} {link.name}", "label": "control"}
        for link in slice_.links.values()
        if link.near == vnf.name
    ]  # fmt: skip


def run(bed: Testbed, patience: float) -> Result:
    """Check that all forbidden attempts fail, and that all allowed ones work.

    Args:
        patience: seconds to wait for an answer to a forbidden TCP attempt.

    Returns:
        The number of attempts by result, every unexpected attempt that reached a target, and per
        pair of VNFs the numbers of attempts made and successful. Also True if only attempts allowed
        by design and all controls were successful.
    """
    everyone = bed.all_vnfs()
    whose: dict[str, tuple[str, str]] = {}
    for vnf in everyone:
        for address, kind in addresses(bed.slices[vnf.slice], vnf).items():
            owner, role = whose.setdefault(address, (str(vnf), kind))
            if owner != str(vnf) and kind.startswith("inner/") and role.startswith("inner/"):
                raise click.ClickException(
                    f"{owner} and {vnf} both have the inner address {address}, so an attempt may "
                    "end at the wrong one of them; reach needs slices with addresses of their own"
                )
    listening = bed.in_slices(lambda one: [_listen(vnf) for vnf in _listeners(one)])
    open_ports = {port for each in listening.values() for listed in each for port in listed}
    tried = sorted(open_ports | set(SERVICES))
    by_attacker: dict[str, list[Vnf]] = {str(vnf): [] for vnf in everyone}
    for one, other in strangers(bed):
        by_attacker[str(one)].append(other)

    def attack(one: Slice) -> list[tuple[Vnf, list[dict[str, Any]], dict[str, Any]]]:
        rows = []
        for vnf in one.vnfs.values():
            forbidden = attempts(bed, vnf, by_attacker[str(vnf)], tried)
            for planned, limit in ((forbidden, patience), (controls(one, vnf), CONTROL_PATIENCE)):
                if planned:
                    rows.append((vnf, planned, _probe(vnf, planned, limit)))
        return rows

    work = bed.in_slices(attack)
    arrived = bed.in_slices(lambda one: [vnf.stop("listener")["tokens"] for vnf in _listeners(one)])
    heard = {token for each in arrived.values() for listed in each for token in listed}
    outcomes: dict[str, dict[str, int]] = {"routed": {}, "forced": {}, "forged": {}}
    reached: list[dict[str, Any]] = []
    missing: list[str] = []
    count = 0
    matrix: dict[str, dict[str, dict[str, Any]]] = {str(vnf): {} for vnf in everyone}
    for vnf, planned, answer in (row for rows in work.values() for row in rows):
        for way, table in answer["outcomes"].items():
            for outcome, number in table.items():
                if way != "control":
                    outcomes[way][outcome] = outcomes[way].get(outcome, 0) + number
        opened = {(number, port) for number, port in answer["open"]}
        for number, attempt in enumerate(planned):
            token = attempt["token"]
            came = sent(token) in heard
            whom, kind = whose[attempt["to"]]
            if attempt["label"] == "control":
                count += 1
                matrix[str(vnf)][whom] = {"tunnel": (number, PORT) in opened and came}
                if (number, PORT) not in opened:
                    missing.append(f"{token} (TCP)")
                if not came:
                    missing.append(token)
                continue
            cell = matrix[str(vnf)].setdefault(whom, {"attempts": 0, "allowed": 0, "forbidden": 0})
            cell["attempts"] += len(attempt.get("ports", ())) + ("datagram" in attempt)
            row = {"from": str(vnf), "to": whom, "way": attempt["label"], "address": kind}
            reached += [
                {**row, "port": port, "protocol": "tcp"} for at, port in opened if at == number
            ]
            if came:
                reached.append({**row, "port": PORT, "protocol": "udp"})
        if answer["opened"] > len(answer["open"]):
            raise click.ClickException(
                f"{vnf} reached {answer['opened']} ports, more than an answer tells of"
            )
    for way, table in outcomes.items():
        datagrams = [outcome for outcome in table if outcome.startswith("udp ")]
        if datagrams and "udp sent" not in datagrams:
            reasons = ", ".join(sorted(outcome[4:] for outcome in datagrams))
            raise click.ClickException(f"none of the {way} datagrams could be sent: {reasons}")
    for row in reached:
        matrix[row["from"]][row["to"]]["allowed" if by_design(row) else "forbidden"] += 1
    unexpected = [r for r in reached if not by_design(r)]
    return {
        "pairs": len(list(strangers(bed))),
        "tcp-ports": ", ".join(map(str, tried)),
        "outcomes": outcomes,
        "unexpected": unexpected,
        "open-by-design": len(reached) - len(unexpected),
        "control": {"attempts": count, "failed": missing},
        "matrix": matrix,
    }, not unexpected and count > 0 and not missing


def _listeners(slice_: Slice) -> list[Vnf]:
    """Return the VNFs of a slice that have inner addresses; a UE has none."""
    inside = {name for name, _ in slice_.addresses.inner}
    return [vnf for vnf in slice_.vnfs.values() if vnf.name in inside]


def _listen(vnf: Vnf) -> list[int]:
    """Start the listener of a VNF; return the TCP ports on which the VNF listens."""
    answer = vnf.action("start-listener", port=PORT, seconds=SECONDS)
    return [int(port) for port in answer["tcp-ports"]]


def sent(token: str) -> str:
    """Return the token to send: `probe` takes short ASCII only, so others become their digest."""
    fits = len(token) <= TOKEN and token.isascii()
    return token if fits else hashlib.sha256(token.encode()).hexdigest()


def _probe(vnf: Vnf, planned: Sequence[Mapping[str, Any]], patience: float) -> dict[str, Any]:
    given = [{**attempt, "token": sent(attempt["token"])} for attempt in planned]
    text = json.dumps(given, separators=(",", ":"))
    return vnf.action("probe", attempts=text, patience_ms=round(patience * 1000))


def headline(result: Mapping[str, Any]) -> str:
    return f"{result['pairs']} pairs, {len(result['unexpected'])} reached what they must not"
