#!/usr/bin/python3
"""Tell on the VDU which features of its kernel a network function lacks.

The charm sends this program there, as those of `vpnaas.vdu.programs`. It reads
{"modules": [name...]} on standard input. It tries each feature, because a kernel may have it
without a module, and loads the module by the try. It prints the names of the modules of what did
not work, as JSON. A file keeps that all worked, until the next boot.
"""

import json
import os
import socket
import sys
from typing import List

from vpnaas.vdu.programs.common import run

SEEN = "/run/osm-vpnaas-nf/kernel"
PROBE = "vpnaas-probe0"
SCTP = 132
DEVICES = {
    "xfrm_interface": ("type", "xfrm", "dev", "lo", "if_id", "2147418112"),
    "ip_gre": ("type", "gre", "local", "127.3.2.1", "remote", "127.3.2.2", "key", "2147418112"),
}
"""How ip-link(8) makes a device by the module, with numbers that nothing else has."""


def works(module: str) -> bool:
    if module == "sctp":
        try:
            socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP).close()
        except OSError:
            return False
        return True
    if not _ip("add", PROBE, *DEVICES[module]):
        return False
    _ip("delete", PROBE)
    return True


def _ip(*words: str) -> bool:
    return run("ip", "link", *words, seconds=20)[0] == 0


def missing(modules: List[str]) -> List[str]:
    if os.path.exists(SEEN):
        return []
    lacking = [module for module in modules if not works(module)]
    if not lacking:
        os.makedirs(os.path.dirname(SEEN), mode=0o700, exist_ok=True)
        with open(SEEN, "w", encoding="ascii"):
            pass
    return lacking


if __name__ == "__main__":
    print(json.dumps(missing(json.load(sys.stdin)["modules"])))
