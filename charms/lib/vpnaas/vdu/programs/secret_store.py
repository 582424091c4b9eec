#!/usr/bin/python3
"""Fetch a secret from a store with the API of Vault (key/value, version 2) into a file.

The request is JSON on standard input, so that no argument vector holds the token:
{"server", "root", "token", "path", "fields": {name: [field, form, words]}, "file", "text"}.
`token` is a wrapping token. Unwrapping works once and gives the token that may read `path`; that
one is revoked afterwards. Each value must match its form, a regular expression; `words` describes
the form in error texts. The program writes all values as JSON by name to `file`, or with `text`
the only value; if they changed, FILE.for gets another random name of them, which starts with MARK.
If anything fails, `file` stays unchanged and FILE.state has the reason; else FILE.state is empty.
The answer is {"version": N} of the secret.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import sys
from typing import Any, Dict, Tuple

from vpnaas.vdu.programs.common import content, put

SECONDS = 10
MOST_SECONDS = 45
"""Limit of the whole run, however slowly a store answers."""
MOST = 1 << 20
MARK = "store-"
"""Start of a name in FILE.for; a key that came in another way has a name without it."""
Json = Dict[str, Any]


class StoreError(Exception):
    """The fetch failed; the text says why and contains no secret."""


def _mapping(value: object) -> Json:
    """Return a part of an answer that should be an object; a store may answer anything."""
    return value if isinstance(value, dict) else {}


class Store:
    """A TLS connection to a store, whose certificate the root must verify."""

    def __init__(self, server: str, root: str) -> None:
        host, _, port = server.rpartition(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=root)
        self.connection = http.client.HTTPSConnection(
            host.strip("[]"), int(port), timeout=SECONDS, context=context
        )

    def ask(self, method: str, path: str, token: str) -> Tuple[int, Json]:
        """Return the status and the document of an answer."""
        try:
            self.connection.request(method, "/v1/" + path, headers={"X-Vault-Token": token})
            answer = self.connection.getresponse()
            body, status = answer.read(MOST), answer.status
        except (OSError, http.client.HTTPException) as error:
            # An SSLError is an OSError too; its reason is the readable part.
            untrusted = getattr(error, "verify_message", "")
            if untrusted:
                raise StoreError("the store's certificate is not trusted: " + untrusted)
            if isinstance(error, socket.gaierror):
                raise StoreError("the VDU's name servers give no address of the store")
            raise StoreError("the store does not answer: {}".format(error))
        if status in (429, 472, 473, 501, 503):
            raise StoreError("the store is sealed or not the active one (HTTP {})".format(status))
        try:
            document = json.loads(body.decode("utf-8")) if body else {}
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise StoreError("HTTP {}: the answer is not of Vault's API".format(status))
        return status, document


def _unwrapped(store: Store, token: str) -> str:
    """Return the token inside a wrapping token."""
    status, document = store.ask("POST", "sys/wrapping/unwrap", token)
    if status in (400, 403):
        raise StoreError(
            "ALARM: the store does not know the wrapping token. It has expired, was mistyped, or"
            " was used before. If it is new, somebody else used it: revoke it and change the secret"
        )
    inner = _mapping(document.get("auth")).get("client_token")
    # It goes into a header.
    if status != 200 or not isinstance(inner, str) or not re.match(r"\A[!-~]{1,4096}\Z", inner):
        raise StoreError("the wrapped secret is not a token (HTTP {})".format(status))
    return inner


def _read(store: Store, token: str, path: str) -> Tuple[Json, int]:
    """Return the fields of a secret, and its version."""
    mount, _, rest = path.partition("/")
    status, document = store.ask("GET", "{}/data/{}".format(mount, rest), token)
    if status == 403:
        raise StoreError("the token may not read {}".format(path))
    data = _mapping(document.get("data"))
    values = data.get("data")
    if status == 404 or (status == 200 and values is None):
        raise StoreError("the store has nothing at {}".format(path))
    if status != 200 or not isinstance(values, dict):
        raise StoreError("HTTP {}: {} is no secret of version 2".format(status, path))
    version = _mapping(data.get("metadata")).get("version", 0)
    if not isinstance(version, int) or abs(version) >= 1 << 63:
        raise StoreError("{} has a version that is no number".format(path))
    return values, version


def fetch(request: Json) -> Tuple[Dict[str, str], int]:
    """Return the values by name, and the secret's version."""
    store, path = Store(request["server"], request["root"]), request["path"]
    token = _unwrapped(store, request["token"])
    try:
        values, version = _read(store, token, path)
    finally:
        try:
            signal.alarm(SECONDS)  # also if the time is up
            store.ask("POST", "auth/token/revoke-self", token)
        except StoreError:
            pass  # It ends by itself.
    result = {}
    for name, (field, form, words) in request["fields"].items():
        value = values.get(field)
        if value is None:
            there = ", ".join(sorted(map(str, values)))[:200]
            raise StoreError("{} has no field {}; it has {}".format(path, field, there))
        if not isinstance(value, str) or not re.match(r"\A(?:{})\Z".format(form), value):
            raise StoreError("{}: {} is not {}".format(path, field, words))
        result[name] = value
    return result, version


def _late(*_: object) -> None:
    raise StoreError("the store did not end within {} s".format(MOST_SECONDS))


def main() -> int:
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(MOST_SECONDS)
    request = json.loads(sys.stdin.read())
    file = request["file"]
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    try:
        values, version = fetch(request)
    except StoreError as error:
        signal.alarm(0)
        reason = "".join(c if " " <= c <= "~" else " " for c in str(error))[:400]
        put(file + ".state", reason)
        sys.stderr.write(reason + "\n")
        return 1
    signal.alarm(0)
    text = json.dumps(values, sort_keys=True)
    if request["text"]:
        (text,) = values.values()
    if content(file) != text + "\n" or not content(file + ".for").startswith(MARK):
        # If it fails in between, no name stands for a file that has changed.
        put(file + ".for", "")
        put(file, text + "\n")
        put(file + ".for", MARK + os.urandom(8).hex() + "\n")
    put(file + ".state", "")
    sys.stdout.write(json.dumps({"version": version}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
