"""The certificate authority of a link, on the VDU of its provider.

Its key is made there and stays there. `openssl ca` signs one certificate per key of a peer, so
another certificate needs another key. openssl's index lists the issued certificates. A serial
number contains the key's digest and the time, so the index also shows which keys have one.
"""

import calendar
import time
from typing import List, Optional, Sequence, Set, Tuple

import attr

from vpnaas.base.digests import digest
from vpnaas.base.links import directory as link_directory
from vpnaas.vdu.steps import Step, directory, read, remove, run, write

DAYS = 3650
"""Life of the authority and of its revocation list. The same VDU writes and reads the list."""
MOST = 5000
"""Limit of entries in the index, so that repeated requests do not fill the VDU."""
SKEW = 300
"""Seconds by which the clocks of two VDUs may differ."""
FIRST = 26
"""Digits of the serial number of a key's first certificate, see `serial`."""
_UTC, _GENERAL = "%y%m%d%H%M%SZ", "%Y%m%d%H%M%SZ"

CONF = """# Written by osm-vpnaas.
[ca]
default_ca = link

[link]
database = {0}/index.txt
new_certs_dir = {0}
serial = {0}/serial
crlnumber = {0}/crlnumber
certificate = {0}/ca.pem
private_key = {0}/ca-key.pem
default_md = default
unique_subject = no
policy = subject
crl_extensions = list
# Nothing a request asks for gets into a certificate but its name, which the charm has vetted.
copy_extensions = none

[subject]
commonName = supplied

[req]
distinguished_name = subject

[root]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash

[list]
authorityKeyIdentifier = keyid
"""
PROFILE = """[end]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = 1.3.6.1.5.5.7.3.17
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:{}
"""
"""RFC 5280 section 4.2 and, for the extended key usage, RFC 4945 section 5.1.3.12."""


@attr.frozen
class Entry:
    """A certificate the authority has issued."""

    serial: str
    subject: str
    ends: int  # Seconds since the epoch.
    revoked: str = ""  # When and why it was revoked, as openssl writes it; "" for one in force.


@attr.frozen
class Issue:
    """A certificate that a plan makes."""

    pem: str  # The request.
    identity: str  # The IKE identity it is for.
    serial: str  # Hexadecimal digits.
    path: str  # File it goes to.
    seconds: int  # Its life.


def folder(link: str) -> str:
    """Return the directory of a link's authority."""
    return link_directory(link) + "/ca"


def certificate_file(link: str) -> str:
    """Return the file of the authority's own certificate."""
    return folder(link) + "/ca.pem"


def crl_file(link: str) -> str:
    """Return the file of the revocation list (RFC 5280 section 5) that strongSwan reads."""
    return "/etc/swanctl/x509crl/osm-vpnaas-{}.pem".format(link)


def serial(key: str, now: int, issued: Sequence[Entry], former: str = "") -> str:
    """Return the serial number of a certificate issued now; its first octet keeps it positive.

    A certificate in place of one that has ended (`former`) shares the first part of its number.

    Each certificate of an authority has its own number (RFC 5280 section 4.1.2.2). If a key got a
    new certificate in the second of the old one, both would have the same number. The new one would
    then be revoked together with the old one.
    """
    used = {entry.serial for entry in issued}
    start = former[:FIRST] or "01" + digest(key)
    number = "{}{:08x}".format(start, now & 0xFFFFFFFF)
    while number in used:
        now += 1
        number = "{}{:08x}".format(start, now & 0xFFFFFFFF)
    return number


def parts(name: str) -> Tuple[str, str]:
    """Split a certificate's name into that of the key's first one and what a later one adds."""
    number, dash, authority = name.partition("-")
    return number[:FIRST] + dash + authority, number[FIRST:]


def index_file(link: str) -> str:
    """Return the file of openssl's index of what the authority has issued."""
    return folder(link) + "/index.txt"


def listed_file(link: str) -> str:
    """Return the file with the digest of the data that the revocation list was made from."""
    return folder(link) + "/listed"


def entries(text: Optional[str]) -> Tuple[Entry, ...]:
    """Read openssl's index; lines in another form than openssl's are ignored."""
    issued = []
    for line in (text or "").splitlines():
        words = line.split("\t")
        if len(words) == 6 and words[0] in ("V", "R", "E"):
            try:
                form = _UTC if len(words[1]) == 13 else _GENERAL
                ends = calendar.timegm(time.strptime(words[1], form))
            except ValueError:
                continue
            issued.append(Entry(words[3].lower(), words[5], ends, words[2]))
    return tuple(issued)


def _stamp(seconds: int) -> str:
    moment = time.gmtime(seconds)
    return time.strftime(_UTC if moment.tm_year < 2050 else _GENERAL, moment)


def _line(entry: Entry) -> str:
    kind = "R" if entry.revoked else "V"
    words = [kind, _stamp(entry.ends), entry.revoked, entry.serial.upper(), "unknown"]
    return "\t".join(words + [entry.subject]) + "\n"


def make(link: str, identity: str, now: int) -> List[Step]:
    """Return the steps that make a new authority; certificates of a former one are void.

    Its name is new too. Otherwise strongSwan would take its revocation list for an outdated one of
    the former authority.
    """
    at, where = link + "/ca-make", folder(link)
    name = "/CN=ca.{}.{:x}".format(identity, now)
    root = ("-x509", "-extensions", "root", "-subj", name, "-days", str(DAYS))
    key = where + "/ca-key.pem"
    command = ("openssl", "req", "-new", "-config", where + "/openssl.cnf", "-key", key) + root
    return [
        directory(at + "/dir", where),
        write(at + "/conf", where + "/openssl.cnf", CONF.format(where), 0o600),
        run(at + "/key", "openssl", "genpkey", "-algorithm", "ED25519", stdout_file=key),
        write(at + "/index", index_file(link), "", 0o600),
        write(at + "/number", where + "/crlnumber", "01\n", 0o600),
        remove(at + "/listed", listed_file(link)),
        # Last: if this file exists, the others exist too.
        run(at + "/root", *command, stdout_file=certificate_file(link)),
    ]


def sign(link: str, issue: Issue, now: int) -> List[Step]:
    """Return the steps that issue a certificate; its text is the result LINK/issued/SERIAL."""
    where = folder(link)
    at = "{}/sign/{}".format(link, issue.serial)
    begins = time.strftime(_GENERAL, time.gmtime(now - min(SKEW, issue.seconds)))
    ends = time.strftime(_GENERAL, time.gmtime(now + issue.seconds))
    command = ["openssl", "ca", "-batch", "-notext", "-config", where + "/openssl.cnf"]
    command += ["-in", where + "/request.pem", "-startdate", begins, "-enddate", ends]
    command += ["-extfile", where + "/profile", "-extensions", "end"]
    return [
        write(at + "/conf", where + "/openssl.cnf", CONF.format(where), 0o600),
        write(at + "/request", where + "/request.pem", issue.pem, 0o600),
        write(at + "/profile", where + "/profile", PROFILE.format(issue.identity), 0o600),
        write(at + "/serial", where + "/serial", issue.serial.upper() + "\n", 0o600),
        run(at + "/sign", *command, stdout_file=issue.path),
        read("{}/issued/{}".format(link, issue.serial), issue.path),
    ]


def revoke(
    link: str,
    before: Sequence[Entry],
    listed: Optional[str],
    in_force: Set[str],
    stolen: Set[str],
    now: int,
) -> List[Step]:
    """Return the steps that revoke all certificates except those in force; often none.

    Args:
        before: The certificates issued so far.
        listed: As in `Held`.
        in_force: Serial numbers that stay valid.
        stolen: Digests of keys that an operator revoked.
    """
    at, where = link + "/revoke", folder(link)
    after = []
    for entry in before:
        if entry.ends <= now:
            continue
        if not entry.revoked and entry.serial not in in_force:
            reason = "keyCompromise" if entry.serial[2:18] in stolen else "cessationOfOperation"
            entry = attr.evolve(entry, revoked="{},{}".format(_stamp(now), reason))
        after.append(entry)
    gone = "".join(_line(entry) for entry in after if entry.revoked)
    steps: List[Step] = []
    if [e for e in after if e.revoked] != [e for e in before if e.revoked and e.ends > now]:
        text = "".join(_line(entry) for entry in after)
        steps.append(write(at + "/index", index_file(link), text, 0o600))
    if digest(gone) != (listed or "").strip():
        command = ("openssl", "ca", "-gencrl", "-crldays", str(DAYS), "-config")
        conf = where + "/openssl.cnf"
        steps += [
            run(at + "/list", *(command + (conf,)), stdout_file=crl_file(link)),
            write(at + "/listed", listed_file(link), digest(gone) + "\n", 0o600),
        ]
    return steps
