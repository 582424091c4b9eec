"""What openssl does with requests and certificates, in the model: real DER, stand-in signatures."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time

from cryptography import x509 as real
from vpnaas.base import x509

ED25519 = bytes.fromhex("300506032b6570")
COMMON_NAME = bytes.fromhex("0603550403")


def tlv(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def name(common: str) -> bytes:
    return tlv(0x30, tlv(0x31, tlv(0x30, COMMON_NAME, tlv(0x0C, common.encode()))))


def _signature(key: bytes, signed: bytes) -> bytes:
    return hashlib.sha512(b"signature of " + key + signed).digest()


def _signed(key: bytes, body: bytes) -> bytes:
    return tlv(0x30, body, ED25519, tlv(0x03, b"\0", _signature(key, body)))


def _pem(raw: bytes, label: str) -> str:
    return x509.armour(base64.b64encode(raw).decode(), label)


def raw(pem: str) -> bytes:
    return base64.b64decode("".join(x for x in pem.splitlines() if not x.startswith("-")))


def request(key: bytes, common: str, signer: bytes | None = None) -> str:
    """Return a request; `signer` is another's key where the requester does not have it."""
    body = tlv(0x30, b"\x02\x01\x00", name(common), key, tlv(0xA0))
    return _pem(_signed(signer or key, body), x509.REQUEST)


def certificate(
    signer: bytes,
    issuer: str,
    common: str,
    key: bytes,
    serial: str,
    span: tuple[int, int],
    names: tuple[str, ...] = (),
    authority: bool = False,
) -> str:
    """Return a certificate; the times are seconds since the epoch."""
    times = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(t)).encode() for t in span]
    extensions = []
    if authority:
        extensions.append(
            tlv(0x30, bytes.fromhex("0603551d13"), b"\x01\x01\xff",
                tlv(0x04, tlv(0x30, b"\x01\x01\xff")))
        )  # fmt: skip
    if names:
        listed = tlv(0x30, *(tlv(0x82, n.encode()) for n in names))
        extensions.append(tlv(0x30, bytes.fromhex("0603551d11"), tlv(0x04, listed)))
    body = tlv(
        0x30,
        tlv(0xA0, b"\x02\x01\x02"),
        tlv(0x02, bytes.fromhex(serial)),
        ED25519,
        name(issuer),
        tlv(0x30, *(tlv(0x18, t) for t in times)),
        name(common),
        key,
        *([tlv(0xA3, tlv(0x30, *extensions))] if extensions else []),
    )
    return _pem(_signed(signer, body), x509.CERTIFICATE)


def request_verifies(pem: str) -> bool:
    found = real.load_pem_x509_csr(pem.encode())
    key = base64.b64decode(x509.request("", pem).key)
    return found.signature == _signature(key, found.tbs_certrequest_bytes)


def verifies(pem: str, root: str, now: int, between: tuple[str, ...] = ()) -> bool:
    """Tell whether a root vouches for a certificate, possibly through others."""
    if any(verifies(one, root, now) and verifies(pem, one, now) for one in between):
        return True
    try:
        found, authority = x509.certificate("", pem), x509.certificate("", root)
    except x509.InputError:
        return False
    read = real.load_pem_x509_certificate(pem.encode())
    signature = _signature(base64.b64decode(authority.key), read.tbs_certificate_bytes)
    return (
        found.issued_by(authority)
        and read.signature == signature
        and found.begins <= now < found.ends
    )


def common_of(pem: str) -> str:
    """Return the common name of who a certificate is for."""
    (name,) = real.load_pem_x509_certificate(pem.encode()).subject
    return str(name.value)


class OpenSsl:
    """The commands `req`, `ca` and `verify` of one VDU."""

    def __init__(self, files: dict[str, str], public, clock) -> None:
        self.files = files
        self.public = public  # of a private key's text
        self.clock = clock

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        """Return exit code, standard output, standard error."""

        def option(word: str) -> str:
            return argv[argv.index(word) + 1]

        if argv[1] == "verify":
            more = self.files[option("-untrusted")] if "-untrusted" in argv else ""
            between, root = x509.bundle(more), self.files[option("-CAfile")]
            good = verifies(self.files[argv[-1]], root, self.clock(), between)
            return (0, f"{argv[-1]}: OK\n", "") if good else (2, "", "error 7: lookup: wrong\n")
        if argv[1] == "req" and "-verify" in argv:
            good = request_verifies(self.files[option("-in")])
            return (
                0,
                "",
                "Certificate request self-signature verify " + ("OK" if good else "failed"),
            )
        if argv[1] == "req":
            key = self.public(self.files[option("-key")])
            common = option("-subj").removeprefix("/CN=")
            if "-x509" not in argv:
                return 0, request(key, common), ""
            now = self.clock()
            span = (now, now + 86400 * int(option("-days")))
            return 0, certificate(key, common, common, key, "7f", span, authority=True), ""
        folder = option("-config").rpartition("/")[0]
        if "-gencrl" in argv:
            index = self.files[folder + "/index.txt"]
            root = x509.certificate("", self.files[folder + "/ca.pem"])
            gone = [x.split("\t")[3].lower() for x in index.splitlines() if x.startswith("R")]
            return 0, json.dumps({"issuer": root.subject, "serials": gone}), ""
        return self._sign(folder, option)

    def _sign(self, folder: str, option) -> tuple[int, str, str]:
        text = self.files[option("-in")]
        if not request_verifies(text):
            return 1, "", "Signature did not match the certificate request"
        asked = x509.request("", text)
        root = x509.certificate("", self.files[folder + "/ca.pem"])
        serial = self.files[folder + "/serial"].strip()
        (alternative,) = re.findall(r"DNS:(\S+)", self.files[option("-extfile")])
        span = tuple(
            int(time.mktime(time.strptime(option(word), "%Y%m%d%H%M%SZ"))) - time.timezone
            for word in ("-startdate", "-enddate")
        )
        made = certificate(
            self.public(self.files[folder + "/ca-key.pem"]),
            common_of(root.pem),
            asked.name,
            base64.b64decode(asked.key),
            serial.lower(),
            span,
            (alternative,),
        )
        line = f"V\t{option('-enddate')[2:]}\t\t{serial}\tunknown\t/CN={asked.name}\n"
        self.files[folder + "/index.txt"] += line
        return 0, made, ""
