"""Hostile certificates and databags, read by a charm's own files on the oldest Python at hand.

Fuzzing elsewhere runs with this machine's Python and the current cryptography. A charm carries
older ones, and must refuse with a sentence what it does not read, too.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509 as real
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from flavours import Flavour, once
from support.juju import pair

pytestmark = pytest.mark.slow

LIBRARY = Path(__file__).resolve().parents[2] / "charms/lib"
EXAMPLES = 400
NAME = bytes.fromhex("0603550403")
"""The type of a common name, before its text."""
READER = """
import json, sys
from vpnaas.base import x509
from vpnaas.base.errors import VpnaasError
from vpnaas.peers import offer
READERS = {"certificate": x509.certificate, "request": x509.request, "authority": x509.authority,
           "bag": lambda where, bag: offer.Remote.read(7, where, bag)}
found = []
for kind, given in json.load(sys.stdin):
    try:
        result = READERS[kind]("here", given)
        found.append("read, " + str(getattr(result, "text", None) or result.problem))
    except VpnaasError as error:
        found.append("refused, " + str(error))
    except BaseException as error:  # what compiled code raises is no Exception
        found.append("broke, {!r}".format(error))
json.dump(found, sys.stdout)
"""


def built(key: object, days: int = 30) -> list[tuple[str, bytes]]:
    """Return a certificate and a request with a key of any kind."""
    private: ed25519.Ed25519PrivateKey = key  # type: ignore[assignment]
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    name = real.Name([real.NameAttribute(NameOID.COMMON_NAME, "cell-1.example")])
    names = real.SubjectAlternativeName([real.DNSName("cell-1.example")])
    begins = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    ends = begins + datetime.timedelta(days)
    certificate = (
        real.CertificateBuilder(name, name, private.public_key(), 4711, begins, ends)
        .add_extension(real.BasicConstraints(True, None), critical=True)
        .add_extension(names, critical=False)
        .sign(private, digest)
    )
    request = real.CertificateSigningRequestBuilder(name).add_extension(names, critical=False)
    der = serialization.Encoding.DER
    return [
        ("certificate", certificate.public_bytes(der)),
        ("request", request.sign(private, digest).public_bytes(der)),
    ]


def spoilt(raw: bytes, chance: random.Random) -> bytes:
    """Change, repeat, drop or cut off some bytes."""
    text = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        at, size = chance.randrange(len(text)), chance.randint(1, 4)
        new = bytes(chance.choice((0, 1, 0x30, 0x80, 0xFF, chance.randrange(256))) for _ in "x")
        chance.choice(
            (
                lambda at=at, new=new: text.__setitem__(slice(at, at + 1), new),
                lambda at=at, size=size: text.__setitem__(slice(at, at), text[at : at + size]),
                lambda at=at, size=size: text.__delitem__(slice(at, at + size)),
            )
        )()
        if not text:
            return b"\0"
    return bytes(text[: chance.randint(1, len(text))] if chance.random() < 0.1 else text)


def certificates(chance: random.Random) -> list[tuple[str, str]]:
    good = [
        *built(ed25519.Ed25519PrivateKey.generate()),
        *built(ec.generate_private_key(ec.SECP256R1())),
        *built(rsa.generate_private_key(65537, 2048), days=365 * 300),
        *built(ec.generate_private_key(ec.SECP192R1())),
        *built(dsa.generate_private_key(2048)),
    ]
    # A kind of text that there is none of in names (X.680), for UTF8String.
    strange = [(kind, raw.replace(NAME + b"\x0c", NAME + b"\x80")) for kind, raw in good]
    cases = good + strange
    for _ in range(EXAMPLES):
        kind, raw = chance.choice(good[:6])
        kind = "authority" if kind == "certificate" and chance.random() < 0.2 else kind
        cases.append((kind, spoilt(raw, chance)))
    return [(kind, base64.b64encode(raw).decode()) for kind, raw in cases]


JUNK = (
    "", " ", "\0", "$(reboot)", "\u2028", "\ud800", "9" * 5000, "-1", "1e999", "[", "{}" * 2000,
    "0.0.0.0/0", "::/0", "::ffff:1.2.3.4", "1.2.3.4/33", "²", "١٢", "A" * 43 + "=", "MIIB",
    "a,b,,c", "\u0130", "Ａ", "İ" * 300, "\r\nPostUp = reboot",
)  # fmt: skip


def bags() -> list[tuple[str, dict[str, str]]]:
    """Return databags of honest ends, with each text in turn replaced by each junk."""
    found = []
    for options in ({}, {"credentials": "cert-external"}, {"preshared_key": True}):
        _, _, _, relation = pair("ipsec" if options else "wireguard", **options)
        good = dict(relation.ends["mme"])
        found += [("bag", good)]
        found += [("bag", {**good, key: junk}) for key in good for junk in JUNK]
        found += [("bag", {k: v for k, v in good.items() if k != key}) for key in good]
    return found


def read(python: Path | str, path: list[Path], cases: Sequence[tuple[str, object]]) -> list[str]:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", READER],
        env={**os.environ, "PYTHONPATH": ":".join(map(str, path)), "PYTHONIOENCODING": "utf-8"},
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    assert len(answers) == len(cases)
    return answers


def both(flavour: Flavour, cases: Sequence[tuple[str, object]]) -> tuple[list[str], list[str]]:
    """Return what the charm's files and Python answer, and this machine's."""
    carried = read(flavour.python, [LIBRARY, flavour.charm("hss") / "venv"], cases)
    return carried, read(sys.executable, [LIBRARY], cases)


@once
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))]
)
def test_a_charms_own_files_read_or_refuse_certificates(flavour: Flavour, seed: int) -> None:
    cases = certificates(random.Random(seed))  # noqa: S311
    carried, current = both(flavour, cases)
    assert [row for row in zip(cases, carried, strict=True) if row[1].startswith("broke")] == []
    assert [row for row in zip(cases, current, strict=True) if row[1].startswith("broke")] == []
    # Of what is as it should be, weak keys included, both think the same.
    assert carried[:10] == current[:10]
    assert {answer.partition(",")[0] for answer in carried} == {"read", "refused"}


@once
def test_a_charms_own_files_read_databags_as_the_current_ones_do(flavour: Flavour) -> None:
    cases = bags()
    carried, current = both(flavour, cases)
    rows = zip(cases, carried, current, strict=True)
    assert [row for row in rows if row[1] != row[2] or row[1].startswith("broke")] == []
