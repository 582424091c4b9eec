"""Reads the state of IPsec on a VDU."""

import json
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import MALFORMED, VduError
from vpnaas.base.links import DIRECTORY, ipsec_interface
from vpnaas.peers.peer import KeyState, read_record
from vpnaas.peers.same_address import RULE
from vpnaas.tunnels.ipsec import names, refusals
from vpnaas.tunnels.ipsec.certificates import Held
from vpnaas.tunnels.ipsec.names import IDENTITY
from vpnaas.tunnels.ipsec.validation import Validation
from vpnaas.tunnels.key_pair import KeyPair, generation
from vpnaas.vdu import facts, trouble
from vpnaas.vdu.installed import foreign_interface
from vpnaas.vdu.programs.charon import events, is_ours
from vpnaas.vdu.steps import Results, Step, read, remove, run

STATE = "/run/osm-vpnaas-ike.json"
"""Notes of the program that asks for charon; it has the same constant."""


@attr.frozen
class Child:
    """A pair of ESP security associations."""

    name: str
    state: str
    received: int = 0
    sent: int = 0
    age: int = 0
    cipher: str = ""
    esn: bool = False
    encap: bool = False
    ours: Tuple[str, ...] = ()  # Traffic selectors of this end.
    theirs: Tuple[str, ...] = ()  # Those of the peer.

    @property
    def installed(self) -> bool:
        """Tell whether packets can pass."""
        return self.state in ("INSTALLED", "REKEYING", "REKEYED")


@attr.frozen
class Sa:
    """An IKE security association."""

    name: str  # Name of its connection.
    id: int  # charon's number for it.
    state: str
    remote: str
    age: int  # Seconds since the peer authenticated.
    ike: str
    children: Tuple[Child, ...]
    given: Tuple[str, ...] = ()  # Addresses that the peer got from a pool.
    lost: bool = False  # Whether the kernel lacks states or policies of it.

    @property
    def end(self) -> str:
        """Return link and peer, the start of the connection's name."""
        return end_of(self.name)

    @property
    def up(self) -> bool:
        """Tell whether the peer has authenticated and packets can pass."""
        return bool(self.passing)

    @property
    def authenticated(self) -> bool:
        """Tell whether the peer has proved itself."""
        return self.state in ("ESTABLISHED", "REKEYING")

    @property
    def passing(self) -> Tuple[Child, ...]:
        """Return the children through which packets can pass."""
        whole = self.authenticated and not self.lost
        return tuple(c for c in self.children if c.installed) if whole else ()


def end_of(name: str) -> str:
    """Return "LINK_PEER" from a connection's name."""
    return name.rsplit("_", 2)[0]


def _by_end(state: "State") -> Dict[str, List[Sa]]:
    by_end: Dict[str, List[Sa]] = {}
    for sa in state.sas:
        by_end.setdefault(sa.end, []).append(sa)
    return by_end


@attr.frozen
class State(KeyState):
    """Observed state of one link, and of the daemon."""

    identity: str  # Our IKE identity on this link.
    plane: str  # Data plane of this VDU.
    running: bool  # Whether the daemon answers and has IKE's ports.
    # Whether the daemon runs with what the data plane needs: its plugin, its TUN.
    daemon_plane: bool
    enabled: bool  # Whether everything starts at boot.
    files: Mapping[str, Optional[str]]  # Text of each file, None for a missing file.
    loaded: FrozenSet[str]  # Names of loaded connections.
    sas: Tuple[Sa, ...]  # Security associations of the link's connections.
    # The link's interface, or None if its unit has not made it completely.
    interface: Optional[facts.Interface]
    routes: FrozenSet[fields.IPNetwork]  # Routes of the link's interface.
    own_routes: FrozenSet[fields.IPNetwork] = frozenset()  # Those in the link's own table.
    # Those that the kernel made with its addresses.
    connected: FrozenSet[fields.IPNetwork] = frozenset()
    tun: Optional[facts.Interface] = None  # TUN of the daemon, None without one.
    tun_routes: FrozenSet[fields.IPNetwork] = frozenset()  # Routes into it, in the daemon's table.
    rules: FrozenSet[str] = frozenset()  # In the form of `same_address.RULE`.
    held: Held = attr.Factory(Held)  # Certificates on the VDU.
    # Result of the check of these and of offers; None for a link without certificates.
    validated: Optional[Validation] = None
    # Why peers were refused, and which servers did not answer.
    notes: refusals.Notes = attr.Factory(refusals.Notes)
    _ends: Mapping[str, List[Sa]] = attr.ib(
        init=False, eq=False, repr=False, default=attr.Factory(_by_end, takes_self=True)
    )

    def of(self, link: str, peer: str) -> List[Sa]:
        """Return the security associations with a peer, the newest first."""
        return self._ends.get("{}_{}".format(link, peer), [])


def observe(links: Mapping[str, str]) -> List[Step]:
    """Return the steps that make missing keys and read the state.

    `links` are the types of keys by link.
    """
    steps: List[Step] = []
    for link, key_type in links.items():
        identity = IDENTITY.format(link)
        name = ("openssl", "rand", "-hex", "8")
        steps += key_pair(link, key_type).observe()
        steps += [
            run(link + "/name", *name, stdout_file=identity, unless=identity),
            read(link + "/identity", identity),
        ]
        steps += [read(link + path, path, cacheable=True) for path in names.of_link(link)]
    steps += [read("ipsec" + path, path, cacheable=True) for path in names.OF_DAEMON]
    steps += [
        remove("ipsec/restarted", names.RESTARTED),
        run("ipsec/enabled", "systemctl", "is-enabled", *_units(links), any_exit=True),
        run("ipsec/active", "systemctl", "is-active", *_units(links), any_exit=True),
    ]
    return steps + _probe() + look()


def _units(links: Iterable[str]) -> List[str]:
    return [names.DAEMON, names.KEEPER, names.ASKER] + [names.UNIT.format(link) for link in links]


_GENPKEY = ("openssl", "genpkey", "-algorithm")
GENERATE = {
    fields.ED25519: _GENPKEY + ("ED25519",),
    fields.P256: _GENPKEY + ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    fields.P384: _GENPKEY + ("EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
    fields.RSA: _GENPKEY + ("RSA", "-pkeyopt", "rsa_keygen_bits:3072"),
}
"""The command that prints a private key, by its type."""


def key_pair(link: str, key_type: str) -> KeyPair:
    """Return the keys of a link, and how one of a type is made."""
    return KeyPair(
        link=link,
        file=names.KEY.format(link),
        staged=names.NEXT_KEY.format(link),
        counter=DIRECTORY.format(link) + "/ipsec-generation",
        generate=GENERATE[key_type],
        public=("openssl", "pkey", "-pubout"),
    )


def _probe() -> List[Step]:
    """Return the steps that test the kernel with an ESP state and an interface, and remove both."""
    # The key is zero: the security association is with this machine and exists for a moment only.
    state = ("src", "127.0.0.1", "dst", "127.0.0.1", "proto", "esp", "spi", "0x6f736d76")
    aead = ("aead", "rfc4106(gcm(aes))", "0x" + "00" * 36, "128")
    add = ("ip", "xfrm", "state", "add") + state + ("mode", "tunnel") + aead
    delete = ("ip", "xfrm", "state", "delete", "dst", "127.0.0.1") + state[4:]
    link = ("ip", "link", "add", "vpnaas-probe", "type", "xfrm", "if_id", "1")
    gone = ("ip", "link", "delete", "vpnaas-probe")
    esp, xfrm = names.PROBED + "esp", names.PROBED + "xfrm"
    # A probe that did not end in time, as it had to load modules, may have left its state.
    return [
        run("ipsec/esp-left", *delete, unless=esp, any_exit=True),
        run("ipsec/esp", *add, stdout_file=esp, unless=esp, any_exit=True, timeout=60),
        run("ipsec/esp-gone", *delete, any_exit=True),
        run("ipsec/if-left", *gone, unless=xfrm, any_exit=True),
        run("ipsec/if", *link, stdout_file=xfrm, unless=xfrm, any_exit=True, timeout=60),
        run("ipsec/if-gone", *gone, any_exit=True),
    ]


_NAME = r"^list-conn event \{(\S+) \{"


def look(prefix: str = "") -> List[Step]:
    def ask(what: str, flag: str, pick: str = "") -> Step:
        # A charon that has just started, or has much to do, is slow to answer.
        words = ("swanctl", flag, "--raw")
        return run(prefix + "ipsec/" + what, *words, any_exit=True, pick=pick, timeout=60)

    lost = (*names.PROGRAM, "lost")
    return [
        ask("stats", "--stats"),
        ask("conns", "--list-conns", _NAME),
        ask("sas", "--list-sas"),
        # Where charon has its own ESP, the kernel has no states.
        run(prefix + "ipsec/lost", *lost, unless="/sys/class/net/" + names.TUN, any_exit=True),
        read(prefix + "ipsec/notes", STATE),
        trouble.sockets(prefix + "ipsec/ports", *names.PORTS),
        run(prefix + "ipsec/rule-4", "ip", "-j", "-4", "rule", "show"),
        run(prefix + "ipsec/rule-6", "ip", "-j", "-6", "rule", "show", any_exit=True),
    ]


def parse_plane(results: Results) -> str:
    def can(id: str) -> bool:
        return id in results and results.exit_code(id) in (None, 0)

    if not can("ipsec/esp"):
        return names.USERSPACE
    return names.XFRM if can("ipsec/if") else names.POLICY


def parse(links: Sequence[str], link: str, vdu: facts.VduFacts, results: Results) -> State:
    """Read the results of `observe(links)` for one link."""
    enabled, active = (
        dict(zip(_units(links), results.output("ipsec/" + what).split()))
        for what in ("enabled", "active")
    )
    plane = parse_plane(results)
    plugins = (results.out("ipsec/stats") or "").partition("plugins=[")[2].partition("]")[0]
    running = active.get(names.DAEMON) == "active" and bool(plugins) and listens(results)
    keys, identity = keys_of(link, results)
    tun = vdu.interfaces.get(names.TUN)
    fits = ("kernel-libipsec" in plugins.split()) == (plane == names.USERSPACE)
    interface, table = ipsec_interface(link), str(names.interface_id(link))
    present = vdu.interfaces.get(vdu.tagged(interface))
    made = active.get(names.UNIT.format(link)) == "active"
    files = {path: results.text(link + path) for path in names.of_link(link)}
    # What is left of ours without its files is down and has no address (`transition.absent`).
    left = present is None or not (present.up or present.addresses)
    if not (made or left or any(files.values())):
        raise foreign_interface(interface)
    routes, connected = facts.routes(results, interface)
    return State(
        public_key=keys[0],
        next_public_key=keys[1],
        generation=generation(link, results),
        applied=read_record(results.text(link + "/applied")),
        recorded=results.text(link + "/applied"),
        identity=identity,
        plane=plane,
        running=running,
        daemon_plane=running and fits and (plane != names.USERSPACE or tun is not None),
        enabled=all(enabled.get(name) == "enabled" for name in _units([link]))
        and all(active.get(name) == "active" for name in _units([])),
        files={
            **{path: results.text("ipsec" + path) for path in names.OF_DAEMON},
            **files,
        },
        loaded=parse_loaded(results),
        sas=parse_sas(link, results),
        notes=parse_notes(results),
        # If its unit failed, the interface lacks what comes after the failure.
        interface=present if made else None,
        routes=routes,
        own_routes=facts.routes(results, interface, table)[0],
        connected=connected,
        tun=tun,
        tun_routes=facts.routes(results, names.TUN, str(names.TABLE))[0],
        rules=_rules(results),
    )


def listens(results: Results, prefix: str = "") -> bool:
    """Tell whether the daemon has IKE's ports; where `ss` does not say, it counts as yes."""
    found = trouble.owners(results, prefix + "ipsec/ports")
    own = {port for port, owner in found if owner == names.CHARON}
    return results.exit_code(prefix + "ipsec/ports") != 0 or own.issuperset(names.PORTS)


def intruder(results: Results) -> str:
    """Return what has IKE's ports in place of the daemon, "" for nothing."""
    for port, owner in trouble.owners(results, "ipsec/ports"):
        if owner != names.CHARON:
            return "UDP port {} of the VDU is used by {}".format(port, owner)
    return ""


def keys_of(link: str, results: Results) -> Tuple[Tuple[str, str], str]:
    """Return our key in use, the staged one or "", and our IKE identity."""
    public = x509.body(results.out(link + "/public"))
    return (
        (
            fields.ipsec_key("VDU: {} public key".format(link), public),
            x509.body(results.out(link + "/next")),
        ),
        fields.ike_identity(
            "VDU: {} identity".format(link),
            "{}-{}".format(link, (results.text(link + "/identity") or "").strip()),
        ),
    )


_PARTS = {"priority", "not", "src", "srclen", "fwmark", "table", "protocol"}
"""What `ip -j rule` says of our rules."""


def _rules(results: Results) -> FrozenSet[str]:
    """Return the rules in the form of `RULE`. One with more conditions is of somebody else."""
    found = set()
    try:
        for version, every in fields.EVERY.items():
            for rule in json.loads(results.out("ipsec/rule-{}".format(version)) or "[]"):
                source = "{}/{}".format(rule["src"], rule.get("srclen", every.max_prefixlen))
                prefix = every if rule["src"] == "all" else source
                # charon's own rule may spare what it marks.
                if not set(rule) - _PARTS and ("fwmark" in rule) == ("not" in rule):
                    found.add(RULE.format(prefix, rule["priority"], rule["table"]))
    except MALFORMED:
        raise VduError("`ip -j rule` printed something unexpected")
    return frozenset(found)


def parse_loaded(results: Results, prefix: str = "") -> FrozenSet[str]:
    return frozenset(results.output(prefix + "ipsec/conns").splitlines())


def selectors(children: Sequence[Child]) -> Tuple[List[str], List[str]]:
    """Return our and the peer's traffic selectors of all children."""
    ours = {text for child in children for text in child.ours}
    theirs = {text for child in children for text in child.theirs}
    return sorted(ours), sorted(theirs)


def parse_notes(results: Results, prefix: str = "") -> refusals.Notes:
    return refusals.parse(results.text(prefix + "ipsec/notes"))


def parse_sas(link: str, results: Results, prefix: str = "") -> Tuple[Sa, ...]:
    """Return the security associations of a link's connections, the newest first."""
    sas = []
    lost = results.output(prefix + "ipsec/lost").split()
    try:
        for name, body in events(results.output(prefix + "ipsec/sas")):
            if is_ours(name, link + "_"):
                sa = _sa(name, body)
                sas.append(attr.evolve(sa, lost=str(sa.id) in lost))
    except MALFORMED:
        raise VduError("`swanctl --list-sas --raw` printed something unexpected")
    return tuple(sorted(sas, key=lambda sa: -sa.id))


def _sa(name: str, body: Mapping[str, object]) -> Sa:
    def number(of: Mapping[str, object], key: str) -> int:
        return int(str(of.get(key, "0")))

    children = []
    nested = body.get("child-sas", {})
    for child in nested.values() if isinstance(nested, dict) else ():
        cipher = [str(child.get(key, "")) for key in ("encr-alg", "encr-keysize", "integ-alg")]
        children.append(
            Child(
                name=str(child["name"]),
                state=str(child["state"]),
                received=number(child, "bytes-in"),
                sent=number(child, "bytes-out"),
                age=number(child, "install-time"),
                cipher="-".join(word for word in cipher if word),
                esn="esn" in child and str(child["esn"]) in ("1", "yes"),
                encap=child.get("encap") == "yes",
                ours=_items(child, "local-ts"),
                theirs=_items(child, "remote-ts"),
            )
        )
    ike = [str(body.get(key, "")) for key in ("encr-alg", "encr-keysize", "prf-alg", "dh-group")]
    host, port = str(body.get("remote-host", "")), str(body.get("remote-port", ""))
    return Sa(
        name=name,
        id=number(body, "uniqueid"),
        state=str(body["state"]),
        remote=("[{}]:{}" if ":" in host else "{}:{}").format(host, port),
        age=number(body, "established"),
        ike="-".join(word for word in ike if word),
        children=tuple(children),
        given=_items(body, "remote-vips"),
    )


def _items(body: Mapping[str, object], key: str) -> Tuple[str, ...]:
    return tuple(str(body.get(key, ""))[1:-1].split())
