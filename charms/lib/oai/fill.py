#!/usr/bin/python3 -B
"""The program that fills the HSS's or UDR's database on the VDU, before each start of either.

Usage: nf-fill ENGINE MODULE FILE DATA
MODULE is the file beside this one that turns FILE into statements: `provision.py` or
`provision_5g.py`. The program waits for the database, at most DEADLINE seconds. Then it fills a
database that is empty or was filled with other rows. A stamp of the rows lies beside the data, so
both are lost together. The same rows are not filled in twice. Beside the stamp is a file of what
actions changed: a line of JSON for each change, with `imsi` and any of
  removed: whether the subscriber was removed
  own_key: whether it has a key of its own
  own_slices: whether it has slices or 5QIs of its own (UDR)
  msisdn: its own MSISDN (HSS)
Other rows leave these as they are. The file holds no key.

Program and modules must not import anything but the standard library, and must run on any Python
from 3.6 on.
"""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict

DEADLINE = 600
"""Seconds the database may take to answer; a cold start with an image to pull takes minutes."""
STAMP = "osm-vpnaas-provisioned"
CHANGES = "osm-vpnaas-changes"
"""File of what actions changed; this program only reads it."""


def changes(path: str) -> Dict[str, Dict[str, Any]]:
    """Return what actions changed, by IMSI."""
    result = {}  # type: Dict[str, Dict[str, Any]]
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                change = json.loads(line)
                result.setdefault(change.pop("imsi"), {}).update(change)
    return result


def main(engine: str, module: str, file: str, data: str) -> int:
    rows = importlib.import_module(os.path.basename(module)[: -len(".py")])
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    desired = hashlib.sha256(text.encode()).hexdigest()
    stamp = os.path.join(data, STAMP)
    present = ""
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as stream:
            present = stream.read().strip()
    # Both are safe to repeat: each statement keeps existing rows or sets the same values.
    if present == desired:
        statements = [rows.PROBE]
    else:
        document = dict(json.loads(text), changes=changes(os.path.join(data, CHANGES)))
        statements = rows.statements(document)
    fill = "\n".join(statements) + "\n"
    command = [engine, "exec", "--interactive", rows.CONTAINER, *rows.CLIENT]
    until = time.monotonic() + DEADLINE
    while True:
        done = subprocess.run(
            command,
            input=fill.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode == 0:
            break
        if time.monotonic() > until:
            error = done.stderr.decode("utf-8", "replace").strip()[-200:]
            sys.stderr.write("{} does not answer: {}\n".format(rows.CONTAINER, error))
            return 1
        time.sleep(1)
    with open(stamp, "w", encoding="utf-8") as stream:
        stream.write(desired + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
