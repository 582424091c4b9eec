"""A restart of the machine, as the VDUs of a lab meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from lab.procs import ProcessRef


def machine_restarts(home: Path, servers: Collection[str]) -> None:
    """End VDUs as a restart does: processes and disks are gone, and their files are older."""
    for report in (r for r in home.glob("vims/*/servers/*/run.json") if r.parent.name in servers):
        running = json.loads(report.read_text(encoding="utf-8"))
        for process in (ProcessRef(*running[key]) for key in ("keeper", "init")):
            process.signal(signal.SIGKILL)
            while process.alive():
                time.sleep(0.05)
        subprocess.run(["umount", "--lazy", str(report.parent / "disk")], check=True)
        os.utime(report, (0, 0))
