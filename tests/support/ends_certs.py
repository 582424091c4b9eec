"""Certificates of a link for both ends of a guest: the charm's own steps in the test's folder."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509 as real
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID
from vpnaas.base import x509
from vpnaas.base.errors import VpnaasError
from vpnaas.features.certificate_actions import given as given_params
from vpnaas.features.certificate_actions import requests
from vpnaas.tunnels.ipsec import certificates
from vpnaas.tunnels.ipsec.names import CERTIFICATE, TRUST
from vpnaas.vdu.programs import agent
from vpnaas.vdu.steps import Step

from support import authority as made
from support.model_world import spki

ENDS = ("left", "right")


def moved(text: str, folder: Path, end: str) -> str:
    """Return a text with the files it names on a VDU at their places for an end."""
    home = folder / end
    return text.replace("/etc/swanctl", f"{home}/swanctl").replace("/etc/osm-vpnaas", f"{home}/own")


def do(folder: Path, end: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Do what the agent does on a VDU; return the results by step."""
    listed = json.loads(moved(json.dumps([step.to_json() for step in steps]), folder, end))
    done = agent.execute(listed, exclusive=False)
    assert done["failed"] is None, done["failed"]
    results: dict[str, Any] = done["results"]
    return results


class Certified:
    """An authority, and the certificates that both ends of a link have of it."""

    def __init__(self, folder: Path, link: str, keys: Mapping[str, str]) -> None:
        self.folder, self.link = folder, link
        self._key = ed25519.Ed25519PrivateKey.generate()
        self.root = self._signed("authority", self._key.public_key())
        self.issued: dict[str, real.Certificate] = {}
        for end in ENDS:
            (folder / end / "own" / link).mkdir(parents=True)
            for part in ("x509ca", "x509crl"):
                (folder / end / "swanctl" / part).mkdir(exist_ok=True)
            identity = f"{link}-{end}"
            asked = do(folder, end, certificates.ask(link, identity))
            request = real.load_pem_x509_csr(asked[f"{link}/ask/text"]["text"].encode())
            self.issued[end] = self._signed(identity, request.public_key())
        for end, other in (ENDS, ENDS[::-1]):
            for path, text in (
                (TRUST.format(link), pem(self.root)),
                (CERTIFICATE.format(link), pem(self.issued[end])),
                (certificates.pin_file(link, keys[other]), pem(self.issued[other])),
                (f"/etc/swanctl/x509crl/osm-vpnaas-{link}.pem", self.revocation_list()),
            ):
                Path(moved(path, folder, end)).write_text(text, encoding="ascii")

    def _signed(self, name: str, key: Any) -> real.Certificate:
        authority = name == "authority"
        now, names = datetime.datetime.now(datetime.UTC), real.DNSName(name)
        return (
            real.CertificateBuilder()
            .subject_name(common_name(name))
            .issuer_name(common_name("authority"))
            .public_key(key)
            .serial_number(real.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(real.BasicConstraints(authority, None), critical=True)
            .add_extension(real.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(real.SubjectAlternativeName([names]), critical=False)
            .sign(self._key, None)
        )

    def handle(self, end: str) -> str:
        """Return what the certificate of an end is called."""
        issued, root = (x509.certificate("", pem(c)) for c in (self.issued[end], self.root))
        return x509.handle(issued.serial, root)

    def revocation_list(self, *ends: str) -> str:
        """Return the list with the certificates of some ends."""
        now, key = datetime.datetime.now(datetime.UTC), self._key.public_key()
        builder = (
            real.CertificateRevocationListBuilder()
            .issuer_name(common_name("authority"))
            .last_update(now - datetime.timedelta(minutes=5))
            .next_update(now + datetime.timedelta(days=1))
            .add_extension(real.CRLNumber(1 + len(ends)), critical=False)
            .add_extension(real.AuthorityKeyIdentifier.from_issuer_public_key(key), critical=False)
        )
        for end in ends:
            entry = real.RevokedCertificateBuilder().revocation_date(now)
            entry = entry.serial_number(self.issued[end].serial_number)
            builder = builder.add_revoked_certificate(entry.build())
        return pem(builder.sign(self._key, None))


def common_name(text: str) -> real.Name:
    return real.Name([real.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(signed: Any) -> str:
    text: str = signed.public_bytes(serialization.Encoding.PEM).decode("ascii")
    return text


def b64(pem):
    return base64.b64encode(made.raw(pem)).decode()


def strange_key(text):
    return spki("ED25519 " + base64.b64encode(text.encode()).decode())


class Operator:
    def __init__(self, name="operator", seed="operator"):
        self.key, self.name = strange_key(seed), name
        self.root = made.certificate(
            self.key, name, name, self.key, "0101", (0, 9_000_000), authority=True
        )

    def sign(self, charm, which="request", names=None, span=(0, 9_000_000), serial="0102"):
        asked = requests("s6a", charm.plans["s6a"])
        request = x509.request("", asked[which])
        names = (asked["ike-identity"],) if names is None else names
        return made.certificate(
            self.key, self.name, request.name, base64.b64decode(request.key), serial, span, names
        )

    def bring(self, charm, certificate, root=None):
        params = {"certificate": certificate, "ca-certificate": root or self.root}
        charm.reconcile(certificates={"s6a": given_params(params)})
        plan = charm.plans["s6a"]
        if plan.unusable:
            raise VpnaasError(plan.problems[0])
        charm.reconcile()
