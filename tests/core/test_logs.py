"""The journal of a VDU on its way to a syslog server."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import attr
import pytest
from support.juju import pair
from vpnaas.base.errors import InputError
from vpnaas.features import logs
from vpnaas.params.gateway import log_server
from vpnaas.params.intent import Intent
from vpnaas.vdu.programs import source
from vpnaas.vdu.programs.logs import frame

ENTRY = {
    "MESSAGE": "peer up, grün\nsecond line",
    "PRIORITY": "4",
    "SYSLOG_FACILITY": "10",
    "_HOSTNAME": "mme",
    "SYSLOG_IDENTIFIER": "charon systemd",
    "_PID": "12",
    "__REALTIME_TIMESTAMP": "1790000000123456",
}


def test_an_entry_is_a_framed_message_of_rfc_5424() -> None:
    length, _, message = frame(ENTRY).partition(b" ")
    assert int(length) == len(message)
    head = "<84>1 2026-09-21T14:13:20.123456Z mme charonsystemd 12 - - "
    assert message.decode() == head + ENTRY["MESSAGE"]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"MESSAGE": None, "PRIORITY": "²", "SYSLOG_FACILITY": "x", "_HOSTNAME": ["a", "b"]},
        {"MESSAGE": [104, 255, 105], "_HOSTNAME": "\x1b[2J " * 100, "__REALTIME_TIMESTAMP": "-1"},
    ],
)
def test_an_odd_entry_is_a_message_all_the_same(entry: dict[str, object]) -> None:
    length, _, message = frame(entry).partition(b" ")
    assert int(length) == len(message)
    form = r"<30>1 1970-01-01T00:00:00\.000000Z [!-~]{1,255} - - - - (h\ufffdi)?"
    assert re.fullmatch(form, message.decode())


def test_the_program_goes_on_after_the_last_message_that_was_sent(tmp_path: Path) -> None:
    """A journalctl of the test says what it was asked, and one entry."""
    (tmp_path / "program").write_text(source("logs.py"))
    said = json.dumps({**ENTRY, "__CURSOR": "s=1;i=2"})
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\nprintf '%s\\n' '{said}'\necho $* >>{tmp_path}/asked\n")
    journalctl.chmod(0o755)
    got = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = ["127.0.0.1", str(server.getsockname()[1]), str(tmp_path / "cursor")]
        path = f"{tmp_path}:{os.environ['PATH']}"
        for _ in range(2):
            argv = [sys.executable, "-B", str(tmp_path / "program"), *words]
            with subprocess.Popen(argv, env={**os.environ, "PATH": path}):
                link, _ = server.accept()
                with link:
                    got.append(link.makefile("rb").read())
    assert got == [frame(ENTRY)] * 2
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert "--boot" in first
    assert "--after-cursor=s=1;i=2" in second


def test_a_server_that_takes_nothing_ends_the_program_and_nothing_is_lost(tmp_path: Path) -> None:
    """As where a network parts them without a word; Linux would wait for a quarter of an hour."""
    program = source("logs.py")
    assert "PATIENCE = 30" in program
    (tmp_path / "program").write_text(program.replace("PATIENCE = 30", "PATIENCE = 1"))
    said = json.dumps({**ENTRY, "MESSAGE": "x" * 10000, "__CURSOR": "s=1;i=2"})
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\nexec yes '{said}'\n")
    journalctl.chmod(0o755)
    with socket.socket() as server:
        # Inherited by the connection: not even the first message fits.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen()
        words = ["127.0.0.1", str(server.getsockname()[1]), str(tmp_path / "cursor")]
        argv = [sys.executable, "-B", str(tmp_path / "program"), *words]
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(argv, env=environment, timeout=60, stderr=subprocess.PIPE)
    assert b"Connection timed out" in done.stderr
    assert (tmp_path / "cursor").read_text() == ""


def test_the_unit_comes_and_goes_with_the_parameter() -> None:
    _, hss, _, _ = pair("wireguard")
    without, hss.intent = hss.intent, attr.evolve(hss.intent, log_server="192.0.2.9:601")
    hss.reconcile()
    assert " 192.0.2.9 601 " in hss.vdu.files[logs.UNIT_FILE]
    assert logs.UNIT in hss.vdu.enabled & hss.vdu.active
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1
    assert not [c for c in hss.vdu.commands if "restart" in c]
    hss.intent = without
    hss.reconcile()
    assert logs.UNIT_FILE not in hss.vdu.files
    assert logs.UNIT not in hss.vdu.active | hss.vdu.enabled


def test_without_the_parameter_the_server_stays() -> None:
    assert log_server({"exporter-port": 0}, "192.0.2.9:601") == "192.0.2.9:601"
    assert log_server({"log-server": "none"}, "192.0.2.9:601") == ""


def test_the_server_is_kept_with_the_intent() -> None:
    for server in ("none", "[fd00::9]:601"):
        intent = Intent(log_server=log_server({"log-server": server}))
        assert Intent.from_json(intent.to_json()) == intent


@pytest.mark.parametrize("text", ["loghost:601", "192.0.2.9", "192.0.2.9:0", "fd00::9:601"])
def test_a_server_without_address_or_port_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="configure-monitoring: log-server"):
        log_server({"log-server": text})
