"""Hook tools: arguments, formats and permissions, called in the test's own process."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from vca_support import write_charm

from lab.vca.charm import read_charm
from lab.vca.context import HookContext
from lab.vca.model import Model
from lab.vca.relations import enter_scope
from lab.vca.state import ActionDocument, HookInfo, UnitRelation
from lab.vca.store import Store
from lab.vca.toolcall import Answer, NeedStdinError, Request
from lab.vca.tools import TOOLS, run_tool
from lab.vca.toolserver import ToolServer

Call = Callable[..., Answer]
OPTIONS: dict[str, object] = {
    "text": {"type": "string", "default": "a\nb"},
    "count": {"type": "int", "default": 3},
    "ratio": {"type": "float", "default": 45.0},
    "flag": {"type": "boolean", "default": False},
    "unset": {"type": "string"},
}


class Desk:
    """A model of a (a/0 leads, a/1) related to b (b/0), with contexts made by hand."""

    def __init__(self, model: Model, folder: Path) -> None:
        charm = write_charm(folder / "a", "a", provides="db", peers="ring", options=OPTIONS)
        model.deploy("a", charm, num_units=2)
        model.deploy("b", write_charm(folder / "b", "b", requires="db"))
        self.number = model.add_relation("a:db", "b:db")
        self.ring = 0
        self.charm = read_charm(charm)
        self.store = Store(model.paths.model)
        self.store.load()
        self.folder = folder
        with self.store.transaction() as document:
            for unit in document.units.values():
                unit.installed = True
                for relation in document.relations_of(unit.app):
                    enter_scope(relation, unit)
            document.units["a/0"].relations[self.number].members = {"b/0": 1}
            document.relations[self.number].units["b/0"].replace({"k": "v", "empty-not": "x"})
            document.relations[self.number].apps["b"].replace({"app": "b"})
            document.relations[self.number].apps["a"].replace({"app": "a"})
            document.relations[self.ring].apps["a"].replace({"ring": "1"})

    def context(
        self, unit: str = "a/0", hook: HookInfo | None = None, action: ActionDocument | None = None
    ) -> HookContext:
        return HookContext(
            self.store,
            self.charm,
            self.store.document.units[unit],
            hook,
            action,
            logging.getLogger("test"),
            lambda event: None,
        )

    def changed(self, kind: str = "relation-changed") -> HookInfo:
        return HookInfo(
            kind=kind, relation_id=self.number, remote_unit="b/0", remote_app="b", change_version=2
        )

    def call(
        self, context: HookContext, tool: str, *arguments: str, stdin: bytes | None = None
    ) -> Answer:
        return run_tool(context, Request(tool, arguments, self.folder, stdin))


@pytest.fixture
def desk(idle_model: Model, tmp_path: Path) -> Desk:
    return Desk(idle_model, tmp_path / "charms")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["text"], "a\nb\n"),
        (["count"], "3\n"),
        (["ratio"], "45\n"),
        (["flag"], "False\n"),
        (["unset"], ""),
        (["unknown"], ""),
        (["--format=json", "text"], '"a\\nb"\n'),
        (["--format", "json", "count"], "3\n"),
        (["--format=json", "ratio"], "45\n"),
        (["flag", "--format=yaml"], "false\n"),
        (["--format=json", "unset"], "null\n"),
        (["--format=json"], '{"count":3,"flag":false,"ratio":45,"text":"a\\nb"}\n'),
        (
            ["--all", "--format=json"],
            '{"count":3,"flag":false,"ratio":45,"text":"a\\nb","unset":null}\n',
        ),
    ],
)
def test_config_get_formats(desk: Desk, arguments: list[str], expected: str) -> None:
    assert desk.call(desk.context(), "config-get", *arguments) == Answer(0, expected)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("config-get", ["--nope"], "option provided but not defined: --nope"),
        ("config-get", ["-o", "file"], "option provided but not defined: -o"),
        ("config-get", ["a", "b"], 'unrecognized args: ["b"]'),
        ("config-get", ["--all", "text"], 'cannot use argument --all together with key "text"'),
        (
            "config-get",
            ["--format=xml"],
            'invalid value "xml" for option --format: unknown format "xml"',
        ),
        ("config-get", ["--format"], "option needs an argument: --format"),
        ("relation-get", [], "no relation id specified"),
        ("relation-get", ["-r", "99"], 'invalid value "99" for option -r: relation not found'),
        ("relation-get", ["-r", "db"], 'invalid value "db" for option -r: invalid relation id'),
        ("relation-get", ["-r", "x:1"], 'invalid value "x:1" for option -r: invalid relation id'),
        ("relation-get", ["-r", "x:²"], 'invalid value "x:²" for option -r: invalid relation id'),
        (
            "relation-get",
            ["-r", "9" * 5000],
            f'invalid value "{"9" * 5000}" for option -r: invalid relation id',
        ),
        ("relation-get", ["-r", "1"], "no unit or application specified"),
        ("relation-set", ["-r", "1", "novalue"], 'expected "key=value", got "novalue"'),
        ("relation-set", ["-r", "1", "a=1", "a=2"], 'key "a" specified more than once'),
        ("relation-ids", [], "no relation name specified"),
        ("status-set", [], "invalid args, require <status> [message]"),
        (
            "status-set",
            ["happy", "x"],
            'invalid status "happy", expected one of [maintenance blocked waiting active]',
        ),
        ("juju-log", [], "no message specified"),
    ],
)
def test_wrong_usage_is_code_2_and_one_line(
    desk: Desk, tool: str, arguments: list[str], message: str
) -> None:
    assert desk.call(desk.context(), tool, *arguments) == Answer(2, "", f"ERROR {message}\n")


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("action-get", [], "not running an action"),
        ("action-set", ["a=1"], "not running an action"),
        ("action-fail", ["x"], "not running an action"),
        (
            "relation-set",
            ["-r", "1", "--file", "absent.yaml"],
            "open absent.yaml: no such file or directory",
        ),
    ],
)
def test_refusals_are_code_1(desk: Desk, tool: str, arguments: list[str], message: str) -> None:
    assert desk.call(desk.context(), tool, *arguments) == Answer(1, "", f"ERROR {message}\n")


def test_relation_get_defaults_to_the_remote_unit_of_the_hook(desk: Desk) -> None:
    context = desk.context(hook=desk.changed())
    assert desk.call(context, "relation-get", "k").stdout == "v\n"
    assert desk.call(context, "relation-get", "--format=json", "-").stdout == (
        '{"empty-not":"x","k":"v"}\n'
    )
    assert desk.call(context, "relation-get", "--app", "-").stdout == "app: b\n"
    assert desk.call(context, "relation-get", "absent").stdout == ""
    assert desk.call(context, "relation-get", "--format=json", "absent").stdout == "null\n"


def test_relation_get_in_an_application_event_reads_the_application(desk: Desk) -> None:
    info = HookInfo(kind="relation-changed", relation_id=desk.number, remote_app="b")
    assert desk.call(desk.context(hook=info), "relation-get").stdout == "app: b\n"


@pytest.mark.parametrize(
    ("unit", "relation", "who", "expected"),
    [
        ("a/0", "db", ["a", "--app"], "app: a\n"),  # leader, own application
        ("a/1", "db", ["a", "--app"], "ERROR permission denied\n"),
        ("a/1", "db", ["b", "--app"], "app: b\n"),  # remote application: everybody
        ("a/1", "ring", ["a", "--app"], "ring: '1'\n"),  # peers: everybody
        ("a/0", "ring", ["a", "--app"], "ring: '1'\n"),
        ("a/0", "db", ["a/1"], "ERROR permission denied\n"),  # sibling outside a peer relation
        ("a/0", "db", ["c", "--app"], "ERROR permission denied\n"),
        ("a/0", "db", ["b/0", "--app"], "app: b\n"),  # a unit name stands for its application
    ],
)
def test_who_may_read_what(
    desk: Desk, unit: str, relation: str, who: list[str], expected: str
) -> None:
    number = desk.number if relation == "db" else desk.ring
    answer = desk.call(desk.context(unit), "relation-get", "-r", str(number), "-", *who)
    assert answer.stdout + answer.stderr == expected


def test_settings_of_a_unit_that_never_came(desk: Desk) -> None:
    answer = desk.call(desk.context(), "relation-get", "-r", str(desk.number), "-", "b/7")
    assert answer.stderr == (
        'ERROR cannot read settings for unit "b/7" in relation "b:db a:db": settings not found\n'
    )


def test_only_the_leader_writes_the_application_databag(desk: Desk) -> None:
    number = str(desk.number)
    answer = desk.call(desk.context("a/1"), "relation-set", "-r", number, "--app", "x=1")
    assert answer == Answer(1, "", "ERROR cannot write relation settings\n")
    leader = desk.context("a/0")
    assert desk.call(leader, "relation-set", "-r", number, "--app", "x=1").code == 0
    read = desk.call(leader, "relation-get", "-r", number, "--app", "--format=json", "-", "a")
    assert json.loads(read.stdout) == {"app": "a", "x": "1"}


def test_own_writes_are_seen_by_the_writer_only_until_the_hook_ends(desk: Desk) -> None:
    number = str(desk.number)
    writer, sibling = desk.context("a/0"), desk.context("b/0")
    desk.call(writer, "relation-set", "-r", number, "mine=1", "private-address=")
    own = desk.call(writer, "relation-get", "-r", number, "--format=json", "-", "a/0")
    assert json.loads(own.stdout) == {
        "mine": "1",
        "egress-subnets": "252.0.0.1/32",
        "ingress-address": "252.0.0.1",
    }
    assert desk.call(sibling, "relation-get", "-r", number, "mine", "a/0").stdout == ""
    with desk.store.transaction() as document:
        writer.flush(document)
    # What a hook has read stays as it read it.
    assert desk.call(sibling, "relation-get", "-r", number, "mine", "a/0").stdout == ""
    assert (
        desk.call(desk.context("b/0"), "relation-get", "-r", number, "mine", "a/0").stdout == "1\n"
    )


def test_relation_set_takes_yaml_from_standard_input_and_files(desk: Desk, tmp_path: Path) -> None:
    context, number = desk.context(), str(desk.number)
    with pytest.raises(NeedStdinError):
        desk.call(context, "relation-set", "-r", number, "--file", "-")
    text = yaml.safe_dump({"long": "x" * 200_000, "number": "007", "multi": "a\nb: c"})
    desk.call(context, "relation-set", "-r", number, "--file", "-", "over=1", stdin=text.encode())
    (desk.folder / "more.yaml").write_text("plain: 1.50\nover: 2\nword: true\n")
    assert (
        desk.call(context, "relation-set", "-r", number, "--file", "more.yaml", "over=3")
        == Answer()
    )
    read = desk.call(context, "relation-get", "-r", number, "--format=json", "-", "a/0")
    result = json.loads(read.stdout)
    assert result["long"] == "x" * 200_000
    assert {k: result[k] for k in ("number", "multi", "plain", "over", "word")} == {
        "number": "007",
        "multi": "a\nb: c",
        "plain": "1.50",
        "over": "3",
        "word": "true",
    }


@pytest.mark.parametrize(
    "content", [b"- a\n- b\n", b"a: [1]\n", b"a: {b: c}\n", b"\x80abc", b"a: 'x\n"]
)
def test_relation_set_refuses_files_that_are_no_map_of_text(desk: Desk, content: bytes) -> None:
    context = desk.context()
    answer = desk.call(
        context, "relation-set", "-r", str(desk.number), "--file", "-", stdin=content
    )
    assert answer.code == 1
    assert answer.stderr.startswith("ERROR yaml: ")
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("relation-joined", ["b/0"]), ("relation-changed", ["b/0"]), ("relation-departed", [])],
)
def test_relation_list_in_relation_hooks(desk: Desk, kind: str, expected: list[str]) -> None:
    if kind == "relation-joined":
        with desk.store.transaction() as document:
            document.units["a/0"].relations[desk.number] = UnitRelation(created=True)
    context = desk.context(hook=desk.changed(kind))
    assert json.loads(desk.call(context, "relation-list", "--format=json").stdout) == expected
    assert desk.call(context, "relation-list", "--app").stdout == "b\n"
    assert desk.call(context, "relation-get", "k", "b/0").stdout == "v\n"


def test_departing_units_that_have_not_joined_here_are_not_listed(desk: Desk) -> None:
    """Only what this unit was told counts, not who is in the relation by now."""
    answer = desk.call(desk.context("a/1"), "relation-list", "-r", str(desk.number))
    assert answer == Answer()


def test_relation_ids(desk: Desk) -> None:
    context = desk.context(hook=desk.changed())
    assert desk.call(context, "relation-ids", "--format=json").stdout == f'["db:{desk.number}"]\n'
    assert desk.call(context, "relation-ids", "ring").stdout == f"ring:{desk.ring}\n"
    assert desk.call(context, "relation-ids", "nope", "--format=json").stdout == "[]\n"


def test_databags_are_out_of_reach_during_install(desk: Desk) -> None:
    with desk.store.transaction() as document:
        unit = document.units["a/0"]
        unit.installed, unit.relations = False, {}
        document.relations[desk.ring].in_scope.remove("a/0")
        document.relations[desk.number].in_scope.remove("a/0")
    context = desk.context(hook=HookInfo(kind="install"))
    ring = str(desk.ring)
    assert desk.call(context, "relation-ids", "ring").stdout == f"ring:{desk.ring}\n"
    denied = desk.call(context, "relation-get", "-r", ring, "-", "a", "--app")
    assert denied == Answer(1, "", "ERROR permission denied\n")
    denied = desk.call(context, "relation-set", "-r", ring, "--app", "k=v")
    assert denied.stderr == "ERROR cannot read relation application settings: permission denied\n"
    denied = desk.call(context, "relation-set", "-r", ring, "k=v")
    assert denied.stderr == "ERROR cannot read relation settings: permission denied\n"


def test_application_databag_cannot_be_written_in_relation_broken(desk: Desk) -> None:
    info = HookInfo(kind="relation-broken", relation_id=desk.number, remote_app="b")
    context = desk.context(hook=info)
    answer = desk.call(context, "relation-set", "--app", "k=v")
    assert answer.stderr == (
        "ERROR cannot read relation application settings: permission denied (unauthorized access)\n"
    )
    ring = desk.call(context, "relation-set", "-r", str(desk.ring), "--app", "k=v")
    assert ring == Answer()


def test_status_set_is_immediate_and_status_get_reads_it(desk: Desk) -> None:
    context = desk.context()
    assert desk.call(context, "status-set", "blocked", "no peer").code == 0
    assert desk.store.read().units["a/0"].workload.message == "no peer"
    assert desk.call(context, "status-get", "--application=False").stdout == "blocked\n"
    result = desk.call(context, "status-get", "--include-data", "--format=json").stdout
    assert json.loads(result) == {"status": "blocked", "message": "no peer", "status-data": {}}
    assert desk.call(context, "status-get", "--format=json").stdout == '{"status":"blocked"}\n'


def test_action_tools(desk: Desk) -> None:
    action = ActionDocument(
        id="1", unit="a/0", name="x", params={"link": "s6a", "deep": {"er": [1, True]}}
    )
    context = desk.context(action=action)
    assert desk.call(context, "action-get", "link").stdout == "s6a\n"
    assert desk.call(context, "action-get", "deep.er", "--format=json").stdout == "[1,true]\n"
    assert desk.call(context, "action-get", "deep.no.more").stdout == ""
    assert desk.call(context, "action-set", "a.b=1", "a.c=2=3", "output={}\n").code == 0
    assert action.results == {"a": {"b": "1", "c": "2=3"}, "output": "{}\n"}
    assert desk.call(context, "action-set", "A=1").code == 2
    assert desk.call(context, "action-set", "novalue").code == 2
    assert desk.call(context, "action-set", "ok=1", "stdout=x").stderr == (
        'ERROR cannot set reserved action key "stdout"\n'
    )
    assert "ok" not in action.results
    desk.call(context, "action-fail")
    assert context.action_failed
    assert action.message == "action failed without reason given, check action for errors"
    desk.call(context, "action-fail", "the peer is gone")
    assert action.message == "the peer is gone"


def test_goal_state(desk: Desk) -> None:
    result = json.loads(desk.call(desk.context(), "goal-state", "--format=json").stdout)
    assert set(result["units"]) == {"a/0", "a/1"}
    assert set(result["relations"]["db"]) == {"b", "b/0"}
    assert "ring" not in result["relations"]


def test_is_leader_and_the_rest(desk: Desk) -> None:
    assert desk.call(desk.context("a/0"), "is-leader").stdout == "True\n"
    assert desk.call(desk.context("a/1"), "is-leader", "--format=json").stdout == "false\n"
    context = desk.context()
    result = desk.call(
        context, "relation-model-get", "-r", str(desk.number), "--format=json"
    ).stdout
    assert json.loads(result) == {"uuid": desk.store.document.uuid}


def test_a_leader_deposed_in_mid_hook_writes_nothing(desk: Desk) -> None:
    context = desk.context("a/0")
    desk.call(context, "relation-set", "-r", str(desk.number), "--app", "x=1")
    desk.call(context, "relation-set", "-r", str(desk.number), "mine=1")
    with desk.store.transaction() as document:
        document.apps["a"].leader = "a/1"
    with (
        pytest.raises(Exception, match='"a/0" is not leader of "a"'),
        desk.store.transaction() as document,
    ):
        context.flush(document)
    relation = desk.store.document.relations[desk.number]
    assert "x" not in relation.apps["a"].data
    assert "mine" not in relation.units["a/0"].data


@pytest.mark.parametrize(
    "tool", ["secret-get", "state-get", "add-metric", "k8s-raw-set", "juju-run"]
)
def test_tools_of_other_versions_are_absent(tool: str) -> None:
    assert tool not in TOOLS


def test_an_error_of_the_lab_is_an_answer_and_in_the_log(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(context: HookContext, request: Request) -> Answer:
        raise RecursionError("too deep")

    monkeypatch.setitem(TOOLS, "config-get", fail)  # type: ignore[arg-type]
    server = ToolServer(tmp_path / "context", desk.context())
    try:
        answer = server._answer([b"/", b"config-get"], None)
    finally:
        server.close()
    assert answer[0] == 1
    assert answer.endswith(b"ERROR internal error\n")
    assert "RecursionError: too deep" in caplog.text


@pytest.mark.parametrize("unit", ["a/0", "a/1"])
def test_the_status_of_an_application_is_refused_and_that_of_the_unit_stays(
    desk: Desk, unit: str
) -> None:
    context = desk.context(unit)
    assert desk.call(context, "status-set", "--application=False", "blocked", "mine").code == 0
    refusal = "ERROR the lab has no status of an application, only of its units\n"
    for words in (["status-set", "--application", "active", "x"], ["status-get", "--application"]):
        assert desk.call(context, *words) == Answer(1, "", refusal)
    assert desk.call(context, "status-get").stdout == "blocked\n"
