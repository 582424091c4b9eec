"""WireGuard on the VDU: observing an interface, and the steps to a wanted one.

The persistent form is a wg-quick(8) file with `wg-quick@` enabled, so a link survives a reboot by
itself. The live form is changed with `wg set`, peer by peer, so that a peer that does not change
keeps its session. Keys stay in files: the wg-quick file names them in PostUp, and `wg show dump`,
which prints the private key, is never called.
"""

import ipaddress
import json
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import MALFORMED, VduError
from vpnaas.base.links import DIRECTORY, wireguard_interface
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import KeyState, Peer, read_record, recording
from vpnaas.tunnels.key_pair import KeyPair, generation
from vpnaas.tunnels.preshared import PRESHARED
from vpnaas.tunnels.wireguard.names import (
    CONF,
    GATE,
    KEY,
    NEXT_KEY,
    STAGED,
    UNIT,
    WATCH,
    WATCH_UNIT,
)
from vpnaas.vdu import facts, installed, trouble
from vpnaas.vdu.programs import PYTHON, source
from vpnaas.vdu.steps import Results, Step, enable, read, run, write

OVERHEAD = 80
"""Bytes a packet grows by: 40 IPv6, 8 UDP, 32 WireGuard (data header 16, tag 16). An IPv4
underlay needs 20 less, but a peer may use either."""
HANDOVER_PROGRAM = "/usr/local/lib/osm-vpnaas/handover"
HANDOVER_SECONDS = 1800
SILENCE = 180
"""Seconds after its last handshake at which a session cannot carry packets (Reject-After-Time)."""

_SHOWN = (
    "public-key",
    "listen-port",
    "peers",
    "endpoints",
    "allowed-ips",
    "latest-handshakes",
    "transfer",
    "persistent-keepalive",
)


@attr.frozen
class LivePeer:
    """A peer as the interface knows it now."""

    allowed: FrozenSet[fields.IPNetwork]
    endpoint: str = ""
    handshake: int = 0
    received: int = 0
    sent: int = 0
    keepalive: int = 0


@attr.frozen
class Live:
    """A WireGuard interface that exists."""

    public_key: str
    listen_port: int
    peers: Dict[str, LivePeer]


@attr.frozen
class State(KeyState):
    """Observed state of one link."""

    live: Optional[Live]  # The interface as WireGuard has it, or None.
    interface: Optional[facts.Interface]  # The same one with its addresses.
    routes: FrozenSet[fields.IPNetwork]  # Routes into it.
    connected: FrozenSet[fields.IPNetwork]  # Those that the kernel made with its addresses.
    file: Optional[str]  # Text of the wg-quick file, or None.
    enabled: bool  # Whether the unit starts at boot.
    watched: bool = attr.ib(default=False, kw_only=True)  # Whether the handover watch runs.
    now: int = attr.ib(default=0, kw_only=True)  # The VDU's clock, in seconds since the epoch.


def key_pair(link: str) -> KeyPair:
    return KeyPair(
        link=link,
        file=KEY.format(link),
        staged=NEXT_KEY.format(link),
        counter=DIRECTORY.format(link) + "/generation",
        generate=("wg", "genkey"),
        public=("wg", "pubkey"),
    )


def observe(links: Sequence[str]) -> List[Step]:
    """Return the steps that make missing keys of the links and read their state."""
    if not links:
        return []
    steps: List[Step] = []
    for link in links:
        steps += key_pair(link).observe()
        steps += [
            read(link + "/file", CONF.format(link), cacheable=True, mark=installed.MARK),
            run(link + "/watched", "true", only_if="/run/" + WATCH.format(link)),
        ]
    units = [UNIT.format(link) for link in links]
    steps.append(run("wg/enabled", "systemctl", "is-enabled", *units, any_exit=True))
    return steps + look()


def look(prefix: str = "") -> List[Step]:
    """Return the steps that read all live interfaces; `prefix` marks a second round trip.

    Starting a process is expensive, so each program runs once for all links.
    """
    return [run(prefix + "wg/" + what, "wg", "show", "all", what) for what in _SHOWN]


def parse(links: Sequence[str], link: str, vdu: facts.VduFacts, results: Results) -> State:
    """Read the results of `observe(links)` for one link."""
    file = results.text(link + "/file")
    installed.require_ours(CONF.format(link), file, UNIT.format(link))
    public = x509.body(results.out(link + "/public"))
    enabled = results.output("wg/enabled").split("\n")
    name = wireguard_interface(link)
    interface = vdu.interfaces.get(vdu.tagged(name))
    live = parse_live(link, results) if interface is not None else None
    staged = x509.body(results.out(link + "/next"))
    # Ours is made after its file and goes before it. Its key tells it where the file was lost.
    # One that somebody made at boot, before our unit ran, has only peers that we do not know.
    known = "{} {}".format(file, results.text(link + "/applied"))
    theirs = live is not None and bool(live.peers) and not any(key in known for key in live.peers)
    ours = live is not None and live.public_key in (public, staged)
    if interface is not None and not ours and (file is None or theirs):
        raise installed.foreign_interface(name)
    routes, connected = facts.routes(results, name)
    return State(
        public_key=fields.wireguard_key("VDU: {} public key".format(link), public),
        next_public_key=staged,
        generation=generation(link, results),
        live=live,
        interface=interface,
        routes=routes,
        connected=connected,
        file=file,
        enabled=dict(zip(links, enabled)).get(link, "").strip() == "enabled",
        watched=results.exit_code(link + "/watched") is not None,
        now=vdu.now,
        applied=read_record(results.text(link + "/applied")),
        recorded=results.text(link + "/applied"),
    )


def diagnose(params: LinkParams) -> List[Step]:
    """Return the steps that look why the interface of a link cannot be set up."""
    return trouble.diagnose(params.link + "/why", UNIT.format(params.link), params.listen_port)


def cause(params: LinkParams, results: Results) -> str:
    """Return why the interface of a link cannot be set up, "" if it is not known."""
    at, port, interface = params.link + "/why", params.listen_port, wireguard_interface(params.link)
    owner = trouble.taken(results, at, port, interface)
    if owner:
        what = "UDP port {} of the VDU is used by {}; allowed: another listen-port"
        return what.format(port, owner)
    said = trouble.journal(results, at)
    return (
        "{} of the VDU failed and says: {}".format(UNIT.format(params.link), said) if said else ""
    )


def parse_live(link: str, results: Results, prefix: str = "") -> Optional[Live]:
    """Read the results of `look` for one link; None if the interface does not exist."""
    interface = wireguard_interface(link)

    def table(what: str) -> Dict[str, List[str]]:
        """Return the columns after the key of each row of this interface, by key."""
        text = results.out(prefix + "wg/" + what) or ""
        rows = [line.split("\t") for line in fields.lines(text)]
        return {row[1]: row[2:] for row in rows if row[0] == interface}

    try:
        public_keys = list(table("public-key"))
        if not public_keys:
            return None
        endpoints = _endpoints(interface, results.out(prefix + "wg/endpoints") or "")
        allowed = table("allowed-ips")
        handshakes, transfer = table("latest-handshakes"), table("transfer")
        keepalives = table("persistent-keepalive")
        peers = {}
        for key in table("peers"):
            prefixes = allowed.get(key, [""])[0].split()
            endpoint = endpoints.get(key, "")
            received, sent = transfer.get(key, ["0", "0"])[:2]
            keepalive = keepalives.get(key, ["off"])[0]
            peers[key] = LivePeer(
                allowed=frozenset(ipaddress.ip_network(p) for p in prefixes if p != "(none)"),
                endpoint="" if endpoint == "(none)" else endpoint,
                handshake=int(handshakes.get(key, ["0"])[0]),
                received=int(received),
                sent=int(sent),
                keepalive=0 if keepalive == "off" else int(keepalive),
            )
        return Live(
            public_key=public_keys[0],
            listen_port=int(next(iter(table("listen-port")))),
            peers=peers,
        )
    except (StopIteration, *MALFORMED):
        raise VduError("`wg show` printed something unexpected of {}".format(interface))


def _endpoints(interface: str, text: str) -> Dict[str, str]:
    """Return the endpoint of each peer of an interface from `wg show all endpoints`.

    Unlike the other tables, this one names an interface only in the row of its first peer. For an
    interface without peers, wg prints the name without a newline (wireguard-tools 1.0.20210914 and
    earlier).
    """
    by_key = {}
    current = ""
    for line in fields.lines(text):
        columns = line.split("\t")
        current = columns[-3] if len(columns) > 2 else current
        if current == interface and len(columns) > 1:
            by_key[columns[-2]] = columns[-1]
    return by_key


@attr.frozen
class Configuration:
    """A WireGuard interface as it should be."""

    params: LinkParams
    mtu: int
    peers: Tuple[Peer, ...]

    @property
    def link(self) -> str:
        return self.params.link


def handed_over(peer: Peer, live: Optional[Live]) -> bool:
    """Tell whether a rotating peer already uses its next key.

    The first message of a handshake under the next key is proof: only the holder of that private
    key can make it (Noise IKpsk2). The handover watch then gives the prefixes to this key, even if
    the databag still has the former one.
    """
    staged = live.peers.get(peer.next_public_key) if live and peer.next_public_key else None
    return staged is not None and (staged.handshake > 0 or bool(staged.allowed))


def allowed_by_key(
    configuration: Configuration, live: Optional[Live]
) -> Dict[str, Tuple[Peer, bool]]:
    """Return each key that should be on the interface, and whether it carries the prefixes."""
    table = {}
    for peer in configuration.peers:
        switched = handed_over(peer, live)
        table[peer.public_key] = (peer, not switched)
        if peer.next_public_key:
            table[peer.next_public_key] = (peer, switched)
    return table


def _gated(keys: Mapping[str, Tuple[Peer, bool]]) -> FrozenSet[str]:
    """Return the next keys that no peer uses yet."""
    return frozenset(
        key for key, (peer, carries) in keys.items() if key == peer.next_public_key and not carries
    )


def render(configuration: Configuration, live: Optional[Live] = None) -> str:
    """Return the wg-quick(8) file. It contains no secret; PostUp names the key files."""
    keys = allowed_by_key(configuration, live)
    lines = [
        "[Interface]",
        "Address = {}".format(configuration.params.inner_address),
        "ListenPort = {}".format(configuration.params.listen_port),
        "MTU = {}".format(configuration.mtu),
    ]
    gated = _gated(keys)
    if gated:
        # One process for all of them, as 1,000 peers may rotate at the same time.
        path = GATE.format(configuration.link)
        words = ["peer {} preshared-key {}".format(key, path) for key in sorted(gated)]
        lines.append("PostUp = wg set %i " + " ".join(words))
    for key, (peer, _) in sorted(keys.items()):
        if peer.preshared and key not in gated:
            path = PRESHARED.format(configuration.link, peer.name)
            lines.append("PostUp = wg set %i peer {} preshared-key {}".format(key, path))
    # The private key comes last: no handshake can start before the preshared keys are set.
    lines.append("PostUp = wg set %i private-key {}".format(KEY.format(configuration.link)))
    for key, (peer, carries) in sorted(keys.items()):
        lines += ["", "# {}".format(peer.name), "[Peer]", "PublicKey = {}".format(key)]
        if carries:
            lines.append("AllowedIPs = {}".format(", ".join(str(p) for p in peer.prefixes)))
        if peer.endpoint:
            lines.append("Endpoint = {}".format(fields.show_endpoint(*peer.endpoint)))
        if peer.keepalive:
            lines.append("PersistentKeepalive = {}".format(peer.keepalive))
    return installed.HEAD + "\n".join(lines) + "\n"


def steps_to(configuration: Configuration, state: State) -> List[Step]:
    """Return the steps from the observed to the wanted state; none where they agree."""
    link, interface = configuration.link, wireguard_interface(configuration.link)
    steps: List[Step] = []
    text = render(configuration, state.live)
    watch = _handovers(configuration, state, interface)
    if _gated(allowed_by_key(configuration, state.live)) and (watch or state.file != text):
        gate = GATE.format(link)
        steps.append(run(link + "/apply/gate", "wg", "genpsk", stdout_file=gate, unless=gate))
    if state.file != text:
        steps.append(write(link + "/apply/file", CONF.format(link), text, 0o600, state.file))
    if not state.enabled:
        steps.append(enable(link + "/apply/enable", UNIT.format(link)))
    if watch:
        # The running one may give a key what its peer has lost.
        stop = ("systemctl", "stop", WATCH_UNIT.format(link))
        steps.append(run(link + "/apply/handover-stop", *stop, any_exit=True))
    if state.live is None or state.interface is None:
        # `restart`: the unit may count as active although somebody deleted the interface.
        steps.append(
            run(link + "/apply/start", "systemctl", "restart", UNIT.format(link), timeout=60)
        )
    else:
        steps += _interface_changes(configuration, state, state.live, state.interface)
        steps += _peer_changes(configuration, state, state.live, interface)
        steps += _route_changes(configuration, state, state.interface)
    steps += watch
    return steps + recording(link, configuration.peers, state, bool(steps))


def _interface_changes(
    configuration: Configuration, state: State, live: Live, present: facts.Interface
) -> List[Step]:
    link, address = configuration.link, configuration.params.inner_address
    interface, addresses = present.name, frozenset(present.addresses)
    steps = []
    if not present.up:
        # Its routes went when it went down.
        steps.append(run(link + "/apply/up", "ip", "link", "set", interface, "up"))
    if live.public_key != state.public_key:
        steps.append(
            run(link + "/apply/key", "wg", "set", interface, "private-key", KEY.format(link))
        )
    if live.listen_port != configuration.params.listen_port:
        port = str(configuration.params.listen_port)
        steps.append(run(link + "/apply/port", "wg", "set", interface, "listen-port", port))
    if present.mtu != configuration.mtu:
        mtu = str(configuration.mtu)
        steps.append(run(link + "/apply/mtu", "ip", "link", "set", interface, "mtu", mtu))
    for index, old in enumerate(sorted(addresses - {address}, key=str)):
        id = "{}/apply/address-{}".format(link, index)
        steps.append(run(id, "ip", "address", "del", str(old), "dev", interface))
    if addresses != {address}:
        # Last: with the first address of a subnet, Linux deletes its others and their routes.
        words = ("ip", "address", "replace", str(address), "dev", interface)
        steps.append(run(link + "/apply/address", *words))
    return steps


def _peer_changes(
    configuration: Configuration, state: State, live: Live, interface: str
) -> List[Step]:
    link = configuration.link
    before = {key: peer for peer in state.applied for key in peer.public_keys()}
    keys = allowed_by_key(configuration, live)
    removals: List[str] = []
    changes: List[str] = []
    gated = _gated(keys)
    for key in sorted(set(live.peers) - set(keys)):
        removals += ["peer", key, "remove"]
    for key, (peer, carries) in sorted(keys.items()):
        now, old = live.peers.get(key), before.get(key)
        words: List[str] = []
        endpoint = fields.show_endpoint(*peer.endpoint) if peer.endpoint else ""
        if key in gated:
            # No keepalive: the answer to it would stop the peer from starting a handshake.
            if now is None:
                words += ["peer", key, "preshared-key", GATE.format(link)]
            if endpoint and (now is None or old is None or old.endpoint != peer.endpoint):
                words += ([] if words else ["peer", key]) + ["endpoint", endpoint]
            changes += words
            continue
        if now and not now.allowed and carries and old is not None and old.next_public_key == key:
            # The watch missed its handover: it may still have the preshared key of the gate file.
            changes += ["peer", key, "remove"]
            endpoint = now.endpoint or endpoint
            now = None
        if peer.preshared and (now is None or old is None or old.preshared != peer.preshared):
            words += ["preshared-key", PRESHARED.format(link, peer.name)]
        elif not peer.preshared and now is not None and old is not None and old.preshared:
            words += ["preshared-key", "/dev/null"]
        offered = now is not None and old is not None and old.endpoint == peer.endpoint
        if endpoint and not (offered and _stays(now, endpoint, state.now)):
            words += ["endpoint", endpoint]
        if (now.keepalive if now else 0) != peer.keepalive:
            words += ["persistent-keepalive", str(peer.keepalive)]
        prefixes = frozenset(peer.prefixes if carries else ())
        if now is None or now.allowed != prefixes:
            words += ["allowed-ips", fields.show_networks(fields.ordered(prefixes))]
        if words or now is None:
            changes += ["peer", key] + words
    steps = []
    # Removal comes first and alone, so that it works even if a later change fails.
    if removals:
        steps.append(run(link + "/apply/remove", "wg", "set", interface, *removals))
    if changes:
        steps.append(run(link + "/apply/peers", "wg", "set", interface, *changes))
    return steps


def _stays(live: Optional[LivePeer], offered: str, now: int) -> bool:
    """Tell whether a peer's live endpoint stays: it is the offered one, or the peer roamed (wg(8)).

    After a silence it must be the offered one. WireGuard sends to the address that it heard last;
    two ends whose NATs have lost their flows would never find each other again.
    """
    if live is None:
        return False
    return live.endpoint == offered or abs(now - live.handshake) <= SILENCE


def _route_changes(
    configuration: Configuration, state: State, present: facts.Interface
) -> List[Step]:
    interface = present.name
    subnet = configuration.params.inner_address.network
    routes = frozenset(
        p for peer in configuration.peers for p in peer.prefixes if not fields.covers(subnet, p)
    )
    same = present.up and present.addresses == (configuration.params.inner_address,)
    steps = facts.reconnect(configuration.link, interface, configuration.params.inner_address)
    steps = steps if same and subnet not in state.connected else []
    missing = routes - state.routes if same else routes
    return steps + facts.reroute(configuration.link, interface, missing, state.routes - routes)


def _staged(link: str, peers: Sequence[Peer]) -> Dict[str, List[str]]:
    """Return what the handover watch gives to each next key of a link."""
    return {
        peer.next_public_key: [
            fields.show_networks(peer.prefixes),
            PRESHARED.format(link, peer.name) if peer.preshared else "",
            str(peer.keepalive),
        ]
        for peer in peers
        if peer.next_public_key
    }


def _handovers(configuration: Configuration, state: State, interface: str) -> List[Step]:
    """Return the steps that start a watch for rotating peers that switch to their next key.

    So a switch does not wait for a relation event. One watch serves all peers of the link. It
    starts again for further keys, if what it gives to a key has changed, if it missed a switch, or
    if it ended, by a reboot or after its time, and a peer has not switched.
    """
    link = configuration.link
    staged, before = _staged(link, configuration.peers), _staged(link, state.applied)
    known = state.live.peers if state.live is not None else {}
    waits = any(
        peer.next_public_key and not handed_over(peer, state.live) for peer in configuration.peers
    )
    if (state.watched or not waits) and all(
        key in known and before.get(key) == gift and not _missed(known[key])
        for key, gift in staged.items()
    ):
        return []
    text = json.dumps(staged, indent=1, sort_keys=True) + "\n"
    # Other processes may use all CPU time. The watch needs little, and packets wait for it.
    how = ["--collect", "--quiet", "--nice=-10", "--unit=" + WATCH_UNIT.format(link)]
    how.append("--property=RuntimeDirectory=" + WATCH.format(link))
    words = (*PYTHON, HANDOVER_PROGRAM, interface, STAGED.format(link))
    at = link + "/apply/handover"
    return [
        write(at, HANDOVER_PROGRAM, source("handover.py"), 0o755),
        write(at + "-keys", STAGED.format(link), text, 0o600),
        run(at + "-watch", "systemd-run", *how, *words, str(HANDOVER_SECONDS)),
    ]


def _missed(staged: LivePeer) -> bool:
    """Tell whether a peer uses its next key and the watch has not noticed."""
    return staged.received > 0 and not staged.allowed and not staged.handshake
