"""Questions about revoked certificates are answered in time, and refusals of IKE have a reason."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_until
from vpnaas.tunnels.ipsec import daemon, observed, refusals
from vpnaas.vdu.programs import revocation
from vpnaas.vdu.programs.revocation import Answer, Notes, Proxy, Question, Refusals, Servers

pytestmark = pytest.mark.slow

Serve = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """Serve revocation lists; yield the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            serve(self)

        def do_POST(self) -> None:
            serve(self)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with Proxy(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(str(tmp_path / "state.json"))


@pytest.fixture
def ask(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[int, bytes, float]]]:
    """Ask as charon does: through the proxy. Return status, answer and seconds."""
    monkeypatch.setattr(revocation, "WAIT", 0.3)
    monkeypatch.setattr(revocation, "RETRY", 0.1)
    monkeypatch.setattr(revocation, "PATIENCE", 3.0)
    handler = type("Bound", (revocation.Handler,), {"servers": Servers(notes)})
    with Proxy(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()

        def asking(url: str, body: bytes | None = None) -> tuple[int, bytes, float]:
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port, timeout=10)
            headers = {"Content-Type": "application/ocsp-request"} if body else {}
            connection.request("POST" if body else "GET", url, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read(), time.monotonic() - began

        yield asking
        proxy.shutdown()


def said(notes: Notes, part: str = "unanswered") -> dict[str, str]:
    if not Path(notes.path).exists():
        return {}
    document = json.loads(Path(notes.path).read_text(encoding="utf-8"))
    return {name: note["why"] for name, note in document[part].items()}


def answering(text: bytes, status: int = 200, after: float = 0) -> Serve:
    def serve(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        time.sleep(after)
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return serve


def test_the_charm_knows_where_the_program_is_and_what_it_writes() -> None:
    assert (daemon.ADDRESS, observed.STATE) == (revocation.ADDRESS, revocation.STATE)


def test_eight_servers_that_do_not_answer_are_over_before_the_peer_gives_up() -> None:
    """charon asks those itself that the proxy does not know, as by LDAP."""
    text = daemon.daemon_conf("kernel-xfrm")

    def number(key: str) -> float:
        return float(re.findall(rf"\b{key} = ([\d.]+)", text)[0])

    first, base, tries = (number("retransmit_" + word) for word in ("timeout", "base", "tries"))
    patience = sum(first * base**n for n in range(int(tries) + 1))
    assert 8 * number("timeout") < patience - 2
    assert number("timeout") - revocation.WAIT >= 0.5


def test_an_answer_comes_through(ask, notes) -> None:
    with server(answering(b"list")) as url:
        assert ask(url + "/a.crl")[:2] == (200, b"list")
        assert ask(url + "/ocsp", b"question")[:2] == (200, b"list")
    assert said(notes) == {}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_server_that_sends_us_elsewhere_is_followed_with_the_question(ask, notes, status) -> None:
    with server(lambda handler: answering(handler.command.encode())(handler)) as there:

        def away(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
            handler.send_response(status)
            handler.send_header("Location", handler.path if "loop" in handler.path else there)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        with server(away) as url:
            assert ask(url + "/a.crl")[:2] == (200, b"GET")
            assert ask(url + "/ocsp", b"question")[:2] == (200, b"POST")
            assert said(notes) == {}
            assert ask(url + "/loop", b"question")[0] == status
            assert said(notes) == {url + "/loop": f"it answers HTTP {status}"}


def test_a_server_that_drops_packets_costs_little_once_and_nothing_later(ask, notes) -> None:
    """Its listening queue is full, as for a firewall that drops: nobody answers the SYN."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        status, _, first = ask(url + "/ocsp", b"question")
        assert (status, first < 2) == (504, True)
        # All addresses of the chain's certificates are at this server.
        total = sum(ask(f"{url}/{n}.crl")[2] for n in range(20))
        assert total < 2
        for filler in fillers:
            filler.close()
    assert said(notes)[url + "/ocsp"] == "it did not answer within 0.3 s"
    assert said(notes)[url + "/19.crl"] == "it did not answer within 0.3 s"


def test_a_server_that_is_back_is_asked_again(ask, notes) -> None:
    slow = [True]

    def serve(handler: http.server.BaseHTTPRequestHandler) -> None:
        answering(b"list", after=1 if slow[0] else 0)(handler)

    with server(serve) as url:
        assert ask(url + "/ocsp", b"question")[0] == 504
        slow[0] = False
        deadline = time.monotonic() + 5
        while ask(url + "/ocsp", b"question")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert said(notes) == {}


def test_a_server_that_drips_its_headers_is_asked_again(ask, notes, monkeypatch) -> None:
    """A connection may drip for ever: each byte is in time, the answer never ends."""
    monkeypatch.setattr(revocation, "PATIENCE", 0.6)
    heal, over = threading.Event(), threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        if heal.is_set():
            answering(b"list")(handler)
            return
        with contextlib.suppress(OSError):
            while not over.wait(0.1):
                handler.wfile.write(b"H")

    with server(drip) as url:
        assert ask(url + "/a.crl")[0] == 504
        heal.set()
        wait_until(lambda: ask(url + "/a.crl")[:2] == (200, b"list"), "asked again", 10)
        over.set()


def test_a_list_that_comes_late_is_there_for_the_next_question(ask, notes) -> None:
    def serve(handler: http.server.BaseHTTPRequestHandler) -> None:
        answering(b"list", after=0.8 if "slow" in handler.path else 0)(handler)

    with server(serve) as url:
        assert ask(url + "/slow.crl")[0] == 504
        time.sleep(1)
        assert ask(url + "/slow.crl")[:2] == (200, b"list")
        # The server's other answers are in time, and are not held up.
        assert ask(url + "/ocsp", b"question")[:2] == (200, b"list")
    assert said(notes) == {}


def test_what_refuses_or_answers_badly_is_named(ask, notes) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/a.crl"
    assert ask(closed)[0] == 502
    with server(answering(b"no", status=404)) as url:
        assert ask(url + "/b.crl")[0] == 404
    assert said(notes) == {
        closed: "it refuses the connection",
        url + "/b.crl": "it answers HTTP 404",
    }


def test_a_name_server_that_does_not_answer_holds_nothing_up(ask, notes, monkeypatch) -> None:
    def hang(*_: object, **__: object) -> object:
        time.sleep(2)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    real = socket.getaddrinfo
    names = {"ca.example"}
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *w, **k: (hang if host in names else real)(host, *w, **k),
    )
    assert ask("http://ca.example/a.crl")[0] == 504
    assert ask("http://ca.example/b.crl")[2] < 0.25
    assert said(notes)["http://ca.example/b.crl"] == "it did not answer within 0.3 s"


def test_only_http_is_asked_for(ask, notes) -> None:
    assert ask("file:///etc/shadow")[0] == 501
    assert said(notes) == {}


def test_a_silent_server_is_not_tried_for_ever(notes, monkeypatch) -> None:
    monkeypatch.setattr(revocation, "WAIT", 0.05)
    monkeypatch.setattr(revocation, "RETRY", 0.01)
    monkeypatch.setattr(revocation, "FORGET", 0.3)
    asked: list[Question] = []

    def slow(question: Question) -> Answer:
        asked.append(question)
        time.sleep(0.1)
        return Answer(502, why="it does not answer")

    servers = Servers(notes, slow)
    servers.answer(Question("http://ca.example/a.crl"))
    time.sleep(1)
    many = len(asked)
    assert many > 1
    time.sleep(0.3)
    assert (len(asked), servers.silent) == (many, {})


NAME = "s6a_rel-2_191164fb_ba750de6"
END = "s6a_rel-2"
START = "192.0.2.7 is initiating an IKE_SA"
LOOK = "looking for peer configs matching 192.0.2.1[us]...192.0.2.7[them]"
CHECK = 'checking certificate status of "CN=them"'


def refused(notes: Notes, *lines: str, name: str = NAME, number: str = "1") -> dict[str, str]:
    refusals = Refusals(notes)
    for line in lines:
        # A responder knows no connection before the peer has said who it is.
        known = name if not line.startswith((START, "no IKE config", "received proposals")) else ""
        refusals.line(known or "(unnamed)", number, line)
    return said(notes, "refused")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ((CHECK, "certificate was revoked on Nov 28 04:50:00 UTC 2026, reason: unspecified",
          "no trusted ED25519 public key found for 'them'"),
         'its certificate "CN=them" is revoked'),
        (('  using certificate "CN=them"', '  using untrusted intermediate certificate "CN=sub"',
          "subject certificate invalid (valid from Jan 01 00:00:00 2026 to Feb 01 2026)",
          "no trusted ED25519 public key found for 'them'"),
         'its certificate "CN=sub" is valid from Jan 01 00:00:00 2026 to Feb 01 2026 only'),
        (('no issuer certificate found for "CN=them"', '  issuer is "CN=sub"',
          "no trusted ED25519 public key found for 'them'"),
         "the authority that issued CN=them is not known here: the peer did not send it, or it is"
         " below another root"),
        (("no trusted ED25519 public key found for 'them'",),
         "no key or certificate that it shows is trusted for them"),
        (("constraint check failed: peer not authenticated by CA 'CN=root'",
          f"selected peer config '{NAME}' unacceptable: constraint checking failed"),
         "its certificate is of another authority than the one of this link"),
        (("tried 1 shared key for 'us' - 'them', but MAC mismatched",),
         "it has another preshared key"),
        (("PPK required but no PPK found for 'ppk-1'",),
         "it uses a postquantum preshared key (PPK) that is not here"),
        (("PPK required but peer does not support PPK",),
         "it does not use the postquantum preshared key (PPK) of this link"),
        (("received AUTHENTICATION_FAILED notify error",),
         "it refuses our key, certificate or identity (AUTHENTICATION_FAILED); its own status or"
         " log says why"),
        (("received NO_PROPOSAL_CHOSEN notify error",),
         "it has none of our algorithms for IKE, or no link with us yet (NO_PROPOSAL_CHOSEN)"),
        (("IKE_SA s6a[1] established between 192.0.2.1[us]...192.0.2.7[them]",
          "received TS_UNACCEPTABLE notify, no CHILD_SA built"),
         "it takes none of our prefixes (TS_UNACCEPTABLE)"),
        (("traffic selectors 10.77.0.1/32 === 10.1.0.0/24 unacceptable",),
         "it asks for 10.1.0.0/24 to 10.77.0.1/32, which is not allowed here"),
        (("traffic selectors  ===  unacceptable",),
         "it asks for no prefix at all, as in transport mode; allowed: tunnel mode"),
        (("traffic selectors 10.77.0.1/32 ===  unacceptable",),
         "it asks for no prefix at all, as in transport mode; allowed: tunnel mode"),
        (("received FAILED_CP_REQUIRED notify, no CHILD_SA built",),
         "it refuses (FAILED_CP_REQUIRED)"),
    ],
)  # fmt: skip
def test_the_last_refusal_of_a_peer(notes: Notes, lines: tuple[str, ...], sentence: str) -> None:
    assert refused(notes, START, LOOK, *lines) == {END: sentence}


def test_a_status_that_nobody_knows_names_the_servers(notes: Notes) -> None:
    notes.put("unanswered", "http://ca/", "it did not answer within 3 s")
    notes.put("unanswered", "http://ca/sub.crl", "it answers HTTP 404")
    assert refused(
        notes, START, LOOK, CHECK,
        "  requesting ocsp status from 'http://ca' ...",
        "ocsp request to http://ca failed",
        "  fetching crl from 'http://ca/sub.crl' ...", "crl fetching failed",
        "constraint check failed: RULE_CRL_VALIDATION is FAILED, but requires at least SKIPPED",
        f"selected peer config '{NAME}' unacceptable: constraint checking failed",
    ) == {END: 'nobody says whether its certificate "CN=them" is revoked; http://ca: it did'
               " not answer within 3 s; http://ca/sub.crl: it answers HTTP 404"}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("  fetching crl from 'http://ca/sub.crl' ...",), "; http://ca/sub.crl: no valid answer"),
        (
            ("  requesting ocsp status from 'http://ca' ...", "certificate status is good", CHECK,
             "  fetching crl from 'http://ca/sub.crl' ..."),
            "; http://ca/sub.crl: no valid answer",
        ),
        (
            ("  requesting ocsp status from 'http://ca' ...", "certificate status is not available",
             'checking certificate status of "CN=Issuing"',
             "  fetching crl from 'http://ca/root.crl' ..."),
            "; http://ca: no valid answer",
        ),
        (
            ("  requesting ocsp status from 'http://ca' ...", "certificate status is not available",
             'checking certificate status of "CN=Issuing"',
             "  requesting ocsp status from 'http://root' ...", "certificate status is good"),
            "; http://ca: no valid answer",
        ),
        ((), ", and it names no server"),
    ],
)  # fmt: skip
def test_a_server_whose_answer_is_of_no_use_is_named(
    notes: Notes, asked: tuple[str, ...], sentence: str
) -> None:
    failed = "constraint check failed: RULE_CRL_VALIDATION is FAILED, but requires at least GOOD"
    found = refused(notes, START, LOOK, CHECK, *asked, failed)
    assert found == {END: f'nobody says whether its certificate "CN=them" is revoked{sentence}'}


OLD = "  fetching crl from 'http://ca/sub.crl' ..."
STALE, GOOD = "certificate status is unknown, crl is stale", "certificate status is good"
IN = "IKE_SA s6a[1] established between 192.0.2.1[us]...192.0.2.7[them]"
DEAD = ("  requesting ocsp status from 'http://ca' ...", "ocsp check failed, fallback to crl")
ISSUER = 'checking certificate status of "CN=Issuing"'


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        # The list says what the dead server does not.
        ((*DEAD, OLD, GOOD), ""),
        ((*DEAD, "certificate status is not available"), "http://ca: it answers HTTP 404"),
        ((OLD, "certificate status is not available"), "http://ca/sub.crl: no valid answer"),
        ((OLD, "crl is stale: since Nov 30 06:47:47 2026", STALE),
         "http://ca/sub.crl: its answer ended Nov 30 06:47:47 2026"),
        # The same server is dead for two certificates, and a list has only one of them.
        ((*DEAD, "certificate status is not available", ISSUER, *DEAD, OLD, GOOD),
         "http://ca: it answers HTTP 404"),
        (("certificate status is not available",), ""),
    ],
)  # fmt: skip
def test_a_peer_is_accepted_unproved_if_no_server_proved_it(
    notes: Notes, lines: tuple[str, ...], why: str
) -> None:
    notes.put("unanswered", "http://ca/", "it answers HTTP 404")
    refused(notes, START, LOOK, CHECK, *lines, IN)
    assert said(notes, "unproved") == ({END: why} if why else {})
    read = refusals.parse(Path(notes.path).read_text())
    found = refusals.unproved(read, "s6a", int(time.time()))
    assert [f"(revocation=relaxed): {why} (" in each for each in found] == [True] * bool(why)
    assert refusals.unproved(read, "s11", int(time.time())) == ()
    # A key is made anew in the same IKE_SA, then the peer proves itself in another one.
    child = "CHILD_SA s6a{9} established with SPIs 0e46_i 6328_o and TS 10.77.0.2/32"
    refused(notes, child, number="1")
    assert bool(said(notes, "unproved")) == bool(why)
    refused(notes, START, LOOK, CHECK, GOOD, IN, number="2")
    assert said(notes, "unproved") == {}


def test_who_is_refused_here_is_accepted_no_more(notes: Notes) -> None:
    unproved = {END: "http://ca/sub.crl: no valid answer"}
    refused(notes, START, LOOK, CHECK, OLD, IN)
    refused(notes, "received AUTHENTICATION_FAILED notify error", number="2")
    assert said(notes, "unproved") == unproved
    refused(notes, START, LOOK, CHECK, "certificate was revoked on Nov 28", number="3")
    assert said(notes, "unproved") == {}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("received proposals unacceptable",),
         "it proposes other algorithms for IKE than this link has"),
        (("no IKE config found for 192.0.2.1...192.0.2.7, sending NO_PROPOSAL_CHOSEN",),
         "no link here is for calls from its address"),
        ((LOOK, "no matching peer config found"),
         "it calls itself them and us us: no peer here has these identities"),
    ],
)  # fmt: skip
def test_a_caller_that_no_connection_fits_is_known_by_its_address(
    notes: Notes, lines: tuple[str, ...], sentence: str
) -> None:
    assert refused(notes, START, *lines, name="(unnamed)") == {"192.0.2.7": sentence}


def test_our_own_reason_is_not_replaced_by_the_peers_vague_one(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends call, and both are refused."""
    refused(notes, START, LOOK, CHECK, "certificate was revoked on Nov 28, reason: unspecified")
    vague = "received AUTHENTICATION_FAILED notify error"
    assert "is revoked" in refused(notes, vague, number="2")[END]
    later = time.time() + revocation.LATELY + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert "it refuses our key" in refused(notes, vague, number="3")[END]


@pytest.mark.parametrize(
    "line",
    [
        "CHILD_SA s6a{1} established with SPIs 0e46_i 6328_o and TS 10.77.0.2/32 === 10.77.0.1/32",
        "giving up after 4 retransmits",
    ],
)
def test_a_refusal_is_forgotten_when_it_is_no_longer_true(notes: Notes, line: str) -> None:
    refused(notes, START, LOOK, CHECK, "certificate was revoked on Nov 28, reason: unspecified")
    assert refused(notes, START, LOOK, line, number="2") == {}


def test_a_peers_text_cannot_do_harm(notes: Notes) -> None:
    look = (
        "looking for peer configs matching 192.0.2.1[us]...192.0.2.7[\x1b[31m{urls}%s"
        + "x" * 999
        + "]"
    )
    (sentence,) = refused(notes, START, look, "no matching peer config found", name="").values()
    assert sentence.isprintable()
    assert len(sentence) < 300


def test_the_log_is_read_from_the_daemon(notes: Notes, tmp_path: Path) -> None:
    def pair(key: str, value: str) -> bytes:
        return bytes([3, len(key)]) + key.encode() + len(value).to_bytes(2, "big") + value.encode()

    path = str(tmp_path / "vici")
    event = b"\x07\x03log" + b"".join(
        [pair("group", "IKE"), pair("level", "1"), pair("thread", "7"), pair("ikesa-name", NAME),
         pair("ikesa-uniqueid", "1"), pair("msg", "received AUTHENTICATION_FAILED notify error")]
    )  # fmt: skip
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)

        def follow() -> None:
            with contextlib.suppress(ConnectionError):
                revocation.follow(Refusals(notes), path)

        thread = threading.Thread(target=follow)
        thread.start()
        daemon, _ = listening.accept()
        assert daemon.recv(9) == b"\x00\x00\x00\x05\x03\x03log"
        for packet in (b"\x05", event):
            daemon.sendall(len(packet).to_bytes(4, "big") + packet)
        daemon.close()
        thread.join(5)
    assert "AUTHENTICATION_FAILED" in said(notes, "refused")[END]


def test_another_program_at_the_address_where_charon_asks_is_named(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocation, "RETRY", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        monkeypatch.setattr(revocation, "ADDRESS", address)
        handler = type("Bound", (revocation.Handler,), {"servers": Servers(notes)})
        threading.Thread(target=revocation.serve, args=(handler, notes), daemon=True).start()
        place = f"{address[0]}:{address[1]}"
        wait_until(lambda: bool(notes.why("unserved", place)), "the program is named")
        (name,) = {Path("/proc/self/comm").read_text().strip()}
        assert notes.why("unserved", place) == name
        read = refusals.parse(Path(notes.path).read_text())
        (sentence,) = refusals.unserved(read, int(time.time()))
        assert sentence.startswith(
            f"TCP {place} of the VDU, where charon asks whether certificates are revoked, is used"
            f" by {name} ("
        )
        assert refusals.unserved(read, int(time.time()) + 600) == ()
    wait_until(lambda: not notes.why("unserved", place), "the port is free")
    assert refusals.unserved(refusals.parse(Path(notes.path).read_text()), int(time.time())) == ()
    wait_until(lambda: answers(address), "questions are taken")


def answers(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, 5):
            return True
    except OSError:
        return False
