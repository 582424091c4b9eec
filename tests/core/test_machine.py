"""What lies on the disk of another machine serves nobody here: keys, identities, records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from access_support import LINK, Access, own_key
from agent_support import execute
from support.juju import pair
from vpnaas.base.errors import NotReadyError
from vpnaas.charm import Charm
from vpnaas.kinds.access import ACCESS
from vpnaas.unit import Unit
from vpnaas.vdu import machine
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Step

pytestmark = pytest.mark.slow

KEY = "etc/osm-vpnaas/s6a/private.key"


class Disk:
    """The files of a VDU below a folder."""

    def __init__(self, folder: Path, **identities: str) -> None:
        self.folder = folder
        self.now(**identities)

    def now(self, **identities: str) -> None:
        """Let the machine have these identities, and no others."""
        for name, path in machine.IDENTITIES.items():
            self.put(path, identities.get(name.replace("-", "_"), ""))

    def put(self, path: str, text: str) -> None:
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def ours(self) -> bool:
        """Run the step of a reconcile."""
        body = dict(machine.observe().body)
        body["path"] = str(self.folder) + body["path"]
        body["left"] = [str(self.folder) + pattern for pattern in body["left"]]
        body["identities"] = {n: str(self.folder) + p for n, p in body["identities"].items()}
        return not machine.foreign(execute(Step("machine", body)).check())


FIRST = {"instance": "i-1", "board": "B1", "machine_id": "m1"}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Return the disk of a VDU that has a link."""
    made = Disk(tmp_path, **FIRST)
    assert made.ours()
    made.put(KEY, "secret")
    return made


@pytest.mark.parametrize(
    ("now", "ours"),
    [
        (FIRST, True),
        (dict(FIRST, instance="i-2", board="B2"), False),
        # Containers share the board, and an image may have the machine id.
        (dict(FIRST, instance="i-2"), False),
        # Without a cloud cloud-init calls all instances alike.
        (dict(FIRST, board="B2"), False),
        # `cloud-init clean --machine-id`, before and after the next boot
        ({"board": "B1"}, True),
        (dict(FIRST, machine_id="m2"), True),
        # cloud-init found no cloud at this boot
        (dict(FIRST, instance="iid-datasource-none"), True),
        # nothing is left to compare
        ({"machine_id": "m1"}, True),
        ({"machine_id": "m2"}, False),
        ({}, True),
    ],
)
def test_a_disk_belongs_to_the_machine_that_noted_itself(disk: Disk, now, ours) -> None:
    disk.now(**now)
    assert disk.ours() is ours
    assert disk.ours() is ours
    disk.now(**FIRST)
    assert disk.ours()


def test_without_any_identity_nothing_is_another_machines(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    assert disk.ours()
    disk.put(KEY, "secret")
    assert disk.ours()
    disk.now(**FIRST)
    assert not disk.ours()


@pytest.mark.parametrize(
    "path",
    [
        KEY,
        "etc/osm-vpnaas/s6a/gate.psk",
        "etc/osm-vpnaas/nf/secrets.json",
        "etc/osm-vpnaas/s6a/ca/ca-key.pem",
        "etc/swanctl/private/osm-vpnaas-s6a.pem",
        "etc/swanctl/osm-vpnaas-s6a-rel-1.secret",
        "var/lib/osm-vpnaas/cassandra/rows",
    ],
)
@pytest.mark.parametrize("mark", [None, "", "[1]", "null", '{"instance": "i-0"}'])
def test_what_nobody_or_another_machine_noted_is_not_ours(tmp_path: Path, path, mark) -> None:
    disk = Disk(tmp_path, **FIRST)
    disk.put(path, "secret")
    if mark is not None:
        disk.put(machine.MARK, mark)
    assert not disk.ours()


def test_what_the_operator_puts_there_is_nobodys(tmp_path: Path) -> None:
    disk = Disk(tmp_path, **FIRST)
    disk.put("etc/osm-vpnaas/vendor/key.pem", "secret")
    assert disk.ours()


WRITTEN = "# Written by osm-vpnaas; changes are overwritten by the next reconcile.\n"
LEFT = {
    KEY: "",
    machine.MARK: "{}",
    "etc/osm-vpnaas/guard.nft": "",
    "etc/osm-vpnaas/nf/secrets.json": "",
    "etc/osm-vpnaas-responder-s6a.json": "",
    "etc/wireguard/wg-s6a.conf": WRITTEN,
    "etc/swanctl/conf.d/osm-vpnaas-s11.conf": "",
    "etc/swanctl/private/osm-vpnaas-s11.pem": "",
    "etc/swanctl/x509crl/osm-vpnaas-s11.pem": "",
    "etc/swanctl/osm-vpnaas-s11-rel-1.secret": "",
    "etc/systemd/system/osm-vpnaas-ipsec@.service": "",
    "etc/systemd/system/osm-vpnaas-machine.service": "",
    "etc/systemd/system/hss.service": "[Unit]\nDescription=... in a container (osm-vpnaas)\n",
    "etc/systemd/system/strongswan.service.d/osm-vpnaas.conf": "",
    "var/lib/osm-vpnaas/cassandra/rows": "",
    "usr/local/lib/osm-vpnaas/expire": "",
    "etc/sysctl.d/99-zz-osm-vpnaas-gateway.conf": "",
    "usr/local/lib/osm-vpnaas/exporter/vpnaas/exporter.py": "",
}
OTHERS = {
    "etc/osm-vpnaas/vendor/key.pem": "",
    "etc/wireguard/wg-office.conf": "[Interface]\n",
    "etc/swanctl/conf.d/office.conf": "",
    "etc/systemd/system/company.service": "[Unit]\nAfter=osm-vpnaas-ipsec@s11.service\n",
    "etc/sysctl.d/99-zz-osm-vpnaas.conf": "",
    "usr/local/lib/osm-vpnaas/python/kyber.py": "",
}


@pytest.mark.parametrize("what", ["all", "secrets", "boot"])
def test_what_charms_left_goes_and_what_others_have_stays(tmp_path: Path, what: str) -> None:
    disk, tools = Disk(tmp_path / "disk"), tmp_path / "tools"
    for path, text in {**LEFT, **OTHERS}.items():
        disk.put(path, text)
    tools.mkdir()
    for name in ("systemctl", "ip", "swanctl", "nft", "python3"):
        # nft has two tables.
        told = "table inet filter\ntable inet osm_vpnaas_guard\n" if name == "nft" else ""
        (tools / name).write_text(
            f"#!/bin/sh\necho {name} \"$@\" >>{tmp_path}/calls\nprintf '{told}'\n"
        )
        (tools / name).chmod(0o755)
    program = source("forget.py").replace(
        "main(*sys.argv[1:])", f"main(*sys.argv[1:], {str(disk.folder)!r})"
    )
    words = [sys.executable, "-I", "-c", program, what]
    subprocess.run(words, env={**os.environ, "PATH": str(tools)}, check=True)
    there = {path for path in {**LEFT, **OTHERS} if (disk.folder / path.lstrip("/")).exists()}
    kept = {machine.MARK, "var/lib/osm-vpnaas/cassandra/rows"} if what != "all" else set()
    assert there == set(OTHERS) | kept
    calls = (tmp_path / "calls").read_text().splitlines()
    disabled, stopped = (call.split()[2:] for call in calls[:2])
    units = {"hss.service", "osm-vpnaas-ipsec@.service", "wg-quick@wg-s6a.service"}
    assert set(disabled) == units | {machine.UNIT}
    # It is not ended by its own unit.
    assert machine.UNIT not in stopped
    assert {"hss.service", "osm-vpnaas-ipsec@*.service", "osm-vpnaas-[!m]*"} <= set(stopped)
    assert "ip link delete wg-s6a" in calls
    assert any(call.endswith("/usr/local/lib/osm-vpnaas/ipsec drop s11_") for call in calls)
    assert calls[-1] == "nft delete table inet osm_vpnaas_guard"
    assert not [call for call in calls if "office" in call or "strongswan.service" in call]


def test_a_link_on_a_disk_of_another_machine_gets_a_new_key_and_the_status_says_so_once():
    made = Access()
    made.vdu.files["/etc/osm-vpnaas/access/private.key"] = "key of the image"
    made.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    assert made.vdu.files["/etc/osm-vpnaas/access/private.key"] != "key of the image"
    first = own_key(made)
    made.charm().reconcile_and_report()
    assert machine.NOTICE in made.environment.status[1]
    assert made.run("show-status")["notice"] == machine.NOTICE
    assert machine.NOTICE not in made.environment.status[1]
    assert "notice" not in made.run("show-status")
    assert own_key(made) == first
    # A server of an image that was made from this one.
    made.vdu.machine = "another machine"
    made.charm().reconcile_and_report()
    assert own_key(made) != first
    assert made.run("show-status")["notice"] == machine.NOTICE


def rotated(vnf: Access, times: int) -> int:
    for _ in range(times):
        number = vnf.run("rotate-keys")["access"]["key-generation"]
    return number


def test_a_key_of_an_old_backup_is_told_until_it_is_rotated():
    made = Access()
    made.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    assert rotated(made, 2) == 3
    backup = dict(made.vdu.files)
    assert rotated(made, 1) == 4
    made.vdu.files = backup
    made.vdu.reboot()
    reason = "its key has the number 3 after 4, as from an old backup; run rotate-keys"
    for _ in range(2):
        assert reason in made.run("show-status")["access"]["reason"]
    assert rotated(made, 1) == 5
    assert "backup" not in made.run("show-status")["access"]["reason"]
    # A new VDU begins anew.
    made.vdu.files.clear()
    made.vdu.enabled.clear()
    made.vdu.machine = "another machine"
    made.vdu.reboot()
    view = made.run("show-status")["access"]
    assert (view["key-generation"], view["reason"]) == (1, "no peer is related")


def test_a_rotation_that_failed_on_the_way_is_no_old_backup():
    made = Access()
    made.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    made.vdu.fail_on = "promote/move"
    assert made.run("rotate-keys")["access"]["key-generation"] == 1
    made.vdu.fail_on = None
    assert "old backup" not in json.dumps(made.run("show-status"))


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_rotation_that_the_peer_never_confirms_says_why_and_names_force(technology):
    juju, hss, mme, relation = pair(technology)
    mme.reachable = False
    hss.reconcile(rotate=frozenset(["s6a"]))
    hss.reconcile()
    assert hss.plans["s6a"].waiting == ("key rotation waits for mme",)
    # The peer refuses our key, as that of another peer.
    bag = relation.ends["mme"]
    relation.ends["mme"] = {k: v for k, v in bag.items() if "acknowledged" not in k}
    hss.reconcile()
    assert hss.plans["s6a"].waiting == (
        "key rotation waits for mme",
        "mme has not accepted our present key either, see its status;"
        " rotate-keys with force=true does not wait",
    )
    if technology == "wireguard":
        hss.reconcile(rotate=frozenset(["s6a"]), force=True)
        assert hss.plans["s6a"].state.generation == 2


def test_the_last_hook_takes_down_what_there_is_though_the_peer_relation_is_gone(monkeypatch):
    """Juju breaks it before, if the unit's agent was ever started again."""
    made = Access()
    made.vdu.host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA=="
    made.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    assert "wg-access" in made.vdu.interfaces

    def gone(key):
        raise NotReadyError("the peer relation cannot be read yet; try again")

    monkeypatch.setattr(made.environment, "stored", gone)
    pin = Path(made.environment.folder, "host-key")
    assert pin.stat().st_mode & 0o777 == 0o600
    opened = []
    login = Unit.vdu

    def stopping(unit):
        opened.append(login(unit)._pinned)
        return nullcontext(made.vdu)

    monkeypatch.setattr(Unit, "vdu", stopping)
    charm = Charm(ACCESS, made.environment)
    with pytest.raises(NotReadyError):
        charm.vdu()  # In no other hook does a text that cannot be read count as none.
    charm.stop()
    assert opened == [made.vdu.host_key]
    assert made.vdu.interfaces == {}
    left = [path for path in made.vdu.files if path.startswith("/etc/osm-vpnaas/")]
    assert left == [machine.MARK]


def test_the_last_hook_gives_no_login_to_a_machine_that_it_does_not_know(monkeypatch):
    made = Access()
    options = {"ssh-hostname": "10.0.0.9", "ssh-username": "ubuntu"}
    monkeypatch.setattr(made.environment, "option", lambda name: options.get(name, ""))
    charm = Charm(ACCESS, made.environment)
    Path(made.environment.folder, "host-key").write_text("10.0.0.1 ssh-ed25519 AAAA")
    charm.unit.leaving = True

    def gone(key):
        raise NotReadyError("the peer relation cannot be read yet; try again")

    monkeypatch.setattr(made.environment, "stored", gone)
    with pytest.raises(NotReadyError):
        charm.vdu()


def test_at_boot_the_machines_are_compared_after_the_cloud_was_asked():
    """By cloud-init; the stage with a network has another name since cloud-init 24.3."""
    texts = [text for path, (text, _) in machine.at_boot().items() if path.endswith(".service")]
    (after,) = (line for line in texts[0].splitlines() if line.startswith("After="))
    stages = ("cloud-init-local", "cloud-init", "cloud-init-network")
    assert {f"{stage}.service" for stage in stages} <= set(after[len("After=") :].split())
