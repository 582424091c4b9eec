"""What several programs of the VDU share: files, commands, systemd."""

import os
import socket
import subprocess
from typing import Optional, Tuple


def content(path: str) -> str:
    """Return the text of a file, "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def put(path: str, text: str) -> None:
    """Replace a file atomically; only root can read it."""
    handle = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(handle)
    os.replace(path + ".new", path)


def run(*command: str, seconds: Optional[float] = None) -> Tuple[int, str]:
    """Return the exit code of a command, and what it prints on standard output.

    Raises:
        OSError: It is not there.
        subprocess.TimeoutExpired: It does not end within `seconds`.
    """
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def family(address: str) -> "socket.AddressFamily":
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def is_local(address: str) -> bool:
    """Tell whether an address is ours now. Only then can a socket be bound to it."""
    with socket.socket(family(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def ready() -> None:
    """Tell systemd that the start is over (sd_notify(3))."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", "\0" + path[1:] if path.startswith("@") else path)
