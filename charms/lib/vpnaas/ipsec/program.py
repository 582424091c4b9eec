"""The program on the VDU that opens and closes tunnels."""

PROGRAM = '''#!/usr/bin/python3
"""Open and close IPsec tunnels of osm-vpnaas.

Usage: ipsec keep         hold up what /etc/osm-vpnaas/*/ipsec.keep names, for ever
       ipsec drop PREFIX  end every security association whose connection's name starts so

ipsec.keep is a JSON list with one list of connection names per peer, of which one suffices.
"""
import glob
import json
import re
import subprocess
import sys
import time

PERIOD = 2
LONGEST = 30


def swanctl(*words):
    return subprocess.run(
        ["swanctl"] + list(words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode("utf-8", "replace")


def associations():
    """Yield (connection, id, whether packets pass)."""
    head = re.compile(r"list-sa event \\{(\\S+) \\{uniqueid=(\\d+) version=\\d+ state=(\\S+)")
    for line in swanctl("--list-sas", "--raw").splitlines():
        match = head.match(line)
        if match:
            children = line.partition("child-sas {")[2]
            passing = re.search(r"state=(INSTALLED|REKEY)", children)
            known = match.group(3) in ("ESTABLISHED", "REKEYING")
            yield match.group(1), match.group(2), known and bool(passing)


def drop(prefix):
    for name, number, _ in list(associations()):
        if name.startswith(prefix):
            swanctl("--terminate", "--ike-id", number, "--force", "--timeout", "1")


def wanted():
    for path in sorted(glob.glob("/etc/osm-vpnaas/*/ipsec.keep")):
        try:
            with open(path) as stream:
                for names in json.load(stream):
                    yield tuple(names)
        except (OSError, ValueError):
            continue


def keep():
    waits = {}
    while True:
        lists = list(wanted())
        up = {name for name, _, passing in associations() if passing} if lists else set()
        now = time.monotonic()
        for names in lists:
            if up.intersection(names):
                waits.pop(names, None)
                continue
            due, wait = waits.get(names, (0, PERIOD))
            if now < due:
                continue
            for name in names:
                link = name.partition("_")[0]
                swanctl("--initiate", "--ike", name, "--child", link, "--timeout", "10")
                if any(n == name and passing for n, _, passing in associations()):
                    break
            waits[names] = (time.monotonic() + wait, min(2 * wait, LONGEST))
        time.sleep(PERIOD)


if sys.argv[1:2] == ["drop"]:
    drop(sys.argv[2])
else:
    keep()
'''
