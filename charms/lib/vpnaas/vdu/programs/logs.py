"""Send the VDU's journal to a syslog server: RFC 5424 over TCP, in frames of RFC 6587, 3.4.1.

    logs.py ADDRESS PORT FILE

FILE has the cursor of the last message that was sent; the next start goes on after it. systemd
starts the program again when the server is not there. A network that loses packets without a word
ends the program too, and what the server did not acknowledge is sent again.
"""

import fcntl
import json
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from typing import Any, Dict

from vpnaas.vdu.programs.common import content, put

FACILITY, PRIORITY = 3, 6  # Daemon, informational (RFC 5424, 6.2.1), where an entry has none.
PAUSE = 1.0  # Seconds between two writes of the cursor.
PATIENCE = 30  # Seconds for the server to take what was sent; Linux waits a quarter of an hour.


def word(value: object, longest: int) -> str:
    """Return a field of a message's head: printable ASCII without spaces, or "-"."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text if 32 < ord(c) < 127)[:longest] or "-"


def number(value: object, low: int, high: int, default: int) -> int:
    text = value if isinstance(value, str) else ""
    found = int(text) if re.match("[0-9]{1,18}$", text) else -1
    return found if low <= found <= high else default


def frame(entry: Dict[str, Any]) -> bytes:
    """Return an entry of the journal (systemd.journal-fields(7)) as a framed message."""
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # Bytes that are no text.
        message = bytes(message).decode("utf-8", "replace")
    micros = number(entry.get("__REALTIME_TIMESTAMP"), 0, 1 << 62, 0)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1000000))
    facility = number(entry.get("SYSLOG_FACILITY"), 0, 23, FACILITY)
    text = "<{}>1 {}.{:06d}Z {} {} {} - - {}".format(
        facility * 8 + number(entry.get("PRIORITY"), 0, 7, PRIORITY),
        moment,
        micros % 1000000,
        word(entry.get("_HOSTNAME"), 255),
        word(entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM"), 48),
        word(entry.get("_PID"), 128),
        message if isinstance(message, str) else "",
    ).encode("utf-8")
    return str(len(text)).encode("ascii") + b" " + text


def closed(server: socket.socket) -> bool:
    """Tell whether the server has hung up; it has nothing to say."""
    return bool(select.select([server], [], [], 0)[0]) and not server.recv(4096)


def taken(server: socket.socket) -> bool:
    """Tell whether the server's machine has acknowledged all that was sent (tcp(7), SIOCOUTQ)."""
    return not any(fcntl.ioctl(server, termios.TIOCOUTQ, bytes(4)))


def main(address: str, port: str, file: str) -> None:
    cursor = content(file)
    begin = "--after-cursor=" + cursor if cursor else "--boot"
    words = ["journalctl", "--follow", "--no-tail", "--all", "--output=json", begin]
    with socket.create_connection((address, int(port)), 10) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PATIENCE * 1000)
        journal = subprocess.Popen(words, stdout=subprocess.PIPE)
        sent, sure, written = cursor, cursor, time.monotonic()
        try:
            for line in journal.stdout or ():
                entry = json.loads(line.decode("utf-8", "replace"))
                if closed(server):
                    raise SystemExit("the syslog server has closed the connection")
                sure = sent if taken(server) else sure
                server.sendall(frame(entry))
                sent = str(entry["__CURSOR"])
                if time.monotonic() > written + PAUSE:
                    put(file, sure)
                    written = time.monotonic()
        except OSError:
            sent = sure
            raise
        finally:
            put(file, sent)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main(*sys.argv[1:])
