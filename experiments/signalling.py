"""UEs that register with a slice's network functions (experiment `signalling`).

A program on the eNB's VDU simulates UEs. They attach one after another through the slice's own MME
and HSS. Meanwhile the MME's primitive `measure-s6a` measures the service response times of S6a on
the wire: the time from an Authentication-Information or Update-Location request to its answer (TS
29.272).
"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from experiments.testbed import InBackground, Slice, Testbed
from simulators.milenage import opc

LAUNCH = "/usr/lib/osm-lab/launch"
FIRST_IMSI = 100
"""Offset of the first UE from the slice's first subscriber, who may be attached already."""
REQUESTS = ("AIR", "ULR")


def simulated(found: Slice) -> bool:
    """Tell whether network functions run in a slice."""
    return any(
        member["additionalParams"].get("nf_software", "none") != "none"
        for member in found.parameters["additionalParamsForVnf"]
    )


def imsis(found: Slice, count: int) -> list[str]:
    """Return the identities of the UEs that `attach` uses."""
    first = _hss(found)["nf_first_imsi"]
    return [str(int(first) + FIRST_IMSI + n).zfill(len(first)) for n in range(count)]


def _hss(found: Slice) -> dict[str, str]:
    members = found.parameters["additionalParamsForVnf"]
    values = next(m["additionalParams"] for m in members if m["member-vnf-index"] == "hss")
    return {key: str(value) for key, value in values.items()}


def attach(found: Slice, count: int, patience: float = 240.0) -> dict[str, Any]:
    """Let UEs attach and detach, one after another; return what the program tells.

    The MME may have to connect to its HSS anew first, if what secures S6a has just changed.

    Raises:
        click.ClickException: not all of them could.
    """
    hss = _hss(found)
    k = hss["nf_subscriber_key"]
    request = {
        "enb": "127.0.0.1",
        "first_imsi": imsis(found, 1)[0],
        "k": k,
        "opc": opc(bytes.fromhex(k), bytes.fromhex(hss["nf_operator_key"])).hex(),
        "plmn": f"{hss['nf_mcc']}/{hss['nf_mnc']}",
        "count": count,
        "rate": 0,
        "hold": False,
    }
    until = time.monotonic() + patience
    while True:
        done = found["enb"].run(LAUNCH, "load", text=json.dumps(request), timeout=patience)
        told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        if told.get("attached") == count:
            return told
        if time.monotonic() > until:
            reason = told.get("reasons") or (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise click.ClickException(f"{found.name}: UEs cannot attach: {reason}")
        time.sleep(1)


def run(bed: Testbed, slice: str, path: str, ues: int) -> tuple[dict[str, Any], None]:
    """Measure S6a while UEs register.

    Args:
        bed: with the slices, whose network functions run.
        slice: slice to measure.
        path: "tunnel", or "underlay" with S6a set to technology `none` for the time of the run.
        ues: how many register.

    Returns:
        Mean and median of the response times, and of what an attach took, in ms.
    """
    found = bed.found(slice)
    plain = path != "tunnel"
    if plain:
        bed.configure(slice, found.signalling, "none")
    try:
        attach(found, 1)  # Both ends are there, and programs are warm.
        mme = found["mme"]
        before = _taps(mme.out("cat", "/proc/net/packet"))
        operation = bed.start_action(mme, "measure-s6a", duration=300, count=2 * ues)
        until = time.monotonic() + 60
        while _taps(mme.out("cat", "/proc/net/packet")) <= before:
            if time.monotonic() > until:
                raise click.ClickException(f"{mme}: measure-s6a does not begin to listen")
            time.sleep(0.2)
        work = InBackground(lambda: attach(found, ues))
        record = bed.client.wait(operation, 400)
        loaded = work.result()
    finally:
        if plain:
            bed.configure(slice, found.signalling, "wireguard")
    if record["operationState"] != "COMPLETED":
        raise click.ClickException(f"measure-s6a: {record.get('errorMessage')}")
    told = json.loads(record["detailed-status"]["output"])
    figures = {
        f"{name.lower()}_{word}_ms": float(told[name][f"{word}-ms"])
        for name in REQUESTS
        for word in ("mean", "median")
    }
    return {
        **figures,
        "attach_median_ms": float(loaded["attach_ms"]["median"]),
        "answers": {name: told[name]["count"] for name in REQUESTS},
        "technology": told["technology"],
    }, None


def _taps(table: str) -> int:
    """Return how many packet sockets there are."""
    return len(table.splitlines()) - 1
