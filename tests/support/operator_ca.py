"""An operator's authority: a root, an issuing authority below it, EST, revocation lists and OCSP.

openssl signs and answers OCSP; this file is the server of EST (RFC 7030) before it. It imports the
standard library only and is a program as well, so that it can run in a VDU:

    operator_ca.py FOLDER make HOST PORT    make the keys and certificates
    operator_ca.py FOLDER serve             EST on PORT, lists by HTTP on PORT+1, OCSP on PORT+2
    operator_ca.py FOLDER sign REQUEST      print a certificate and the issuing authority's
    operator_ca.py FOLDER revoke SERIAL     revoke a certificate
"""

from __future__ import annotations

import base64
import http.server
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

KEY = ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
CONF = """[ca]
default_ca = {name}
[{name}]
database = index-{name}
new_certs_dir = .
rand_serial = yes
crlnumber = number-{name}
certificate = {name}.pem
private_key = {name}.key
default_md = sha256
default_crl_days = 1
unique_subject = no
policy = any
copy_extensions = copy
x509_extensions = {kind}
[any]
commonName = supplied
[end]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
crlDistributionPoints = URI:http://{host}:{lists}/{name}.crl
{ocsp}
[below]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
crlDistributionPoints = URI:http://{host}:{lists}/{name}.crl
"""


class Authority:
    """The files of the authority, and what openssl does with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def openssl(self, *words: str, input: bytes = b"") -> bytes:
        done = subprocess.run(
            ["openssl", *words], cwd=self.folder, input=input, capture_output=True, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr.decode().strip().splitlines()[-1])
        return done.stdout

    @property
    def settings(self) -> dict[str, Any]:
        """Where it listens, and for how many seconds its certificates are good."""
        found: dict[str, Any] = json.loads((self.folder / "settings.json").read_text())
        return found

    def set(self, **settings: Any) -> None:
        """Change settings, also of a server that runs."""
        before = self.settings if (self.folder / "settings.json").exists() else {}
        (self.folder / "settings.json").write_text(json.dumps({**before, **settings}))

    def make(self, host: str, port: int, ocsp: bool = False) -> None:
        """Make the roots of operator and vendor, the issuing authority, and the server's key."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.set(host=host, port=port, seconds=86400, ocsp=ocsp)
        answers = f"authorityInfoAccess = OCSP;URI:http://{host}:{port + 2}" if ocsp else ""
        for name, kind in (("root", "below"), ("issuing", "end")):
            text = CONF.format(name=name, kind=kind, host=host, lists=port + 1, ocsp=answers)
            (self.folder / f"{name}.cnf").write_text(text)
            (self.folder / f"index-{name}").touch()
            (self.folder / f"number-{name}").write_text("01\n")
        for name in ("root", "vendor", "issuing", "tls", "device"):
            self.openssl(*KEY, "-out", f"{name}.key")
        for name in ("root", "vendor"):
            self.openssl(
                "req", "-x509", "-config", "/dev/null", "-key", f"{name}.key", "-subj",
                f"/CN={name}", "-days", "9", "-out", f"{name}.pem",
                "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            )  # fmt: skip
        for name in ("issuing", "tls", "device"):
            alternative = f"subjectAltName={'IP' if host[0].isdigit() else 'DNS'}:{host}"
            self.openssl(
                "req", "-new", "-config", "/dev/null", "-key", f"{name}.key", "-subj",
                f"/CN={name}", "-out", f"{name}.csr",
                *(("-addext", alternative) if name == "tls" else ()),
            )  # fmt: skip
        below = self.openssl(
            "ca", "-batch", "-notext", "-config", "root.cnf", "-in", "issuing.csr", "-days", "9"
        )
        (self.folder / "issuing.pem").write_bytes(below)
        self.openssl(
            "x509", "-req", "-in", "device.csr", "-CA", "vendor.pem", "-CAkey", "vendor.key",
            "-CAcreateserial", "-days", "9", "-out", "device.pem",
        )  # fmt: skip
        (self.folder / "tls.pem").write_bytes(self.sign((self.folder / "tls.csr").read_bytes()))
        (self.folder / "clients.pem").write_text(self.text("root.pem") + self.text("vendor.pem"))
        self.lists()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def sign(self, request: bytes) -> bytes:
        """Return a certificate for a request in PEM, the issuing authority's behind it."""
        (self.folder / "request").write_bytes(request)
        stamps = [
            time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
            for seconds in (-min(self.settings["seconds"], 300), self.settings["seconds"])
        ]
        signed = self.openssl(
            "ca", "-batch", "-notext", "-config", "issuing.cnf", "-in", "request",
            "-startdate", stamps[0], "-enddate", stamps[1],
        )  # fmt: skip
        if not signed:  # openssl exits with 0 then
            raise ValueError("the signature of the request does not verify")
        self._answered_anew()
        return signed + (self.folder / "issuing.pem").read_bytes()

    def revoke(self, serial: str) -> None:
        (found,) = [path for path in self.folder.glob("*.pem") if path.stem.lower() == serial]
        self.openssl("ca", "-config", "issuing.cnf", "-revoke", found.name)
        self.lists()
        self._answered_anew()

    def _answered_anew(self) -> None:
        """Ask OCSP about nothing: openssl reads a changed index after the answer, not before."""
        found = self.settings
        if found["ocsp"]:
            url = f"http://{found['host']}:{found['port'] + 2}"
            words = ("ocsp", "-issuer", "issuing.pem", "-serial", "1", "-url", url, "-noverify")
            with suppress(ValueError):  # It may not serve yet.
                self.openssl(*words, "-timeout", "5")

    def lists(self) -> None:
        """Issue the revocation lists, which are good for an hour."""
        for name in ("root", "issuing"):
            crl = self.openssl("ca", "-config", f"{name}.cnf", "-gencrl", "-crlsec", "3600")
            (self.folder / "www").mkdir(exist_ok=True)
            der = self.openssl("crl", "-outform", "DER", input=crl)
            (self.folder / "www" / f"{name}.crl").write_bytes(der)

    def bag(self, certificates: str) -> bytes:
        """Return certificates as EST sends them: a CMS without content, in base64."""
        (self.folder / "bag").write_text(certificates)
        words = ("crl2pkcs7", "-nocrl", "-certfile", "bag", "-outform", "DER")
        return base64.encodebytes(self.openssl(*words))


class Handler(http.server.BaseHTTPRequestHandler):
    """The operations of EST that RFC 7030 clause 3.2.2 asks of every server."""

    authority: Authority

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        """Distribute the authorities (clause 4.1)."""
        chain = self.authority.text("root.pem") + self.authority.text("issuing.pem")
        self.reply("/cacerts", lambda: chain)

    def do_POST(self) -> None:
        """Enrol (clause 4.2), who is of the vendor; or again, who is of the operator."""
        issuer = dict(part[0] for part in self.connection.getpeercert()["issuer"])  # type: ignore[attr-defined]
        again = issuer["commonName"] == "issuing"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        pem = b"-----BEGIN CERTIFICATE REQUEST-----\n%s\n-----END CERTIFICATE REQUEST-----\n"

        def issue() -> str:
            request = pem % base64.encodebytes(base64.b64decode(body)).strip()
            return self.authority.sign(request).decode().partition("-----\n-----BEGIN")[0] + "-----"

        self.reply("/simplereenroll" if again else "/simpleenroll", issue)

    def reply(self, operation: str, work: Any) -> None:
        kind, status = "application/pkcs7-mime; smime-type=certs-only", 200
        setting = self.authority.settings.get("status", 200)
        try:
            if self.path != "/.well-known/est" + operation:
                raise ValueError(f"{self.path} is not for you")
            if setting != 200 and operation != "/cacerts":
                raise ValueError("no such cell")
            body = self.authority.bag(work())
            odd = self.authority.settings.get("answer")
            body = body if odd is None else odd.encode()
        except ValueError as error:
            kind, body = "text/plain", str(error).encode()
            status = setting if setting != 200 else 403
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "https://ca.example/est")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Quiet(http.server.ThreadingHTTPServer):
    """A server that does not tell who broke a connection off."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent and let the client read the alert; unread data would reset the connection."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(5)
            while request.recv(4096):
                pass


def serve(authority: Authority) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    host, port = "", authority.settings["port"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "tls.pem", authority.folder / "tls.key")
    context.load_verify_locations(authority.folder / "clients.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    bound = type("Bound", (Handler,), {"authority": authority})
    secure = Quiet((host, port), bound)
    secure.socket = context.wrap_socket(
        secure.socket, server_side=True, do_handshake_on_connect=False
    )
    plain = partial(http.server.SimpleHTTPRequestHandler, directory=str(authority.folder / "www"))
    lists = Quiet((host, port + 1), plain)
    threading.Thread(target=lists.serve_forever, daemon=True).start()
    with subprocess.Popen(
        [
            "openssl", "ocsp", "-port", str(port + 2), "-index", "index-issuing", "-CA",
            "issuing.pem", "-rsigner", "issuing.pem", "-rkey", "issuing.key", "-nmin", "1",
        ],
        cwd=authority.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as ocsp:  # fmt: skip
        try:
            secure.serve_forever()
        finally:
            ocsp.kill()


def main(words: list[str]) -> None:
    authority = Authority(Path(words[0]))
    if words[1] == "make":
        authority.make(words[2], int(words[3]), "ocsp" in words)
    elif words[1] == "serve":
        serve(authority)
    elif words[1] == "sign":
        sys.stdout.buffer.write(authority.sign(Path(words[2]).read_bytes()))
    else:
        authority.revoke(words[2].lower())


if __name__ == "__main__":
    main(sys.argv[1:])
