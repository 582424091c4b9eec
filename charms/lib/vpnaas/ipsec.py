"""IPsec on the VDU: strongSwan's charon, told by swanctl, and an interface per link.

Every link has an interface of its own that holds its inner address, whatever carries its packets:

- `xfrm`: the kernel has ESP and XFRM interfaces; packets routed into the interface are what its
  security associations protect, and nothing leaves it while there are none.
- `policy`: the kernel has ESP only; the interface is a TUN nobody reads from, and policies take
  packets before they would get there. While there are none, packets end in it.
- `userspace`: the kernel has no ESP; charon's kernel-libipsec carries packets through its TUN
  `ipsec0`, by routes of its own table. The link's interface is as in `policy`.

A connection is named after its link, its peer and digests of all that it consists of. So a name
that is loaded says that exactly this is loaded, a security association tells by its connection's
name which key of the peer made it, and what does not change is never touched.
"""

import hashlib
import json
import re
import zlib
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

import attr

from . import facts, fields
from .errors import VduError
from .intent import LinkParams
from .ipsec_params import PORT, PSK
from .links import directory, ipsec_interface
from .steps import Results, Step, move, read, remove, run, write
from .steps import directory as make_directory
from .tunnel import KeyState, Peer, read_record, record

XFRM = "xfrm"
POLICY = "policy"
USERSPACE = "userspace"
TUN = "ipsec0"
"""TUN of charon's kernel-libipsec, which all links of a VDU share."""
TUN_MTU = 1400

DAEMON = "strongswan.service"
KEEPER = "osm-vpnaas-ipsec-keeper.service"
KEEPER_FILE = "/etc/systemd/system/" + KEEPER
PROGRAM_FILE = "/usr/local/lib/osm-vpnaas/ipsec"
UNIT_FILE = "/etc/systemd/system/osm-vpnaas-ipsec@.service"
DAEMON_FILE = "/etc/strongswan.d/00-osm-vpnaas.conf"
DROPIN_FILE = "/etc/systemd/system/strongswan.service.d/osm-vpnaas.conf"
RESTARTED = "/run/osm-vpnaas-restarted"
"""Tells later steps of the same plan that the daemon was restarted by an earlier one."""
PROBED = "/run/osm-vpnaas-"
"""What the kernel can does not change until the next boot, so it is tried once."""


NOT_NEEDED = (
    "attr", "bypass-lan", "connmark", "dhcp", "farp", "forecast", "ha", "led", "resolve", "unity",
    "xauth-eap", "xauth-pam",
)  # fmt: skip
"""Plugins of libcharon-extra-plugins that change the network of a VDU, or serve IKEv1 only."""

# The interface comes before the daemon, which looks for addresses inside its selectors.
UNIT = """[Unit]
Description=Interface of IPsec link %i (osm-vpnaas)
After=network-pre.target
Before=strongswan.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=-/bin/ip link delete xf-%i
ExecStart=/bin/ip -batch /etc/osm-vpnaas/%i/ipsec.up
ExecStop=-/bin/ip link delete xf-%i

[Install]
WantedBy=multi-user.target
"""
KEEPER_UNIT = """[Unit]
Description=Keeper of IPsec tunnels (osm-vpnaas)
After=strongswan.service

[Service]
ExecStart={} keep
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
""".format(PROGRAM_FILE)


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

    @property
    def installed(self) -> bool:
        """Tell whether packets can pass."""
        return self.state in ("INSTALLED", "REKEYING", "REKEYED")


@attr.frozen
class Sa:
    """An IKE security association.

    Attributes:
        name: Of its connection.
        id: charon's number for it.
        age: Seconds since the peer proved itself.
    """

    name: str
    id: int
    state: str
    remote: str
    age: int
    ike: str
    children: Tuple[Child, ...]

    @property
    def up(self) -> bool:
        """Tell whether the peer has proved itself and packets can pass."""
        return self.state in ("ESTABLISHED", "REKEYING") and any(c.installed for c in self.children)


@attr.frozen
class State(KeyState):
    """What was observed of one link, and of the daemon.

    Attributes:
        identity: Our IKE identity on this link.
        plane: What carries packets on this VDU.
        running: Whether the daemon answers.
        daemon_plane: Whether the daemon runs with the plugin that the plane needs.
        enabled: Whether everything starts at boot.
        files: Text of each file, None where there is none.
        loaded: Names of loaded connections.
        sas: Security associations of the link's connections.
        interface: The link's interface, None where there is none.
        routes: Of the link's interface.
    """

    identity: str
    plane: str
    running: bool
    daemon_plane: bool
    enabled: bool
    files: Mapping[str, Optional[str]]
    loaded: FrozenSet[str]
    sas: Tuple[Sa, ...]
    interface: Optional[facts.Interface]
    routes: FrozenSet[fields.IPNetwork]


def unit(link: str) -> str:
    """Return the systemd unit of a link's interface."""
    return "osm-vpnaas-ipsec@{}.service".format(link)


def conf_path(link: str) -> str:
    """Return the swanctl file of a link, the file whose presence says that it has IPsec."""
    return "/etc/swanctl/conf.d/osm-vpnaas-{}.conf".format(link)


def key_file(link: str) -> str:
    """Return the private key file of a link."""
    return "/etc/swanctl/private/osm-vpnaas-{}.pem".format(link)


def next_key_file(link: str) -> str:
    """Return the file of the key a rotation has staged."""
    return directory(link) + "/next-ike.pem"


def secret_file(link: str, peer: str) -> str:
    """Return the file a link's swanctl file includes a peer's preshared key from.

    It lies where AppArmor's profile on Ubuntu lets swanctl read.
    """
    return "/etc/swanctl/osm-vpnaas-{}-{}.secret".format(link, peer)


def up_file(link: str) -> str:
    """Return the `ip -batch` file that makes a link's interface."""
    return directory(link) + "/ipsec.up"


def keep_file(link: str) -> str:
    """Return the file that tells the keeper which connections to hold up."""
    return directory(link) + "/ipsec.keep"


def generation_file(link: str) -> str:
    """Return the file that counts the keys of a link."""
    return directory(link) + "/ipsec-generation"


def interface_id(link: str) -> int:
    """Return the XFRM interface id of a link; two links of a VDU differ."""
    return zlib.crc32(link.encode("ascii")) & 0x7FFFFFFF or 1


# Looking


def observe(links: Sequence[str]) -> List[Step]:
    """Return the steps that make missing keys of the links and look at everything."""
    steps: List[Step] = []
    for link in links:
        key, staged, identity = key_file(link), next_key_file(link), directory(link) + "/identity"
        steps += [
            make_directory(link + "/dir", directory(link)),
            run(link + "/genkey", *GENERATE, stdout_file=key, unless=key),
            run(link + "/public", *_public(key)),
            run(link + "/next", *_public(staged), only_if=staged),
            run(
                link + "/name",
                "openssl",
                "rand",
                "-hex",
                "8",
                stdout_file=identity,
                unless=identity,
            ),
            read(link + "/identity", identity),
            read(link + "/generation", generation_file(link)),
            read(link + "/applied", directory(link) + "/applied.json"),
            read(link + "/file/conf", conf_path(link)),
            read(link + "/file/up", up_file(link)),
            read(link + "/file/keep", keep_file(link)),
        ]
    steps += [
        remove("ipsec/restarted", RESTARTED),
        read("ipsec/file/daemon", DAEMON_FILE),
        read("ipsec/file/dropin", DROPIN_FILE),
        read("ipsec/file/unit", UNIT_FILE),
        read("ipsec/file/keeper", KEEPER_FILE),
        read("ipsec/file/program", PROGRAM_FILE),
        run(
            "ipsec/enabled",
            "systemctl",
            "is-enabled",
            DAEMON,
            KEEPER,
            *[unit(link) for link in links],
            any_exit=True,
        ),
        run("ipsec/version", "swanctl", "--version", any_exit=True),
        run("ipsec/active", "systemctl", "is-active", DAEMON, KEEPER, any_exit=True),
    ]
    return steps + _probe() + look()


GENERATE = ("openssl", "genpkey", "-algorithm", "ED25519")


def _public(path: str) -> Tuple[str, ...]:
    return ("openssl", "pkey", "-in", path, "-pubout")


def _probe() -> List[Step]:
    """Return the steps that try what the kernel can; the state and interface go at once."""
    # A key of zeros for a security association of the machine with itself that lives for a moment.
    state = ("src", "127.0.0.1", "dst", "127.0.0.1", "proto", "esp", "spi", "0x6f736d76")
    aead = ("aead", "rfc4106(gcm(aes))", "0x" + "00" * 36, "128")
    add = ("ip", "xfrm", "state", "add") + state + ("mode", "tunnel") + aead
    delete = ("ip", "xfrm", "state", "delete", "dst", "127.0.0.1") + state[4:]
    link = ("ip", "link", "add", "vpnaas-probe", "type", "xfrm", "if_id", "1")
    return [
        run("ipsec/esp", *add, stdout_file=PROBED + "esp", unless=PROBED + "esp", any_exit=True),
        run("ipsec/esp-gone", *delete, any_exit=True),
        run("ipsec/if", *link, stdout_file=PROBED + "xfrm", unless=PROBED + "xfrm", any_exit=True),
        run("ipsec/if-gone", "ip", "link", "delete", "vpnaas-probe", any_exit=True),
    ]


def look(prefix: str = "") -> List[Step]:
    """Return the steps that read the live state of all links."""
    return [
        run(prefix + "ipsec/stats", "swanctl", "--stats", "--raw", any_exit=True),
        run(prefix + "ipsec/conns", "swanctl", "--list-conns", "--raw", any_exit=True),
        run(prefix + "ipsec/sas", "swanctl", "--list-sas", "--raw", any_exit=True),
        run(prefix + "ipsec/route-4", "ip", "-j", "-4", "route", "show"),
        run(prefix + "ipsec/route-6", "ip", "-j", "-6", "route", "show"),
    ]


def parse_plane(results: Results) -> str:
    """Return what carries packets on this VDU."""

    def can(id: str) -> bool:
        return id in results and results.exit_code(id) in (None, 0)

    if not can("ipsec/esp"):
        return USERSPACE
    return XFRM if can("ipsec/if") else POLICY


def parse_version(results: Results) -> Tuple[int, ...]:
    """Return the version of strongSwan, () where swanctl does not tell."""
    found = re.search(r"([0-9]+)\.([0-9]+)", results.output("ipsec/version"))
    return tuple(int(part) for part in found.groups()) if found else ()


def parse(links: Sequence[str], link: str, vdu: facts.VduFacts, results: Results) -> State:
    """Read what `observe(links)` brought back of one link."""
    generation = (results.text(link + "/generation") or "1").strip()
    words = results.output("ipsec/enabled").split("\n")
    enabled = dict(zip([DAEMON, KEEPER] + [unit(each) for each in links], words))
    wanted = (DAEMON, KEEPER, unit(link))
    active = [word.strip() for word in results.output("ipsec/active").split("\n")][:2]
    plane = parse_plane(results)
    plugins = (results.out("ipsec/stats") or "").partition("plugins=[")[2].partition("]")[0]
    running = active[:1] == ["active"] and bool(plugins)
    public = public_key(results.out(link + "/public") or "")
    return State(
        public_key=fields.ipsec_key("VDU: {} public key".format(link), public),
        next_public_key=public_key(results.out(link + "/next") or ""),
        generation=fields.integer("VDU: {} generation".format(link), generation, 1, 999999999),
        applied=read_record(results.text(link + "/applied")),
        identity=fields.ike_identity(
            "VDU: {} identity".format(link),
            "{}-{}".format(link, (results.text(link + "/identity") or "").strip()),
        ),
        plane=plane,
        running=running,
        daemon_plane=running and ("kernel-libipsec" in plugins.split()) == (plane == USERSPACE),
        enabled=all((enabled.get(name) or "").strip() == "enabled" for name in wanted)
        and active == ["active", "active"],
        files={
            DAEMON_FILE: results.text("ipsec/file/daemon"),
            DROPIN_FILE: results.text("ipsec/file/dropin"),
            UNIT_FILE: results.text("ipsec/file/unit"),
            KEEPER_FILE: results.text("ipsec/file/keeper"),
            PROGRAM_FILE: results.text("ipsec/file/program"),
            conf_path(link): results.text(link + "/file/conf"),
            up_file(link): results.text(link + "/file/up"),
            keep_file(link): results.text(link + "/file/keep"),
        },
        loaded=parse_loaded(results),
        sas=parse_sas(link, results),
        interface=vdu.interfaces.get(ipsec_interface(link)),
        routes=_routes(link, results),
    )


def public_key(pem: str) -> str:
    """Return the body of an armoured public key."""
    return "".join(line.strip() for line in pem.splitlines() if not line.startswith("-----"))


def _routes(link: str, results: Results) -> FrozenSet[fields.IPNetwork]:
    found = set()
    try:
        for family in ("4", "6"):
            for route in json.loads(results.out("ipsec/route-" + family) or "[]"):
                mine = route.get("dev") == ipsec_interface(link) and route["dst"] != "default"
                if mine and route.get("protocol") != "kernel":
                    found.add(fields.network("VDU: route", route["dst"]))
    except (ValueError, KeyError):
        raise VduError("`ip -j route` printed something unexpected")
    return frozenset(found)


def parse_loaded(results: Results, prefix: str = "") -> FrozenSet[str]:
    """Return the names of the loaded connections."""
    try:
        return frozenset(name for name, _ in _events(results.output(prefix + "ipsec/conns")))
    except ValueError:
        raise VduError("`swanctl --list-conns --raw` printed something unexpected")


def parse_sas(link: str, results: Results, prefix: str = "") -> Tuple[Sa, ...]:
    """Return the security associations of a link's connections, the newest first."""
    found = []
    try:
        for name, body in _events(results.output(prefix + "ipsec/sas")):
            if name.startswith(link + "_"):
                found.append(_sa(name, body))
    except (KeyError, ValueError, AttributeError):
        raise VduError("`swanctl --list-sas --raw` printed something unexpected")
    return tuple(sorted(found, key=lambda sa: -sa.id))


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
    )


_WORD = re.compile(r"\[[^\]]*\]|[{}]|[^\s{}=]+=(?:\[[^\]]*\]|[^\s{}]*)|[^\s{}=]+")


def _events(text: str) -> List[Tuple[str, Dict[str, object]]]:
    """Read `swanctl --raw`: one line per event, sections in braces, key=value, key=[list].

    Values come from our own configuration and from charon, identities were vetted; whatever does
    not nest raises ValueError.
    """
    found: List[Tuple[str, Dict[str, object]]] = []
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) < 3 or words[1] != "event":
            continue
        root: Dict[str, object] = {}
        stack = [root]
        name = ""
        for word in _WORD.findall(words[2]):
            if word == "{":
                inner: Dict[str, object] = {}
                if name:
                    stack[-1][name] = inner
                    stack.append(inner)
                    name = ""
                else:
                    stack.append(stack[-1])
            elif word == "}":
                if len(stack) < 2:
                    raise ValueError(line[:60])
                stack.pop()
            elif "=" in word:
                key, _, value = word.partition("=")
                stack[-1][key] = value
            else:
                name = word
        for section, body in root.items():
            if isinstance(body, dict):
                found.append((section, body))
    return found


# Wanting


@attr.frozen
class Connection:
    """One loaded connection: a peer under one of its keys.

    Attributes:
        name: "LINK_PEER_<digest of policy and peer's key>_<digest of our key>".
        policy: The name without the last digest: what an association may live on under, since it
            is our own key alone that differs.
        text: Section of the swanctl file.
    """

    name: str
    policy: str
    text: str


@attr.frozen
class Wanted:
    """IPsec on a link as it should be.

    Attributes:
        underlay: Addresses of the VDU the tunnel may use.
        tun_mtu: Bytes, the least of all links of the VDU.
        initiates: Names of the peers towards which this side holds the tunnel up.
    """

    params: LinkParams
    mtu: int
    peers: Tuple[Peer, ...]
    tun_mtu: int
    underlay: Tuple[fields.IPAddress, ...]
    initiates: FrozenSet[str]

    @property
    def link(self) -> str:
        """Return the name of the link."""
        return self.params.link


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def daemon_conf(plane: str) -> str:
    """Return the daemon's settings that links need."""
    userspace = plane == USERSPACE
    off = ["    {} {{\n      load = no\n    }}\n".format(name) for name in NOT_NEEDED]
    return """# Written by osm-vpnaas; changes are overwritten by the next reconcile.
charon {{
  # A silent peer is given up after 26 s (2 + 3 + 4.5 + 6.75 + 10.1).
  retransmit_timeout = 2.0
  retransmit_base = 1.5
  retransmit_tries = 4
  # Nobody but the peers is answered at length.
  cookie_threshold = 30
  block_threshold = 10
  plugins {{
    kernel-libipsec {{
      load = {}
    }}
    aesni {{
      load = 100
    }}
{}  }}
}}
""".format("100" if userspace else "no", "".join(off))


def dropin(wanted: Wanted, plane: str) -> str:
    """Return what the daemon's unit does besides.

    libipsec takes packets of up to 1400 bytes from its TUN, which all links of a VDU share.
    """
    text = "[Service]\n"
    if plane == USERSPACE:
        text += "ExecStartPost=-/bin/ip link set {} mtu {}\n".format(TUN, wanted.tun_mtu)
    return text


def connections(wanted: Wanted, state: State) -> Dict[str, Tuple[Connection, ...]]:
    """Return the connections of each peer, that of the key in use first."""
    return {
        peer.name: tuple(_connection(wanted, state, peer, key) for key in peer.public_keys())
        for peer in wanted.peers
    }


def _connection(wanted: Wanted, state: State, peer: Peer, key: str) -> Connection:
    params, chosen = wanted.params, wanted.params.ipsec
    initiates = peer.name in wanted.initiates
    yes = {True: "yes", False: "no"}
    local = list(wanted.underlay)
    if initiates and peer.endpoint:
        local = [address for address in local if address.version == peer.endpoint[0].version]
    # The side that keeps the tunnel up knows where to; the other one is called, perhaps from behind
    # a NAT, and may call itself.
    remote = [str(peer.endpoint[0])] if peer.endpoint else []
    remote += [] if initiates and remote else ["%any"]
    own = (fields.host_network(params.inner_address),) + params.allowed_prefixes
    trap = chosen.start == "trap" and initiates and state.plane != USERSPACE
    esn = "no" if state.plane == USERSPACE else chosen.esn
    psk = chosen.credentials == PSK
    auth = "psk" if psk else "pubkey"
    lines = [
        "version = 2",
        "proposals = {}".format(chosen.proposal.ike()),
        "unique = replace",
        "local_addrs = {}".format(", ".join(str(address) for address in local) or "%any"),
        "local_port = {}".format(PORT),
        "remote_addrs = {}".format(", ".join(remote)),
        "remote_port = {}".format(peer.endpoint[1] if peer.endpoint else PORT),
        "encap = {}".format(yes[chosen.encap]),
        "mobike = {}".format(yes[chosen.mobike]),
        "dpd_delay = {}s".format(chosen.dpd_delay),
        "rekey_time = {}s".format(chosen.ike_rekey),
        "keyingtries = 1",
    ]
    if peer.preshared and not psk:
        # RFC 8784: whoever breaks the key exchange still lacks this key.
        lines += ["ppk_id = {}".format(_ppk(peer)), "ppk_required = yes"]
    lines += ["local {", "  auth = " + auth, "  id = @{}".format(state.identity)]
    lines += [] if psk else ["  pubkeys = 0s<own>"]
    lines += ["}", "remote {", "  auth = " + auth, "  id = @{}".format(peer.identity)]
    lines += [] if psk else ["  pubkeys = 0s{}".format(key)]
    lines += [
        "}",
        "children {",
        "  <name> {",
        "    local_ts = {}".format(", ".join(str(prefix) for prefix in own)),
        "    remote_ts = {}".format(", ".join(str(prefix) for prefix in peer.prefixes)),
        "    esp_proposals = {}".format(chosen.proposal.esp(esn)),
        "    mode = tunnel",
        "    rekey_time = {}s".format(chosen.child_rekey),
        "    rekey_bytes = {}".format(chosen.child_mbytes * 1000000),
        "    rekey_packets = {}".format(chosen.child_packets),
        "    replay_window = {}".format(chosen.replay_window),
        "    copy_df = {}".format(yes[chosen.copy_df]),
        "    copy_dscp = {}".format(chosen.copy_dscp),
        "    start_action = {}".format("trap" if trap else "none"),
        "    dpd_action = clear",
        "    close_action = none",
    ]
    if state.plane == XFRM:
        number = interface_id(params.link)
        lines += ["    if_id_in = {}".format(number), "    if_id_out = {}".format(number)]
    lines += ["  }", "}"]
    body = "\n".join("    " + line for line in lines)
    # A preshared key has no place in the file; its identity stands for it.
    policy = "{}_{}_{}".format(params.link, peer.name, _short(body + key + peer.preshared))
    name = "{}_{}".format(policy, _short(state.public_key))
    whole = body.replace("<own>", state.public_key).replace("<name>", name)
    text = "  {} {{\n{}\n  }}\n".format(name, whole)
    return Connection(name, policy, text)


def _ppk(peer: Peer) -> str:
    # Both ends call a key by what it was agreed from, as they may call the link differently.
    return "ppk-{}".format(peer.preshared)


def render(wanted: Wanted, state: State) -> str:
    """Return the swanctl file of a link. It holds no secret; it names the files that do."""
    text = (
        "# Written by osm-vpnaas; changes are overwritten by the next reconcile.\nconnections {\n"
    )
    for _, each in sorted(connections(wanted, state).items()):
        text += "".join(connection.text for connection in each)
    text += "}\n"
    psk = wanted.params.ipsec.credentials == PSK
    secrets = ""
    for peer in wanted.peers:
        if not peer.preshared:
            continue
        kind = "ike" if psk else "ppk"
        ids = [state.identity, peer.identity] if psk else [_ppk(peer)]
        secrets += "  {}-{}-{} {{\n".format(kind, wanted.link, peer.name)
        for index, identity in enumerate(ids):
            secrets += "    id-{} = {}{}\n".format(index, "@" if psk else "", identity)
        secrets += "    include {}\n  }}\n".format(secret_file(wanted.link, peer.name))
    return text + ("secrets {{\n{}}}\n".format(secrets) if secrets else "")


def render_up(wanted: Wanted, plane: str) -> str:
    """Return the `ip -batch` file that makes the interface."""
    interface = ipsec_interface(wanted.link)
    address = wanted.params.inner_address
    if plane == XFRM:
        make = "link add {} type xfrm if_id {}".format(interface, interface_id(wanted.link))
    else:
        make = "tuntap add dev {} mode tun".format(interface)
    lines = [
        make,
        "address add {} dev {}{}".format(
            address, interface, " nodad" if address.version == 6 else ""
        ),
        "link set {} mtu {} up".format(interface, wanted.mtu),
    ]
    if plane == USERSPACE:
        # kernel-libipsec wants an address of ours inside each selector. That of the subnet itself
        # is no host's.
        for prefix in wanted.params.allowed_prefixes:
            if prefix.prefixlen < prefix.max_prefixlen:
                own = fields.host_network(prefix.network_address)
                lines.append("address add {} dev {}".format(own, interface))
    for prefix in _wanted_routes(wanted):
        lines.append("route replace {} dev {}".format(prefix, interface))
    return "\n".join(lines) + "\n"


def _wanted_routes(wanted: Wanted) -> Tuple[fields.IPNetwork, ...]:
    subnet = wanted.params.inner_address.network
    prefixes = [p for peer in wanted.peers for p in peer.prefixes if not fields.covers(subnet, p)]
    return fields.ordered(prefixes)


def render_keep(wanted: Wanted, state: State) -> str:
    """Return what the keeper is to hold up: per peer, connections of which one suffices."""
    trap = wanted.params.ipsec.start == "trap" and state.plane != USERSPACE
    kept = [
        [connection.name for connection in each]
        for name, each in sorted(connections(wanted, state).items())
        if name in wanted.initiates and not trap
    ]
    return json.dumps(kept, indent=1) + "\n"


def steps_to(wanted: Wanted, state: State) -> List[Step]:
    """Return the steps from what was observed to what is wanted; none where they agree."""
    link = wanted.link
    texts = {
        DAEMON_FILE: (daemon_conf(state.plane), 0o644),
        DROPIN_FILE: (dropin(wanted, state.plane), 0o644),
        UNIT_FILE: (UNIT, 0o644),
        KEEPER_FILE: (KEEPER_UNIT, 0o644),
        PROGRAM_FILE: (PROGRAM, 0o755),
        conf_path(link): (render(wanted, state), 0o600),
        up_file(link): (render_up(wanted, state.plane), 0o644),
        keep_file(link): (render_keep(wanted, state), 0o600),
    }
    changed = {path for path, (text, _) in texts.items() if state.files.get(path) != text}
    steps: List[Step] = []
    if DROPIN_FILE in changed:
        folder = DROPIN_FILE.rpartition("/")[0]
        steps.append(make_directory(link + "/apply/dropin", folder, 0o755))
    if PROGRAM_FILE in changed:
        steps.append(make_directory(link + "/apply/lib", "/usr/local/lib/osm-vpnaas", 0o755))
    for path in sorted(changed):
        text, mode = texts[path]
        steps.append(write("{}/apply{}".format(link, path), path, text, mode))
    steps += _secrets(wanted, state)
    if changed & {UNIT_FILE, KEEPER_FILE, DROPIN_FILE}:
        steps.append(run(link + "/apply/reload", "systemctl", "daemon-reload", timeout=30))
    if not state.enabled or changed & {UNIT_FILE, KEEPER_FILE, PROGRAM_FILE}:
        names = [DAEMON, KEEPER, unit(link)]
        steps.append(run(link + "/apply/enable", "systemctl", "enable", *names, timeout=60))
    steps += _interface_changes(wanted, state)
    steps += _daemon_changes(wanted, state, changed)
    if changed & {KEEPER_FILE, PROGRAM_FILE} or not state.enabled:
        steps.append(run(link + "/apply/keeper", "systemctl", "restart", KEEPER, timeout=30))
    told = record(wanted.peers)
    if told != record(state.applied) or steps:
        steps.append(write(link + "/apply/record", directory(link) + "/applied.json", told, 0o600))
    return steps


def _making(lines: Sequence[str]) -> List[str]:
    """Return the lines of an `ip -batch` file that only a new interface brings into force."""
    return [line for line in lines if not line.startswith(("link set", "route"))]


def _interface_changes(wanted: Wanted, state: State) -> List[Step]:
    link, interface = wanted.link, ipsec_interface(wanted.link)
    live = state.interface
    text = render_up(wanted, state.plane)
    before = (state.files.get(up_file(link)) or "").splitlines()
    same_kind = _making(before) == _making(text.splitlines())
    if live is None or not same_kind or wanted.params.inner_address not in live.addresses:
        return [run(link + "/apply/start", "systemctl", "restart", unit(link), timeout=60)]
    steps = []
    if live.mtu != wanted.mtu:
        mtu = str(wanted.mtu)
        steps.append(run(link + "/apply/mtu", "ip", "link", "set", interface, "mtu", mtu))
    routes = frozenset(_wanted_routes(wanted))
    for index, prefix in enumerate(fields.ordered(routes - state.routes)):
        id = "{}/apply/route-{}".format(link, index)
        steps.append(run(id, "ip", "route", "replace", str(prefix), "dev", interface))
    for index, prefix in enumerate(fields.ordered(state.routes - routes)):
        id = "{}/apply/unroute-{}".format(link, index)
        steps.append(run(id, "ip", "route", "del", str(prefix), "dev", interface, any_exit=True))
    return steps


def _daemon_changes(wanted: Wanted, state: State, changed: Set[str]) -> List[Step]:
    link = wanted.link
    names = {c.name for each in connections(wanted, state).values() for c in each}
    mine = {name for name in state.loaded if name.startswith(link + "_")}
    steps: List[Step] = []
    if not state.running or not state.daemon_plane or DAEMON_FILE in changed:
        # Once for all links of the plan; the unit loads what is on file by then.
        restart = ("systemctl", "restart", DAEMON)
        at = link + "/apply/daemon"
        steps.append(run(at, *restart, stdout_file=RESTARTED, unless=RESTARTED, timeout=90))
    if names != mine or conf_path(link) in changed:
        steps += load(link + "/apply")
    if DROPIN_FILE in changed and state.plane == USERSPACE:
        mtu = ("ip", "link", "set", TUN, "mtu", str(wanted.tun_mtu))
        steps.append(run(link + "/apply/tun", *mtu, any_exit=True))
    for sa in stale(wanted, state):
        steps.append(_terminate("{}/apply/stale-{}".format(link, sa.id), sa))
    return steps


def load(at: str) -> List[Step]:
    """Return the steps that make the daemon read what is on file, and drop what is not."""
    return [
        run(at + "/load-creds", "swanctl", "--load-creds", "--noprompt", timeout=60),
        run(at + "/load-conns", "swanctl", "--load-conns", timeout=60),
    ]


def _terminate(id: str, sa: Sa) -> Step:
    # Without --force this would wait for the peer's answer.
    number = str(sa.id)
    words = ("--terminate", "--ike-id", number, "--force", "--timeout", "1")
    return run(id, "swanctl", *words, any_exit=True, timeout=30)


def stale(wanted: Wanted, state: State) -> List[Sa]:
    """Return associations of peers, keys or traffic selectors that are not wanted any more.

    One that differs in our own key alone stays until its successor is there, so that a rotation
    interrupts nothing.
    """
    policies = {c.policy for each in connections(wanted, state).values() for c in each}
    return [
        sa
        for sa in state.sas
        if sa.name.rpartition("_")[0] not in policies and not _replaceable(wanted, sa)
    ]


def _replaceable(wanted: Wanted, sa: Sa) -> bool:
    """Tell whether we replace an association ourselves, and so end it only after."""
    return any(sa.name.startswith("{}_{}_".format(wanted.link, n)) for n in wanted.initiates)


def wake(wanted: Wanted, state: State, peer: Peer) -> List[Step]:
    """Return the steps that open the tunnel to a peer that has us, before a probe.

    Both ends may do so, since either may be the one that learns last that both are ready; to hold
    the tunnel up is for one of them only.

    Associations under former keys or policies end when their successor is there; those whose
    policy must not go on end even where there is none.
    """
    if not peer.endpoint:
        return []
    link = wanted.link
    each = connections(wanted, state)[peer.name]
    names = [connection.name for connection in each]
    at = "{}/wake/{}".format(link, peer.name)
    mine = [sa for sa in state.sas if sa.name.startswith("{}_{}_".format(link, peer.name))]
    up = any(sa.up and sa.name in names for sa in mine) and state.daemon_plane
    done = "/run/osm-vpnaas-woken-{}-{}".format(link, peer.name)
    steps: List[Step] = []
    if not up:
        words = ("--initiate", "--ike", names[0], "--child", names[0], "--timeout", "5")
        steps += [
            remove(at + "/before", done),
            run(at + "/initiate", "swanctl", *words, stdout_file=done, any_exit=True, timeout=20),
        ]
    policies = {connection.policy for connection in each}
    for sa in mine:
        if sa.name not in names:
            step = _terminate("{}/end-{}".format(at, sa.id), sa)
            if not up and sa.name.rpartition("_")[0] in policies:
                step = attr.evolve(step, body=dict(step.body, only_if=done))
            steps.append(step)
    return steps


def _secrets(wanted: Wanted, state: State) -> List[Step]:
    """Return the steps that bring preshared keys into the form swanctl includes, and out of it."""
    before = {peer.name: peer.preshared for peer in state.applied}
    needed = {peer.name for peer in wanted.peers if peer.preshared}
    steps = []
    for name in sorted(name for name, key in before.items() if key and name not in needed):
        id = "{}/apply/no-secret-{}".format(wanted.link, name)
        steps.append(remove(id, secret_file(wanted.link, name)))
    for peer in wanted.peers:
        if peer.preshared and (before.get(peer.name) != peer.preshared):
            # Only what is a key in its entirety gets through: the file is read as configuration.
            source = "{}/preshared-{}".format(directory(wanted.link), peer.name)
            pattern = r"1s/^\([A-Za-z0-9+/]\{43\}=\)$/secret = 0s\1/p;1q"
            steps.append(
                run(
                    "{}/apply/secret-{}".format(wanted.link, peer.name),
                    "sed",
                    "-n",
                    pattern.replace("/]", "\\/]"),
                    stdin_file=source,
                    stdout_file=secret_file(wanted.link, peer.name),
                )
            )
    return steps


def stage_key(link: str) -> List[Step]:
    """Return the steps that make the next key of a rotation, where none is staged."""
    path = next_key_file(link)
    return [
        run(link + "/stage", *GENERATE, stdout_file=path, unless=path),
        run(link + "/next", *_public(path)),
    ]


def promote_key(link: str, generation: int) -> List[Step]:
    """Return the steps that put the staged key in the current one's place."""
    text = "{}\n".format(generation)
    return [
        move(link + "/promote/move", next_key_file(link), key_file(link)),
        write(link + "/promote/generation", generation_file(link), text, 0o600),
    ]


def restart(wanted: Wanted, state: State) -> List[Step]:
    """Return the steps that take a link's tunnels and interface down and up."""
    link = wanted.link
    return [
        run(link + "/restart/drop", PROGRAM_FILE, "drop", link + "_", any_exit=True, timeout=60),
        run(link + "/restart/unit", "systemctl", "restart", unit(link), timeout=60),
    ]


def absent(link: str) -> List[Step]:
    """Return the steps that take a link down for good; its keys stay."""
    return [
        remove(link + "/unsafe/keep", keep_file(link)),
        remove(link + "/unsafe/file", conf_path(link)),
        run(
            link + "/unsafe/creds",
            "swanctl",
            "--load-creds",
            "--noprompt",
            any_exit=True,
            timeout=60,
        ),
        run(link + "/unsafe/conns", "swanctl", "--load-conns", any_exit=True, timeout=60),
        run(
            link + "/unsafe/drop",
            PROGRAM_FILE,
            "drop",
            link + "_",
            any_exit=True,
            timeout=60,
        ),
        run(
            link + "/unsafe/stop",
            "systemctl",
            "disable",
            "--now",
            unit(link),
            any_exit=True,
            timeout=60,
        ),
        run(
            link + "/unsafe/link",
            "ip",
            "link",
            "delete",
            ipsec_interface(link),
            any_exit=True,
        ),
        remove(link + "/unsafe/up", up_file(link)),
        remove(link + "/unsafe/record", directory(link) + "/applied.json"),
    ]


PROGRAM = '''#!/usr/bin/python3
"""Open and close IPsec tunnels of osm-vpnaas.

Usage: ipsec keep         hold up what /etc/osm-vpnaas/*/ipsec.keep names, for ever
       ipsec drop PREFIX  end every security association whose connection's name starts so

ipsec.keep is a JSON list with one list of connection names per peer, of which one suffices.
"""
import glob
import json
import re
import subprocess
import sys
import time

PERIOD = 2
LONGEST = 30


def swanctl(*words):
    return subprocess.run(
        ["swanctl"] + list(words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    ).stdout.decode("utf-8", "replace")


def associations():
    """Yield (connection, id, whether packets pass)."""
    head = re.compile(r"list-sa event \\{(\\S+) \\{uniqueid=(\\d+) version=\\d+ state=(\\S+)")
    for line in swanctl("--list-sas", "--raw").splitlines():
        match = head.match(line)
        if match:
            children = line.partition("child-sas {")[2]
            passing = re.search(r"state=(INSTALLED|REKEY)", children)
            known = match.group(3) in ("ESTABLISHED", "REKEYING")
            yield match.group(1), match.group(2), known and bool(passing)


def drop(prefix):
    for name, number, _ in list(associations()):
        if name.startswith(prefix):
            swanctl("--terminate", "--ike-id", number, "--force", "--timeout", "1")


def wanted():
    for path in sorted(glob.glob("/etc/osm-vpnaas/*/ipsec.keep")):
        try:
            with open(path) as stream:
                for names in json.load(stream):
                    yield tuple(names)
        except (OSError, ValueError):
            continue


def keep():
    waits = {}
    while True:
        lists = list(wanted())
        up = {name for name, _, passing in associations() if passing} if lists else set()
        now = time.monotonic()
        for names in lists:
            if up.intersection(names):
                waits.pop(names, None)
                continue
            due, wait = waits.get(names, (0, PERIOD))
            if now < due:
                continue
            for name in names:
                swanctl("--initiate", "--ike", name, "--child", name, "--timeout", "10")
                if any(n == name and passing for n, _, passing in associations()):
                    break
            waits[names] = (time.monotonic() + wait, min(2 * wait, LONGEST))
        time.sleep(PERIOD)


if sys.argv[1:2] == ["drop"]:
    drop(sys.argv[2])
else:
    keep()
'''
