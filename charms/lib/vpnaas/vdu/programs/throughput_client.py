"""Client side of one measurement: reads a JSON request from standard input, prints the report.

The program asks the peer's responder for a server and runs iperf3. It stores the full report on the
VDU. It prints the report without the parts that grow with time and streams.

iperf3 cannot start a stream of UDP where packets are lost. So for UDP a few numbered datagrams go
first. If some are lost, or if iperf3's streams do not start, numbered datagrams measure. The report
then has the form of iperf3's, with "method" in place of its version.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, Optional, Tuple

from vpnaas.vdu.programs.common import family

START, END = 10, 45
"""Seconds that iperf3 may take beside the measurement itself, for UDP and for TCP."""
MOST = 600
"""Seconds of a measurement that is made again without iperf3; an action has half an hour."""
LATE = 0.5
"""Seconds for datagrams that are still on their way."""
FIRST = {"seconds": 1.0, "rate": 50.0, "down": True}
"""Of the datagrams that look whether some are lost."""
REVERSE = "_bidir_reverse"

Json = Dict[str, Any]


class FailureError(Exception):
    """Why there is no report: a word that the charm has a sentence for, and details."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(cause)
        self.cause, self.detail = cause, detail


def main() -> None:
    """Run one measurement, and print its report or why there is none."""
    request = json.load(sys.stdin)
    # SIGINT is for iperf3: it ends and reports the results so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        report = measured(request)
    except FailureError as error:
        report = {"cause": error.cause, "detail": error.detail}
    report.pop("intervals", None)
    report.get("end", {}).pop("streams", None)
    json.dump(report, sys.stdout)


def measured(request: Json) -> Json:
    """Return the report of iperf3, or of numbered datagrams where its streams cannot start."""
    plan = request["datagrams"]
    if plan is None:
        for _ in range(request["tries"] - 1):
            try:
                return iperf3(request)
            except FailureError as error:
                if error.cause != "streams":
                    raise
        return iperf3(request)
    first = numbered(request, dict(plan, **FIRST), True)
    if first is not None:
        if not first["here"]["received"] and not first["there"]["received"]:
            raise FailureError("udp", str(first["here"]["sent"]))
        if any(end["received"] < other["sent"] for end, other in both(first)):
            return without_iperf3(request, plan)
    try:
        return iperf3(request)
    except FailureError as error:
        again = error.cause in ("streams", "option") and request["seconds"] <= MOST
        if first is None or not again:
            raise
        return without_iperf3(request, plan)


def without_iperf3(request: Json, plan: Json) -> Json:
    """Return the report of numbered datagrams."""
    report = as_report(numbered(request, plan, plan["up"]), plan)
    return dict(report, unkept=keep(request, json.dumps(report, indent=1)))


def both(counts: Json) -> List[Tuple[Json, Json]]:
    """Return receiver and sender of each direction."""
    here, there = counts["here"], counts["there"]
    return [(there, here), (here, there)]


@contextmanager
def asked(request: Json, more: Json) -> Iterator[Tuple[Any, Any, Json]]:
    """Ask the responder, which may refuse; give the connection, its lines, and the answer."""
    try:
        with socket.create_connection(tuple(request["responder"]), timeout=5) as connection:
            ask = dict(more, path=request["path"], seconds=request["seconds"])
            connection.sendall(json.dumps(ask).encode() + b"\n")
            connection.settimeout(15)
            lines = connection.makefile("r")
            answer = json.loads(lines.readline(500))
            if not isinstance(answer, dict):
                raise FailureError("mute")
            if "port" not in answer:
                said = str(answer.get("error", ""))[:200]
                raise FailureError("refused" if said else "mute", said)
            yield connection, lines, answer
    except socket.timeout:
        raise FailureError("silent")
    except ConnectionRefusedError:
        raise FailureError("closed")
    except (ConnectionResetError, BrokenPipeError, ValueError):
        raise FailureError("mute")
    except OSError:
        raise FailureError("unreachable")


def numbered(request: Json, plan: Json, sends: bool) -> Optional[Json]:
    """Measure with numbered datagrams; return the counts of both ends.

    Returns:
        None if the responder knows nothing of datagrams.
    """
    plan = dict(plan, token=os.urandom(8).hex())
    with asked(request, {"datagrams": plan}) as (connection, lines, answer):
        if not answer.get("datagrams"):
            return None
        address, seconds = request["address"], plan["seconds"] + LATE
        exchange = runpy.run_path(request["program"])["exchange"]
        with socket.socket(family(address), socket.SOCK_DGRAM) as sock:
            target = (address, int(answer["port"]))
            here = exchange(sock, target, plan, sends, lambda passed: bool(passed > seconds))
        connection.sendall(b"end\n")
        there = json.loads(lines.readline(500) or "{}")
        if "received" not in there:
            raise FailureError("broken")
        return {"here": here, "there": there}


def as_report(counts: Optional[Json], plan: Json) -> Json:
    """Return the counts in the form of iperf3's report."""
    if counts is None:
        raise FailureError("streams")
    ways = both(counts)
    end: Json = {}
    wanted = [way for way, given in zip(ways, (plan["up"], plan["down"])) if given]
    if not any(receiver["received"] for receiver, _ in wanted):
        raise FailureError("udp", str(sum(sender["sent"] for _, sender in wanted)))
    for (receiver, sender), name in zip(wanted, ("", REVERSE)):
        end["sum_received" + name] = {
            "bits_per_second": receiver["bytes"] * 8 / plan["seconds"],
            "jitter_ms": receiver["jitter-ms"],
            "lost_percent": 100.0 * max(0, sender["sent"] - receiver["received"]) / sender["sent"],
            "packets": sender["sent"],
        }
    cpu = {"host_total": counts["here"]["cpu"], "remote_total": counts["there"]["cpu"]}
    late = max(sender["late-ms"] for _, sender in wanted)
    end["cpu_utilization_percent"] = cpu
    start = {"method": "numbered datagrams", "late-ms": late}
    return {"start": start, "end": end, "counts": counts}


@contextmanager
def server(request: Json) -> Iterator[int]:
    """Give the port of an iperf3 server, by default one that the responder starts."""
    if request["responder"] is None:
        yield request["port"]
        return
    with asked(request, {}) as (_, _, answer):
        yield int(answer["port"])


def iperf3(request: Json) -> Json:
    """Return the report of iperf3's client."""
    with server(request) as port:
        command = ["iperf3", "--client", request["address"], "--port", str(port)]
        udp = request["datagrams"] or request["tries"] > 1
        limit = request["seconds"] + (START if udp else END)
        try:
            done = subprocess.run(
                command + request["options"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
                timeout=limit,
            )
        except FileNotFoundError:
            raise FailureError("no-iperf3")
        except OSError as error:
            raise FailureError("not-started", str(error.strerror))
        except subprocess.TimeoutExpired:
            raise FailureError("streams" if udp else "late")
    unkept = keep(request, done.stdout.decode())
    try:
        report: Json = json.loads(done.stdout.decode() or "{}", object_pairs_hook=named)
    except ValueError:
        report = {}
    said = str(report.get("error", "")) or (done.stderr.decode()[-300:] if done.returncode else "")
    if "interrupt" in said and "end" in report:
        return report  # A load that was stopped.
    if said or not report:
        cause = next((word for text, word in CAUSES if text in said), "iperf3")
        raise FailureError(cause, "exit code {}".format(done.returncode))
    return dict(report, unkept=unkept)


CAUSES = (
    ("stream socket", "streams"),
    ("unable to create a new stream", "streams"),
    ("unrecognized option", "option"),
    ("invalid option", "option"),
    ("unable to connect", "no-server"),
    ("control socket has closed", "broken"),
    ("control message", "broken"),
    ("server has terminated", "broken"),
    ("is busy", "busy"),
    ("message too long", "too-long"),
    ("Message too long", "too-long"),
)
"""What iperf3 says in its errors, and what that means here."""


def named(pairs: List[Tuple[str, Any]]) -> Json:
    """Return an object of the report; iperf3 before 3.11 gives both directions' sums one name."""
    result: Json = {}
    for name, value in pairs:
        result[name + REVERSE if name in result else name] = value
    return result


def keep(request: Json, text: str) -> str:
    """Store a report in the file of the request, if it names one; delete the oldest ones.

    Returns:
        Why the report is not stored, "" if it is.
    """
    path = request["keep"]
    if not path:
        return ""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        names = (os.path.join(folder, name) for name in os.listdir(folder))
        for old in sorted(names, key=os.path.getmtime)[: -request["most"]]:
            os.unlink(old)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)  # A part of a report is none.
        return str(error)
    return ""


if __name__ == "__main__":
    main()
