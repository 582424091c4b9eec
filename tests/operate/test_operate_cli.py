"""What an operator reads if a client, a file or an OSM is not as it must be."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result
from rich.table import Table
from rich.text import Text

from builder.terminal import PlainConsole
from lab.certificates import self_signed
from operate import nbi as nbi_module
from operate.acceptance.report import Report
from operate.acceptance.run import Acceptance
from operate.cli import main
from operate.client import OperateError
from operate.join import End, join
from operate.links import links
from operate.nbi import Nbi
from operate.osm import NS_OPERATIONS, NSI_OPERATIONS, SERVICES, Osm
from operate.slices import Joiner
from operate.targets import targets

RECORD = (
    "{constituent-vnfr-ref: [x], member-vnf-index-ref: m, nsr-id-ref: n, ip-address: 192.0.2.1, "
    "vdur: [{vdu-id-ref: v, count-index: 0}]}"
)
GONE = "{_admin: {deployed: {VCA: [{member-vnf-index: m, vdu_id: v, vdu_count_index: 1}]}}, "


def run(*words: object) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def client(tmp_path: Path) -> Callable[[bytes], str]:
    def made(text: bytes) -> str:
        (tmp_path / "answer").write_bytes(text)
        script = tmp_path / "osm"
        script.write_text(f"#!/bin/sh\ncat {tmp_path / 'answer'}\n")
        script.chmod(0o755)
        return str(script)

    return made


@pytest.mark.parametrize("command", ["", "  ", '"osm'])
def test_a_client_that_is_no_command_is_refused(command: str) -> None:
    result = run("targets", "ns", "--client", command)
    assert result.exit_code == 2
    assert "is no command; allowed: one like osm" in result.output


@pytest.mark.parametrize("text", [b"\xe9\xe8", b"d: 2024-99-99", b"<html>", b"[]", b"a: ["])
def test_a_client_that_prints_no_record(client: Callable[[bytes], str], text: bytes) -> None:
    result = run("targets", "ns", "--client", client(text))
    assert (result.exit_code, result.output) == (
        1,
        "Error: ns-show --literal printed no document\n",
    )


def test_an_instance_that_is_being_removed_has_no_address(client: Callable[[bytes], str]) -> None:
    result = run("targets", "ns", "--client", client((GONE + RECORD[1:]).encode()))
    assert (result.exit_code, result.output) == (1, "Error: ns/m has no management address\n")


@pytest.mark.parametrize(
    ("name", "ns", "good"),
    [
        ("a/b", "a/b", True), ("a/b/m", "a/b", True), ("a/b/other", "a/b", False),
        ("c/m", "c", True), ("c", "c", True), ("d/m", "d", False),
    ],
)  # fmt: skip
def test_targets_of_a_service_with_a_slash(
    name: str, ns: str, good: bool, client: Callable[[bytes], str], tmp_path: Path
) -> None:
    command = client(RECORD.encode())
    script = tmp_path / "osm"
    known = (
        'for last; do :; done\ncase $last in a/b | c | x) ;; *) echo "no $last" >&2; exit 1 ;; esac'
    )
    script.write_text(script.read_text().replace("cat ", f"{known}\ncat "))
    result = run("targets", name, "--client", command)
    assert (result.exit_code == 0) == good, result.output
    assert (f"ns: {ns}\n" if good else f"{ns}") in result.output


def test_an_end_of_a_service_with_a_slash_is_named_by_id() -> None:
    result = run("join", "a/b/hub:s1", "west/spoke:s1@192.0.2.1", "--client", "false")
    assert result.exit_code == 1
    assert "NS is the service's id where its name has '/'" in result.output


def test_targets_that_cannot_be_written(client: Callable[[bytes], str], tmp_path: Path) -> None:
    out = tmp_path / "none" / "targets.yaml"
    result = run("targets", "ns", "--client", client(RECORD.encode()), "--out", out)
    assert result.exit_code == 1
    assert re.search(r"\.targets\.yaml\.\w+: No such file or directory\n$", result.output)
    assert run("targets", "ns", "--port", "99999").exit_code == 2


def test_targets_are_written_in_one_step_under_a_name_of_their_own(
    client: Callable[[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs may have the same process id, in containers that share the folder."""
    out, staged = tmp_path / "targets.yaml", []
    replace = os.replace

    def note(source: str, target: Path) -> None:
        staged.append(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    for _ in range(2):
        done = run("targets", "ns", "--client", client(RECORD.encode()), "--out", out)
        assert done.exit_code == 0
    assert len(set(staged)) == 2
    assert [path.name for path in tmp_path.glob("*targets*")] == ["targets.yaml"]
    assert out.stat().st_mode & 0o777 == 0o644


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request in the same way, but for OSM's version."""

    status = 200
    body = b""

    def _answer(self) -> None:
        body = b'{"version": "19.0.0"}' if self.path == "/osm/version" else self.body
        self.send_response(200 if self.path == "/osm/version" else self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def osm() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"detail": "Invalid credentials"}', "OSM takes no user 'admin' of project 'admin'"),
        (500, b'{"detail": "Timeout of the database"}', "token: OSM refuses it."),
        (503, b"<html>", "HTTP status 503"),
        (200, b"<html>", "answers no JSON; is that an OSM?"),
        (200, b'{"id": "a', "answers no JSON; is that an OSM?"),
        (200, b"[]", "answers no record; is that an OSM?"),
        (200, b"{}", "answers no token; is that an OSM?"),
        (200, b"", "answers no record; is that an OSM?"),
    ],
)
def test_what_a_login_says(
    osm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, words: str
) -> None:
    monkeypatch.setattr(Answers, "status", status)
    monkeypatch.setattr(Answers, "body", body)
    result = run("acceptance", "--osm", osm, "--vim", "v", "--out", tmp_path / "page.html")
    assert result.exit_code == 1
    assert words in result.output
    assert ("takes no user" in result.output) == (status == 401)
    assert "LCM" not in result.output


def test_a_new_token_takes_the_old_one_from_no_other_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nbi, sent = Nbi("https://127.0.0.1:9"), list[str | None]()

    def send(request: requests.PreparedRequest, **_: object) -> requests.Response:
        sent.append(request.headers.get("Authorization"))
        if len(sent) == 2:
            nbi.version()  # of another thread, while this one waits for the new token
        answer = requests.Response()
        answer.status_code, answer._content = 200, b'{"id": "t"}'
        return answer

    monkeypatch.setattr(nbi._session, "send", send)
    nbi.log_in("admin", "admin", "admin")
    nbi.log_in("admin", "admin", "admin")
    assert sent == [None, None, "Bearer t"]


HOSTILE: list[Any] = [
    None, 5, "x", [], {}, [None], [5], [[]], ["x"], {"id": None}, {"_id": []}, [{"_id": 5}],
    [{"name": {}, "_id": None}], {"operationState": []}, {"operationState": "FAILED"},
    {"operationState": "COMPLETED", "detailed-status": []}, [{"name": "x", "_admin": []}],
    [{"name": "x", "_id": "x", "_admin": {"deployed": [1]}}],
    {"name": "x", "_id": "x", "id": "x", "_admin": {"deployed": {"VCA": [5]}}},
    {"name": "x", "_admin": {"deployed": {"VCA": [{"member-vnf-index": 1, "vdu_id": "v",
                                                   "vdu_count_index": "x"}]}}},
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=str)
def test_what_an_osm_answers_is_used_or_refused(answer: Any) -> None:
    nbi = Nbi("https://127.0.0.1:9", pause=0.0)
    nbi._send = lambda *_, **__: answer  # type: ignore[method-assign]
    osm = Osm(nbi, limit=0.0)
    tried: list[Callable[[], object]] = [
        lambda: nbi.upload("/x", Path(__file__)),
        lambda: osm.required("/x", name="x"),
        lambda: osm.delete_named(SERVICES, "x"),
        lambda: osm.operate("x", "v", "d", "stop"),
        lambda: osm.action("x", "v", "show-status", {}),
        lambda: links(osm, []),
        lambda: links(osm, ["x"]),
        lambda: targets(osm, ["x"], 9815, False),
        lambda: Joiner(osm, lambda _: None).step("x"),
        lambda: join(osm, End.parse("x/v:s1@192.0.2.1"), End.parse("y/v:s1")),
        lambda: Acceptance(nbi, Path(), "x", Report("o", "x", lambda _: None), 0).run(*"upp", True),
    ]
    for act in tried:
        with contextlib.suppress(OperateError):
            act()


def test_what_is_waited_for_is_named_when_the_wait_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By Ctrl-C or by the time limit; OSM does not cancel the operation."""
    nbi = Nbi("https://127.0.0.1:9", pause=0.0)
    monkeypatch.setattr(nbi, "_send", lambda *_, **__: {"operationState": "PROCESSING"})
    osm = Osm(nbi, limit=0.0)
    waits: list[tuple[str, Callable[[], object]]] = [
        ("osm ns-op-show one", lambda: osm.finished(NS_OPERATIONS, "one")),
        ("osm nsi-op-show one", lambda: osm.finished(NSI_OPERATIONS, "one")),
    ]
    for follow, wait in waits:
        with pytest.raises(OperateError, match=f"not done after 0 s and goes on; .* {follow}"):
            wait()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(nbi, "_send", interrupted)
    for follow, wait in waits:
        with pytest.raises(KeyboardInterrupt):
            wait()
        said = f"operation one goes on; follow it with: {follow}\n"
        assert capsys.readouterr().err == said


LINK = {"public-key": "k", "inner-address": "10.0.0.1/24", "listen-port": 51820, "state": "up"}
STATUSES: list[Any] = [
    {}, {"s1": None}, {"s1": []}, {"s1": 5}, {"s1": {}}, {"s1": {**LINK, "inner-address": "x"}},
    {"s1": {**LINK, "inner-address": [1]}}, {"s1": {**LINK, "inner-address": 10**30}},
    {"s1": {**LINK, "listen-port": None}}, {"s1": {**LINK, "listen-port": "x"}},
    {"s1": {**LINK, "listen-port": float("inf")}}, {"s1": {"public-key": "k"}},
    {"s1": LINK, "network-function": []}, {"s1": LINK, "network-function": {"functions": "x"}},
    {"s1": LINK, "network-function": {"functions": {"s1": 5}}},
    {"s1": LINK, "network-function": {"functions": {"s1": {"a": [1]}}}},
    {"s1": {"state": "\x1b]52;c;aGk=\x07 \u202e down"}},
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES, ids=ascii)
@pytest.mark.parametrize("verb", ["join", "part"])
def test_what_a_vnf_answers_to_join_is_used_or_refused(
    verb: str, status: Any, client: Callable[[bytes], str]
) -> None:
    record = {"operationState": "COMPLETED", "detailed-status": {"output": json.dumps(status)}}
    command = client(json.dumps(record).encode())
    ends = ("a/b:s1@192.0.2.1", "c/d:s1") if verb == "join" else ("a/b:s1", "c/d:s1")
    result = run(verb, *ends, "--client", command)
    assert result.output.startswith("Error: ") == bool(result.exit_code)
    assert re.fullmatch(r"[ -~\n]+", result.output), ascii(result.output)


@pytest.mark.parametrize("output", ["[" * 100_000, "[]", "5", "\x1b[2J", "1" * 5000, ""])
def test_an_output_that_is_no_status(client: Callable[[bytes], str], output: str) -> None:
    record = {"operationState": "COMPLETED", "detailed-status": {"output": output}}
    result = run(
        "join", "a/b:s1@192.0.2.1", "c/d:s1", "--client", client(json.dumps(record).encode())
    )
    assert (result.exit_code, "show-status on a/b answered no" in result.output) == (1, True)
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 5000, "a: &a [*a]", "a: 2026-13-45", "a: " + "x" * (4 << 20)]
)
def test_a_record_that_grows(client: Callable[[bytes], str], text: str) -> None:
    result = run("targets", "ns", "--client", client(text.encode()))
    assert result.output == "Error: ns-show --literal printed no document\n"


@pytest.mark.parametrize("what", ["head", "body", "much"])
def test_an_answer_does_not_drip_for_ever(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dripping(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                if what != "head":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    self.wfile.write(b"[" * (1 << 20) if what == "much" else b"X")
                    time.sleep(0 if what == "much" else 0.05)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    monkeypatch.setattr(nbi_module, "MOST", 4 << 20)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    seconds = 20.0 if what == "much" else 0.3
    nbi = Nbi(f"http://127.0.0.1:{server.server_address[1]}", tries=0, timeout=seconds)
    says = "answers more than 4 MB" if what == "much" else "did not answer within 3 s"
    try:
        with pytest.raises(OperateError, match=says):
            nbi.get("/x")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_texts_of_an_osm_do_not_control_the_terminal(
    osm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "status", 500)
    detail = {"detail": "\x1b]0;title\x07\x9b2J\u202egone\rback"}
    monkeypatch.setattr(Answers, "body", json.dumps(detail).encode())
    result = run("acceptance", "--osm", osm, "--vim", "v", "--out", tmp_path / "page.html")
    assert "OSM says: ?]0;title??2J?gone back" in result.output
    result = run("links", "--osm", osm)
    assert result.output == "Error: ?]0;title??2J?gone?back\n"
    out = io.StringIO()
    screen = PlainConsole(file=out, force_terminal=True, width=80, highlight=False)
    table = Table("a")
    table.add_row(Text("\x1b[2Jred", "red"))
    screen.print(table, "\x1b]52;c;eA==\x07")
    assert "\x1b[31m?[2J" in out.getvalue()  # the colour is ours
    assert "\x1b]52" not in out.getvalue()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_login_is_not_sent_on_to_another_address(
    osm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Neither to another host nor from https to http: the password would go there."""
    received: list[bytes] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            received.append(self.requestline.encode() + self.rfile.read(length))
            self.send_response(200 if self.server is other else status)
            self.send_header("Location", f"{target}/osm/admin/v1/tokens")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    certificate, key = self_signed(tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) for _ in range(2)]
    first, other = servers
    first.socket = context.wrap_socket(first.socket, server_side=True)
    target = f"http://localhost:{other.server_address[1]}"
    threads = [
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True) for each in servers
    ]
    for thread in threads:
        thread.start()
    try:
        nbi = Nbi(f"https://127.0.0.1:{first.server_address[1]}", str(certificate), tries=1)
        with pytest.raises(OperateError, match=f"sends clients on to {target}/osm/admin/v1/token"):
            nbi.log_in("admin", "the-password", "admin")
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(10)
    assert len(received) == 1
    assert b"the-password" in received[0]


def test_an_address_that_is_none(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("acceptance", "--osm", "https://a..b", "--vim", "v", "--out", page)
    assert result.exit_code == 1
    assert "FAILED  connection: https://a..b/osm does not answer" in result.output


def test_a_page_that_cannot_be_written_is_said_before_the_run(osm: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "page.html"
    result = run("acceptance", "--osm", osm, "--vim", "v", "--out", out)
    assert (result.exit_code, "connection" in result.output) == (1, False)
    assert result.output.startswith("Error: ")
