"""Habits of command lines: help, version, completion, verbs that are watched, logs followed."""

import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from rich.console import Console

from benchmarks import __main__ as bench
from benchmarks.__main__ import SUITES
from benchmarks.__main__ import main as benchmarks
from benchmarks.report import counts
from builder.link_table import COLUMNS as LINK_COLUMNS
from builder.link_table import SPARE, Link
from lab.certificates import self_signed
from lab.cli import context, lab_verbs, links, progress, render, watching
from lab.cli.commands import DEFAULT_HOME, cli, main
from lab.errors import NbiError, spoken, unknown
from lab.nbi.engine import Engine
from lab.records.journal import Journal, Tail, events
from lab.records.store import NSIS, NSRS, Store
from lab.vim import dataplane

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    "lab.cli.commands",
    "builder.cli",
    "operate.cli",
    "experiments.__main__",
    "benchmarks.__main__",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_tells_its_help_and_version(program: str) -> None:
    """One process for the three words: most of it is imports."""
    code = f"from {program} import main\nfor word in ('-h', '--help', '--version'):\n"
    code += "    try: print(main([word]) or 0)\n    except SystemExit as end: print(end.code)"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    short, long, version, end = re.split(r"^0\n", done.stdout, flags=re.MULTILINE)
    assert short == long
    assert ("Usage" in short, "version" in version, end) == (True, True, "")


@pytest.mark.parametrize(
    "entry", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].values()
)
def test_an_interrupt_during_the_imports_ends_without_a_word(entry: str, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(
        "import os\nos.kill(os.getpid(), 2)\nimport time\ntime.sleep(9)\n"
    )
    module, _, name = entry.partition(":")
    words = [sys.executable, "-c", f"from {module} import {name}; {name}()"]
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=path)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def untold(command: click.Command, name: str) -> list[str]:
    """Return the commands and visible options below a command that help says nothing about."""
    found = [] if command.help else [name]
    found += [
        f"{name} {option.opts[0]}"
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    below = command.commands if isinstance(command, click.Group) else {}
    return found + [line for word in below for line in untold(below[word], f"{name} {word}")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_tells_what_each_command_and_option_does(program: str) -> None:
    module = importlib.import_module(program)
    command = cli if program == "lab.cli.commands" else module.main
    assert untold(command, program.partition(".")[0]) == []


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_a_benchmark_takes_both_forms_of_help(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "clean_up_when_ended", lambda: None)
    monkeypatch.setattr(sys, "argv", ["bench", "rotation", word])
    with pytest.raises(SystemExit):
        bench.suite()
    assert capsys.readouterr().out.startswith("Usage: bench rotation ")


def test_help_names_every_benchmark() -> None:
    shown = CliRunner().invoke(benchmarks, ["--help"]).output
    assert [name for name in SUITES if name not in shown] == []


@pytest.mark.parametrize(
    "words",
    [
        "--vnfs 2,x", "--vnfs 3", "--vnfs=", "--rounds 0", "--rounds -1", "--seconds 0",
        "tunnel --vnfs 2,,5",
    ],
)  # fmt: skip
def test_a_benchmark_refuses_a_wrong_option_before_it_measures(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "Bench", None)
    done = CliRunner().invoke(benchmarks, words.split())
    assert (done.exit_code, "Invalid value" in done.output) == (2, True), done.output


@pytest.mark.parametrize("given", ["x", "4,", "0", "-1", "1.5"])
@pytest.mark.parametrize(
    ("suite", "option"),
    [
        ("hot-standby", "--peers"), ("instances", "--cells"), ("ipsec-scale", "--tunnels"),
        ("peers", "--peers"), ("rotation", "--peers"),
    ],
)  # fmt: skip
def test_a_benchmark_refuses_wrong_counts(suite: str, option: str, given: str) -> None:
    command = importlib.import_module(SUITES[suite]).main
    done = CliRunner().invoke(command, [f"{option}={given}", "--out", os.devnull])
    assert (done.exit_code, "Invalid value" in done.output) == (2, True), done.output


def test_counts_are_in_ascending_order() -> None:
    command = click.Command(
        "c", params=[], callback=lambda peers: click.echo(peers), help="prints what it gets"
    )
    done = CliRunner().invoke(counts("--peers", "1", "")(command), ["--peers", "20, 1,100"])
    assert done.output == "[1, 20, 100]\n"


def test_a_benchmark_that_fails_keeps_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise click.ClickException("two is BROKEN")

    figures = {"medians": {}, "charms-to-hand": {"1": 1.0}}
    monkeypatch.setattr(bench, "Bench", lambda: nullcontext())
    monkeypatch.setattr(bench, "tunnel", lambda *_: figures)
    monkeypatch.setattr(bench, "bringup", fail)
    done = CliRunner().invoke(benchmarks, ["--out", str(tmp_path)])
    assert (done.exit_code, "two is BROKEN" in done.output) == (1, True)
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["tunnel"] == figures


def every_verb(group: click.Group, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += every_verb(command, (*words, name))
        found.append((*words, name))
    return found


def test_every_verb_takes_both_forms_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in every_verb(cli):
        for word in ("-h", "--help"):
            cli.main([*words, word], prog_name="osm-lab", standalone_mode=False)
            assert capsys.readouterr().out.startswith(f"Usage: osm-lab {' '.join(words)} ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_help_is_cut(program: str) -> None:
    module = importlib.import_module(program)
    command = cli if program == "lab.cli.commands" else module.main
    if isinstance(command, click.Group):
        assert "..." not in CliRunner().invoke(command, ["--help"]).output.replace("[ARGS]...", "")


SERVICES = [
    {"_id": f"0c6b5d7e-1111-4222-8333-44445555666{n}", "name": name, "links": "2 up", "note": note}
    for n, (name, note) in enumerate((("vpn", "a sentence of several words"), ("embb.core", "-")))
]
COLUMNS = {heading: [heading] for heading in ("name", "_id", "links", "note")}


def listed(form: str, monkeypatch: pytest.MonkeyPatch, columns: int = 60) -> str:
    """Return what a list shows on a terminal of so many columns."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    output = render.Output(form)
    output.out = Console(file=shown, width=columns, highlight=False)
    output.rows(SERVICES, COLUMNS, spare=("_id",))
    return shown.getvalue()


def test_a_list_fits_a_narrow_terminal_and_is_whole_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = listed("", monkeypatch)
    assert max(map(len, narrow.splitlines())) <= 60
    assert [SERVICES[0]["_id"] in text for text in (narrow, listed("wide", monkeypatch))] == [
        False,
        True,
    ]
    assert SERVICES[0]["_id"] in listed("", monkeypatch, columns=120)


def test_a_list_is_json_yaml_or_one_field(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(listed("json", monkeypatch)) == SERVICES
    assert yaml.safe_load(listed("yaml", monkeypatch)) == SERVICES
    assert listed("name", monkeypatch) == "vpn\nembb.core\n"
    monkeypatch.setitem(COLUMNS, "ns name", ["name"])
    assert listed("ns name", monkeypatch) == "vpn\nembb.core\n"
    with pytest.raises(NbiError, match="there is no field 'nam'; did you mean 'name'"):
        listed("nam", monkeypatch)


def test_output_of_a_primitive_is_no_json_in_a_string(capsys: pytest.CaptureFixture[str]) -> None:
    operation = {"_id": "1", "detailed-status": {"code": "COMPLETED", "output": '{"a": 1}'}}
    render.Output("json").result(operation)
    assert json.loads(capsys.readouterr().out)["detailed-status"]["output"] == {"a": 1}


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        pytest.param("vpm", ["vpn", "core"], "did you mean 'vpn'", id="near"),
        pytest.param("x", ["vpn", "core"], "allowed: core, vpn", id="all"),
        pytest.param("x", [f"s{n:02}" for n in range(12)], "s09 and 2 more", id="many"),
        pytest.param("x", [], "there is none", id="none"),
    ],
)
def test_a_wrong_name_is_answered_with_those_there_are(
    name: str, known: list[str], hint: str
) -> None:
    error = unknown(f"ns '{name}' not found", name, known)
    assert str(error).startswith(f"ns '{name}' not found; ")
    assert str(error).endswith(hint)


def test_servers_of_a_home_have_one_certificate_for_each_host(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: self_signed(tmp_path, "127.0.0.1"), range(8)))
    ((place, key),) = made
    before = place.read_bytes(), key.read_bytes()
    assert place.name == "cert.pem"
    assert self_signed(tmp_path, "localhost") == (place, key)
    other, _ = self_signed(tmp_path, "192.0.2.1")
    assert other.name == "cert-192.0.2.1.pem"
    assert (place.read_bytes(), key.read_bytes()) == before
    key.write_bytes(b"")  # a damaged key
    self_signed(tmp_path, "127.0.0.1")
    assert place.read_bytes() != before[0]


@pytest.mark.lab
def test_clean_leaves_no_key_of_the_server(tmp_path: Path) -> None:
    self_signed(tmp_path / "server", "127.0.0.1")
    cli.main(["--home", str(tmp_path), "lab", "clean"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["vims", "nbi", "lcm", "vca", "cluster", "server"])
def test_clean_empties_no_directory_that_is_no_lab(part: str, tmp_path: Path) -> None:
    mine = tmp_path / part / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(NbiError, match=f"{tmp_path} is no home of a lab, and has {part} of"):
        cli.main(["--home", str(tmp_path), "lab", "clean"], standalone_mode=False)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    "mark",
    [
        "nbi/.vim_accounts.lock",
        "nbi/nsrs/x.json",
        "vim.lock",
        "nbi/packages/x",
        "nbi/.packages.lock",
        "server/key.pem",
        "vca/models/x",
    ],
)
def test_clean_knows_a_lab_by_what_it_wrote(mark: str, tmp_path: Path) -> None:
    for name in (mark, "lcm/timer.log", "cluster/x", "vims/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    cli.main(["--home", str(tmp_path), "lab", "clean"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


def test_completion() -> None:
    env = {**os.environ, "COMP_WORDS": "osm-lab ns-op", "COMP_CWORD": "1"}
    env["_OSM_LAB_COMPLETE"] = "bash_complete"
    words = [sys.executable, "-c", "from lab.cli.commands import main; main()"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["plain,ns-op-list", "plain,ns-op-show"]


def test_completion_makes_no_lab(tmp_path: Path) -> None:
    shell = ShellComplete(cli, {}, "osm-lab", "_OSM_LAB_COMPLETE")
    assert shell.get_completions(["--home", str(tmp_path / "none"), "ns-show"], "") == []
    assert not list(tmp_path.iterdir())


def test_a_probe_makes_no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dataplane.Dataplane(dataplane.KERNEL, "6.1", None, True, True)
    monkeypatch.setattr(lab_verbs, "probe", lambda: found)
    cli.main(["--home", str(tmp_path / "home"), "lab", "probe"], standalone_mode=False)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("home", "reason"), [("/proc/nothing", "No such file"), ("/dev/null", "Not a directory")]
)
def test_a_home_that_cannot_be_written_is_a_sentence(
    home: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(["--home", home, "vim-create", "--name", "lab"])
    message = capsys.readouterr().err
    assert message.startswith(f"ERROR: {home}") and reason in message
    assert message.count("\n") == 1


def test_an_empty_variable_is_no_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`lab clean` would empty the current directory."""
    monkeypatch.setenv("OSMLAB_HOME", "")
    context = cli.make_context("osm-lab", ["vim-list"])
    assert context.params["home"] == Path(DEFAULT_HOME)


def test_a_deletion_hands_on_what_its_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def terminate(_: Engine, *words: object) -> None:
        asked.append(words)
        raise NbiError("enough")

    monkeypatch.setattr(Engine, "ns", lambda *_: {"_id": "one"})
    monkeypatch.setattr(Engine, "terminate", terminate)
    limit = "timeout_ns_terminate"
    for text in (
        "skip_terminate_primitives: true",
        f"{limit}: 60",
        f"{limit}: 0",
        f"{limit}: true",
        f"{limit}: soon",
        "other: 1",
    ):
        with pytest.raises(SystemExit, match="1"):
            main(["--home", str(tmp_path), "ns-delete", "epc", "--config", text])
    assert asked == [
        ({"_id": "one"}, False, {"skip_terminate_primitives": True}),
        ({"_id": "one"}, False, {limit: 60}),
    ]
    said = capsys.readouterr().err
    assert said.count(f"Format error at '{limit}'") == 3
    assert "('other' was unexpected)" in said


def test_what_the_terminal_cannot_show_is_replaced() -> None:
    words = [sys.executable, "-c", "import lab.cli.commands as c; c.cli = c.click.Command('x', "]
    words[-1] += "callback=lambda: print('d\\u2192'), params=[]); c.main([])"
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, env=env, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"d?\n", 0)


def test_watched_verb_is_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    def pause(seconds: float) -> None:
        if len(shown) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", pause)

    @click.command()
    @watching.watched
    def verb() -> None:
        shown.append(1)

    with pytest.raises(click.Abort):
        verb.main(["--watch"], standalone_mode=False)
    assert len(shown) == 3
    verb.main([], standalone_mode=False)
    assert len(shown) == 4


def test_a_watched_service_is_not_taken_for_another_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, seen = context.Lab(tmp_path, False), list[str]()
    store = lab.engine.store
    monkeypatch.setattr(store, "_parsed", lambda _collection, _key, text: json.loads(text))

    def make(collection: str, key: str) -> None:
        store.put(collection, {"_id": key, "name": "vpn", "_admin": {"created": 0}})

    @click.command()
    @watching.watched
    @context.pass_lab
    def verb(lab: context.Lab) -> None:
        seen.append(lab.engine.store.instance("vpn")[1]["_id"])

    def pause(_seconds: float) -> None:
        store.delete(NSRS, seen[-1])
        make(NSRS, "b")
        make(NSIS, "slice")

    monkeypatch.setattr(watching.time, "sleep", pause)
    make(NSRS, "a")
    with pytest.raises(NbiError, match="ns 'vpn' was deleted"):
        verb.main(["--watch"], standalone_mode=False, obj=lab)
    assert seen == ["a"]
    store.pins = None
    assert store.instance("vpn") == (NSIS, store.find(NSIS, "slice"))


@pytest.mark.parametrize("terminal", [False, True])
def test_long_silence_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """An operation in which nothing happens for long does not look dead."""
    monkeypatch.setattr(progress, "_SILENCE", 0.3)
    journal = Journal(tmp_path / "events")
    tail = Tail(tmp_path / "events")
    journal.write("stage", "ns", "Stage 2/5: deployment")
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80)
    outcome = progress.watch(tail, lambda: True, console, timeout=1.5)
    assert outcome.state is None
    result = out.getvalue().count("1 s: Stage 2/5: deployment")
    assert ("(1 s)" in out.getvalue()) if terminal else result >= 1
    assert terminal or out.getvalue().count("Stage 2/5") >= 3


def test_a_line_that_a_full_disk_cut_ends_no_watching(tmp_path: Path) -> None:
    path = tmp_path / "events"
    tail, journal = Tail(path), Journal(path)
    journal.write("stage", "ns", "one")
    with path.open("a") as stream:
        stream.write('{"time": 1, "kind": "no')
    journal.write("note", "ns", "lost with it")
    journal.write("end", "ns", "Done", state="COMPLETED")
    journal.close()
    told = ["one", "Done"]
    assert [event["text"] for event in tail.new_events()] == told
    assert [event["text"] for event in events(path)] == told


def test_progress_on_a_narrow_terminal_keeps_the_names_whole() -> None:
    board = progress.Board()
    for kind, text in (("vm", "active 10.250.1.3"), ("charm", "up, " * 40)):
        board.feed({"kind": kind, "subject": "client", "text": text})
    board.feed(
        {"kind": "primitive", "subject": "client", "text": "configure", "number": 1, "total": 2}
    )
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as shown:
        console.print(board.table())
    assert "client" in shown.get()
    assert "active 10.250.1.3" in shown.get()
    assert len(shown.get().splitlines()) == 5


@pytest.mark.parametrize("width", [80, 200])
def test_operations_fit_a_terminal_of_80_columns(width: int) -> None:
    out = render.Output("")
    out.out = Console(file=io.StringIO(), width=width)
    ee = "5a851320-de05-4e19-807e-2d0ac502127b.vpn-ee-z0-server-vnf.0"
    row = {
        "_id": "0e1c8a0c-1f3d-4f59-9d0f-3e6f2a7b9c11", "startTime": 1796039154.7,
        "lcmOperationType": "action", "operationParams": {"primitive": "rotate-keys"},
        "operationState": "FAILED",
        "errorMessage": f"Error executing primitive rotate-keys in ee={ee}: failed: s6a: no peer",
    }  # fmt: skip
    with out.out.capture() as shown:
        out.operations([row])
    assert max(map(len, shown.get().splitlines())) <= width
    assert row["_id"] in shown.get()
    assert ("rotate-keys: s6a: no peer" in shown.get()) == (width == 200)
    assert "vpn-ee-z0" not in shown.get()


def test_links_fit_a_terminal_of_80_columns() -> None:
    out = render.Output("")
    out.out = Console(file=io.StringIO(), width=80)
    row = dict.fromkeys(LINK_COLUMNS, "some words") | {"ends": "a:s6a - b:s6a"}
    with out.out.capture() as shown:
        out.rows([row], {each: [each] for each in LINK_COLUMNS}, SPARE)
    assert max(map(len, shown.get().splitlines())) <= 80
    assert "a:s6a - b:s6a" in shown.get()


def test_links_have_a_field_by_its_name_and_by_its_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = dict.fromkeys((field.name for field in fields(Link)), "")
    one = Link(**{**link, "ns": "vpn", "key_age": 90, "state": "up", "looked": 0})  # type: ignore[arg-type]
    for form, value in (("ns", "vpn"), ("service", "vpn"), ("key_age", "90"), ("key age", "90")):
        links._show(SimpleNamespace(out=render.Output(form)), [one])  # type: ignore[arg-type]
        assert capsys.readouterr().out == f"{value}\n"
    with pytest.raises(NbiError, match="there is no field 'servic'"):
        links._show(SimpleNamespace(out=render.Output("servic")), [one])  # type: ignore[arg-type]


def test_log_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, late = tmp_path / "mme-0.log", tmp_path / "hss-0.log"
    log.write_text("one\ntwo\nhalf")
    steps = iter(
        [
            lambda: log.write_text("one\ntwo\nhalf and whole\n"),
            lambda: late.write_text("first\n"),
            lambda: log.write_text("rotated\n"),
        ]
    )

    def pause(seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(watching.time, "sleep", pause)
    seen: list[tuple[str, str]] = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(watching.lines(lambda: [log, late], follow=True))
    assert seen == [
        ("mme-0", "one"),
        ("mme-0", "two"),
        ("mme-0", "half and whole"),
        ("hss-0", "first"),
        ("mme-0", "rotated"),
    ]
    log.write_text("a\nb")
    assert list(watching.lines(lambda: [log], follow=False)) == [("mme-0", "a"), ("mme-0", "b")]


def test_a_forgotten_vnf_is_asked_for_with_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise NbiError("Invalid primitive 'show-status' is not present at vnfd/nsd")

    vnfs = [{"nsr-id-ref": "7", "member-vnf-index-ref": name} for name in ("mme", "hss")]
    vnfs.append({"nsr-id-ref": "8", "member-vnf-index-ref": "other"})
    monkeypatch.setattr(Engine, "ns_run", refused)
    monkeypatch.setattr(Engine, "ns", lambda *_: {"_id": "7"})
    monkeypatch.setattr(Store, "all", lambda *_: vnfs)
    words = ["--home", str(tmp_path), "ns-action", "epc", "--action_name", "show-status"]
    with pytest.raises(SystemExit, match="1"):
        main(words)
    assert capsys.readouterr().err.endswith(
        "vnfd/nsd; a primitive of a VNF needs --vnf_name: hss, mme\n"
    )
    with pytest.raises(SystemExit, match="1"):
        main([*words, "--vnf_name", "mme"])
    assert capsys.readouterr().err.endswith("vnfd/nsd\n")


def test_json_may_follow_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--json", "vim-list"], ["vim-list", "--json"]):
        main(["--home", str(tmp_path), *words])
        assert json.loads(capsys.readouterr().out) == []


def test_a_reader_that_has_enough_is_no_error() -> None:
    code = "import lab.cli.commands as c; c.cli = c.click.Command('x', params=[], "
    code += "callback=lambda: [print('y' * 99) for _ in range(100000)]); c.main([])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("failed: add-peer: public-key: no key", "add-peer: public-key: no key"),
        ("failed: s6a: a prefix is taken", "add-peer: s6a: a prefix is taken"),
        ("validation failed: (root).link : 'x'", "add-peer: validation failed: (root).link : 'x'"),
    ],
)
def test_why_a_primitive_failed_is_told_without_ids(told: str, said: str) -> None:
    ee = "5a851320-de05-4e19-807e-2d0ac502127b.vpn-ee-z0-server-vnf.0"
    assert spoken(f"Error executing primitive add-peer in ee={ee}: {told}") == said
    assert spoken(f"Error executing primitive add-peer into ee={ee} : {told}") == said


def test_an_interrupted_wait_says_that_the_operation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(context, "watch", interrupted)
    operation = {"_id": "op-1", "lcmOperationType": "instantiate"}
    started: Any = SimpleNamespace(
        warnings=(), operation=operation, collection="nslcmops", nsr={"name": "epc"}, tail=None
    )
    with pytest.raises(KeyboardInterrupt):
        context.Lab(tmp_path, False).follow(started, True)
    assert capsys.readouterr().err == (
        "instantiate of ns 'epc' goes on; follow it with: osm-lab ns-op-show op-1; "
        "undo it with: osm-lab ns-delete epc\n"
    )
