"""Display of progress, key injection's script, worker identity: the small edges."""

import io
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from lab.cli.progress import Board, watch
from lab.cli.render import Output
from lab.errors import ConflictError, LcmError, NbiError, VcaError
from lab.lcm import bring_up, condition, heartbeat, looking, timer, worker
from lab.lcm.charmops import shown
from lab.lcm.keys import OpenSshInjector
from lab.lcm.timeouts import Timeouts
from lab.lcm.work import Work
from lab.nbi.params import public_keys
from lab.procs import ProcessRef, start_time
from lab.records import jobs
from lab.records.journal import Journal, Tail
from lab.records.store import Store
from lab.vca.events import Event


def event(kind: str, subject: str, text: str, **more: object) -> dict[str, object]:
    return {"time": 0.0, "kind": kind, "subject": subject, "text": text, **more}


def test_a_hook_that_keeps_failing_is_told_once() -> None:
    board = Board()
    lines = []
    for _ in range(3):
        lines.append(board.feed(event("charm", "hss", "running install", quiet=True)))
        lines.append(board.feed(event("charm", "hss", "install failed: why", status="error")))
    assert [line for line in lines if line] == ["hss: charm install failed: why"]
    assert board.rows["hss"].style == "red"


def test_an_operation_without_stages_is_in_progress_once_it_told_something() -> None:
    board = Board()
    assert board.after(10.2) == "10 s: waiting for the worker"
    board.feed({"kind": "vm", "subject": "client", "text": "rebuilding"})
    assert board.after(20.2) == "20 s: in progress"


def test_table_has_a_row_per_vnf_and_link() -> None:
    board = Board()
    for entry in (
        event("stage", "ns", "Stage 2/5"),
        event("vm", "mme", "active 10.0.0.2"),
        event("charm", "mme", "active: [s6a] up", status="active"),
        event("primitive", "mme", "configure", number=2, total=4, done=True),
        event("relation", "s6a", "a:s6a - b:s6a"),
    ):
        board.feed(entry)
    out = io.StringIO()
    Console(file=out, width=120).print(board.table())
    text = out.getvalue()
    for part in ("Stage 2/5", "mme", "active 10.0.0.2", "[s6a] up", "2/4 configure", "link s6a"):
        assert part in text


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    board = Board()
    for entry in (
        event("stage", "ns", "cannot mount [/etc/a]"),
        event("vm", "[/vnf]", "no [/etc/b]"),
        event("charm", "[/vnf]", "no [/etc/c]"),
        event("primitive", "[/vnf]", "no [/etc/d]", number=2, total=4, done=True),
        event("relation", "[/link]", "[fd00::1]:51820"),
    ):
        board.feed(entry)
    out = io.StringIO()
    Console(file=out, width=120).print(board.table())
    Output().fields({"[/key]": "[/value]"})
    text = out.getvalue() + capsys.readouterr().out
    for part in ("[/etc/a]", "[/vnf]", "no [/etc/b]", "no [/etc/c]", "no [/etc/d]", "[/link]",
                 "[fd00::1]:51820", "[/key]", "[/value]"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("terminal", [True, False])
def test_watch_ends_with_the_operations_state(tmp_path: Path, terminal: bool) -> None:
    tail = Tail(tmp_path / "events")
    journal = Journal(tmp_path / "events")

    def work() -> None:
        journal.write("stage", "ns", "Stage 1/5")
        journal.write("end", "ns", "why", state="FAILED", detail="why")
        journal.write("settled", "ns", "failed", idle=True)

    thread = threading.Thread(target=work)
    thread.start()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    outcome = watch(tail, lambda: True, console, timeout=20)
    thread.join()
    assert (outcome.state, outcome.detail, outcome.lost) == ("FAILED", "why", False)


def test_a_worker_names_the_folder_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    document = {"_id": "op", "nsInstanceId": "n", "lcmOperationType": "action"}
    monkeypatch.setattr(worker, "record_worker", lambda *_: None)
    monkeypatch.setattr(worker, "_on_service", lambda *_: full(tmp_path / "vca" / "model.json"))
    monkeypatch.setattr(Store, "readable", lambda *_: document)
    monkeypatch.setattr(worker, "fail", lambda *_: full(tmp_path / "nbi" / "op.json"))
    assert worker.run(tmp_path, "op") == "FAILED"
    where = f"there is no room left in the folder {tmp_path}"
    assert capsys.readouterr().out == f"{where}/vca; {where}/nbi\n"


def test_a_fault_of_the_lab_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"_id": "op", "nsInstanceId": "n", "lcmOperationType": "action"}
    told: list[str] = []
    monkeypatch.setattr(worker, "record_worker", lambda *_: None)
    monkeypatch.setattr(worker, "_on_service", lambda *_: {}["nobody"])
    monkeypatch.setattr(Store, "readable", lambda *_: document)
    monkeypatch.setattr(worker, "fail", lambda *words: told.append(words[-1]))
    assert worker.run(tmp_path, "op") == "FAILED"
    log = tmp_path / "lcm" / "operations" / "op" / "worker.log"
    assert told == [f"internal error; {log} says more"]
    assert "KeyError: 'nobody'" in capsys.readouterr().err


def test_watch_notices_a_dead_worker(tmp_path: Path) -> None:
    outcome = watch(Tail(tmp_path / "e"), lambda: False, Console(file=io.StringIO()), 20)
    assert (outcome.state, outcome.lost) == ("FAILED", True)


def test_watch_gives_up_but_the_operation_goes_on(tmp_path: Path) -> None:
    outcome = watch(Tail(tmp_path / "e"), lambda: True, Console(file=io.StringIO()), 0.05)
    assert (outcome.state, outcome.lost) == (None, False)


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ({"output": "plain text"}, "plain text\n"),
        ({"output": '{"a":1}'}, '{\n "a": 1\n}\n'),
        ({"other": "x"}, "other: x\n"),
        ("Done", "Done\n"),
    ],
)
def test_result_of_an_action(
    capsys: pytest.CaptureFixture[str], detail: object, shown: str
) -> None:
    Output().result({"detailed-status": detail})
    assert capsys.readouterr().out == shown


@pytest.fixture
def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An "ssh" that runs its last argument with a home directory of its own."""
    home = tmp_path / "home"
    home.mkdir()
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$PWD" "$2" > {home}/identity\nfor last; do :; done\n'
        f'HOME={home}; export HOME\nexec sh -c "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home


def test_injection_appends_once_with_tight_modes(fake_ssh: Path, tmp_path: Path) -> None:
    injector, folder = OpenSshInjector(list), tmp_path / "5%i"
    folder.mkdir()
    (fake_ssh / ".ssh").mkdir()
    (fake_ssh / ".ssh" / "authorized_keys").write_text("ssh-rsa RO\n")
    for _ in range(2):
        injector.inject("10.0.0.1", "ubuntu", folder / "key", "ssh-ed25519 AAA unit")
    # ssh would take %i for the number of the user.
    assert (fake_ssh / "identity").read_text() == f"{folder} key\n"
    text = (fake_ssh / ".ssh" / "authorized_keys").read_text()
    assert text == "ssh-rsa RO\nssh-ed25519 AAA unit\n"


def test_nothing_in_a_key_is_run(fake_ssh: Path, tmp_path: Path) -> None:
    key = f"ssh-rsa $(touch {tmp_path}/evil) `touch {tmp_path}/evil` '; touch {tmp_path}/evil"
    OpenSshInjector(list).inject("10.0.0.1", "ubuntu", tmp_path / "key", key)
    assert (fake_ssh / ".ssh" / "authorized_keys").read_text() == key + "\n"
    assert not (tmp_path / "evil").exists()
    assert (fake_ssh / ".ssh" / "authorized_keys").stat().st_mode & 0o077 == 0


def test_a_shell_that_asks_for_an_answer_takes_the_key(fake_ssh: Path, tmp_path: Path) -> None:
    program = fake_ssh.parent / "bin" / "ssh"
    text = program.read_text().replace("exec sh", "echo Welcome; read -r answer\nexec sh")
    program.write_text(text)
    OpenSshInjector(list).inject("10.0.0.1", "ubuntu", tmp_path / "key", "ssh-ed25519 AAA unit")
    assert (fake_ssh / ".ssh" / "authorized_keys").read_text() == "ssh-ed25519 AAA unit\n"


def test_a_shell_that_ends_at_once_takes_no_key(fake_ssh: Path, tmp_path: Path) -> None:
    """OSM's RO goes by the exit code: it takes such a key for injected."""
    (fake_ssh.parent / "bin" / "ssh").write_text("#!/bin/sh\necho Welcome\nexit 0\n")
    with pytest.raises(LcmError, match=r"the shell of ubuntu runs no command; see"):
        OpenSshInjector(list).inject("10.0.0.1", "ubuntu", tmp_path / "key", "ssh-ed25519 AAA unit")


def test_two_lines_are_no_key(fake_ssh: Path, tmp_path: Path) -> None:
    with pytest.raises(LcmError, match="not one line"):
        OpenSshInjector(list).inject("10.0.0.1", "ubuntu", tmp_path / "key", "a\nb")


def test_a_vm_that_gets_more_time_is_tried_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(bring_up, "time", clock)

    def silent(*_: object) -> None:
        raise LcmError("no answer")

    store = SimpleNamespace(home=Path())
    backends = SimpleNamespace(keys=SimpleNamespace(inject=silent))
    work = cast(
        Work, SimpleNamespace(store=store, backends=backends, timeouts=Timeouts().scaled(5))
    )
    monkeypatch.setattr(bring_up, "vnfrs_of", lambda *_: {"1": {}})
    monkeypatch.setattr(bring_up.condition, "servers", lambda *_: {})
    with pytest.raises(LcmError, match="no answer"):
        bring_up.inject(work, "ns", "1", "a", "ubuntu", "key")
    assert max(pauses) == Timeouts.inject_interval
    assert 3000 < sum(pauses) <= 3030


def test_ros_key_is_made_once_and_private(tmp_path: Path) -> None:
    injector = OpenSshInjector(list)
    path = tmp_path / "ns" / "ro_key"
    first = injector.make_key(path)
    assert first.startswith("ssh-rsa ")
    assert injector.make_key(path) == first
    assert path.stat().st_mode & 0o077 == 0


def test_start_time_knows_the_living_from_the_dead() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        assert start_time(process.pid) is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(process.pid) is None  # a zombie does not run
    assert start_time(process.pid) is None


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_id_is_broken_over_lines_however_narrow_the_terminal(width: int) -> None:
    key, name = "11111111-2222-3333-4444-555555555555", "core-embb-with-a-long-name"
    output = Output()
    out = io.StringIO()
    output.out = Console(file=out, width=width, force_terminal=True, color_system=None)
    sentence = "the charm says in very many words why it did not do what was asked of it"
    rows = [{"name": name, "id": key, "state": "BROKEN", "detail": sentence}]
    output.rows(rows, {heading: [heading] for heading in rows[0]})
    lines = out.getvalue().splitlines()
    assert any(name in line and key in line and "BROKEN" in line for line in lines)
    # A sentence takes no more room than it must.
    assert max(map(len, lines)) <= max(width, len(name) + len(key) + 6 + 24 + 13)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ConflictError("ns a is busy"), 120),
        (NbiError("charms of ns a are still busy"), 2),
        (VcaError("the lab's record model.json is damaged"), 2),
        (OSError("No space left on device"), 2),
    ],
)
def test_the_timer_comes_back_soon_for_a_lock_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, calls: int
) -> None:
    served: list[str] = []
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def update(_: object, ns_id: str, patience: float) -> None:
        served.append(ns_id)
        if ns_id == "a":
            raise error

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    def services() -> list[str]:
        return ["a", "b"] if now < 900 else []

    backends = SimpleNamespace(
        controller=lambda: SimpleNamespace(models=services),
        store=SimpleNamespace(all=lambda _: [{"_id": key} for key in services()]),
    )
    monkeypatch.setattr(timer.condition, "note", lambda *_: None)
    monkeypatch.setattr(timer, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(timer, "Backends", lambda home: backends)
    monkeypatch.setattr(timer, "update_status", update)
    monkeypatch.setattr(timer, "print", full, raising=False)
    timer.keep(tmp_path, 300)
    assert (served.count("a"), served.count("b")) == (calls, 2)


def test_the_timer_looks_often_while_somebody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, looks = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def look(_: object, ns_id: str, patience: float) -> None:
        looks.append(now)
        sleep(4)

    def services(_: object = None) -> list[dict[str, str]]:
        return [{"_id": "a"}] if now < 400 else []

    backends = SimpleNamespace(
        controller=lambda: SimpleNamespace(models=lambda: ["a"]),
        store=SimpleNamespace(all=services),
    )
    monkeypatch.setattr(timer, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(timer, "Backends", lambda home: backends)
    monkeypatch.setattr(timer, "update_status", lambda *_: None)
    monkeypatch.setattr(timer.condition, "note", lambda *_: None)
    monkeypatch.setattr(timer.looking, "look", look)
    monkeypatch.setattr(timer.looking, "watched", lambda _: 100 <= now < 200)
    timer.keep(tmp_path, 300)
    assert looks[0] < 102, "at once for who begins to watch"
    assert max(later - one for one, later in itertools.pairwise(looks)) <= timer.LOOKS + 4
    assert looks[-1] < 200
    assert 4 * len(looks) <= 50, "not more than half of the time"


def test_a_timer_that_was_killed_is_started_by_the_next_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(heartbeat.VARIABLE, "300")
    started: list[str] = []
    monkeypatch.setattr(jobs, "launch", lambda module, *_: started.append(module))
    (tmp_path / "lcm").mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        ProcessRef(process.pid, start_time(process.pid) or 0).save(tmp_path / "lcm/timer.json")
        heartbeat.ensure(tmp_path)
        assert not started
        process.kill()
    heartbeat.ensure(tmp_path)
    assert started == ["lab.lcm.timer"]


def test_a_note_that_somebody_watches_ends(tmp_path: Path) -> None:
    assert not looking.watched(tmp_path)
    looking.watch(tmp_path)
    assert looking.watched(tmp_path)
    for at in (0, time.time() + 3600):  # The clock may have jumped back.
        os.utime(tmp_path / "lcm" / "watched", (at, at))
        assert not looking.watched(tmp_path)


def test_links_are_told_before_the_charms_end_the_hooks_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    @contextmanager
    def model(_: str) -> Iterator[None]:
        yield
        happened.append("the charms have ended")

    monkeypatch.setattr(looking, "service", lambda *_: None)
    monkeypatch.setattr(looking, "_with_links", lambda *_: [SimpleNamespace(helm=False)])
    monkeypatch.setattr(looking, "_ask", lambda *_: [])
    controller = SimpleNamespace(models=lambda: ["n"], model=model)
    store = SimpleNamespace(get=lambda *_: {})
    backends: Any = SimpleNamespace(home=tmp_path, store=store, controller=lambda: controller)
    looking.look(backends, "n", 0, lambda: happened.append("told"))
    assert happened == ["told", "the charms have ended"]


@pytest.mark.parametrize("state", ["READY", "DEGRADED"])
def test_a_service_whose_vdus_were_lost_is_degraded_until_they_run(state: str) -> None:
    nsr = {"_id": "n", "name": "basic", "nsState": state, "errorDetail": None,
           "currentOperation": "IDLE"}  # fmt: skip
    vnfrs = [
        {"_id": name, "nsr-id-ref": "n", "member-vnf-index-ref": name, "vim-account-id": "v",
         "vdur": [{"vim-id": server, "status": "ACTIVE"}]}
        for name, server in (("client", "s1"), ("server", "s2"))
    ]  # fmt: skip
    records = {record["_id"]: record for record in (nsr, *vnfrs)}
    store = SimpleNamespace(all=lambda _: vnfrs, edit=lambda _, key: nullcontext(records[key]))
    servers = {"s1": "the machine was restarted", "s2": ""}
    vim = SimpleNamespace(
        server=lambda key: SimpleNamespace(
            status="ERROR" if servers[key] else "ACTIVE", fault=servers[key]
        )
    )
    failed: dict[str, str] = {}
    backends: Any = SimpleNamespace(store=store, vim=lambda _: vim)
    condition.note(backends, nsr, failed)
    detail = "the machine was restarted: ns-heal basic --vnf client makes them anew"
    assert (nsr["nsState"], nsr["errorDetail"]) == ("DEGRADED", detail)
    assert [vnfr["vdur"][0]["status"] for vnfr in vnfrs] == ["ERROR", "ACTIVE"]
    servers["s1"] = ""
    condition.note(backends, nsr, failed)
    assert (nsr["nsState"], nsr["errorDetail"]) == ("READY", None)
    assert [vnfr["vdur"][0]["status"] for vnfr in vnfrs] == ["ACTIVE", "ACTIVE"]
    # So is one with a unit in error, also between operations.
    failed["vpn-ee/0"] = "hook failed"
    for _ in range(2):
        condition.note(backends, nsr, failed)
        assert (nsr["nsState"], nsr["errorDetail"]) == ("DEGRADED", "vpn-ee/0: hook failed")
    failed.clear()
    condition.note(backends, nsr, failed)
    assert (nsr["nsState"], nsr["errorDetail"]) == ("READY", None)
    # An operation that begins forgets the reason, and may be killed.
    nsr.update(nsState="DEGRADED", errorDetail=None)
    condition.note(backends, nsr, failed)
    assert (nsr["nsState"], nsr["errorDetail"]) == ("READY", None)
    failed["vpn-ee/0"] = "hook failed"
    nsr.update(nsState="BROKEN", errorDetail="why")
    condition.note(backends, nsr, failed)
    assert (nsr["nsState"], nsr["errorDetail"]) == ("BROKEN", "why")


def test_ssh_keys_of_files(tmp_path: Path) -> None:
    public, private = tmp_path / "id.pub", tmp_path / "id"
    public.write_text("# mine\n\nssh-ed25519 AAAA me\n  \nssh-rsa BBBB\n")
    assert public_keys(f"{public},") == ["ssh-ed25519 AAAA me", "ssh-rsa BBBB"]
    private.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n")
    with pytest.raises(NbiError, match=r"id' is a private key; allowed: its \.pub file") as refused:
        public_keys(f"{public},{private}")
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize(
    ("wrote", "problem", "said"),
    [
        (["0.start Traceback", "0.start ValueError: no"], "exit status 1", "ValueError: no"),
        ([], "exit status 1", "exit status 1"),
        (["0.juju-log reconciled"], "signal: Killed", "signal: Killed"),
    ],
)
def test_a_failed_hook_is_told_with_its_own_words(
    wrote: list[str], problem: str, said: str, tmp_path: Path
) -> None:
    """The line before may be about another hook."""
    words = ["0 ran stop hook in 0.1 s", *wrote, f'0 hook "start" failed: {problem}']
    log = tmp_path / "log"
    log.write_text("".join(f"2026-12-01 13:01:36 INFO unit.a-b/{word}\n" for word in words))
    event = Event("hook-failed", "a-b", "a-b/0", "start", problem)
    assert shown(event, log)["text"].endswith(said)
    assert "stop hook" not in shown(event, log)["text"]
