"""The wanted state of IPsec on a link, and the files that describe it."""

import hashlib
import json
import textwrap
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import ipsec_interface
from vpnaas.params.gateway import SharedAddress
from vpnaas.params.intent import LinkParams
from vpnaas.params.ipsec import PORT, PSK, Proposal
from vpnaas.peers import same_address
from vpnaas.peers.claims import used_pool
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.certificates import pin_file
from vpnaas.tunnels.ipsec.names import CERTIFICATE, PRESHARED, TRUST, USERSPACE, XFRM, interface_id
from vpnaas.tunnels.ipsec.observed import State
from vpnaas.vdu.installed import HEAD
from vpnaas.vdu.steps import Step


@attr.frozen
class Connection:
    """One loaded connection: a peer under one of its keys."""

    name: str  # "LINK_PEER_<digest of policy and peer's key>_<digest of our key and algorithms>".
    # The name without the last digest. An association with the same policy may stay until its
    # successor is up: only our key, its certificate, algorithms or priority differ.
    policy: str
    text: str  # Section of the swanctl file.


@attr.frozen
class Configuration:
    """Wanted state of IPsec on a link."""

    params: LinkParams
    mtu: int
    peers: Tuple[Peer, ...]
    tun_mtu: int  # MTU of the TUN in bytes, the smallest of all links of the VDU.
    underlay: Tuple[fields.IPAddress, ...]  # Addresses of the VDU the tunnel may use.
    initiates: FrozenSet[str]  # Names of the peers to which this side keeps the tunnel up.
    # Local outer address by peer, if it is not one of the underlay.
    sources: Mapping[str, fields.IPAddress] = attr.Factory(dict)
    # Name of our certificate, None if the credentials are not certificates.
    certificate: Optional[str] = None
    certificates: Tuple[Step, ...] = ()  # Steps that write certificates to the VDU.
    # Whether any link of the VDU has this option, because all share the daemon.
    same_address: bool = False
    asks: bool = False  # Whether any link of the VDU asks its gateway for addresses.
    # Address of our gateway pair for manual peers, None if there is none.
    shared: Optional[SharedAddress] = None

    @property
    def link(self) -> str:
        return self.params.link

    def shared_with(self, peer: Peer) -> Optional[SharedAddress]:
        """Return the shared address if it is the only one that a peer knows."""
        return self.shared if peer.is_manual else None

    def identity_for(self, peer: Peer, state: State) -> str:
        shared = self.shared_with(peer)
        return shared.identity if shared else state.identity


_PRIORITY = 1000000
"""Priority of a tunnel's policies before the peer's first rotation; each rotation adds one.

A larger number is a lower precedence. charon gives policies smaller numbers by itself.
"""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def connections(configuration: Configuration, state: State) -> Dict[str, Tuple[Connection, ...]]:
    """Return the connections of each peer, that of the key in use first."""
    if configuration.params.ipsec.credentials == PSK:
        # Public keys prove nothing here, so a rotation changes nothing.
        return {
            peer.name: (_connection(configuration, state, peer, "", 0),)
            for peer in configuration.peers
        }
    return {
        peer.name: tuple(
            # A manual peer with a certificate sends its key by IKE.
            _connection(configuration, state, peer, key, rotations)
            for rotations, key in enumerate(peer.public_keys() or ("",), start=peer.generation - 1)
        )
        for peer in configuration.peers
    }


def _connection(
    configuration: Configuration, state: State, peer: Peer, key: str, rotations: int
) -> Connection:
    params, chosen = configuration.params, configuration.params.ipsec
    initiates = peer.name in configuration.initiates
    yes = {True: "yes", False: "no"}
    source = configuration.sources.get(peer.name)
    local = [source] if source else list(configuration.underlay)
    shared = configuration.shared_with(peer)
    if shared:
        local = [shared.address.ip]
    if initiates and peer.endpoint:
        local = [address for address in local if address.version == peer.endpoint[0].version]
    # The side that keeps the tunnel up uses the endpoint only. The other side also accepts other
    # addresses, because the peer may be behind a NAT.
    remote = [str(peer.endpoint[0])] if peer.endpoint else []
    remote += [] if initiates and remote else ["%any"]
    own = (fields.host_network(params.inner_address),) + params.allowed_prefixes
    trap = chosen.start == "trap" and initiates and state.plane != USERSPACE
    esn = "no" if state.plane == USERSPACE else chosen.esn
    psk = chosen.credentials == PSK
    auth = "psk" if psk else "pubkey"
    proposal = Proposal.parse("peer", peer.proposal) if peer.proposal else chosen.proposal
    algorithms = (proposal.ike(), proposal.esp(esn))
    lines = [
        "version = 2",
        "proposals = <ike>",
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
        # RFC 8784: an attacker who breaks the key exchange still lacks this key.
        lines += ["ppk_id = {}".format(_ppk(peer)), "ppk_required = yes"]
    ours, theirs = ["  pubkeys = 0s<own>"], ["  pubkeys = 0s{}".format(key)]
    if psk:
        ours, theirs = [], []
    elif configuration.certificate is not None:
        # Exactly this certificate, and the authority must have issued it.
        pinned = ["  certs = " + pin_file(params.link, key)] if key else []
        pin = peer.certificate if key == peer.public_key else peer.next_certificate
        ours = ["  certs = " + CERTIFICATE.format(params.link)]
        theirs = [
            "  # " + pin,
            *pinned,
            "  cacerts = " + TRUST.format(params.link),
            "  revocation = {}".format(chosen.revocation),
        ]
    if peer.asks:
        names = [pool_name(params.link, str(network)) for network in params.ipsec.pool]
        lines.append("pools = " + ", ".join(names))
    if peer.given:
        names = [pool_name(params.link, str(address), peer.name) for address in peer.given]
        lines.append("pools = " + ", ".join(names))
    if params.given:
        # Name each: charon gives one address twice to an identity that asks for any two.
        lines.append("vips = " + ", ".join(str(address.ip) for address in params.given))
    lines += [
        "local {",
        "  auth = " + auth,
        "  id = @{}".format(configuration.identity_for(peer, state)),
    ] + ours
    lines += ["}", "remote {", "  auth = " + auth, "  id = @{}".format(peer.identity)] + theirs
    lines += [
        "}",
        "children {",
        # All children of a link have one name, so that one command rekeys them (ADR 0030).
        "  {} {{".format(params.link),
        "    local_ts = {}".format(", ".join(str(prefix) for prefix in own)),
        "    remote_ts = {}".format(", ".join(map(str, peer.prefixes)) or "dynamic"),
        "    esp_proposals = <esp>",
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
    end = ["  }", "}"]
    body = textwrap.indent("\n".join(lines + end), "    ")
    # The file contains the identity of a preshared key, never the key.
    policy = "{}_{}_{}".format(params.link, peer.name, _short(body + key + peer.preshared))
    priority = []
    if rotations > 0 and state.plane != USERSPACE and not trap:
        # A peer that initiates a tunnel under its new key cannot receive on it before it has read
        # our answer. So we send on the former tunnel until the peer ends that one.
        priority = ["    priority = {}".format(_PRIORITY + rotations)]
    own_key = "" if psk else state.public_key
    ours_now = (own_key, configuration.certificate or "") + algorithms
    name = "{}_{}".format(policy, _short("".join([*ours_now, *priority])))
    whole = textwrap.indent("\n".join(lines + priority + end), "    ")
    whole = whole.replace("<own>", state.public_key)
    whole = whole.replace("<ike>", algorithms[0]).replace("<esp>", algorithms[1])
    text = "  {} {{\n{}\n  }}\n".format(name, whole)
    return Connection(name, policy, text)


def _ppk(peer: Peer) -> str:
    # The key's name comes from the data of its agreement, as both ends may name the link
    # differently.
    return "ppk-{}".format(peer.preshared)


Made = Mapping[str, Tuple[Connection, ...]]
"""What `connections` returns."""


def render(configuration: Configuration, state: State, made: Optional[Made] = None) -> str:
    """Return the swanctl file of a link. It holds no secret; it names the files that do."""
    made = connections(configuration, state) if made is None else made
    listed = [connection.text for _, each in sorted(made.items()) for connection in each]
    text = HEAD + "connections {{\n{}}}\n".format("".join(listed))
    text += render_pools(
        configuration.link,
        used_pool(configuration.params.ipsec.pool, configuration.peers),
        configuration.peers,
    )
    psk = configuration.params.ipsec.credentials == PSK
    secrets = []
    for peer in configuration.peers:
        if not peer.preshared:
            continue
        kind = "ike" if psk else "ppk"
        ids = [configuration.identity_for(peer, state), peer.identity] if psk else [_ppk(peer)]
        secrets.append("  {}-{}-{} {{\n".format(kind, configuration.link, peer.name))
        for index, identity in enumerate(ids):
            secrets.append("    id-{} = {}{}\n".format(index, "@" if psk else "", identity))
        secrets.append(
            "    include {}\n  }}\n".format(PRESHARED.format(configuration.link, peer.name))
        )
    return text + ("secrets {{\n{}}}\n".format("".join(secrets)) if secrets else "")


def render_up(configuration: Configuration, plane: str) -> str:
    """Return the `ip -batch` file that makes the interface."""
    interface = ipsec_interface(configuration.link)
    address = configuration.params.inner_address
    if plane == XFRM:
        make = "link add {} type xfrm if_id {}".format(interface, interface_id(configuration.link))
    else:
        make = "tuntap add dev {} mode tun".format(interface)
    form = {4: "address add {} dev {}", 6: "address add {} dev {} nodad"}
    lines = [
        make,
        form[address.version].format(address, interface),
        "link set {} mtu {} up".format(interface, configuration.mtu),
    ]
    if plane == USERSPACE:
        # kernel-libipsec needs one of our addresses inside each selector. No host has the address
        # of the subnet itself.
        for prefix in configuration.params.allowed_prefixes:
            if prefix.prefixlen < prefix.max_prefixlen:
                own = fields.host_network(prefix.network_address)
                lines.append("address add {} dev {}".format(own, interface))
    for given in configuration.params.given[1:]:
        lines.append(form[given.version].format(fields.host_network(given), interface))
    if configuration.params.ipsec.same_address and not configuration.params.is_outer:
        lines += same_address.rules(configuration.params, interface_id(configuration.link))
    for prefix in routes_of(configuration):
        lines.append("route replace {} dev {}".format(prefix, interface))
    lines += own_table(configuration)
    return "\n".join(lines) + "\n"


def routes_of(configuration: Configuration) -> Tuple[fields.IPNetwork, ...]:
    """Return the prefixes that need a route into the interface, as they are outside its subnet."""
    subnet = configuration.params.inner_address.network
    apart, _ = same_address.split(configuration.peers)
    apart += used_pool(configuration.params.ipsec.pool, configuration.peers)
    return fields.ordered([prefix for prefix in apart if not fields.covers(subnet, prefix)])


def own_table(configuration: Configuration) -> List[str]:
    """Return the `ip -batch` lines with the routes of the link's own table (`same_address`)."""
    _, same = same_address.split(configuration.peers)
    line = "route replace {} dev {} table {}"
    interface, number = ipsec_interface(configuration.link), interface_id(configuration.link)
    return [line.format(prefix, interface, number) for prefix in fields.ordered(same)]


def render_keep(configuration: Configuration, state: State, made: Made) -> str:
    """Return the file for the keeper: per peer, the connections of which one must be up."""
    trap = configuration.params.ipsec.start == "trap" and state.plane != USERSPACE
    kept = [
        [connection.name for connection in each]
        for name, each in sorted(made.items())
        if name in configuration.initiates and not trap
    ]
    return json.dumps(kept, indent=1) + "\n"


def render_shared(configuration: Configuration, made: Made) -> str:
    """Return the connections of the shared address, and whether the peer's endpoint is known."""
    shared = {
        connection.name: peer.endpoint is not None
        for peer in configuration.peers
        if configuration.shared_with(peer)
        for connection in made[peer.name]
    }
    return json.dumps(shared, indent=1, sort_keys=True) + "\n"


def pool_name(link: str, addresses: str, peer: str = "") -> str:
    """Return charon's name of a pool, which is for one peer if this one is named.

    Other addresses give another name: charon changes no pool while a peer has an address of it.
    """
    return "osm-vpnaas-{}-{}{}".format(link, peer and peer + "-", _short(addresses))


def render_pools(link: str, pool: Sequence[fields.IPNetwork], peers: Sequence[Peer]) -> str:
    """Return the pools section of a swanctl file; "" without a pool."""
    addresses = [(str(network), "") for network in pool]
    addresses += [(str(address), peer.name) for peer in peers for address in peer.given]
    lines = [
        "  {} {{\n    addrs = {}\n  }}\n".format(pool_name(link, each, name), each)
        for each, name in addresses
    ]
    return "pools {{\n{}}}\n".format("".join(lines)) if lines else ""
