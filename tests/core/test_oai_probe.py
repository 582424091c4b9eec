"""The look at a network function, with an engine that answers, refuses, or is busy."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from pathlib import Path

import attr
import pytest
from oai import n3ue, plan, probe
from support.functions import OWN, SECRETS, function_state
from vpnaas.vdu.programs import source

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("exit 0", []),
        ("exit 125", ["image a of one is not pulled yet", "image b of two is not pulled yet"]),
        ("exec sleep 60", ["the container engine is busy, an image may be on its way"]),
    ],
)
def test_a_function_that_is_not_ready_is_told_with_its_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, said: list[str]
) -> None:
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\n{engine}\n")
    program.chmod(0o755)
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "SINCE", str(tmp_path / "since"))
    monkeypatch.setattr(probe, "SECONDS", 0.5 if "sleep" in engine else 20)
    monkeypatch.setattr(probe, "unit_states", lambda _: {"one": {"ActiveState": "activating"}})
    result = probe.main({
        "wait": 0, "units": ["one"], "images": {"two": "b", "one": "a"}, "engine": str(program),
        "checks": [], "restart": False,
    })  # fmt: skip
    assert result["reasons"] == [*said, "one is starting"]


def test_a_function_stays_ready_while_its_log_grows_and_is_rotated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "gnb.log"
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    monkeypatch.setattr(probe, "LOG_LIMIT", 100)
    check = {
        "kind": "log",
        "unit": "gnb",
        "pattern": "Received NGSetupResponse",
        "lost": "",
        "silence": 0,
    }
    old = "Received NGSetupResponse, of an earlier start\n"
    (tmp_path / "gnb.offset").write_text(f"{len(old)}\n")
    log.write_text(old + "no AMF yet\n" * 20)
    assert not probe.holds(check)
    log.write_text(old + "Received NGSetupResponse\n" + "Frame.Slot 128.0\n" * 20)
    assert probe.holds(check)
    for text in (old + "Frame.Slot 128.0\n" * 40, "after a rotation\n"):
        log.write_text(text)
        assert probe.holds(check)
    check["silence"] = 30
    for age in (20, 40, -7200):  # The last one: the clock jumped back by two hours since.
        os.utime(log, (time.time() - age,) * 2)
        assert probe.holds(check) == (age == 20)


@pytest.mark.parametrize(
    ("kind", "accepted", "lost"),
    [
        (
            "gnb",
            "[NGAP]   Received NGSetupResponse from AMF",
            "[NGAP]   Received unsuccessful result for SCTP association (3), instance 0, cnx_id 1",
        ),
        (
            "enb",
            "[ENB_APP]   [eNB 0] Received S1AP_REGISTER_ENB_CNF: associated MME 1",
            "[ENB_APP]   [eNB 0] Received S1AP_DEREGISTERED_ENB_IND: associated MME 0",
        ),
        (
            "n3iwf",
            "[INFO][N3IWF][NGAP] Handle NG Setup Response",
            "[WARN][N3IWF][NGAP] [SCTP] Close connection.",
        ),
    ],
)
def test_a_station_whose_core_restarted_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, accepted: str, lost: str
) -> None:
    """Lines as OAI's eNB and gNB and free5GC's N3IWF log them."""
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    check = attr.asdict(plan.build(function_state(kind), SECRETS, OWN).checks[0])
    for lines, ready in (
        ([accepted], True),
        ([accepted, "Frame.Slot 128.0", lost], False),
        (["after a rotation"], False),
        ([accepted, lost, accepted], True),
        (["after another rotation"], True),
    ):
        (tmp_path / f"{kind}.log").write_text("\n".join(lines) + "\n")
        assert probe.holds(check) is ready, lines


@pytest.mark.parametrize(
    ("lines", "restart", "state", "restarted"),
    [
        (["yes", "lost"], True, "active", True),
        (["lost"], True, "active", True),
        (["yes", "lost", "yes"], True, "active", False),
        (["no core yet"], True, "active", False),
        (["yes", "lost"], True, "activating", False),
        (["yes", "lost"], False, "active", False),
    ],
)
def test_a_station_that_lost_its_core_is_restarted_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lines: list[str],
    restart: bool,
    state: str,
    restarted: bool,
) -> None:
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "SINCE", str(tmp_path / "since"))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    monkeypatch.setattr(probe, "unit_states", lambda _: {"gnb": {"ActiveState": state}})
    said: list[tuple[str, ...]] = []
    monkeypatch.setattr(probe, "_out", lambda *argv: said.append(argv) or "")
    (tmp_path / "gnb.log").write_text("\n".join(lines) + "\n")
    check = {"kind": "log", "unit": "gnb", "pattern": "yes", "lost": "lost", "reason": "lost it",
             "silence": 0}  # fmt: skip
    probe.main({
        "wait": 0.6, "units": ["gnb"], "images": {}, "engine": "/bin/false", "checks": [check],
        "restart": restart,
    })  # fmt: skip
    assert said == [("systemctl", "restart", "--no-block", "gnb.service")] * restarted


def prepare(folder: Path, name: str, *prefixes: str) -> None:
    """Run nf-prepare with folders 0 to 3 in place of those of the VDU."""
    script = source("nf_prepare.sh", "oai")
    paths = ("/run/osm-vpnaas-nf", "/var/log", "/etc/osm-vpnaas/nf", "/sys/class/net")
    for number, path in enumerate(paths):
        (folder / str(number)).mkdir(exist_ok=True)
        script = script.replace(path, str(folder / str(number)))
    (folder / f"1/{name}.log").write_text("a line\n")
    (folder / f"2/{name}.digest").write_text("0\n")
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", script, "nf-prepare", name, *prefixes], check=True, env=environment)


def test_a_start_forgets_what_was_logged(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0/gnb.logged").write_text("Received NGSetupResponse\n")
    prepare(tmp_path, "gnb")
    assert {path.name for path in (tmp_path / "0").iterdir()} == {"gnb.digest", "gnb.offset"}
    assert (tmp_path / "0/gnb.offset").read_text() == "7\n"


def test_a_start_removes_the_devices_that_a_killed_container_left(tmp_path: Path) -> None:
    """free5GC's N3IWF and its UE end at once if one is there."""
    (tmp_path / "ip").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/removed\nexit 2\n')
    (tmp_path / "ip").chmod(0o755)
    for device in ("ens6", "ipsec-1", "gretun-id-2-6", "nwu"):
        (tmp_path / "3" / device).mkdir(parents=True)
    (container,) = plan.build(function_state("n3ue"), SECRETS, OWN).containers
    prepare(tmp_path, container.name, *container.devices)
    assert (tmp_path / "removed").read_text().splitlines() == [
        "link delete dev ipsec-1",
        "link delete dev gretun-id-2-6",
    ]


def test_a_ue_in_a_wifi_is_ready_while_it_has_the_device_of_each_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The line about a new device says nothing of one that the UE has lost since."""
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    line = "New GRE Tunnel, Key Field: [0x6000000], IfaceName: [gretun-id-{}-6]\n"
    (tmp_path / "n3iwue.log").write_text(line.format(2) + line.format(3))
    state = function_state("n3ue")
    station = plan.station(state)
    authority = base64.b64encode(b"authority").decode()
    station = attr.evolve(station, address="192.0.2.1", authority=authority)
    made = n3ue.software(state.params, station, SECRETS, "192.0.2.2")  # type: ignore[arg-type]
    assert made.checks
    for check in made.checks:
        assert not probe.holds(attr.asdict(check))
        # The end of the name is the QFI, which the network chooses.
        assert check.unit.endswith("-*")
        assert probe.holds(dict(attr.asdict(check), unit="l[o]*"))


@pytest.mark.parametrize("kind", ["mme", "amf"])
def test_a_function_that_logs_no_more_tables_is_not_ready(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    made = plan.build(function_state(kind), SECRETS, OWN)
    (check,) = [attr.asdict(each) for each in made.checks if each.kind == "log"]
    log = tmp_path / f"{kind}.log"
    log.write_text("a table\n")
    check["pattern"] = "a table"
    for age, ready in ((0, True), (20, True), (40, False), (0, True)):
        at = time.time() - age
        os.utime(log, (at, at))
        assert probe.holds(check) is ready, age
