#!/usr/bin/python3
"""Get one certificate by EST (RFC 7030), over TLS of the standard library.

Usage: est OPERATION SERVER ROOT CERTIFICATE KEY REQUEST OUT CHAIN
OPERATION is simpleenroll or simplereenroll, SERVER "host:port" or "host:port/label". ROOT must
verify the server's certificate; CERTIFICATE and KEY authenticate us. The program writes the new
certificate for REQUEST to OUT, and its intermediate authorities to CHAIN. On renewal it first reads
those of CERTIFICATE from CHAIN. If ROOT does not verify the new certificate, it writes no file and
prints the reason.
"""

import base64
import binascii
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from typing import List, Tuple

from vpnaas.vdu.programs.common import put

SECONDS = 10
MOST_SECONDS = 45
"""Limit of the whole run, however slowly a server answers."""
MOST = 1 << 18
"""Bytes of an answer."""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.S)


class EstError(Exception):
    """No certificate; the text says why."""


def _openssl(*words: str, data: bytes = b"") -> str:
    alone = dict(os.environ, SSL_CERT_FILE="/dev/null", SSL_CERT_DIR="/dev/null", LC_ALL="C")
    done = subprocess.run(
        ["openssl", *words],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=alone,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")
        raise EstError("openssl {}: {}".format(words[0], " ".join(lines[:2])[:150]))
    return done.stdout.decode("utf-8", "replace")


def _read(path: str) -> str:
    with open(path, encoding="ascii") as stream:
        return stream.read()


class Server:
    """A TLS connection to a server; the root verifies the server, `proof` and `key` are ours."""

    def __init__(self, server: str, root: str, proof: str, key: str) -> None:
        authority, _, label = server.partition("/")
        host, _, port = authority.rpartition(":")
        self.path = "/.well-known/est/" + (label.strip("/") + "/" if label else "")
        context = ssl.create_default_context(cafile=root)
        context.load_cert_chain(proof, key)
        self.connection = http.client.HTTPSConnection(
            host.strip("[]"), int(port), timeout=SECONDS, context=context
        )

    def ask(self, operation: str, request: str = "") -> List[str]:
        """Return the certificates of an answer, in PEM."""
        if request:
            headers = {
                "Content-Type": "application/pkcs10",
                "Content-Transfer-Encoding": "base64",
            }
            self.connection.request("POST", self.path + operation, request, headers)
        else:
            self.connection.request("GET", self.path + operation)
        answer = self.connection.getresponse()
        body = answer.read(MOST + 1)
        if len(body) > MOST:
            raise EstError("{}: the answer has more than {} KiB".format(operation, MOST >> 10))
        if answer.status == 202:
            raise EstError("the server has not decided yet; it is asked again")
        if answer.status != 200:
            said = answer.getheader("Location") or body.decode("utf-8", "replace")
            text = re.sub(r"[^ -~]+", " ", said)[:100].strip()
            raise EstError(
                "{}: HTTP {} {} {}".format(operation, answer.status, answer.reason, text).strip()
            )
        try:
            raw = base64.b64decode(b"".join(body.split()), validate=True)
            return _PEM.findall(_openssl("pkcs7", "-inform", "DER", "-print_certs", data=raw))
        except (binascii.Error, EstError):
            raise EstError(operation + ": the answer has no certificates (PKCS #7 in base64)")


def enrol(words: List[str]) -> Tuple[str, str]:
    """Return the certificate and the intermediate authorities behind it, in PEM."""
    operation, server, root, certificate, key, request, _, chain = words
    body = "".join(line for line in _read(request).splitlines() if not line.startswith("-----"))
    with tempfile.TemporaryDirectory(prefix="osm-vpnaas-est-") as folder:

        def staged(name: str, text: str) -> str:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="ascii") as stream:
                stream.write(text)
            return path

        before = _read(chain) if operation == "simplereenroll" and os.path.exists(chain) else ""
        talk = Server(server, root, staged("proof", _read(certificate) + "\n" + before), key)
        authorities = talk.ask("cacerts")
        issued = talk.ask(operation, body)
        if len(issued) != 1:
            raise EstError("{}: {} certificates instead of one".format(operation, len(issued)))
        behind = "".join(authorities)
        path, more = staged("issued", issued[0]), staged("chain", behind)
        _openssl("verify", "-CAfile", root, "-untrusted", more, path)
    return issued[0], behind


def _late(*_: object) -> None:
    raise EstError("the server did not end within {} s".format(MOST_SECONDS))


def _why(error: Exception, server: str) -> str:
    if isinstance(error, socket.gaierror):
        return "the VDU's name servers give no address of {}".format(server)
    # An SSLError is an OSError too; its reason is the readable part.
    reason = str(getattr(error, "reason", "") or error)
    untrusted = getattr(error, "verify_message", "")
    if untrusted:
        clock = time.strftime("; the clock of this VDU shows %Y-%m-%d %H:%MZ", time.gmtime())
        untimely = re.search("not yet valid|expired", untrusted)
        return "the server's certificate is not trusted: " + untrusted + (clock if untimely else "")
    if reason == "WRONG_VERSION_NUMBER":
        return "the server does not speak TLS at that port"
    ended = "the server ended TLS; it may refuse the certificate of this VDU"
    alert = reason.partition("_ALERT_")[2].replace("_", " ").lower()
    if alert or isinstance(error, ssl.SSLEOFError):
        return "{} ({})".format(ended, alert) if alert else ended
    return reason


def main(words: List[str]) -> int:
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(MOST_SECONDS)
    try:
        issued, behind = enrol(words)
    except (EstError, OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
        sys.stderr.write("{}\n".format(" ".join(_why(error, words[1]).split())[:200]))
        return 1
    signal.alarm(0)
    put(words[7], behind)
    put(words[6], issued)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
