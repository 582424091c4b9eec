"""The IKE daemon of a VDU of the model: what it loads, and with whom it agrees."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpnaas.base import x509
from vpnaas.tunnels.ipsec.names import DROPIN_FILE, TABLE, TUN

from support.authority import verifies
from support.model_world import PlainInterface, spki

if TYPE_CHECKING:
    from support.model import ModelVdu

RULE = ("all", TABLE, str(TABLE))
"""The rule that leads to its routes."""


def _key(pem: str) -> str:
    return "0s" + x509.certificate("", pem).key if pem else ""


@dataclass(eq=False)
class Connection:
    """A loaded connection, as far as two ends must agree or a test looks."""

    text: str
    local_id: str
    remote_id: str
    local_key: str
    remote_key: str
    local_addrs: list[str]
    remote_addrs: str
    proposals: tuple[str, str]
    ppk: str
    secret: str
    local_ts: tuple[str, ...]
    remote_ts: tuple[str, ...]
    local_cert: str = ""
    remote_cert: str = ""
    authority: str = ""
    strict: bool = False

    @classmethod
    def read(cls, text: str, secrets: dict[str, str], files: dict[str, str]) -> Connection:
        def one(key: str, part: str = text) -> str:
            match = re.search(rf"^ *{key} = (.*)$", part, re.M)
            return match.group(1) if match else ""

        local, remote = text.partition("remote {")[0], text.partition("remote {")[2]
        mine, theirs = (files.get(one("certs", part), "") for part in (local, remote))
        return cls(
            local_cert=mine,
            remote_cert=theirs,
            authority=files.get(one("cacerts", remote), ""),
            strict=one("revocation", remote) == "strict",
            text=text,
            local_id=one("id", local).lstrip("@"),
            remote_id=one("id", remote).lstrip("@"),
            local_key=one("pubkeys", local) or _key(mine),
            remote_key=one("pubkeys", remote) or _key(theirs),
            local_addrs=one("local_addrs").split(", "),
            remote_addrs=one("remote_addrs"),
            proposals=(one("proposals"), one("esp_proposals")),
            ppk=secrets.get(one("ppk_id"), "missing") if one("ppk_id") else "",
            secret=secrets.get(one("id", remote).lstrip("@"), "") if "auth = psk" in text else "",
            local_ts=tuple(one("local_ts").split(", ")),
            remote_ts=tuple(one("remote_ts").split(", ")),
        )


@dataclass(eq=False)
class ModelSa:
    """An IKE_SA with one CHILD_SA; without one if `remote_ts` is empty."""

    name: str
    id: int
    remote: str
    remote_ts: tuple[str, ...]
    local_ts: tuple[str, ...] = ()
    age: int = 1
    """Seconds since the peer authenticated: heard just now, unless a test says otherwise."""
    lost: bool = False
    """Whether somebody has flushed the kernel's states."""
    other: ModelSa | None = None
    owner: Charon | None = None


class Charon:
    """The daemon of a VDU: loads what is on file, agrees with others of its kind."""

    def __init__(self, vdu: ModelVdu) -> None:
        self.vdu = vdu
        self.running = False
        self.connections: dict[str, Connection] = {}
        self.keys: set[str] = set()
        self.sas: list[ModelSa] = []
        self.lists: dict[str, list[str]] = {}
        """Revoked serial numbers by issuer, of lists that were used."""
        self.lost_routes: set[str] = set()
        """Its routes that somebody removed."""
        self.made = 0
        self.algorithms = ["AES_CBC", "AES_GCM_16", "CHACHA20_POLY1305", "HMAC_SHA2_256_128"]
        self.algorithms += ["HMAC_SHA2_384_192", "HMAC_SHA2_512_256", "PRF_HMAC_SHA2_256"]
        self.algorithms += ["PRF_HMAC_SHA2_384", "PRF_HMAC_SHA2_512", "CURVE_25519", "CURVE_448"]
        self.algorithms += ["ECP_256", "ECP_384", "ECP_521", "MODP_2048"]

    def start(self) -> None:
        self.stop()
        self.running = True
        if not self.vdu.esp:
            mtu = re.search(r"mtu (\d+)", self.vdu.files.get(DROPIN_FILE, ""))
            self.vdu.plain[TUN] = PlainInterface(mtu=int(mtu.group(1)) if mtu else 1400)
        self.vdu.rules.add(RULE)
        self._load_creds()
        self._load_conns()

    def stop(self) -> None:
        self.running = False
        self.connections, self.keys, self.lists = {}, set(), {}
        self.vdu.plain.pop(TUN, None)
        self.vdu.rules.discard(RULE)
        # Without a word to the peers, which must notice by themselves.
        self.sas = []

    def routes(self) -> list[dict[str, str]]:
        """Return the routes of kernel-libipsec, as `ip -j route show table all` prints them."""
        # A selector may have ports, a route has none.
        selectors = {ts.partition("[")[0] for sa in self.sas for ts in sa.remote_ts}
        there = selectors if TUN in self.vdu.plain else set()
        left = sorted(there - self.lost_routes)
        return [{"dst": prefix, "dev": TUN, "table": str(TABLE)} for prefix in left]

    def end(self, sa: ModelSa) -> None:
        self.sas.remove(sa)
        if sa.other is not None and sa.other.owner and sa.other in sa.other.owner.sas:
            sa.other.owner.sas.remove(sa.other)

    def swanctl(self, words: list[str]) -> tuple[int, str]:
        if not self.running:
            return 2, ""
        verb = words[0]
        if verb == "--load-pools":
            return 0, ""
        if verb == "--load-creds":
            self._load_creds()
        elif verb == "--load-conns":
            self._load_conns()
        elif verb == "--stats":
            return 0, "stats reply {plugins=[charon-systemd kernel-libipsec openssl vici]}\n"
        elif verb == "--list-algs":
            return 0, "aead:\n" + "".join(f"  {name}[openssl]\n" for name in self.algorithms)
        elif verb == "--list-conns":
            return 0, "".join(
                f"list-conn event {{{name} {{version=IKEv2 children {{{name} {{mode=T}}}}}}}}\n"
                for name in self.connections
            )
        elif verb == "--list-sas":
            return 0, "".join(self._show(sa) for sa in self.sas)
        elif verb == "--flush-certs":
            self.lists = {}
        elif verb == "--terminate":
            for sa in [sa for sa in self.sas if str(sa.id) == words[words.index("--ike-id") + 1]]:
                self.end(sa)
        elif verb == "--initiate":
            return (0 if self._initiate(words[words.index("--ike") + 1]) else 1), ""
        else:
            raise AssertionError(words)
        return 0, ""

    @staticmethod
    def _show(sa: ModelSa) -> str:
        host, _, port = sa.remote.rpartition(":")
        selectors = f"local-ts=[{' '.join(sa.local_ts)}] remote-ts=[{' '.join(sa.remote_ts)}]"
        child = (
            f"{sa.name}-{sa.id} {{name={sa.name} uniqueid={sa.id} state=INSTALLED install-time=1"
            f" bytes-in=1 use-in=0 bytes-out=1 encr-alg=AES_GCM_16 {selectors}}}"
        )
        return (
            f"list-sa event {{{sa.name} {{uniqueid={sa.id} version=2 state=ESTABLISHED "
            f"remote-host={host} remote-port={port} established={sa.age} "
            f"child-sas {{{child if sa.remote_ts else ''}}}}}}}\n"
        )

    def _load_creds(self) -> None:
        folder = "/etc/swanctl/private/"
        self.keys = {
            "0s" + base64.b64encode(spki(text)).decode()
            for path, text in self.vdu.files.items()
            if path.startswith(folder)
        }

    def _load_conns(self) -> None:
        found = {}
        for path, text in sorted(self.vdu.files.items()):
            if not path.startswith("/etc/swanctl/conf.d/"):
                continue
            assert text.count("{") == text.count("}"), text
            secrets = self._secrets(text.partition("\nsecrets {")[2])
            sections = re.split(r"^  (\S+) \{$", text.partition("\nsecrets {")[0], flags=re.M)
            for name, body in zip(sections[1::2], sections[2::2], strict=True):
                found[name] = Connection.read(body, secrets, self.vdu.files)
        self.connections = found

    def _secrets(self, text: str) -> dict[str, str]:
        found = {}
        for block in text.split("}"):
            included = re.search(r"include (\S+)", block)
            if included:
                for identity in re.findall(r"id-\d+ = (\S+)", block):
                    found[identity.lstrip("@")] = self.vdu.files.get(included.group(1), "")
        return found

    def _initiate(self, name: str) -> bool:
        mine = self.connections.get(name)
        if mine is None or (mine.local_key and mine.local_key not in self.keys):
            return False
        for vdu in self.vdu.world.vdus:
            theirs = vdu.charon
            addresses = {address.split("/")[0] for address in vdu.underlay.values()}
            if (
                theirs is self
                or not theirs.running
                or mine.remote_addrs.split(", ")[0] not in addresses
            ):
                continue
            for other, answer in theirs.connections.items():
                if (
                    self._agree(mine, answer)
                    and answer.local_key in (theirs.keys | {""})
                    and theirs.accepts(answer, mine.local_cert, self._sent())
                    and self.accepts(mine, answer.local_cert, theirs._sent())
                ):
                    self._establish(name, mine, theirs, other, answer)
                    return True
        return False

    def _sent(self) -> tuple[str, ...]:
        """Return the intermediate authorities that go along with a certificate."""
        files = sorted(self.vdu.files.items())
        return tuple(text for path, text in files if re.search(r"/x509ca/.*-chain-\d", path))

    def accepts(self, connection: Connection, cert: str, between: tuple[str, ...] = ()) -> bool:
        """Tell whether a certificate is pinned, of the right authority, and not revoked."""
        if not connection.remote_cert:
            return not cert
        if cert != connection.remote_cert:
            return False
        if not verifies(cert, connection.authority, self.vdu.world.clock, between):
            return False
        found = x509.certificate("", cert)
        for path, text in self.vdu.files.items():
            if path.startswith("/etc/swanctl/x509crl/"):
                listed = json.loads(text)
                # What was used is kept, whatever is loaded later (seen with strongSwan 5.9.8).
                self.lists.setdefault(listed["issuer"], listed["serials"])
        mine = self.lists.get(found.issuer)
        if found.serial in (mine or ()):
            return False
        return mine is not None or not connection.strict

    @staticmethod
    def _agree(mine: Connection, theirs: Connection) -> bool:
        return (
            (mine.local_id, mine.remote_id) == (theirs.remote_id, theirs.local_id)
            and (mine.local_key, mine.remote_key) == (theirs.remote_key, theirs.local_key)
            and mine.proposals == theirs.proposals
            and (mine.ppk, mine.secret) == (theirs.ppk, theirs.secret)
            and mine.ppk != "missing"
            and (mine.local_key != "" or mine.secret != "")
        )

    def _establish(
        self, name: str, mine: Connection, theirs: Charon, other: str, answer: Connection
    ) -> None:
        # RFC 7296 section 2.4, and `unique = replace`: a caller that starts anew has nothing older.
        self.sas = [sa for sa in self.sas if sa.name != name]
        theirs.sas = [sa for sa in theirs.sas if sa.name != other]
        one = ModelSa(
            name,
            next(self.vdu.world.serial),
            mine.remote_addrs.split(", ")[0] + ":4500",
            mine.remote_ts,
            mine.local_ts,
        )
        two = ModelSa(
            other, one.id, mine.local_addrs[0] + ":4500", answer.remote_ts, answer.local_ts
        )
        one.other, two.other, one.owner, two.owner = two, one, self, theirs
        self.made += 1
        self.sas.append(one)
        theirs.sas.append(two)
