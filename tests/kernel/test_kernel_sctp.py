"""S1-MME on a kernel's own SCTP, inside its own WireGuard: a UE attaches, and each end starts anew.

The simulators of the network functions run as processes of one virtual machine, with the files that
the charms write. All other links of theirs have no tunnel here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.guest import ROOT, GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

TOWN = ROOT / "tests/simulators"
IMPORTS = f"""
import importlib, pkgutil, sys
sys.path[:0] = {[str(TOWN), str(TOWN.parent)]!r}
import simulators
for each in pkgutil.walk_packages(simulators.__path__, "simulators."):
    if not each.name.endswith((".userspace", ".__main__")):
        importlib.import_module(each.name)
from town import town
"""
PROGRAM = r"""
import json
import os
from pathlib import Path

# The functions are programs of their own: let them find what this one does.
pth = Path("/usr/local/lib/python{}.{}/dist-packages/lent.pth".format(*sys.version_info))
pth.parent.mkdir(parents=True, exist_ok=True)
pth.write_text("".join(path + "\n" for path in sys.path if path and not path.startswith("/usr")))
OUTER = {"mme": "10.9.0.1", "enb": "10.9.0.2"}
INNER = {"mme": "192.168.247.102", "enb": "192.168.247.10"}
measured = {}


def secured(made):
    # What was the link becomes its underlay, and WireGuard of the kernel the link.
    keys = {}
    for name in OUTER:
        made.run(name, "ip", "link", "set", "wg-s1c", "down")
        made.run(name, "ip", "address", "flush", "dev", "wg-s1c")
        made.run(name, "ip", "link", "set", "wg-s1c", "name", "ens9")
        made.run(name, "ip", "address", "add", OUTER[name] + "/24", "dev", "ens9")
        made.run(name, "ip", "link", "set", "ens9", "up")
        made.run(name, "ip", "link", "add", "wg-s1c", "type", "wireguard")
        private = made.run(name, "wg", "genkey")
        (made.directory / (name + ".key")).write_text(private)
        keys[name] = made.run(name, "wg", "pubkey", text=private).strip()
    for name, other in (("mme", "enb"), ("enb", "mme")):
        made.run(
            name, "wg", "set", "wg-s1c", "listen-port", "51820",
            "private-key", str(made.directory / (name + ".key")), "peer", keys[other],
            "endpoint", OUTER[other] + ":51820", "allowed-ips", INNER[other] + "/32",
        )
        made.run(name, "ip", "address", "add", INNER[name] + "/24", "dev", "wg-s1c")
        made.run(name, "ip", "link", "set", "wg-s1c", "mtu", "1420", "up")
        made.run(name, "nft", "add table netdev clear")
        made.run(name, "nft", "add chain netdev clear in "
                 "{ type filter hook ingress device ens9 priority 0; }")
        made.run(name, "nft", "add rule netdev clear in ip protocol 132 counter")
        made.run(name, "nft", "add rule netdev clear in ip protocol 17 counter")


def associations(made, name):
    rows = made.run(name, "cat", "/proc/net/sctp/assocs").splitlines()[1:]
    return [row for row in rows if INNER["mme"] in row and INNER["enb"] in row]


def anew(made, name, other):
    made.stop(name)
    made.until("the association is gone", lambda: not associations(made, other), 60)
    made.start(name)
    made.until("there is one again", lambda: len(associations(made, other)) == 1, 120)


with town(Path(os.getcwd())) as made:
    secured(made)
    made.bring_up()
    made.until("the UE is attached", made.attached, 240)
    measured["associations"] = {name: len(associations(made, name)) for name in OUTER}
    measured["ping"] = made.run("ue", "ping", "-nqc", "5", "-I", "oaitun_ue1", "10.132.12.1",
                            check=False)
    anew(made, "enb", "mme")
    measured["after the eNB's restart"] = len(associations(made, "enb"))
    shown = json.loads(made.run("mme", "nft", "-j", "list", "table", "netdev", "clear"))
    measured["sctp, udp"] = [
        part["counter"]["packets"]
        for item in shown["nftables"]
        for part in item.get("rule", {}).get("expr", [])
        if "counter" in part
    ]
    measured["modules"] = open("/proc/modules").read()
pth.unlink()
with open("measured.json", "w") as stream:
    json.dump(measured, stream)
"""


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sctp")
    begin = guest_machine.lend(IMPORTS)
    guest_machine.put(ROOT / "charms/lib/oai")  # its scripts and templates
    done = guest_machine.run(folder, begin + PROGRAM)
    assert done.code == 0, done.output
    return dict(json.loads((folder / "measured.json").read_text()))


def test_a_ue_attaches_over_sctp_of_the_kernel(measured: dict[str, Any]) -> None:
    assert measured["associations"] == {"mme": 1, "enb": 1}
    assert "\nsctp " in "\n" + measured["modules"]
    assert " 5 received" in measured["ping"]


def test_the_association_comes_back_with_the_enb(measured: dict[str, Any]) -> None:
    assert measured["after the eNB's restart"] == 1


def test_no_sctp_is_on_the_wire_outside_the_tunnel(measured: dict[str, Any]) -> None:
    clear, tunnel = measured["sctp, udp"]
    assert clear == 0
    assert tunnel > 10
