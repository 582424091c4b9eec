"""The agent, run as the SSH edge runs it: a program on standard input of python3."""

import json
import os
import pathlib
import shutil
import socket
import stat
from io import StringIO

import attr
import pytest
from agent_support import execute
from vpnaas.base.errors import VduError
from vpnaas.params.intent import link_params
from vpnaas.plan import TABLE, Plan, diagnose_steps
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import installed, steps, trouble
from vpnaas.vdu.file_cache import FileCache
from vpnaas.vdu.programs import agent, est, secret_store

pytestmark = pytest.mark.slow


def test_files_are_written_once_and_atomically(tmp_path):
    path = str(tmp_path / "conf")
    first = execute(steps.write("w", path, "hello\n", 0o600), steps.read("r", path)).check()
    assert first.text("r") == "hello\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    inode = os.stat(path).st_ino
    execute(steps.write("w", path, "hello\n", 0o600)).check()
    assert os.stat(path).st_ino == inode
    assert os.listdir(tmp_path) == ["conf"]


def test_folders_that_are_missing_are_made_for_everyone_to_read(tmp_path):
    folder = tmp_path / "lib" / "programs"
    execute(steps.write("w", str(folder / "run"), "text\n", 0o755)).check()
    assert [stat.S_IMODE(made.stat().st_mode) for made in (folder.parent, folder)] == [0o755] * 2


def test_secrets_go_from_program_to_file_and_not_to_the_caller(tmp_path):
    path = str(tmp_path / "key")
    results = execute(steps.run("k", "printf", "secret", stdout_file=path)).check()
    assert results.output("k") == ""
    assert (tmp_path / "key").read_text() == "secret"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    again = execute(steps.run("k", "printf", "other", stdout_file=path, unless=path)).check()
    assert again.exit_code("k") is None
    assert (tmp_path / "key").read_text() == "secret"


def test_a_failing_program_leaves_the_file_it_was_to_fill(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    execute(steps.run("k", "false", stdout_file=str(path), any_exit=True)).check()
    assert path.read_text() == "old"


@pytest.mark.parametrize("path", ["/opt/odd", None])
def test_programs_are_found_where_a_profile_has_another_path(path, monkeypatch):
    monkeypatch.delenv("PATH") if path is None else monkeypatch.setenv("PATH", path)
    results = execute(steps.run("x", "true"), steps.which("w", ["sshd"])).check()
    assert results.paths("w") == {"sshd": shutil.which("sshd", path=agent.PATH)}


def test_a_program_asks_name_servers_that_drop_for_seconds_only():
    results = execute(steps.run("names", "printenv", "RES_OPTIONS")).check()
    assert results.out("names") == "timeout:2 attempts:2\n"


@pytest.mark.parametrize("program", [est, secret_store])
def test_a_server_without_an_address_is_named_in_words(program, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    sentence = "the VDU's name servers give no address of"
    if program is est:
        said = StringIO()
        monkeypatch.setattr(est, "enrol", lambda words: socket.create_connection((words[1], 443)))
        monkeypatch.setattr("sys.stderr", said)
        assert est.main(["simpleenroll", "ra.op.example", *6 * "x"]) == 1
        assert said.getvalue() == f"{sentence} ra.op.example\n"
    else:
        monkeypatch.setattr("ssl.SSLContext.load_verify_locations", lambda *_, **__: None)
        with pytest.raises(secret_store.StoreError, match=f"^{sentence} the store$"):
            secret_store.Store("vault.op.example:8200", "").ask("GET", "x", "y")


def test_arguments_meet_no_shell(tmp_path):
    hostile = f"$(touch {tmp_path}/pwned); `id` | '\""
    results = execute(steps.run("e", "printf", "%s", hostile)).check()
    assert results.out("e") == hostile
    assert os.listdir(tmp_path) == []


def test_steps_stop_at_the_first_failure(tmp_path):
    results = execute(
        steps.run("bad", "sh", "-c", "echo why >&2; exit 3"),
        steps.write("never", str(tmp_path / "x"), ""),
    )
    assert "never" not in results
    with pytest.raises(VduError, match="why"):
        results.check()
    assert os.listdir(tmp_path) == []


def test_a_file_of_the_kernel_is_read():
    path = "/proc/sys/net/ipv4/ip_forward"
    assert execute(steps.read("a", path)).text("a") == pathlib.Path(path).read_text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[Interface]\nPrivateKey = abc\n" * 999, steps.FOREIGN),
        ("# Written by somebody\n", steps.FOREIGN),
        ("# Written by osm-vpnaas; more\n", "# Written by osm-vpnaas; more\n"),
        ("\n", "\n"),
    ],
)
def test_a_file_of_somebody_else_stays_on_the_vdu(text, shown, tmp_path):
    (tmp_path / "wg-s6a.conf").write_text(text)
    path, known = str(tmp_path / "wg-s6a.conf"), FileCache()
    for _ in range(2):
        step = steps.read("a", path, cacheable=True, mark=installed.MARK)
        assert execute(step, known=known).text("a") == shown
    assert known.get(path) is None
    execute(steps.remove("r", path, installed.MARK)).check()
    assert os.path.exists(path) == (shown == steps.FOREIGN)
    execute(steps.remove("r", path)).check()
    execute(steps.remove("r", path, installed.MARK)).check()
    assert not os.path.exists(path)


def test_the_agent_takes_its_lock_only_when_asked(tmp_path):
    assert execute(steps.run("t", "true")).check().exit_code("t") == 0
    if os.geteuid() == 0:
        assert execute(steps.run("t", "true"), exclusive=True).check().exit_code("t") == 0


def test_step_ids_must_be_unique():
    with pytest.raises(ValueError, match="repeat"):
        steps.program([steps.read("a", "/x"), steps.read("a", "/y")])


NO_RESULTS = [
    "",
    "Welcome to Ubuntu",
    "[]",
    "[" * 100000,
    '{"results": {}}',
    '{"results": [], "failed": null}',
    '{"results": {}, "failed": 5}',
    '{"results": {}, "failed": "\\ud800"}',
]
NO_RESULT = [
    "5",
    "[]",
    '{"code": "x", "out": ""}',
    '{"code": true, "out": ""}',
    '{"code": 1e999, "out": ""}',
    '{"code": 0, "out": 5}',
    '{"code": 1, "err": "\\ud800"}',
    '{"text": ["x"]}',
    '{"text": "\\ud800"}',
    '{"found": 5}',
    '{"found": {"wg": 5}}',
]


@pytest.mark.parametrize(
    "text",
    NO_RESULTS + ['{"results": {"x": ' + part + '}, "failed": null}' for part in NO_RESULT],
)
def test_an_answer_that_is_no_result_is_an_error(text):
    with pytest.raises(VduError, match="not an agent's result"):
        steps.Results.from_json(text)


def test_a_text_without_a_digest_is_not_stored():
    step, cache = steps.read("r", "/x", cacheable=True), FileCache()
    text = json.dumps({"results": {"r": {"text": "\ud800" * 2000}}, "failed": None})
    with pytest.raises(VduError, match="not an agent's result"):
        steps.Results.from_json(text, [step], cache)
    steps.program([step], True, FileCache.from_json(cache.to_json()))
    # Nor does one in the file last that another release of this charm has stored.
    stored = json.dumps({"/x": "\ud800" * 2000, "/y": LINES})
    steps.program([step], True, FileCache.from_json(stored))
    assert FileCache.from_json(stored).get("/y") == LINES
    cache.put("/x", "\ud800" * 2000)
    steps.program([step], True, cache)


LINES = "".join(f"line {number} of {number * 7919 % 1000}\n" for number in range(1000))


def test_of_a_file_that_was_read_only_what_changes_travels(tmp_path):
    path, sizes = str(tmp_path / "conf"), []
    execute(steps.write("w", path, LINES), sizes=sizes)
    after = LINES.replace("line 500 of", "here, \u00fcber 500 of")
    changed = steps.write("w", path, after, 0o600, before=LINES)
    assert "line 499" not in steps.program([changed])
    execute(changed, sizes=sizes).check()
    assert (tmp_path / "conf").read_text() == after
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert sizes[1][0] < 600 < 3000 < sizes[0][0]
    again = steps.write("w", path, LINES, before=after)
    execute(again).check()
    assert (tmp_path / "conf").read_text() == LINES


def test_a_file_that_somebody_else_changed_is_not_patched(tmp_path):
    path = tmp_path / "conf"
    path.write_text("of somebody else\n")
    after = LINES + "one more\n"
    with pytest.raises(VduError, match="conf has changed since it was read"):
        execute(steps.write("w", str(path), after, before=LINES)).check()
    assert path.read_text() == "of somebody else\n"
    # What the same request did to the file before is no surprise.
    gone = steps.remove("r", str(path))
    execute(gone, steps.write("w", str(path), after, before=LINES)).check()
    assert path.read_text() == after


def test_a_text_that_is_known_is_not_sent_again(tmp_path):
    path, secret, sizes = tmp_path / "conf", tmp_path / "secret", []
    path.write_text(LINES)
    secret.write_text(LINES)
    listed = (steps.read("c", str(path), cacheable=True), steps.read("s", str(secret)))
    known = FileCache()
    for _ in range(2):
        results = execute(listed[0], known=known, sizes=sizes)
        assert results.text("c") == LINES
    assert sizes[1][1] < 100 < 3000 < sizes[0][1]
    execute(*listed, known=known)
    assert known.get(str(secret)) is None
    again = FileCache.from_json(known.to_json())
    path.write_text(LINES + "more\n")
    assert execute(listed[0], known=again).text("c") == LINES + "more\n"
    path.unlink()
    assert execute(listed[0], known=again).text("c") is None
    assert again.get(str(path)) is None


def test_an_answer_may_not_claim_what_was_not_asked_for():
    text = '{"results": {"r": {"same": true}}, "failed": null}'
    with pytest.raises(VduError, match="not an agent's result"):
        steps.Results.from_json(text, [steps.read("r", "/x", cacheable=True)], FileCache())


def test_an_answer_that_unpacks_to_more_than_is_allowed_is_refused(monkeypatch):
    packed = execute(steps.run("x", "seq", "10000"))
    assert len(packed.output("x")) > 40000
    monkeypatch.setattr(steps, "MOST", 1000)
    with pytest.raises(VduError, match="not an agent's result"):
        execute(steps.run("x", "seq", "10000"))
    with pytest.raises(VduError, match="too large"):
        steps.program([steps.write("w", "/x", LINES)])


def test_of_what_a_program_prints_only_what_is_picked_travels():
    results = execute(steps.run("x", "printf", "name=%s secret\\n", "a", "b", pick=r"name=(\w)"))
    assert results.out("x") == "a\nb"


def test_a_failure_ends_its_part_and_what_needs_it_and_nothing_else(tmp_path):
    def step(id, *argv, part, needs="", **options):
        return attr.evolve(steps.run(id, *argv, **options), part=part, needs=needs)

    results = execute(
        step("a/1", "false", part="a"),
        step("a/2", "true", part="a"),
        step("b/1", "true", part="b"),
        step("b/2", "sleep", "9", part="b", timeout=1),
        step("c/1", "true", part="c", needs="b"),
        step("d/1", "true", part="d"),
    ).check()
    assert results.ids() == ["b/1", "d/1"]
    assert {part: cause.step.id for part, cause in results.broken.items()} == {
        "a": "a/1",
        "b": "b/2",
        "c": "b/2",
    }
    assert results.broken["b"].sentence() == "sleep did not end within 1 s on the VDU"


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            steps.write("w", "{}/folder", "x"),
            "{}/folder is a folder on the VDU, where a file belongs",
        ),
        (steps.write("w", "{}/file/x", "x"), "a folder of {}/file/x is a file on the VDU"),
        (steps.write("w", "/dev/full/x", "x"), "a folder of /dev/full/x is a file on the VDU"),
        (steps.write("w", "/proc/version", "x"), "/proc/version cannot be used on the VDU"),
        (
            steps.run("r", "openssl", "pkey", "-pubout", stdin_file="{}/file"),
            "openssl cannot use {}/file of the VDU; it may be empty or damaged",
        ),
        (
            steps.run("r", "systemctl", "restart", "no-such.service"),
            "no-such.service of the VDU does not restart",
        ),
    ],
)
def test_what_the_kernel_or_a_tool_says_becomes_a_sentence(step, sentence, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    body = json.loads(json.dumps(dict(step.body)).replace("{}", str(tmp_path)))
    results = execute(attr.evolve(step, body=body, part="a"))
    assert results.broken["a"].sentence() == sentence.replace("{}", str(tmp_path))


def test_the_warning_in_a_frame_is_not_why_a_unit_failed():
    """wireguard-go draws it at each start, also where all is well."""
    text = "\u250c\u2500\u2510\n\u2502 please visit: \u2502\n[#] wg set\nRTNETLINK answers: no\n"
    results = steps.Results({"at/journal": {"code": 0, "out": text}})
    assert trouble.journal(results, "at") == "RTNETLINK answers: no"


#: A folder on a disk of its own, with one file on it.
FULL = "mount -t tmpfs -o size=4k none $1 && head -c 4096 /dev/zero >$1/full"
READ_ONLY = "mount -t tmpfs none $1 && echo x >$1/x && mount -o remount,ro $1"


@pytest.mark.parametrize(
    ("disk", "step", "sentence"),
    [
        (FULL, steps.write("w", "{}/x", "x"), "there is no room left for {}/x on the VDU"),
        (
            FULL,
            steps.run("k", "wg", "genkey", stdout_file="{}/key"),
            "there is no room left for {}/key on the VDU",
        ),
        (
            FULL,
            steps.run("r", "cp", "/etc/passwd", "{}/x"),
            "there is no room left for files of cp on the VDU",
        ),
        (
            READ_ONLY,
            steps.write("w", "{}/x", "other"),
            "{}/x is on a read-only file system of the VDU",
        ),
        (READ_ONLY, steps.remove("d", "{}/x"), "{}/x is on a read-only file system of the VDU"),
        (
            READ_ONLY,
            steps.run("r", "cp", "/etc/passwd", "{}/new"),
            "cp /etc/passwd {}/new failed: the VDU's disk is read-only",
        ),
    ],
)
@pytest.mark.parametrize("part", ["a", ""])
def test_a_full_or_read_only_disk_is_named(disk, step, sentence, part, tmp_path):
    own = (
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        disk + ' && exec "${@:2}"',
    )
    own = (*own[:4], "bash", *own[5:], "bash", str(tmp_path))
    body = json.loads(json.dumps(dict(step.body)).replace("{}", str(tmp_path)))
    results = execute(attr.evolve(step, body=body, part=part), within=own)
    if not part:
        # It ends all, as a step of the facts does.
        with pytest.raises(VduError) as error:
            results.check()
        said = str(error.value)
    else:
        said = results.broken[part].sentence()
    assert said == sentence.replace("{}", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("no-such", "x"), "the VDU has no no-such; its image or Day-0 cloud-init must install it"),
        (("sleep", "9"), "sleep did not end within 1 s on the VDU"),
        (
            ("ip", "-j", "address", "show", "dev", "x"),
            'ip -j address show failed on the VDU (Device "x" does not exist.)',
        ),
        (
            ("python3", "-c", "raise SystemExit('no')"),
            "a program of the charm failed on the VDU (no)",
        ),
        (("nft", "-f", "{}/old"), "nft of the VDU is too old for our rules"),
        (
            ("nft", "-f", "{}/twice"),
            "rules of others on the VDU have the names of ours; see `nft list ruleset`",
        ),
        (
            ("nft", "list", "table", "inet", "x"),
            "the kernel of the VDU lacks features that our rules of nftables need",
        ),
    ],
)
def test_a_step_that_ends_all_is_told_in_a_sentence(words, sentence, tmp_path):
    (tmp_path / "old").write_text("table inet x { chain y { typo } }")
    (tmp_path / "twice").write_text("create table inet x\ncreate table inet x\n")
    words = [word.replace("{}", str(tmp_path)) for word in words]
    within = ("unshare", "--user", "--map-root-user", "--net")
    seconds = 1 if words[0] == "sleep" else 60
    with pytest.raises(VduError) as error:
        execute(steps.run("facts/x", *words, timeout=seconds), within=within).check()
    assert str(error.value) == sentence


NO_VICI = """swanctl --load-creds --noprompt: Error: connecting to 'unix:///x' URI failed: No
strongSwan 5.9.8 swanctl
usage:
  swanctl --load-creds [--raw|--pretty] [--clear] [--noprompt]
           --uri             (-u)  service URI to connect to"""


def test_no_usage_of_swanctl_reaches_the_operator():
    cause = steps.Broken(steps.run("s6a/apply/load-creds", "swanctl", "--load-creds"), NO_VICI)
    assert cause.sentence() == (
        "swanctl --load-creds failed: charon takes no commands there; its plugin vici may be off"
    )


@pytest.mark.parametrize(
    ("step", "why", "sentence"),
    [
        (
            steps.run("s6a/public", "wg", "pubkey", stdin_file="/k", timeout=30),
            "wg did not end within 30 s",
            "wg did not end within 30 s on the VDU",
        ),
        (
            steps.run("s6a/public", "wg", "pubkey", stdin_file="/k"),
            "wg pubkey: wg: Key is not the correct length or format",
            "the private key of s6a in /etc/osm-vpnaas/s6a/private.key of the VDU is empty or"
            " damaged; rotate-keys with force makes a new one",
        ),
        (
            steps.write("s6a/apply/file", "/etc/wireguard/wg-s6a.conf", "x"),
            "[Errno 28] No space left on device: '/etc/wireguard/.osm-vpnaas-x'",
            "there is no room left for /etc/wireguard/wg-s6a.conf on the VDU",
        ),
        (
            steps.enable("s6a/apply/enable", "wg-quick@wg-s6a.service"),
            "Failed to enable unit: Unit file /etc/systemd/system/wg-quick@.service is masked.",
            "wg-quick@wg-s6a.service of the VDU is masked; see `systemctl unmask`",
        ),
    ],
)
def test_a_cause_that_the_agent_names_is_not_taken_for_another(step, why, sentence):
    """The unit's journal may have other words, of an earlier failure."""
    params = link_params({"link": "s6a", "inner-address": "10.0.0.1/24"})
    cause = steps.Broken(attr.evolve(step, part="s6a"), why)
    wireguard = TABLE["wireguard"]
    assert wireguard.reason(params, cause) == sentence
    results = steps.Results({}, None, {"s6a": cause})
    plan = Plan(0, {"s6a": LinkPlan(params)}, ())
    assert bool(diagnose_steps(plan, results)) == ("damaged" in sentence)
