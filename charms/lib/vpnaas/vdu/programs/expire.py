#!/usr/bin/python3
"""Remove expired peers from a WireGuard interface and from its wg-quick(8) file.

Usage: expire INTERFACE DATES FILE
DATES has a line for each peer: when it ends, in seconds since the epoch, and its public key.
"""

import subprocess
import sys
import time
from typing import Iterable

from vpnaas.vdu.programs.common import put, run


def without(text: str, keys: Iterable[str]) -> str:
    """Return a wg-quick file without the sections of some peers."""
    sections = text.rstrip("\n").split("\n\n")
    lines = {"PublicKey = " + key for key in keys}
    kept = [section for section in sections if not lines & set(section.split("\n"))]
    return "\n\n".join(kept) + "\n"


def main(interface: str, dates: str, file: str) -> int:
    with open(dates, encoding="ascii") as stream:
        rows = [line.split() for line in stream]
    over = sorted({key for end, key in rows if int(end) <= time.time()})
    if not over:
        return 0
    # The file first: so an interface that comes up in between does not have them.
    with open(file, encoding="ascii") as stream:
        text = stream.read()
    left = without(text, over)
    if left != text:
        put(file, left)
    words = [word for key in over for word in ("peer", key, "remove")]
    if run("wg", "show", interface)[0]:
        return 0  # The interface is not up.
    return subprocess.run(["wg", "set", interface] + words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
