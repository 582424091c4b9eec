"""A 5G core with a gNB and a UE of processes in namespaces, by the files that the charms write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from oai import provision_5g
from town import ROOT, Town

LINKS = {
    "n2": (("amf", "wg-n2", "172.16.20.10"), ("gnb", "wg-n2", "172.16.20.40")),
    "n3": (("upf", "wg-n3", "172.16.21.30"), ("gnb", "wg-n3", "172.16.21.40")),
    "n4": (("smf", "wg-n4", "172.16.22.20"), ("upf", "wg-n4", "172.16.22.30")),
    "sbi": (("amf", "wg-sbi", "172.16.23.10"), ("smf", "wg-sbi", "172.16.23.20")),
    "uu": (("gnb", "uu", "192.168.77.40"), ("nr-ue", "uu", "192.168.77.50")),
    "n6": (("upf", "ens6", "10.132.12.201"), ("pdn", "n6", "10.132.12.1")),
}
RADIO = ("--rfsim", "--rfsimulator.[0].serveraddr")


def _function(name: str) -> list[str]:
    return ["-c", f"{name}.yaml", "-o"]


class Core(Town):
    """The namespaces: what slices share is in one of them, as it is on one VDU."""

    links = LINKS
    names = ("amf", "smf", "upf", "gnb", "nr-ue", "pdn")
    programs = {
        "mysqld": ("amf", []),
        "nrf": ("amf", _function("nrf")),
        "udr": ("amf", _function("udr")),
        "udm": ("amf", _function("udm")),
        "ausf": ("amf", _function("ausf")),
        "amf": ("amf", _function("amf")),
        "smf": ("smf", _function("smf")),
        "upf": ("upf", _function("upf")),
        "gnb": ("gnb", ["-O", "gnb.conf", *RADIO, "server"]),
        "nr-ue": ("nr-ue", ["-O", "nr-ue.conf", *RADIO, "192.168.77.40"]),
    }
    rendered = ("amf", "smf", "upf", "gnb", "nr-ue")
    database, user_plane = "mysqld", "upf"
    terminal, pool = "nr-ue", "10.46."

    def start(self, name: str, **environment: str) -> None:
        # Images by their digest alone take the radio simulator's options of any age.
        super().start(name, SIMULATORS_TAG="", **environment)

    def copy_settings(self) -> None:
        mysql = self.directory / "mysql.env"
        (self.directory / "mysqld.env").write_text(mysql.read_text(encoding="utf-8"))

    def document(self, name: str) -> Any:
        return json.loads((self.directory / name).read_text(encoding="utf-8"))

    def change(self, name: str, document: Any) -> None:
        (self.directory / name).write_text(json.dumps(document), encoding="utf-8")

    def sql(self, text: str) -> str:
        environment = dict(
            line.split("=", 1) for line in (self.directory / "mysql.env").read_text().split()
        )
        given = ("env", f"MYSQL_PWD={environment['MYSQL_PASSWORD']}", f"PYTHONPATH={ROOT}")
        argv = (sys.executable, "-m", "simulators.programs", "mysql", "-u", provision_5g.USER)
        return self.run("amf", *given, *argv, "--batch", provision_5g.DATABASE, text=text)

    def provision(self, subscribers: int = 20) -> None:
        document = self.document("udr-provision.json") | {"subscribers": subscribers}
        self.until("MySQL answers", lambda: "ready" in self.log("mysqld"))
        self.sql("\n".join(provision_5g.statements(document)))


def frames(path: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["tshark", "-r", str(path), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()
