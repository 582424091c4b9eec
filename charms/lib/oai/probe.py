#!/usr/bin/python3
"""Check on the VDU whether a network function is ready.

The charm sends this program there, as those of `vpnaas.vdu.programs`. It reads a JSON object on
standard input:

    {"wait": seconds, "units": [name...], "images": {name: reference}, "engine": path,
     "checks": [{"kind", "reason", "address", "port", "unit", "pattern", "lost",
      "silence"}...],
     "restart": whether to restart a unit that has lost what it does not set up again}

It ends as soon as all checks hold, at the latest after `wait` seconds, and prints the result.
"""

import glob
import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, List

from vpnaas.vdu.programs.common import content, run

Json = Dict[str, Any]

RUN = "/run/osm-vpnaas-nf"
SINCE = RUN + "/not-ready-since"
LOG = "/var/log/{}.log"
LOG_LIMIT = 4 << 20
"""Most bytes to read at the start of a log, and at its end."""
SECONDS = 20
"""Most seconds that a program may take."""
SHOWN = ("ActiveState", "SubState", "NRestarts", "Result")


def _out(*argv: str) -> str:
    return run(*argv, seconds=SECONDS)[1]


def uptime() -> float:
    """Return seconds since boot, because somebody may set the clock."""
    return float(content("/proc/uptime").split()[0])


def unit_states(names: List[str]) -> Dict[str, Json]:
    listed = [name + ".service" for name in names]
    words = ["--property", ",".join(("Id",) + SHOWN)]
    result = {}
    for part in _out("systemctl", "show", *(words + listed)).split("\n\n"):
        rows = dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
        if "Id" in rows:
            result[rows["Id"].rsplit(".", 1)[0]] = {key: rows.get(key, "") for key in SHOWN}
    return result


def log_since_start(unit: str) -> str:
    """Return what a unit has logged since it was started; of a long log, the start and the end."""
    path = LOG.format(unit)
    try:
        offset = int(content("{}/{}.offset".format(RUN, unit)) or "0")
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            # A file that is shorter than the offset was rotated.
            stream.seek(offset if size >= offset else 0)
            text = stream.read(LOG_LIMIT)
            if size - stream.tell() > LOG_LIMIT:
                stream.seek(size - LOG_LIMIT)
                text += b"\n"
            return (text + stream.read(LOG_LIMIT)).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _listens(check: Json) -> bool:
    letter = "t" if check["kind"] == "tcp" else "u"
    places = {row.split()[3] for row in _out("ss", "-Hln" + letter).splitlines() if row.split()}
    hosts = (check["address"], "0.0.0.0", "*")  # noqa: S104 - how ss shows one bound to all
    sockets = ["{}:{}".format(host, check["port"]) for host in hosts]
    return any(place in places for place in sockets)


def _connected(check: Json) -> bool:
    rows = [row.split() for row in _out("ss", "-Htn", "state", "established").splitlines()]
    remote = "{}:{}".format(check["address"], check["port"])
    return any(len(row) >= 4 and row[3] == remote for row in rows)


def _interface(check: Json) -> bool:
    names = [os.path.basename(path) for path in glob.glob("/sys/class/net/" + check["unit"])]
    if check["address"] != "any":
        return bool(names)
    return any(" inet " in _out("ip", "address", "show", "dev", name) for name in names)


def holds(check: Json) -> bool:
    kinds = {"connected": _connected, "interface": _interface, "log": _logged}
    return kinds.get(check["kind"], _listens)(check)


def _logged(check: Json) -> bool:
    """Tell whether a unit has logged a line since it was started, and no line of a loss after it.

    One that logs at intervals must do so still. Lines that were there are kept in a file until the
    next start, since a log grows and is rotated.
    """
    if check["silence"] and _age(LOG.format(check["unit"])) > check["silence"]:
        return False
    path = "{}/{}.logged".format(RUN, check["unit"])
    kept, pattern = content(path).splitlines(), check["pattern"]
    if pattern in kept and not check["lost"]:
        return True
    text = log_since_start(check["unit"])
    seen = _last(pattern, text)
    holds_now = not _lost(check, text) and (seen >= 0 or pattern in kept)
    if holds_now != (pattern in kept):
        os.makedirs(RUN, exist_ok=True)
        left = [line for line in kept if line != pattern] + [pattern] * holds_now
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("".join(line + "\n" for line in left))
    return holds_now


def _age(path: str) -> float:
    """Return seconds since a file was written, or to the clock's jump back; 0 without the file."""
    return abs(time.time() - os.stat(path).st_mtime) if os.path.exists(path) else 0.0


def _last(pattern: str, text: str) -> int:
    """Return where a pattern matches last, -1 if it does not."""
    return max((match.start() for match in re.finditer(pattern, text)), default=-1)


def _lost(check: Json, text: str) -> bool:
    """Tell whether a log has a line of a loss after the last line that is waited for."""
    return bool(check["lost"]) and _last(check["lost"], text) > _last(check["pattern"], text)


def restart_lost(request: Json) -> None:
    """Restart each running unit that has logged a loss."""
    checks = [check for check in request["checks"] if check["lost"]]
    lost = sorted(c["unit"] for c in checks if _lost(c, log_since_start(c["unit"])))
    states = unit_states(lost) if lost else {}
    for name in lost:
        if states.get(name, {}).get("ActiveState") == "active":
            # Its ExecStartPre may wait for long.
            _out("systemctl", "restart", "--no-block", name + ".service")


def look(request: Json) -> Json:
    """Read all unit states and run all checks once."""
    states = unit_states(request["units"])
    reasons = []
    for name in request["units"]:
        state = states.get(name, {})
        if state.get("ActiveState") == "active":
            continue
        if state.get("SubState") == "auto-restart":
            reasons.append("{} ended and is restarted".format(name))
        elif state.get("ActiveState") == "activating":
            reasons.append("{} is starting".format(name))
        else:
            reasons.append("{} does not run".format(name))
    if not reasons:
        reasons = [check["reason"] for check in request["checks"] if not holds(check)]
    return {"units": states, "reasons": reasons}


def _pulling(request: Json) -> List[str]:
    missing = []
    for name, image in sorted(request["images"].items()):
        try:
            look = (request["engine"], "image", "inspect", "--format", "{{.Id}}", image)
            code, _ = run(*look, seconds=SECONDS)
        except subprocess.TimeoutExpired:
            # podman keeps its store locked while it unpacks a layer.
            missing.append("the container engine is busy, an image may be on its way")
            break
        if code:
            missing.append("image {} of {} is not pulled yet".format(image, name))
    return missing


def main(request: Json) -> Json:
    """Look until all checks hold or the time is up."""
    until = time.monotonic() + float(request["wait"])
    if request["restart"]:
        restart_lost(request)
    while True:
        seen = look(request)
        if not seen["reasons"] or time.monotonic() >= until:
            break
        time.sleep(0.5)
    since = 0.0
    if seen["reasons"]:
        seen["reasons"] = _pulling(request) + seen["reasons"]
        os.makedirs(RUN, exist_ok=True)
        since = float(content(SINCE) or uptime())
        with open(SINCE, "w", encoding="ascii") as stream:
            stream.write("{:.1f}\n".format(since))
        since = uptime() - since
    elif os.path.exists(SINCE):
        os.unlink(SINCE)
    seen["not-ready-seconds"] = int(since)
    restarts = [int(state.get("NRestarts") or 0) for state in seen["units"].values()]
    seen["restarts"] = max(restarts or [0])
    return seen


if __name__ == "__main__":
    json.dump(main(json.load(sys.stdin)), sys.stdout)
