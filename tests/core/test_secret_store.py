"""Secrets that a VDU fetches from a store itself, against OpenBao."""

from __future__ import annotations

import base64
import http.server
import io
import json
import re
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from oai.params import KEY_FORMS, Secrets
from support import openbao
from support.juju import pair
from support.model_charon import ModelSa
from support.openbao import Bao
from support.ports import free_port
from vpnaas.base.errors import InputError
from vpnaas.params.intent import Intent, manual_peer
from vpnaas.params.servers import SecretReference
from vpnaas.vdu import secret_store
from vpnaas.vdu.programs import agent
from vpnaas.vdu.programs import secret_store as program
from vpnaas.vdu.steps import Results

from lab.certificates import self_signed

pytestmark = pytest.mark.slow

OP, K = "1006020f0a478bf6b699f15c062e42b3", "449C4B91AEACD0ACE182CF3A5A72BFA1"


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    folder = tmp_path_factory.mktemp("bao")
    with openbao.running(folder, f"127.0.0.1:{free_port()}") as server:
        server.put("core/epc", **{"operator-key": OP, "subscriber-key": K})
        server.put("core/short", **{"operator-key": OP, "subscriber-key": "44"})
        server.put("core/half", **{"operator-key": OP, "other": "x"})
        yield server


class Fetched:
    """What one fetch did to a file that held other keys before."""

    def __init__(self, bao: Bao, folder: Path, **changes: str) -> None:
        self.file = folder / "nf/secrets.json"
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text("before")
        given = {"store": bao.url, "ca-certificate": bao.root, "path": "secret/core/epc", **changes}
        self.token = given["token"] = changes.get("token") or bao.token()
        reference = SecretReference.parse(given, "fetch-keys")
        step = secret_store.fetch("keys", reference, KEY_FORMS, str(self.file))
        assert self.token not in " ".join(step.body["argv"])
        assert self.token not in repr(reference)
        watch = secret_store.observe("seen", str(self.file))
        done = agent.execute([step.to_json(), watch.to_json()], exclusive=False)
        assert done["failed"] is None
        self.answer = json.dumps(done)
        results = Results(done["results"])
        self.refusal = secret_store.refusal("keys", results)
        self.status = secret_store.last_refusal("seen", results)


def test_the_vdu_unwraps_the_token_and_gets_the_keys(bao: Bao, tmp_path: Path) -> None:
    done = Fetched(bao, tmp_path)
    assert (done.refusal, done.status) == ("", "")
    assert Secrets.from_json(done.file.read_text()) == Secrets(OP, K.lower())
    assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    for secret in (OP, K, done.token):
        assert secret not in done.answer
    assert {path.name for path in done.file.parent.iterdir()} == {
        "secrets.json", "secrets.json.for", "secrets.json.state",
    }  # fmt: skip
    forgotten = {step.body["path"] for step in secret_store.forget(str(done.file))}
    assert forgotten == {str(path) for path in done.file.parent.iterdir()}


def test_a_token_that_was_used_before_is_an_alarm(bao: Bao, tmp_path: Path) -> None:
    token = bao.token()
    assert Fetched(bao, tmp_path, token=token).refusal == ""
    done = Fetched(bao, tmp_path, token=token)
    assert done.refusal.startswith("ALARM: the store does not know the wrapping token.")
    assert "somebody else used it" in done.refusal
    assert done.file.read_text() == "before"
    assert done.status.startswith(
        "the last fetch from the secret store failed, the earlier secrets "
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"token": "s.nosuchtokenhere"}, "ALARM: the store does not know the wrapping token"),
        ({"token": openbao.ROOT_TOKEN}, "ALARM: the store does not know the wrapping token"),
        ({"path": "secret/core/nothing"}, "the store has nothing at secret/core/nothing"),
        ({"path": "secret/ran/epc"}, "the token may not read secret/ran/epc"),
        ({"path": "secret/core/half"}, "secret/core/half has no field subscriber-key; it has o"),
        ({"path": "secret/core/short"}, "subscriber-key is not 32 hexadecimal digits"),
        ({"store": "https://127.0.0.1:1"}, "the store does not answer: [Errno 111] Connection re"),
        ({"store": "https://localhost:{}"}, "certificate is not trusted: Hostname mismatch"),
        ({"ca-certificate": "vendor"}, "certificate is not trusted: unable to get local issuer"),
        ({"store": "https://127.0.0.1:{}1"}, "the store does not answer"),
    ],
    ids=["wrong", "not wrapped", "no path", "no right", "no field", "no key", "down", "name", "CA",
         "no TLS"],
)  # fmt: skip
def test_what_is_wrong_is_told_and_the_keys_stay(
    bao: Bao, tmp_path: Path, changes: dict[str, str], sentence: str
) -> None:
    port = bao.address.partition(":")[2]
    if changes.get("ca-certificate"):
        changes = {"ca-certificate": bao.other_root}
    if changes.get("store", "").endswith("{}1"):
        changes = {"store": f"https://127.0.0.1:{int(port) + 1}"}
    done = Fetched(bao, tmp_path, **{name: text.format(port) for name, text in changes.items()})
    assert sentence in done.refusal
    assert done.refusal in done.status
    assert done.file.read_text() == "before"
    for secret in (OP, K, done.token):
        assert secret not in done.answer


def test_a_sealed_store_is_told(bao: Bao, tmp_path: Path) -> None:
    token = bao.token()
    with suppress(HTTPError):  # It says that it is sealed.
        bao.ask("PUT", "sys/seal")
    done = Fetched(bao, tmp_path, token=token)
    assert done.refusal == "the store is sealed or not the active one (HTTP 503)"
    assert done.file.read_text() == "before"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"store": "http://vault.example:8200"}, "fetch-keys: store: 'http://vault.example:8200'"),
        ({"store": "https://vault.example"}, "is not a store; allowed: https://host:port"),
        ({"store": "https://vault.example:0"}, "is not a store"),
        ({"path": "core"}, "'core' is not the path of a secret; allowed: MOUNT/PATH"),
        ({"path": "secret/../sys/seal"}, "is not the path of a secret"),
        ({"path": "secret/core?version=1"}, "is not the path of a secret"),
        ({"token": "s.abc\r\nX-Evil: 1"}, "fetch-keys: token: not a wrapping token"),
        ({"ca-certificate": "none"}, "fetch-keys: ca-certificate"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any], sentence: str, bao: Bao) -> None:
    good = {"store": bao.url, "ca-certificate": bao.root, "path": "a/b", "token": "s.12345678"}
    with pytest.raises(InputError) as refused:
        SecretReference.parse({**good, **change}, "fetch-keys")
    assert sentence in str(refused.value)
    assert "s.abc" not in str(refused.value)


# -- preshared keys --------------------------------------------------------------------------------

LINK = "s6a"
FILE = "/etc/osm-vpnaas/s6a/preshared-man-cell"
SECRET = "/etc/swanctl/osm-vpnaas-s6a-man-cell.secret"
CELL = {"link": LINK, "name": "cell", "public-key": "store", "allowed-prefixes": "172.16.6.50"}


def test_a_preshared_key_of_a_store_opens_the_connection_and_is_replaced() -> None:
    _, hss, _, _ = pair("ipsec", credentials="psk")
    hss.intent = hss.intent.with_peer(manual_peer(CELL))
    assert Intent.from_json(hss.intent.to_json()) == hss.intent
    hss.reconcile()
    assert "cell: waiting for its preshared key, see fetch-preshared-key" in hss.plans[LINK].waiting
    assert "man-cell" not in hss.vdu.files["/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"]

    loaded = []
    for number, letter in enumerate("AB"):
        key = letter * 43 + "="
        hss.vdu.files.update({FILE: key + "\n", FILE + ".for": f"store-{number:016x}\n"})
        hss.reconcile()
        assert hss.vdu.files[SECRET] == f"secret = 0s{key}\n"
        loaded.append({name for name in hss.vdu.charon.connections if "man-cell" in name})
        assert hss.reconcile() == 1
        assert hss.plans[LINK].steps == ()
    assert len(loaded[0]) == len(loaded[1]) == 1
    assert loaded[0] != loaded[1]

    # The store fails: what was there stays, and the status says so.
    hss.vdu.files[FILE + ".state"] = "the store does not answer"
    hss.reconcile()
    assert hss.plans[LINK].steps == ()
    assert hss.plans[LINK].waiting == (
        "cell: the last fetch from the secret store failed, the earlier secrets stay: the store"
        " does"
        " not answer",
    )
    hss.intent = hss.intent.without_peer(LINK, "cell")
    hss.reconcile()
    assert [path for path in hss.vdu.files if "man-cell" in path] == []


@pytest.mark.parametrize("endpoint", ["none", "192.168.8.77:4500"])
def test_another_preshared_key_ends_the_tunnel_of_the_former_one(endpoint: str) -> None:
    juju, hss, _, _ = pair("ipsec", credentials="psk")
    hss.intent = hss.intent.with_peer(manual_peer({**CELL, "endpoint": endpoint}))
    hss.vdu.files.update({FILE: "A" * 43 + "=\n", FILE + ".for": "store-0\n"})
    hss.reconcile()
    (name,) = (name for name in hss.vdu.charon.connections if "man-cell" in name)
    sa = ModelSa(name, next(juju.world.serial), "192.168.8.77:4500", ("172.16.6.50/32",))
    hss.vdu.charon.sas.append(sa)
    hss.reconcile()
    assert sa in hss.vdu.charon.sas
    hss.vdu.files.update({FILE: "B" * 43 + "=\n", FILE + ".for": "store-1\n"})
    hss.reconcile()
    assert sa not in hss.vdu.charon.sas


def test_a_peer_that_changes_to_a_store_does_not_go_on_with_the_agreed_key() -> None:
    _, hss, _, _ = pair("ipsec", credentials="psk")
    wrap = "308201a2300d06092a864886f70d01010105000382018f003082018a0282018100"
    key = base64.b64encode(bytes.fromhex(wrap) + b"PRIVATE cell".ljust(389, b"=")).decode()
    hss.intent = hss.intent.with_peer(manual_peer({**CELL, "public-key": key}))
    hss.reconcile()
    assert SECRET in hss.vdu.files
    hss.intent = hss.intent.with_peer(manual_peer(CELL))
    for _ in range(2):
        hss.reconcile()
        waits = "cell: waiting for its preshared key, see fetch-preshared-key"
        assert waits in hss.plans[LINK].waiting
        assert not [name for name in hss.vdu.charon.connections if "man-cell" in name]
    assert SECRET not in hss.vdu.files


def test_a_file_that_is_no_key_opens_nothing() -> None:
    _, hss, _, _ = pair("ipsec", credentials="psk")
    hss.intent = hss.intent.with_peer(manual_peer(CELL))
    hss.vdu.files.update({FILE: "short\n", FILE + ".for": "store-1\n"})
    hss.reconcile()
    assert SECRET not in hss.vdu.files
    assert "cell: waiting for its preshared key, see fetch-preshared-key" in hss.plans[LINK].waiting


@pytest.mark.parametrize("options", [{"credentials": "pubkey"}, {"credentials": "cert-external"}])
def test_only_a_link_with_preshared_keys_takes_one_of_a_store(options: dict[str, str]) -> None:
    _, hss, _, _ = pair("ipsec", **options)
    with pytest.raises(InputError, match="s6a has no preshared key from a store; allowed: a link"):
        hss.intent.with_peer(manual_peer(CELL))


def test_wireguard_takes_no_preshared_key_of_a_store() -> None:
    _, hss, _, _ = pair()
    with pytest.raises(InputError, match="s6a has no preshared key from a store"):
        hss.intent.with_peer(manual_peer(CELL))


def test_another_key_has_another_name_also_with_the_path_and_version_of_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another store, or of a path whose metadata were deleted."""
    file = tmp_path / "key"
    request = {"path": "secret/core/enb1", "file": str(file), "text": True}

    def name(key: str) -> str:
        monkeypatch.setattr(program, "fetch", lambda _: ({"key": key}, 1))
        monkeypatch.setattr(program.sys, "stdin", io.StringIO(json.dumps(request)))
        assert program.main() == 0
        assert file.read_text() == key + "\n"
        return Path(f"{file}.for").read_text()

    first = name("one")
    assert re.fullmatch("store-[0-9a-f]{16}\n", first)
    assert name("one") == first != name("two")
    # The same key, but it came in another way or by an earlier release.
    Path(f"{file}.for").write_text("0123456789abcdef\n")
    assert re.fullmatch("store-[0-9a-f]{16}\n", name("two"))
    assert program.MARK == secret_store.MARK


GOOD = json.dumps({"auth": {"client_token": "s.inner"}})
HOSTILE = {
    "auth list": ('{"auth": [1]}', "the wrapped secret is not a token"),
    "auth text": ('{"auth": "x"}', "the wrapped secret is not a token"),
    "token with a line": ('{"auth": {"client_token": "a\\r\\nX: y"}}', "is not a token"),
    "token of other letters": ('{"auth": {"client_token": "プ"}}', "is not a token"),
    "deep": ("[" * 100_000, "the answer is not of Vault's API"),
    "cut": ('{"auth": ', "the answer is not of Vault's API"),
    "no text": ("\udcff\udcfe", "the answer is not of Vault's API"),
    "too long": ('{"a": "' + "x" * (1 << 20) + '"}', "the answer is not of Vault's API"),
    "data list": (GOOD, '{"data": [1]}', "the store has nothing at secret/core/epc"),
    "secret text": (GOOD, '{"data": {"data": "x"}}', "is no secret of version 2"),
    "no version": (GOOD, '{"data": {"data": {}, "metadata": {"version": "x"}}}', "is no number"),
    "version 1e999": (GOOD, '{"data": {"data": {}, "metadata": {"version": 1e999}}}', "no number"),
    "metadata list": (GOOD, '{"data": {"data": {}, "metadata": [1]}}', "has no field"),
    "escapes": (GOOD, '{"data": {"data": {"\\u001b[2J": 1}}}', "has no field"),
    "numbers": (
        GOOD,
        '{"data": {"data": {"operator-key": 5, "subscriber-key": [1]}}}',
        "is not 32 hexadecimal digits",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_whatever_a_store_answers_is_told_in_a_sentence(case: str, tmp_path: Path) -> None:
    *answers, says = HOSTILE[case]
    left = [text.encode("utf-8", "surrogateescape") for text in answers]

    class Store(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = left.pop(0) if left else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    certificate, key = self_signed(tmp_path / "tls", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    store: Any = SimpleNamespace(
        url=f"https://127.0.0.1:{server.server_address[1]}", root=certificate.read_text()
    )
    try:
        done = Fetched(store, tmp_path, token="s.wrapped")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
    assert says in done.refusal
    assert re.fullmatch("[ -~]{10,400}", done.refusal)
    assert "Traceback" not in done.answer
    assert done.refusal in done.status
    assert done.file.read_text() == "before"
