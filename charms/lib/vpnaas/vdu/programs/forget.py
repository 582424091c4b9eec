"""Take down and remove what charms have left on a machine: links, their keys, network functions.

Argument 1 is "all"; or "secrets", and "boot" at boot, to keep the rows of subscribers and the note
of the machine. What the operator put there stays. It runs on every Python from 3.6 on.
"""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys

from vpnaas.vdu.programs.common import content, run

FOLDER = "/etc/osm-vpnaas"
KEPT = ("vendor", "python")
ROWS = "/var/lib/osm-vpnaas"
UNITS = "/etc/systemd/system/"
OURS = "osm-vpnaas"
DESCRIBED = "(osm-vpnaas)\n"
"""End of the description of each unit of ours; those of others may name ours."""
FILES = (
    "/etc/osm-vpnaas-*",
    "/etc/swanctl/osm-vpnaas-*",
    "/etc/swanctl/*/osm-vpnaas-*",
    "/etc/strongswan.d/*-osm-vpnaas*",
    "/etc/sysctl.d/*-osm-vpnaas-gateway*",
    "/etc/logrotate.d/osm-vpnaas*",
    UNITS + "*.d/osm-vpnaas*",
    "/run/osm-vpnaas-*",
)
CONNECTIONS = "/etc/swanctl/conf.d/osm-vpnaas-"
OWN = "osm-vpnaas-machine.service"
KEEPALIVED = "/etc/keepalived/keepalived.conf"
LIBRARY = "/usr/local/lib/osm-vpnaas"
DROP = LIBRARY + "/ipsec"


def _run(*argv: str) -> str:
    """Return what a program printed; what it refuses may be gone already."""
    try:
        return run(*argv, seconds=60)[1]
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _ours(path: str) -> bool:
    return content(path).startswith("# Written by osm-vpnaas")


def main(what: str, root: str = "") -> None:
    """Stop what runs, then remove the files; `root` is for tests."""
    tunnels = [path for path in glob.glob(root + "/etc/wireguard/wg-*.conf") if _ours(path)]
    interfaces = [os.path.basename(path)[: -len(".conf")] for path in tunnels]
    connections = glob.glob(root + CONNECTIONS + "*.conf")
    files = [
        path
        for path in glob.glob(root + UNITS + "*")
        if path.endswith((".service", ".socket", ".timer"))
        and (OURS in os.path.basename(path) or DESCRIBED in content(path))
    ]
    units = [os.path.basename(path) for path in files]
    units += ["wg-quick@{}.service".format(name) for name in interfaces]
    gone = tunnels + files
    if _ours(root + KEEPALIVED):
        gone.append(root + KEEPALIVED)
        units.append("keepalived.service")
    if units:
        _run("systemctl", "disable", *units)
        # Not the unit that runs this at boot.
        ending = [unit.replace("@.", "@*.") for unit in units if unit != OWN]
        _run("systemctl", "stop", *ending, "osm-vpnaas-[!m]*")
    for name in interfaces:
        _run("ip", "link", "delete", name)
    for pattern in FILES:
        gone += glob.glob(root + pattern)
    kept = KEPT if what == "all" else (*KEPT, "machine")
    with contextlib.suppress(FileNotFoundError):
        gone += [
            os.path.join(root + FOLDER, name)
            for name in os.listdir(root + FOLDER)
            if name not in kept
        ]
    if what == "all":
        gone.append(root + ROWS)
    for path in gone:
        _remove(path)
    _run("systemctl", "daemon-reload")
    if connections:
        # Others may have tunnels by the same daemon.
        _run("swanctl", "--load-creds", "--clear")
        _run("swanctl", "--load-conns")
    for path in connections:
        _run("python3", "-I", DROP, "drop", path[len(root + CONNECTIONS) : -len(".conf")] + "_")
    for path in glob.glob(root + LIBRARY + "/*"):
        if os.path.basename(path) not in KEPT:
            _remove(path)
    # Last: no packet may leave in clear while the tunnels go down.
    for line in _run("nft", "list", "tables").splitlines():
        if re.fullmatch("table [a-z0-9]+ osm_vpnaas[a-z_]*", line.strip()):
            _run("nft", "delete", *line.split())


if __name__ == "__main__":
    main(*sys.argv[1:])
