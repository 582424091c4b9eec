"""Client side of one iperf3 run: reads a JSON request from standard input, prints the report.

The program asks the peer's responder for a server and runs iperf3. It stores the full report on the
VDU. It prints the report without the parts that grow with time and streams.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any, Dict, List, Tuple


def main() -> None:
    """Run one measurement.

    Raises:
        OSError: The far end cannot be reached, refuses, or iperf3 is missing.
        ValueError: What came back is no JSON.
    """
    request = json.load(sys.stdin)
    # SIGINT is for iperf3: it ends and reports the results so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    address, port = request["responder"]
    with socket.create_connection((address, port), timeout=5) as connection:
        ask = {"path": request["path"], "seconds": request["seconds"]}
        connection.sendall(json.dumps(ask).encode() + b"\n")
        connection.settimeout(15)
        answer = json.loads(connection.makefile("r").readline(500) or "{}")
        if "port" not in answer:
            raise OSError("the responder says: " + str(answer.get("error", "nothing"))[:200])
        command = ["iperf3", "--client", request["address"], "--port", str(int(answer["port"]))]
        done = subprocess.run(
            command + request["options"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    report = json.loads(done.stdout.decode() or "{}", object_pairs_hook=named)
    if done.returncode and "error" not in report:
        report["error"] = done.stderr.decode()[-300:] or "exit code {}".format(done.returncode)
    if request["keep"]:
        keep(request["keep"], done.stdout.decode(), request["most"])
    report.pop("intervals", None)
    report.get("end", {}).pop("streams", None)
    json.dump(report, sys.stdout)


def named(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return an object of the report; iperf3 before 3.11 gives both directions' sums one name."""
    result = {}  # type: Dict[str, Any]
    for name, value in pairs:
        result[name + "_bidir_reverse" if name in result else name] = value
    return result


def keep(path: str, text: str, most: int) -> None:
    """Store a report; delete the oldest ones beyond `most`."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
    kept = sorted((os.path.join(folder, name) for name in os.listdir(folder)), key=os.path.getmtime)
    for old in kept[:-most]:
        os.unlink(old)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        json.dump({"error": str(error) or type(error).__name__}, sys.stdout)
