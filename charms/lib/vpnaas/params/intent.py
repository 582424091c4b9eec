"""What the operator wants: Day-1 link parameters and manual peers.

Both persist as one JSON document in the application databag of the peer relation, which only the
leader writes and which outlives a unit. Nothing in it is secret.
"""

import json
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.declared import (
    At,
    Declared,
    choice_field,
    number_field,
    optional_field,
    or_off_field,
    switch_field,
    text_field,
)
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import (
    IPSEC,
    KEEPALIVE,
    KEYED,
    NONE,
    TECHNOLOGIES,
    WIREGUARD,
    reference_point,
)
from vpnaas.params import pools
from vpnaas.params.gateway import GatewayParams, exporter_port, log_server
from vpnaas.params.ipsec import (
    CREDENTIALS,
    ENROLLED,
    EST,
    PORT,
    PSK,
    PUBKEY,
    IpsecParams,
    Proposal,
    options,
)
from vpnaas.params.qos import LinkQos, link_qos
from vpnaas.params.servers import Enrolment

OFF = "none"
"""In place of an inner address: the link is switched off."""
UNASSIGNED = fields.interface_address("intent", "192.0.2.1/32")
"""In place of an inner address that the gateway has not given yet; kept for examples (RFC 5737)."""
DOCUMENT_VERSION = 1
MANUAL = "man-"
"""Start of the names of manual peers among all peers of a link."""
CERTIFICATE = "certificate"
"""In place of the public key of a manual peer: the peer has a certificate."""
STORE = "store"
"""In place of the public key: the VDU fetches a preshared key from a secret store."""
LATEST = 7258118399
"""The last second of the year 2199, seconds since the epoch; systemd knows no later dates."""
NO_QUANTUM, PREFER, REQUIRE = "none", "prefer", "require"
"""Whether preshared keys are hybrid: never, if both ends can, or always (else no tunnel)."""
KEEP_QOS = -1
"""`five-qi` of `configure` that leaves the quality of service as it is."""


def _prefixes_field() -> Any:
    return optional_field(fields.networks, (), show=fields.show_networks)


@attr.frozen
class LinkParams(Declared):
    """Day-1 parameters of one link (the `configure` primitive), as `link_params` reads them."""

    action = "configure"
    link: str = text_field(fields.name)  # Name of the link, which is the relation endpoint.
    technology: str = WIREGUARD  # Or "ipsec", or "none" for the measurement baseline in clear.
    # Our address inside the tunnel, with the prefix length of the link's subnet.
    inner_address: fields.IPInterface = UNASSIGNED
    listen_port: int = 0  # UDP port of the tunnel.
    # VDU interface the tunnel runs over, "" for the management interface.
    underlay_interface: str = optional_field(fields.network_interface, words=fields.AUTO)
    # Address at which peers reach us if it is not ours (floating IP, NAT), else None.
    gateway: Optional[fields.IPAddress] = optional_field(fields.address, None, fields.AUTO, str)
    allowed_prefixes: Tuple[fields.IPNetwork, ...] = _prefixes_field()  # Prefixes behind us.
    # Prefixes a peer may announce besides its address in the inner subnet.
    accept_prefixes: Tuple[fields.IPNetwork, ...] = _prefixes_field()
    mtu: int = or_off_field(fields.MIN_MTU, fields.MAX_MTU, 0)  # Upper bound in bytes, 0 for none.
    keepalive: int = number_field(-1, 65535, -1)  # Seconds, 0 is off, -1 decides by NAT.
    preshared_key: bool = switch_field(False)  # Whether the link needs a preshared key.
    # Whether that key must withstand a quantum computer: "none", "prefer" (if the other end can) or
    # "require".
    post_quantum: str = choice_field((NO_QUANTUM, PREFER, REQUIRE))
    # Outer addresses of the two gateways of a pair, which may announce the same prefixes to us. For
    # technology "none", one address is enough: the address that moves.
    standby_gateways: Tuple[fields.IPAddress, ...] = ()
    ipsec: IpsecParams = attr.Factory(IpsecParams)  # Parameters for IPsec only.
    # IP versions of the addresses to ask the gateway for; () if the operator gave the inner
    # address.
    request: pools.Request = ()
    # Addresses from the gateway, () before it gives any. The first is `inner_address`; another one
    # is among `allowed_prefixes` too.
    given: Tuple[fields.IPInterface, ...] = ()
    # Why addresses from a gateway cannot be used, while `given` stay.
    refused_gifts: Tuple[str, ...] = ()
    other_gifts: Tuple[str, ...] = ()  # Which gateways give other addresses than these.

    @property
    def inner_text(self) -> str:
        """Return the inner address, or the request to the gateway if it has given none yet."""
        return str(self.inner_address) if self.has_address else self._request_text()

    @property
    def has_address(self) -> bool:
        return not self.request or bool(self.given)

    def _request_text(self) -> str:
        return "{}:{}".format(pools.ASKS, pools.show_request(self.request))

    @property
    def is_outer(self) -> bool:
        """Tell whether our inner address is the outer one as well (option same-address)."""
        inner = self.inner_address
        return self.ipsec.same_address and inner.network.prefixlen == inner.max_prefixlen

    @property
    def needs_preshared(self) -> bool:
        """Tell whether this end wants a preshared key."""
        proves = self.technology == IPSEC and self.ipsec.credentials == PSK
        return self.preshared_key or self.post_quantum != NO_QUANTUM or proves

    def check(self, at: At) -> None:
        if self.preshared_key and self.technology == NONE:
            raise InputError(at("preshared-key"), "technology none has no keys", "false")
        if self.post_quantum != NO_QUANTUM and self.technology == NONE:
            raise InputError(at("post-quantum"), "technology none has no keys", NO_QUANTUM)
        # The address of a link that asks is not known yet; `leases.with_addresses` checks it.
        for prefix in self.accept_prefixes if not self.request else ():
            if fields.overlaps(prefix, fields.host_network(self.inner_address)):
                raise InputError(
                    at("accept-prefixes"),
                    "{} covers our own inner address".format(prefix),
                    "prefixes that lie behind peers",
                )

    def to_params(self) -> Dict[str, Any]:
        """Return the action parameters that `link_params` turns into this object."""
        params = dict(super().to_params(), technology=self.technology)
        params["inner-address"] = self._request_text() if self.request else str(self.inner_address)
        params["listen-port"] = self.listen_port
        if self.post_quantum == NO_QUANTUM:
            del params["post-quantum"]
        if self.standby_gateways:
            params["standby-gateways"] = ",".join(map(str, self.standby_gateways))
        return dict(params, **(self.ipsec.to_params() if self.technology == IPSEC else {}))


def _any_key(where: str, text: str) -> str:
    """Parse a public key of any technology; its length shows which one."""
    if text in (CERTIFICATE, STORE):
        return ""
    return key_form(IPSEC if len(text) > 44 else WIREGUARD)(where, text)


def _behind(where: str, text: str) -> Tuple[fields.IPNetwork, ...]:
    prefixes = () if text == pools.ASKS else fields.networks(where, text)
    if not prefixes and text != pools.ASKS:
        raise InputError(where, "no prefix given", "at least one, or pool")
    return prefixes


@attr.frozen
class ManualPeer(Declared):
    """A peer outside any relation (the `add-peer` primitive), as `manual_peer` reads it."""

    action = "add-peer"
    link: str = text_field(fields.name)
    name: str = text_field(fields.name)
    # Its key, "" if it has a certificate. For a preshared key, the RSA key to which our VDU
    # encrypts it, "" if it comes from a secret store.
    public_key: str = text_field(_any_key)
    # Without any it gets an address from the link's pool.
    allowed_prefixes: Tuple[fields.IPNetwork, ...] = text_field(_behind, ())
    endpoint: Optional[Tuple[fields.IPAddress, int]] = optional_field(
        fields.endpoint, None, show=lambda end: fields.show_endpoint(*end)
    )
    keepalive: int = number_field(-1, 65535, 0)  # Seconds, -1 for the charm's choice.
    identity: str = attr.Factory(lambda peer: peer.name, takes_self=True)  # Its IKE identity.
    stored: bool = False  # Whether its preshared key comes from a secret store.
    # When the peer expires, seconds since the epoch, 0 for never.
    expires: int = number_field(0, LATEST, 0)

    @property
    def peer_name(self) -> str:
        """Return its name among all peers of the link."""
        return MANUAL + self.name

    @property
    def asks(self) -> bool:
        """Tell whether it gets an address from the link's pool."""
        return not self.allowed_prefixes

    @property
    def keepalive_seconds(self) -> int:
        """Return the seconds between keepalives to it, 0 for none."""
        chosen = KEEPALIVE if self.endpoint else 0
        return chosen if self.keepalive < 0 else self.keepalive

    def check(self, at: At) -> None:
        if self.asks and self.endpoint:
            what = "a peer with an address of the pool connects to this VNF"
            raise InputError(at("endpoint"), what, "none")

    def to_params(self) -> Dict[str, Any]:
        """Return the action parameters that `manual_peer` turns into this object."""
        params = super().to_params()
        params["public-key"] = self.public_key or (STORE if self.stored else CERTIFICATE)
        params["allowed-prefixes"] = fields.show_networks(self.allowed_prefixes) or pools.ASKS
        if not self.expires:
            del params["expires"]
        if self.identity != self.name:
            params["ike-identity"] = self.identity
        return params


@attr.frozen
class Intent:
    """All parameters that the operator gave this VNF."""

    links: Mapping[str, LinkParams] = attr.Factory(dict)
    peers: Mapping[Tuple[str, str], ManualPeer] = attr.Factory(dict)
    qos: Mapping[str, LinkQos] = attr.Factory(dict)
    # Links that the operator switched off; they may still have relations.
    off: FrozenSet[str] = frozenset()
    gateway: GatewayParams = attr.Factory(GatewayParams)
    # Digests of public keys that no peer may have any more, by link.
    revoked: Mapping[str, Tuple[str, ...]] = attr.Factory(dict)
    # Port of the exporter of metrics, 0 for no exporter, None for the default.
    monitoring: Optional[int] = None
    # Address and port of the syslog server that gets the journal, "" for none.
    log_server: str = ""
    # Where links with credentials cmp or est get their certificates, by link.
    enrolments: Mapping[str, Enrolment] = attr.Factory(dict)

    @property
    def empty(self) -> bool:
        """Tell whether no link and no exporter was configured yet."""
        return not self.links and not self.off and self.monitoring is None

    def with_revoked(self, link: str, keys: Sequence[str]) -> "Intent":
        """Return the intent with public keys that no peer of a link may have any more."""
        known = set(self.revoked.get(link, ())) | {digest(key) for key in keys}
        return attr.evolve(self, revoked=dict(self.revoked, **{link: tuple(sorted(known))}))

    def check_key(self, link: str, key: str, where: str) -> None:
        """Raise InputError if a public key was revoked on a link."""
        if digest(key) in self.revoked.get(link, ()):
            raise InputError(where, "it was revoked", "a new key, made at the other end")

    def with_enrolment(self, link: str, enrolment: Enrolment) -> "Intent":
        """Return the intent with another server that certifies the keys of a link."""
        params = self.links.get(link)
        if params is None or params.ipsec.credentials not in ENROLLED:
            raise InputError(
                "set-enrolment: link",
                "{} takes no certificate from a server".format(link),
                "a link with credentials {}".format(" or ".join(ENROLLED)),
            )
        if enrolment.recipient and params.ipsec.credentials == EST:
            raise InputError("set-enrolment: recipient", "EST has none", "auto")
        return attr.evolve(self, enrolments=dict(self.enrolments, **{link: enrolment}))

    def with_qos(self, link: str, qos: Optional[LinkQos]) -> "Intent":
        """Return the intent with another quality of service of a link; None removes it."""
        if link not in self.links:
            raise InputError(
                "set-qos: link", "{} is not configured".format(link), "run configure first"
            )
        others = {name: other for name, other in self.qos.items() if name != link}
        return attr.evolve(self, qos=dict(others, **{link: qos}) if qos else others)

    def with_link(self, params: LinkParams) -> "Intent":
        """Return the intent with one link configured again."""
        conflicting(params, self.links)
        links = dict(self.links, **{params.link: params})
        return attr.evolve(self, links=links, off=self.off - {params.link})

    def without_link(self, link: str) -> "Intent":
        """Return the intent with one link switched off, without its peers and settings."""
        return attr.evolve(
            self,
            links={name: params for name, params in self.links.items() if name != link},
            peers={key: peer for key, peer in self.peers.items() if key[0] != link},
            qos={name: qos for name, qos in self.qos.items() if name != link},
            enrolments={name: server for name, server in self.enrolments.items() if name != link},
            off=self.off | {link},
        )

    def configured(self, params: Mapping[str, Any]) -> "Intent":
        """Return the intent after `configure`; inner address "none" switches the link off.

        The parameter five-qi is the 5QI of the link's slice, which OSM does not enforce. Without
        it, the quality of service from `set-qos` stays.
        """
        if fields.string("configure: inner-address", params.get("inner-address", "")) == OFF:
            link = fields.string("configure: link", params.get("link", ""))
            return self.without_link(fields.name("configure: link", link))
        configured = link_params(params)
        intent, link = self.with_link(configured), configured.link
        given = params.get("five-qi", KEEP_QOS)
        if fields.integer("configure: five-qi", given, KEEP_QOS, 255) == KEEP_QOS:
            return intent
        return intent.with_qos(link, link_qos(params, "configure"))

    def with_peer(self, peer: ManualPeer) -> "Intent":
        """Return the intent with one manual peer added or replaced."""
        params = self.links.get(peer.link)
        if params is None or params.technology not in KEYED:
            raise InputError(
                "add-peer: link",
                "{} has no VPN".format(peer.link),
                "a link that `configure` set to {}".format(" or ".join(KEYED)),
            )
        if peer.stored and (params.technology, params.ipsec.credentials) != (IPSEC, PSK):
            raise InputError(
                "add-peer: public-key",
                "{} has no preshared key from a store".format(peer.link),
                "a link with credentials {}".format(PSK),
            )
        if params.technology == IPSEC:
            _check_credentials(peer, params.ipsec.credentials)
        elif peer.identity != peer.name:
            raise InputError("add-peer: ike-identity", "WireGuard has none", "auto")
        if peer.asks and not params.ipsec.pool:
            raise InputError(
                "add-peer: allowed-prefixes",
                "{} has no pool".format(peer.link),
                "prefixes, or an IPsec link with the option pool",
            )
        if peer.public_key or params.technology != IPSEC:
            key_form(params.technology)("add-peer: public-key", peer.public_key or CERTIFICATE)
        peers = dict(self.peers)
        peers[(peer.link, peer.name)] = peer
        return attr.evolve(self, peers=peers)

    def without_peer(self, link: str, name: str) -> "Intent":
        """Return the intent without one manual peer, which must exist."""
        if (link, name) not in self.peers:
            known = sorted(peer for at, peer in self.peers if at == link)
            raise InputError(
                "delete-peer: name",
                "link {} has no manual peer {}".format(link, fields.shown(name)),
                fields.few(known) or "nothing, there is none",
            )
        return attr.evolve(self, peers={k: v for k, v in self.peers.items() if k != (link, name)})

    def at(self, now: int) -> "Intent":
        """Return the intent without peers that have expired `now`, seconds since the epoch."""
        left = {k: peer for k, peer in self.peers.items() if not 0 < peer.expires <= now}
        return self if len(left) == len(self.peers) else attr.evolve(self, peers=left)

    def manual(self, link: str) -> Tuple[ManualPeer, ...]:
        return tuple(peer for (at, _), peer in sorted(self.peers.items()) if at == link)

    def to_json(self) -> str:
        """Return the document for the peer relation."""
        return json.dumps(
            {
                "version": DOCUMENT_VERSION,
                "links": [self.links[name].to_params() for name in sorted(self.links)],
                "peers": [self.peers[key].to_params() for key in sorted(self.peers)],
                "qos": [self.qos[name].to_params() for name in sorted(self.qos)],
                "off": sorted(self.off),
                "gateway": self.gateway.to_params(),
                "revoked": dict(self.revoked),
                "enrolments": {k: v.to_params() for k, v in self.enrolments.items()},
                "monitoring": self.monitoring,
                "log-server": self.log_server or "none",
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> "Intent":
        """Read the document back; "" is an empty intent.

        Raises:
            InputError: Another version of this charm, or another program, wrote it. The charm then
                shows this in its status and its hooks do not fail.
        """
        if not text:
            return cls()
        where = "peer relation: intent"
        document = fields.json_object(where, text)
        version, monitoring = document.get("version"), document.get("monitoring")
        if version != DOCUMENT_VERSION:
            raise InputError("peer relation: version", fields.shown(version), str(DOCUMENT_VERSION))
        try:
            links = [link_params(item) for item in document.get("links", [])]
            peers = [manual_peer(item) for item in document.get("peers", [])]
            qos = [link_qos(item) for item in document.get("qos", [])]
            revoked, enrolments = document.get("revoked", {}), document.get("enrolments", {})
            return cls(
                {p.link: p for p in links},
                {(p.link, p.name): p for p in peers},
                {share.link: share for share in qos if share is not None},
                frozenset(
                    fields.name("peer relation: off", link) for link in document.get("off", [])
                ),
                GatewayParams.parse(document.get("gateway", {})),
                {link: tuple(map(str, keys)) for link, keys in revoked.items()},
                None if monitoring is None else exporter_port({"exporter-port": monitoring}),
                log_server(document),
                {link: Enrolment.parse(item) for link, item in enrolments.items()},
            )
        except MALFORMED:
            raise InputError(
                where, "not in the form of this version", "the form that this charm writes"
            )


def link_params(params: Mapping[str, Any]) -> LinkParams:
    """Parse the parameters of `configure`; absent optional ones take the action's defaults."""
    given = fields.Parameters("configure", params)
    at, text = given.at, given.text
    link = given.parsed("link", fields.name)
    request = given.parsed("inner-address", pools.asked)
    technology = technology_of(link, text("technology", WIREGUARD), at("technology"))
    port = given.integer("listen-port", 0, 0, 65535)
    if technology == IPSEC:
        if port not in (0, PORT):
            what = "{} is not IKE's".format(port)
            raise InputError(at("listen-port"), what, "0 or {}".format(PORT))
        port = PORT
    ipsec = IpsecParams(
        credentials=given.choice("credentials", CREDENTIALS),
        proposal=given.parsed("proposal", Proposal.parse),
        **given.parsed("ipsec-options", options),  # type: ignore[arg-type]
    )
    if request and (technology != IPSEC or ipsec.pool or ipsec.same_address):
        raise InputError(
            at("inner-address"),
            "{} asks a gateway by IKEv2".format(fields.shown(text("inner-address"))),
            "technology ipsec, without the options pool and same-address here",
        )
    pair = _standby_gateways(at("standby-gateways"), text("standby-gateways"), technology)
    return LinkParams.parse(
        params,
        technology=technology,
        inner_address=(
            UNASSIGNED if request else given.parsed("inner-address", fields.interface_address)
        ),
        listen_port=port or reference_point(link).listen_port,
        standby_gateways=pair,
        ipsec=ipsec if technology == IPSEC else IpsecParams(),
        request=request,
    )


def technology_of(link: str, text: str, where: str) -> str:
    """Return the technology of a link.

    `text` is one word for all links of a VNF, words by link, or both: "wireguard,s6a=ipsec". A
    link that it does not name has the word for all links, WireGuard by default.
    """
    by_link = {}  # type: Dict[str, str]
    for entry in text.split(","):
        name, equals, word = (part.strip(" ") for part in entry.rpartition("="))
        if equals:
            fields.name(where, name)
        if name in by_link:
            raise InputError(where, "{} is named twice".format(name or "every link"), "once")
        by_link[name] = fields.choice(where, word, TECHNOLOGIES)
    return by_link.get(link, by_link.get("", WIREGUARD))


def _standby_gateways(where: str, text: str, technology: str) -> Tuple[fields.IPAddress, ...]:
    """Parse the outer addresses of a gateway pair, separated by a comma."""
    if text in fields.NOTHING:
        return ()
    if technology == WIREGUARD:
        raise InputError(where, "WireGuard allows one peer per prefix", "technology ipsec, or none")
    addresses = tuple(fields.address(where, part.strip(" ")) for part in text.split(","))
    most, least = 2, 1 if technology == NONE else 2
    if not least <= len(set(addresses)) == len(addresses) <= most:
        raise InputError(
            where,
            "{} is not a pair of addresses".format(fields.shown(text)),
            "none, or the outer addresses of both gateways such as 192.0.2.1,192.0.2.2",
        )
    return addresses


def conflicting(params: LinkParams, others: Mapping[str, LinkParams]) -> None:
    """Raise InputError if two links of one VDU have the same port or overlapping subnets."""
    for name, other in sorted(others.items()):
        if name == params.link:
            continue
        one, two = params.technology, other.technology
        shares = one == two == IPSEC or one not in KEYED or two not in KEYED
        if params.listen_port == other.listen_port and not shares:
            raise InputError(
                "configure: listen-port",
                "{} is taken by link {}".format(params.listen_port, name),
                "a port no other link of this VNF uses",
            )
        both = params.has_address and other.has_address
        if both and fields.overlaps(params.inner_address.network, other.inner_address.network):
            raise InputError(
                "configure: inner-address",
                "{} overlaps {} of link {}".format(params.inner_address, other.inner_address, name),
                "a subnet of its own for each link",
            )


def key_form(technology: str) -> Callable[[str, str], str]:
    return fields.ipsec_key if technology == IPSEC else fields.wireguard_key


def _check_credentials(peer: ManualPeer, credentials: str) -> None:
    """Raise InputError if a manual peer lacks the credentials that its IPsec link requires."""
    wraps = fields.ipsec_key_type(peer.public_key) == fields.RSA
    good = {PUBKEY: bool(peer.public_key), PSK: wraps or peer.stored}.get(
        credentials, not peer.public_key
    )
    if not good:
        allowed = {
            PUBKEY: "the public key of the peer",
            PSK: "an RSA key of 3072 bits, to which the VDU encrypts the preshared key, or store",
        }
        raise InputError(
            "add-peer: public-key",
            "{} has credentials {}".format(peer.link, credentials),
            allowed.get(credentials, CERTIFICATE),
        )


def manual_peer(params: Mapping[str, Any]) -> ManualPeer:
    """Parse the parameters of `add-peer`."""
    given = fields.Parameters(ManualPeer.action, params)
    identity = given.text("ike-identity")
    if identity in fields.AUTO:
        identity = given.parsed("name", fields.name)
    else:
        identity = given.parsed("ike-identity", fields.ike_identity)
    return ManualPeer.parse(params, identity=identity, stored=given.text("public-key") == STORE)
