"""The offer: the data of one end of a link for the other, in the relation's application databag.

Every value is public. Decoding is strict, because the remote side writes the databag. Unknown
versions, missing fields and malformed values raise an InputError. The caller then keeps the running
configuration.
"""

import re
from typing import Callable, Dict, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError
from vpnaas.base.links import IPSEC, NONE, TECHNOLOGIES, WIREGUARD
from vpnaas.params import pools
from vpnaas.params.intent import NO_QUANTUM, PREFER, REQUIRE
from vpnaas.params.ipsec import CREDENTIALS, OPERATED, Proposal

VERSION = "1"
PREFIX = "vpnaas-"
"""Our keys start with this. Juju and other libraries may add other keys to the databag."""
_REQUEST = PREFIX + "address-request"
DECLINED = "off"
"""In place of a technology: the writer has the link switched off."""
QUANTUM_OFFERS = {NO_QUANTUM: "no", PREFER: "preferred", REQUIRE: "required"}
"""Values in an offer by the owner's `post-quantum`; UNABLE if its VDU has no ML-KEM."""
UNABLE = "unable"
_PUBLIC, _SEALED = 1184, 1120
"""Bytes of an ML-KEM-768 public key (FIPS 203), and of a ciphertext with its check value."""
MAX_KEYS = 4
MAX_ASSIGNED = 2
MAX_VALUE = 4096
MAX_BETWEEN = 2 * x509.MAX_CHAIN
"""Intermediate authorities: of the certificate in use, and of the next one."""


@attr.frozen
class CertOffer:
    """Certificates in an offer; each value is base64 of DER, "" for none."""

    certificate: str = ""  # Certificate of the owner's public key.
    next_certificate: str = ""  # Certificate of its next key.
    # Certificates of intermediate authorities between the owner's and the root, separated by
    # commas.
    chain: str = ""


@attr.frozen
class KeyOffer:
    """The part of an offer that all technologies with keys share."""

    public_key: str  # Key in use; the technology defines its form.
    key_generation: int = 1  # Counts rotations from 1, for people and logs.
    # The next key. The owner switches to it when all peers have acknowledged it.
    next_public_key: str = ""
    # Keys of the reader that the owner has installed, current and next.
    acknowledged: Tuple[str, ...] = ()
    preshared: bool = False  # Whether the owner needs a preshared key on this link.
    # RSA public key (SubjectPublicKeyInfo, DER, base64) that encrypts a preshared key.
    wrap_key: str = ""
    wrapped: str = ""  # Preshared key, encrypted to the reader's wrap_key (RSA-OAEP with SHA-256).
    # Whether the owner wants hybrid preshared keys, "" if its charm knows none.
    post_quantum: str = ""
    # ML-KEM-768 public key (base64), to which the other half of a hybrid key is sealed.
    kem_key: str = ""
    sealed: str = ""  # That half, sealed to the reader's kem_key.
    identity: str = ""  # IKE identity of the owner on this link, "" if the technology has none.
    proposal: str = ""  # Algorithms, equal at both ends; "" if there is no choice.
    credentials: str = ""  # How the ends authenticate themselves, "" if there is no choice.
    # Certificates, all empty if the credentials are not certificates.
    certs: CertOffer = CertOffer()


@attr.frozen
class Offer:
    """One end of a link."""

    technology: str  # "wireguard", "ipsec" or "none".
    inner_address: fields.IPAddress  # Address inside the tunnel, a host without subnet.
    mtu: int  # Largest inner packet in bytes the owner's underlay can carry.
    # Outer address and UDP port of the owner; None if it only initiates.
    endpoint: Optional[Tuple[fields.IPAddress, int]] = None
    allowed_prefixes: Tuple[fields.IPNetwork, ...] = ()  # Prefixes behind the owner.
    # Credentials, in the form of the technology; None if it has no keys.
    keys: Optional[KeyOffer] = None
    request: pools.Request = ()  # IP versions of the addresses that the owner asks the reader for.
    # Addresses that the owner gives the reader, with the prefix length of the subnet.
    assigned: Tuple[fields.IPInterface, ...] = ()

    def prefixes(self) -> Tuple[fields.IPNetwork, ...]:
        """Return all prefixes the owner may send from: its inner address and those behind it."""
        return fields.ordered((fields.host_network(self.inner_address),) + self.allowed_prefixes)


def encode(offer: Offer) -> Dict[str, str]:
    """Return the databag content; Juju removes keys with an empty value."""
    keys = offer.keys
    bag = {
        "version": VERSION,
        "technology": offer.technology,
        "inner-address": str(offer.inner_address),
        "allowed-prefixes": fields.show_networks(offer.allowed_prefixes),
        "mtu": str(offer.mtu),
        "endpoint-address": str(offer.endpoint[0]) if offer.endpoint else "",
        "endpoint-port": str(offer.endpoint[1]) if offer.endpoint else "",
        "public-key": keys.public_key if keys else "",
        "key-generation": str(keys.key_generation) if keys else "",
        "next-public-key": keys.next_public_key if keys else "",
        "acknowledged-keys": ",".join(keys.acknowledged) if keys else "",
        "preshared-key": ("required" if keys.preshared else "no") if keys else "",
        "wrap-key": keys.wrap_key if keys else "",
        "wrapped-preshared-key": keys.wrapped if keys else "",
        "post-quantum": keys.post_quantum if keys else "",
        "kem-key": keys.kem_key if keys else "",
        "sealed-preshared-key": keys.sealed if keys else "",
        "ike-identity": keys.identity if keys else "",
        "proposal": keys.proposal if keys else "",
        "credentials": keys.credentials if keys else "",
        "address-request": pools.show_request(offer.request),
        "assigned-addresses": show_assigned(offer.assigned),
    }
    certs = keys.certs if keys else CertOffer()
    bag.update({key: getattr(certs, name) for key, name in _CERTIFICATES})
    return {PREFIX + key: value for key, value in bag.items()}


def declined() -> Dict[str, str]:
    """Return the databag content of an end that has the link switched off."""
    nothing = Offer(NONE, fields.address("offer", "192.0.2.1"), fields.MIN_MTU)
    bag = dict.fromkeys(encode(nothing), "")
    return dict(bag, **{PREFIX + "version": VERSION, PREFIX + "technology": DECLINED})


def asking(technology: str, request: pools.Request) -> Dict[str, str]:
    """Return the databag content of an end that has no address yet and asks for one."""
    values = {"technology": technology, "address-request": pools.show_request(request)}
    return dict(declined(), **{PREFIX + key: text for key, text in values.items()})


def asked(bag: Mapping[str, str], where: str) -> pools.Request:
    """Return the address request of the remote, () for none."""
    where = "{}: address-request".format(where)
    return pools.parse_request(where, fields.string(where, bag.get(_REQUEST, "")))


def looking(number: int, bag: Mapping[str, str]) -> Dict[str, str]:
    """Return what wakes the two ends of a link for another look; `bag` is that of the remote.

    A first look may come too early, for example while two handshakes cross. An end that finds its
    link not up writes a new number. Juju wakes the other end, which looks and returns the number,
    so Juju wakes the first end again. This takes some seconds, and no hook waits meanwhile.
    """
    return {PREFIX + "look": str(number) if number else "", PREFIX + "looked": look(bag)}


def look(bag: Mapping[str, str]) -> str:
    """Return the number of the look that the remote asks for, "" for none."""
    text = bag.get(PREFIX + "look", "")
    return text if re.fullmatch("[0-9]{1,9}", text) else ""


def declines(bag: Mapping[str, str]) -> bool:
    """Tell whether the remote says that it has the link switched off."""
    return bag.get(PREFIX + "technology") == DECLINED


def decode(bag: Mapping[str, str], where: str) -> Optional[Offer]:
    """Read a remote's databag.

    Returns:
        The offer, None if the remote has made none yet or has switched the link off.
    """
    if declines(bag) or not any(key.startswith(PREFIX) for key in bag):
        return None

    def at(key: str) -> str:
        return "{}: {}".format(where, key)

    def text(key: str) -> str:
        value = bag.get(PREFIX + key, "")
        most = MAX_VALUE * (MAX_BETWEEN if key == _CHAIN else 1)
        if len(value) > most:
            raise InputError(at(key), "value is too long", "{} characters".format(most))
        for part in value.split(",") if key == _CHAIN else [value]:
            fields.string(at(key), part)
        return value

    if text("version") != VERSION:
        raise InputError(
            at("version"), "{} is unknown".format(fields.shown(text("version"))), VERSION
        )
    technology = fields.choice(at("technology"), text("technology"), TECHNOLOGIES)
    keys = None
    if technology == WIREGUARD:
        keys = _keys(text, at, fields.wireguard_key)
    elif technology == IPSEC:
        keys = _ipsec(text, at)
    host, port = text("endpoint-address"), text("endpoint-port")
    endpoint = None
    if host or port:
        endpoint = (
            fields.address(at("endpoint-address"), host),
            fields.integer(at("endpoint-port"), port, 1, 65535),
        )
    return Offer(
        technology=technology,
        inner_address=fields.address(at("inner-address"), text("inner-address")),
        mtu=fields.integer(at("mtu"), text("mtu"), fields.MIN_MTU, fields.MAX_MTU),
        endpoint=endpoint,
        allowed_prefixes=fields.networks(at("allowed-prefixes"), text("allowed-prefixes")),
        request=asked(bag, where),
        assigned=assigned(at("assigned-addresses"), text("assigned-addresses")),
        keys=keys,
    )


def assigned(where: str, text: str) -> Tuple[fields.IPInterface, ...]:
    """Read addresses with the prefix length of their subnet, as `Offer.assigned` has them."""
    parts = text.split(",") if text else []
    if len(parts) > MAX_ASSIGNED:
        raise InputError(where, "{} addresses are too many".format(len(parts)), str(MAX_ASSIGNED))
    return tuple(fields.interface_address(where, part) for part in parts)


def show_assigned(addresses: Sequence[fields.IPInterface]) -> str:
    """Return the text `assigned` reads."""
    return ",".join(map(str, addresses))


_CHAIN = "intermediate-certificates"
_CERTIFICATES = (
    ("certificate", "certificate"),
    ("next-certificate", "next_certificate"),
    (_CHAIN, "chain"),
)
"""Keys of the databag and names of `CertOffer`."""


def _ipsec(text: Callable[[str], str], at: Callable[[str], str]) -> KeyOffer:
    keys = attr.evolve(
        _keys(text, at, fields.ipsec_key),
        identity=fields.ike_identity(at("ike-identity"), text("ike-identity")),
        proposal=Proposal.parse(at("proposal"), text("proposal")).text,
        credentials=fields.choice(at("credentials"), text("credentials"), CREDENTIALS),
    )
    if keys.credentials not in OPERATED:
        return keys
    return attr.evolve(keys, certs=_certificates(keys, text, at))


def _certificates(
    keys: KeyOffer, text: Callable[[str], str], at: Callable[[str], str]
) -> CertOffer:
    """Read certificates; those of the owner must be for the key and identity it offers."""
    certs = CertOffer(**{name: text(key) for key, name in _CERTIFICATES})
    for key, value, public in (
        ("certificate", certs.certificate, keys.public_key),
        ("next-certificate", certs.next_certificate, keys.next_public_key),
    ):
        if value:
            x509.matching(at(key), x509.certificate(at(key), value), public, keys.identity)
    between = [part for part in certs.chain.split(",") if part]
    if len(between) > MAX_BETWEEN:
        raise InputError(at(_CHAIN), "{} are too many".format(len(between)), str(MAX_BETWEEN))
    for part in between:
        x509.certificate(at(_CHAIN), part)
    return certs


def _keys(
    text: Callable[[str], str], at: Callable[[str], str], parse: Callable[[str, str], str]
) -> KeyOffer:
    def key(name: str, value: str) -> str:
        return parse(at(name), value) if value else ""

    current = parse(at("public-key"), text("public-key"))
    following = key("next-public-key", text("next-public-key"))
    if following == current:
        raise InputError(
            at("next-public-key"), "it equals the public key", "a key of its own, or nothing"
        )
    listed = text("acknowledged-keys")
    acknowledged = [part for part in listed.split(",") if part]
    if len(acknowledged) > MAX_KEYS:
        raise InputError(at("acknowledged-keys"), "too many keys", "at most {}".format(MAX_KEYS))
    wrap_key, wrapped = text("wrap-key"), text("wrapped-preshared-key")
    kem_key, sealed = text("kem-key"), text("sealed-preshared-key")
    quantum = ("", UNABLE, *QUANTUM_OFFERS.values())
    return KeyOffer(
        public_key=current,
        key_generation=fields.integer(at("key-generation"), text("key-generation"), 1, 999999999),
        next_public_key=following,
        acknowledged=tuple(parse(at("acknowledged-keys"), part) for part in acknowledged),
        preshared=fields.choice(at("preshared-key"), text("preshared-key"), ("required", "no"))
        == "required",
        wrap_key=fields.blob(at("wrap-key"), wrap_key, 256, 1024) if wrap_key else "",
        wrapped=fields.blob(at("wrapped-preshared-key"), wrapped, 256, 1024) if wrapped else "",
        post_quantum=fields.choice(at("post-quantum"), text("post-quantum"), quantum),
        kem_key=fields.blob(at("kem-key"), kem_key, _PUBLIC, _PUBLIC) if kem_key else "",
        sealed=(
            fields.blob(at("sealed-preshared-key"), sealed, _SEALED, _SEALED) if sealed else ""
        ),
    )


@attr.frozen
class Remote:
    """A related application that still has units, and its offer: one possible peer."""

    relation_id: int
    label: str
    # None if it made no offer yet, switched the link off, or made an invalid offer.
    offer: Optional[Offer] = None
    problem: str = ""  # Why its offer cannot be read.
    declined: bool = False  # Whether it switched the link off.
    request: pools.Request = ()  # IP versions of the addresses that it asks us for.

    @classmethod
    def read(cls, relation_id: int, label: str, bag: Mapping[str, str]) -> "Remote":
        """Read the databag of a related application; this is the only place that does."""
        if declines(bag):
            return cls(relation_id, label, declined=True)
        try:
            request = asked(bag, label)
            if request and not bag.get(PREFIX + "inner-address"):
                return cls(relation_id, label, request=request)
            return cls(relation_id, label, decode(bag, label), request=request)
        except InputError as error:
            return cls(relation_id, label, problem=str(error))

    @property
    def peer_name(self) -> str:
        """Return the stable name of the peer of this relation."""
        return "rel-{}".format(self.relation_id)
