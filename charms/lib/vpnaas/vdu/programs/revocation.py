#!/usr/bin/python3
"""Ask for charon whether certificates are revoked, and note why IKE refuses peers.

charon asks inside IKE_AUTH, one address after the other and up to 10 s each, and its peer gives up
meanwhile. So this program is the proxy of all its questions by HTTP (RFC 9110 section 7.1). It
answers within WAIT seconds. If a server has not answered by then, the next questions to it fail
at once, until it has answered in time again; the program tries that in the background. A
revocation list that comes late is there for the next question. charon checks the signature of
each answer itself.

STATE is a JSON object: "unserved" has by our address which other program holds it, so that charon
asks nobody; "unanswered" has by address when a question last failed, and why; "unproved" has by
peer when it was last accepted though no server said whether a certificate is revoked, and why;
"refused" has by peer (LINK_PEER, or ADDRESS if the peer is not known) when IKE last refused it or
was refused by it, and why.
"""

import http.client
import http.server
import json
import queue
import re
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Pattern, Tuple

from vpnaas.vdu.programs.charon import SOCKET, Daemon, parsed
from vpnaas.vdu.programs.common import put, run

ADDRESS = ("127.0.0.1", 9816)
STATE = "/run/osm-vpnaas-ike.json"
WAIT = 2.5
"""Seconds for an answer, less than charon waits. Its peer waits 26 s, for eight servers in turn."""
PATIENCE = 30.0
"""Seconds after which a late answer is not waited for any more."""
RETRY = 5.0
FORGET = 600.0
"""Seconds after the last question to a server until it is not tried in the background any more."""
LATELY = 120.0
"""Seconds for which an exact note is not replaced by a vague one, as both ends may call."""
KEEP = 60.0
"""Seconds for which a late revocation list is kept; charon keeps a valid one itself."""
LARGEST = 20000000
MOST = 64


class Question(NamedTuple):
    """What charon asks by HTTP; `body` is None for a revocation list, else it is for OCSP."""

    url: str
    body: Optional[bytes] = None
    kind: str = ""

    @property
    def server(self) -> str:
        return urllib.parse.urlsplit(self.url).netloc


class Answer(NamedTuple):
    """What a server answered, or why there is no answer."""

    status: int
    body: bytes = b""
    kind: str = ""
    why: str = ""


class Notes:
    """The state for the charm, written whenever it changes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        names = ("unserved", "unanswered", "unproved", "refused")
        self.parts: Dict[str, Dict[str, Any]] = {name: {} for name in names}

    def put(self, part: str, name: str, why: str, rank: int = 0) -> None:
        """Note why something failed now; the oldest of too many notes goes."""
        now = int(time.time())
        with self.lock:
            notes = self.parts[part]
            before = notes.get(name, {"rank": 0, "at": 0})
            if before["rank"] > rank and abs(now - before["at"]) < LATELY:
                return
            notes.pop(name, None)
            notes[name] = {"at": now, "why": why, "rank": rank}
            while len(notes) > MOST:
                notes.pop(next(iter(notes)))
            self._write()

    def drop(self, part: str, name: str) -> None:
        with self.lock:
            if self.parts[part].pop(name, None) is not None:
                self._write()

    def why(self, part: str, name: str) -> str:
        """Return why something failed, "" if it did not."""
        with self.lock:
            return str(self.parts[part].get(name, {}).get("why", ""))

    def _write(self) -> None:
        put(self.path, json.dumps(self.parts))


class Elsewhere(urllib.request.HTTPRedirectHandler):
    """Follows a server that sends us elsewhere, also with a question by OCSP."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, head: Any, to: str) -> Any:
        return urllib.request.Request(to, req.data, req.headers)  # noqa: S310 - not to files

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


OPENER = urllib.request.build_opener(Elsewhere)


def fetch(question: Question) -> Answer:
    """Ask a server, for up to PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    headers = {"Content-Type": question.kind} if question.kind else {}
    request = urllib.request.Request(question.url, question.body, headers)  # noqa: S310 - http only
    try:
        with OPENER.open(request, timeout=PATIENCE) as reply:
            body = b""
            while True:
                more = reply.read1(65536)
                body += more
                if not more:
                    return Answer(reply.status, body, reply.headers.get("Content-Type") or "")
                if len(body) > LARGEST or time.monotonic() > end:
                    return Answer(502, why="it sends too much, or too slowly")
    except urllib.error.HTTPError as error:
        return Answer(error.code, why="it answers HTTP {}".format(error.code))
    except urllib.error.URLError as error:
        return Answer(502, why=_cause(error.reason))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(502, why=_cause(error))


def _cause(error: object) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "it refuses the connection"
    if isinstance(error, socket.gaierror):
        return "its name has no address"
    if isinstance(error, socket.timeout):
        return "it does not answer"
    if isinstance(error, OSError) and error.strerror:
        return "it cannot be reached: {}".format(error.strerror.lower())
    return "its answer is not HTTP"


class Servers:
    """Asks servers, and remembers which ones do not answer in time."""

    def __init__(self, notes: Notes, ask: Callable[[Question], Answer] = fetch) -> None:
        self.notes = notes
        self.ask = ask
        self.lock = threading.Lock()
        self.silent: Dict[str, float] = {}
        """By server, or by address of a slow answer: when it was last asked."""
        self.late: Dict[str, Tuple[float, Answer]] = {}

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question, within WAIT seconds."""
        answer = self._answer(question)
        if answer.why:
            self.notes.put("unanswered", question.url, answer.why)
        else:
            self.notes.drop("unanswered", question.url)
        return answer

    def _answer(self, question: Question) -> Answer:
        now = time.monotonic()
        with self.lock:
            kept = self.late.get(question.url)
            if kept is not None and question.body is None and now - kept[0] < KEEP:
                return kept[1]
            silent = [key for key in (question.server, question.url) if key in self.silent]
            for key in silent:
                self.silent[key] = now
        nothing = Answer(504, why="it did not answer within {:g} s".format(WAIT))
        if silent:
            return nothing
        answers = self._start(question)
        try:
            return answers.get(timeout=WAIT)
        except queue.Empty:
            with self.lock:
                again = question.server in self.silent
                self.silent[question.server] = now
            if not again:
                self._thread(self._try, question, answers)
            return nothing

    @staticmethod
    def _thread(work: Callable[..., None], *words: Any) -> None:
        threading.Thread(target=work, args=words, daemon=True).start()

    def _start(self, question: Question) -> "queue.Queue[Answer]":
        answers: "queue.Queue[Answer]" = queue.Queue()
        self._thread(lambda: answers.put(self.ask(question)))
        return answers

    def _try(self, question: Question, answers: "queue.Queue[Answer]") -> None:
        """Ask a server that did not answer again and again, until it answers in time."""
        began = time.monotonic() - WAIT
        key = question.server
        while True:
            try:
                answer = answers.get(timeout=PATIENCE)
            except queue.Empty:  # Each byte may come in time, and the answer never end.
                answer = Answer(504, why="it answers too slowly")
            took = time.monotonic() - began
            with self.lock:
                if question.body is None and not answer.why:
                    if len(self.late) >= MOST:
                        self.late.clear()
                    self.late[question.url] = (time.monotonic(), answer)
                last = self.silent.pop(key)
                if took < WAIT or time.monotonic() - last > FORGET:
                    return
                # Only this answer is slow if one came: the server may give others in time.
                key = question.server if answer.why else question.url
                self.silent[key] = last
            time.sleep(RETRY)
            began = time.monotonic()
            answers = self._start(question)


class Handler(http.server.BaseHTTPRequestHandler):
    """Takes charon's questions."""

    servers: Servers
    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent; charon's log has each question."""

    def do_GET(self) -> None:
        self.reply(Question(self.path))

    def do_POST(self) -> None:
        """Ask by OCSP (RFC 6960 appendix A)."""
        length = int(self.headers.get("Content-Length") or 0)
        kind = self.headers.get("Content-Type") or ""
        self.reply(Question(self.path, self.rfile.read(min(length, LARGEST)), kind))

    def reply(self, question: Question) -> None:
        """Send what the servers say, or 501 for an address that is not http."""
        known = question.url.startswith("http://")
        answer = self.servers.answer(question) if known else Answer(501)
        self.send_response(answer.status)
        if answer.kind:
            self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


class Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """One thread for each question."""

    daemon_threads = True
    allow_reuse_address = True


def serve(handler: Any, notes: Notes) -> None:
    """Answer questions, for ever; while another program has our port, note which."""
    place = "{}:{}".format(*ADDRESS)
    while True:
        try:
            proxy = Proxy(ADDRESS, handler)
        except OSError:
            notes.put("unserved", place, holder(ADDRESS[1]))
            time.sleep(RETRY)
            continue
        notes.drop("unserved", place)
        proxy.serve_forever()


def holder(port: int) -> str:
    """Return the name of the program that listens on a TCP port, "another program" if unknown."""
    try:
        shown = run("ss", "-Hltnp", "sport = :{}".format(port), seconds=10)[1]
    except (OSError, subprocess.SubprocessError):
        shown = ""
    found = re.search(r'users:\(\("([^"]*)"', shown)
    return found.group(1) if found else "another program"


QUOTED = r"""["'](?P<who>[^"']*)["']"""
CAUSES = [
    # What a line of charon says, whether it is more exact than others of the same IKE_SA, and the
    # sentence about the peer. `{who}` and `{what}` are groups; `{cert}` is the last certificate.
    # `{unproved}` is the first one whose addresses `{urls}` gave no answer.
    (r"certificate was revoked on .*?(?:reason: (?P<what>.*))?$",
     2, "its certificate {cert} is revoked"),
    (r"constraint check failed: RULE_(?:CRL|OCSP)_VALIDATION is \S+, but requires",
     2, "nobody says whether its certificate {unproved} is revoked{urls}"),
    (r"(?:subject|issuer)? ?certificate invalid \(valid from (?P<what>.*)\)",
     2, "its certificate {cert} is valid from {what} only"),
    (r"no issuer certificate found for " + QUOTED,
     2, "the authority that issued {who} is not known here: the peer did not send it, or it is"
        " below another root"),
    (r"constraint check failed: peer not authenticated by CA",
     2, "its certificate is of another authority than the one of this link"),
    (r"constraint check failed: peer not authenticated with peer cert",
     2, "it shows another certificate than the one agreed"),
    (r"constraint check failed: .*identity",
     2, "its certificate does not have the identity that was agreed"),
    (r"signature validation failed", 1, "it signs with another key than the one agreed"),
    (r"MAC mismatched", 2, "it has another preshared key"),
    (r"PPK required but no PPK found for " + QUOTED,
     2, "it uses a postquantum preshared key (PPK) that is not here"),
    (r"PPK required|received PPK_ID .* but require|data in PPK_IDENTITY",
     2, "it does not use the postquantum preshared key (PPK) of this link"),
    (r"no trusted \S+ public key found for " + QUOTED,
     1, "no key or certificate that it shows is trusted for {who}"),
    (r"no shared key found for", 1, "there is no preshared key for it"),
    (r"no private key found for " + QUOTED, 2, "this VDU lost the private key of {who}"),
    (r"received proposals (?:unacceptable|inacceptable)",
     2, "it proposes other algorithms for IKE than this link has"),
    (r"no acceptable (?:proposal|ENCRYPTION_ALGORITHM|\S+) found",
     1, "it proposes other algorithms than this link has"),
    (r"no matching peer config found", 1, "it calls itself {them} and us {us}: no peer here has"
        " these identities"),
    (r"no IKE config found for", 1, "no link here is for calls from its address"),
    (r"received NO_PROPOSAL_CHOSEN notify error",
     1, "it has none of our algorithms for IKE, or no link with us yet (NO_PROPOSAL_CHOSEN)"),
    (r"received NO_PROPOSAL_CHOSEN notify, no CHILD_SA built",
     1, "it accepts none of our algorithms for ESP (NO_PROPOSAL_CHOSEN)"),
    (r"received AUTHENTICATION_FAILED notify error",
     1, "it refuses our key, certificate or identity (AUTHENTICATION_FAILED); its own status or log"
        " says why"),
    (r"received TS_UNACCEPTABLE notify, no CHILD_SA built",
     1, "it takes none of our prefixes (TS_UNACCEPTABLE)"),
    (r"traffic selectors (?:\s+===.*|.*===\s{2,})(?:unacceptable|inacceptable)",
     2, "it asks for no prefix at all, as in transport mode; allowed: tunnel mode"),
    (r"traffic selectors (?P<who>.*) === (?P<what>.*) (?:unacceptable|inacceptable)",
     2, "it asks for {what} to {who}, which is not allowed here"),
    (r"received (?P<what>[A-Z_]+) notify(?: error|, no CHILD_SA built)", 1, "it refuses ({what})"),
    (r"selected peer config .* (?:unacceptable|inacceptable): (?P<what>.*)",
     0, "this end refuses it: {what}"),
]  # fmt: skip
PATTERNS = [(re.compile(pattern), rank, text) for pattern, rank, text in CAUSES]
IN = re.compile(r"IKE_SA \S+ established between")
OVER = re.compile(r"CHILD_SA \S+ established|giving up after \d+ retransmits|peer not responding")
CERTIFICATE = re.compile(r'(?:certificate|certificate status of) "([^"]*)"')
CHECKED = re.compile(r'checking certificate status of "([^"]*)"')
URL = re.compile(r"(?:ocsp status|crl) from '([^']*)'|ocsp request to (\S+) failed")
STALE = re.compile(r"(?:crl|ocsp response) is stale: since (.*)")
CALLER = re.compile(r"(\S+) is initiating an IKE_SA")
LOOKING = re.compile(r"looking for peer configs matching \S+?\[(.*)\]\.\.\.(\S+?)\[(.*)\]$")


def clean(text: str) -> str:
    """Return a text of the peer in printable ASCII, cut."""
    return re.sub(r"[^ -~]|[{}]", "?", text)[:120]


def group_of(pattern: Pattern[str], text: str) -> str:
    """Return the group of a pattern that matches in a text, "" if none does."""
    match = pattern.search(text)
    return next(filter(None, match.groups()), "") if match else ""


class Exchange:
    """What the log said of one IKE_SA."""

    def __init__(self) -> None:
        self.caller = self.us = self.them = self.cert = self.checked = ""
        # Certificates, and addresses that were asked about them.
        self.asked: List[Tuple[str, str]] = []
        self.rank = -1


class Refusals:
    """Reads charon's log for refusals (strongSwan 5.9 to 6)."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.exchanges: Dict[str, Exchange] = {}

    def line(self, name: str, number: str, text: str) -> None:
        """Take a line about an IKE_SA: its connection's name and number."""
        exchange = self.exchanges.setdefault(number, Exchange())
        while len(self.exchanges) > MOST:
            self.exchanges.pop(next(iter(self.exchanges)))
        known = name.rsplit("_", 2)[0] if name.count("_") >= 3 else ""
        exchange.cert = group_of(CERTIFICATE, text) or exchange.cert
        exchange.checked = group_of(CHECKED, text) or exchange.checked
        exchange.caller = group_of(CALLER, text) or exchange.caller
        question = exchange.checked, group_of(URL, text)
        exchange.asked += [question] if question[1] and question not in exchange.asked else []
        if "certificate status is good" in text:
            exchange.asked = [each for each in exchange.asked if each[0] != exchange.checked]
        stale = group_of(STALE, text)
        if stale and exchange.asked:
            self.notes.put("unanswered", exchange.asked[-1][1], "its answer ended " + clean(stale))
        looking = LOOKING.search(text)
        if looking:
            exchange.us, exchange.caller, exchange.them = looking.groups()
        key = known or exchange.caller
        if IN.search(text) or OVER.search(text):
            exchange.rank = -1
            for each in {key, exchange.caller}:
                self.notes.drop("refused", each)
            if IN.search(text):
                self.notes.drop("unproved", key)
                if exchange.asked:
                    self.notes.put("unproved", key, "; ".join(self._urls(exchange.asked)))
            return
        for pattern, rank, sentence in PATTERNS:
            found = pattern.search(text)
            if found and key:
                if rank > exchange.rank:
                    exchange.rank = rank
                    why = self._sentence(sentence, found, exchange)
                    self.notes.put("refused", key, why, rank)
                    if not text.startswith("received "):  # This end refuses the peer.
                        self.notes.drop("unproved", key)
                return

    def _sentence(self, sentence: str, match: Any, exchange: Exchange) -> str:
        words = {name: clean(text or "") for name, text in match.groupdict().items()}
        unproved = exchange.asked[0][0] if exchange.asked else exchange.cert
        urls = self._urls([each for each in exchange.asked if each[0] == unproved])
        words.update(
            cert='"{}"'.format(clean(exchange.cert)),
            unproved='"{}"'.format(clean(unproved)),
            us=clean(exchange.us),
            them=clean(exchange.them),
            urls="".join("; " + each for each in urls) or ", and it names no server",
        )
        return sentence.format(**words)

    def _urls(self, asked: List[Tuple[str, str]]) -> List[str]:
        """Return the first three addresses that were asked, and what was wrong with each."""
        # libcurl adds the path of an address that has none.
        failed = {
            url: self.notes.why("unanswered", url) or self.notes.why("unanswered", url + "/")
            for _, url in asked
        }
        # An answer that came is of no use if it is wrong, cut, too old, or about others.
        urls = ["{}: {}".format(clean(u), failed[u] or "no valid answer") for u in failed]
        return urls[:3]


def follow(refusals: Refusals, path: str = SOCKET) -> None:
    """Read the log of the daemon until it ends; then raise ConnectionError."""
    with Daemon(path, None) as daemon:
        daemon.tell(3, "log")
        while True:
            packet = daemon.packet()
            if packet[:1] == b"\x07":
                said = parsed(packet[2 + packet[1] :])
                if "ikesa-uniqueid" in said:
                    name, number = said.get("ikesa-name", ""), said["ikesa-uniqueid"]
                    for text in said.get("msg", "").splitlines():
                        refusals.line(name, number, text)


def main() -> None:
    """Answer questions and read the log, for ever."""
    notes = Notes(STATE)
    handler = type("Bound", (Handler,), {"servers": Servers(notes)})
    threading.Thread(target=serve, args=(handler, notes), daemon=True).start()
    while True:
        try:
            follow(Refusals(notes))
        except (OSError, ValueError, IndexError, struct.error) as error:
            if not isinstance(error, (FileNotFoundError, ConnectionError)):
                print("vici: {}".format(error), file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    main()
