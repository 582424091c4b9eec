"""Certificates of a link for both ends of a guest: the charm's own steps in the test's folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vpnaas.base import x509
from vpnaas.base.digests import digest
from vpnaas.base.errors import VpnaasError
from vpnaas.extras.certificate_actions import given as given_params
from vpnaas.extras.certificate_actions import requests
from vpnaas.tunnels.ipsec import authority, certificates
from vpnaas.tunnels.ipsec.configuration import Chain
from vpnaas.vdu.programs import agent
from vpnaas.vdu.steps import Step

from support import authority as made
from support.model_world import spki

PROVIDER, REQUIRER, PEER = "left", "right", "rel-1"


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
    """A link whose left end has the authority, and what either end has of it."""

    def __init__(self, folder: Path, link: str, keys: Mapping[str, str], now: int) -> None:
        self.folder, self.link, self.keys, self.now = folder, link, keys, now
        for end in (PROVIDER, REQUIRER):
            (folder / end / "own" / link).mkdir(parents=True)
            for part in ("x509ca", "x509crl"):
                (folder / end / "swanctl" / part).mkdir(exist_ok=True)
        do(folder, PROVIDER, authority.make(link, self.identity(PROVIDER), now))
        self.root = self._read(PROVIDER, authority.certificate_file(link))
        self.issued = {}
        for end, path in (
            (PROVIDER, certificates.own_file(link)),
            (REQUIRER, certificates.pin_file(link, keys[REQUIRER])),
        ):
            asked = do(folder, end, certificates.ask(link, self.identity(end)))
            request = asked[f"{link}/ask/text"]["text"]
            serial = authority.serial(keys[end], now, ())
            issue = authority.Issue(request, self.identity(end), serial, path, 86400)
            do(folder, PROVIDER, authority.sign(link, issue, now))
            self.issued[end] = self._read(PROVIDER, path)
        for end, path, found in (
            (PROVIDER, certificates.trust_file(link), self.root),
            (REQUIRER, certificates.trust_file(link, PEER), self.root),
            (REQUIRER, certificates.own_file(link, PEER), self.issued[REQUIRER]),
            (REQUIRER, certificates.pin_file(link, keys[PROVIDER]), self.issued[PROVIDER]),
        ):
            Path(moved(path, folder, end)).write_text(found.pem, encoding="ascii")
        self.revoke(())

    def identity(self, end: str) -> str:
        return f"{self.link}-{end}"

    def handle(self, end: str) -> str:
        """Return what the certificate of an end is called."""
        return x509.handle(self.issued[end].serial, self.root)

    def chain(self, end: str) -> Chain:
        """Return how an end proves itself, with paths of a VDU."""
        slot = "" if end == PROVIDER else PEER
        return Chain(
            name=self.handle(end),
            own=certificates.own_file(self.link, slot),
            authority=certificates.trust_file(self.link, slot),
            revocation="strict" if end == PROVIDER else "relaxed",
        )

    def revoke(self, ends: Sequence[str]) -> Path:
        """Issue the revocation list anew with the certificates of some ends; return its file."""
        entries = authority.entries(
            Path(moved(authority.folder(self.link), self.folder, PROVIDER), "index.txt").read_text()
        )
        good = {found.serial for end, found in self.issued.items() if end not in ends}
        stolen = {digest(self.keys[end]) for end in ends}
        do(
            self.folder,
            PROVIDER,
            authority.revoke(self.link, entries, None, good, stolen, self.now),
        )
        return Path(moved(authority.crl_file(self.link), self.folder, PROVIDER))

    def _read(self, end: str, path: str) -> x509.Certificate:
        found = x509.certificate(path, Path(moved(path, self.folder, end)).read_text())
        assert found.text
        return found


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
