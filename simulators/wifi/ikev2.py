"""IKEv2 (RFC 7296): messages by scapy's codec, their protection, and the keys.

There is one suite: AES-CBC-256, HMAC-SHA2-256-128, PRF-HMAC-SHA2-256 and the 2048-bit MODP group.
free5GC's N3IWF accepts it too.
"""

import hashlib
import hmac
import ipaddress
import os
import secrets
import struct
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from scapy.contrib import ikev2 as codec
from scapy.packet import NoPayload, Packet

from simulators.errors import ProtocolError
from simulators.wifi import esp

PORT, NAT_PORT = 500, 4500
# Exchange types, section 3.1.
SA_INIT, AUTH, CREATE_CHILD_SA, INFORMATIONAL = 34, 35, 36, 37
# Protocols of a proposal or an SPI, section 3.3.1.
IKE, ESP = 1, 3
# Notify message types, section 3.10.1; those of 3GPP are in TS 24.502 section 9.2.4.1.
INVALID_SYNTAX, NO_PROPOSAL_CHOSEN, AUTHENTICATION_FAILED, NO_ADDITIONAL_SAS = 7, 14, 24, 35
NAT_SOURCE, NAT_DESTINATION, REKEY_SA = 16388, 16389, 16393
STATUS = 16384  # Notify message types below this one are errors.
# Authentication methods, section 3.8.
RSA_SIGNATURE, SHARED_KEY = 1, 2
# Configuration payload, section 3.15.
CFG_REQUEST, CFG_REPLY, INTERNAL_ADDRESS, INTERNAL_NETMASK = 1, 2, 1, 2
FQDN, KEY_ID = 2, 11  # identification types, section 3.5

_AES_CBC, _PRF_SHA256, _HMAC_SHA256, _MODP2048, _NO_ESN = 12, 5, 12, 14, 0
#: The suite's transform of each type (section 3.3.2).
_OF_IKE = {1: _AES_CBC, 2: _PRF_SHA256, 3: _HMAC_SHA256, 4: _MODP2048}
_OF_ESP = {1: _AES_CBC, 3: _HMAC_SHA256, 5: _NO_ESN}
_BITS = 256
#: The prime of the 2048-bit MODP group (RFC 3526 section 3); its generator is 2.
_PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74"
    "020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437"
    "4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05"
    "98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB"
    "9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
_PRIME_SIZE = 256
_header = struct.Struct("!8s8sBBBBII")
_generic = struct.Struct("!BBH")  # generic payload header, section 3.2
_INITIATOR, _RESPONSE = 0x08, 0x20
_ENCRYPTED = 46

P = TypeVar("P", bound=Packet)


@dataclass(frozen=True)
class Message:
    """An IKE message."""

    # `initiator`, `responder`: SPIs of the IKE SA.
    initiator: bytes
    responder: bytes
    exchange: int  # exchange type.
    number: int  # message ID.
    original: bool  # whether the sender initiated the IKE SA.
    response: bool = False  # whether it is a response.
    # Payloads in their order; after decryption those of the Encrypted payload.
    payloads: tuple[Packet, ...] = ()

    def find(self, kind: type[P]) -> P | None:
        return next((one for one in self.payloads if isinstance(one, kind)), None)

    def need(self, kind: type[P]) -> P:
        """The first payload of a type."""
        payload = self.find(kind)
        if payload is None:
            error = self.error()
            if error is None:
                raise ProtocolError(f"An IKE message lacks {kind.__name__}.")
            name = codec.IKEv2NotifyMessageTypes.get(error, error)
            raise ProtocolError(f"The peer answers {name}.")
        return payload

    def notified(self, kind: int) -> Any:
        """The first Notify payload of a type, or None."""
        listed = (one for one in self.payloads if isinstance(one, codec.IKEv2_Notify))
        return next((one for one in listed if one.type == kind), None)

    def error(self) -> int | None:
        """Return the first error in Notify payloads, or None."""
        listed = (one for one in self.payloads if isinstance(one, codec.IKEv2_Notify))
        return next((one.type for one in listed if one.type < STATUS), None)


# -- octets ---------------------------------------------------------------------------------------


def _chain(payloads: tuple[Packet, ...]) -> tuple[int, bytes]:
    """Type of the first payload, and the octets of all."""
    whole = codec.IKEv2()
    for one in payloads:
        copied = one.copy()
        copied.remove_payload()
        whole = whole / copied
    octets = bytes(whole)
    return octets[16] if payloads else 0, octets[_header.size :]


def _split(first: int, octets: bytes) -> tuple[Packet, ...]:
    """Payloads of octets."""
    total = _header.size + len(octets)
    fields = (bytes(8), bytes(8), first, 0x20, INFORMATIONAL, 0, 0, total)
    one: Packet = codec.IKEv2(_header.pack(*fields) + octets).payload
    payloads = []
    while not isinstance(one, NoPayload):
        if not isinstance(one, codec._IKEv2_Packet):
            raise ProtocolError("An IKE payload is malformed.")
        payloads.append(one)
        one = one.payload
    return tuple(payloads)


def header(octets: bytes) -> Message:
    """The header of a message, without its payloads."""
    if len(octets) < _header.size:
        raise ProtocolError("An IKE message is cut off.")
    initiator, responder, _, version, exchange, flags, number, size = _header.unpack_from(octets)
    if version >> 4 != 2 or size != len(octets):
        raise ProtocolError("not an IKEv2 message")
    original, response = bool(flags & _INITIATOR), bool(flags & _RESPONSE)
    return Message(initiator, responder, exchange, number, original, response)


def _head(message: Message, first: int, size: int) -> bytes:
    """The header of a message with payloads of ``size`` octets, the first of a type."""
    flags = _INITIATOR * message.original | _RESPONSE * message.response
    ids = message.initiator, message.responder
    end = _header.size + size
    return _header.pack(*ids, first, 0x20, message.exchange, flags, message.number, end)


def encode(message: Message) -> bytes:
    """Return the octets of a message without protection, as in IKE_SA_INIT."""
    first, body = _chain(message.payloads)
    return _head(message, first, len(body)) + body


def decode(octets: bytes) -> Message:
    """A message without protection."""
    return replace(header(octets), payloads=_split(octets[16], octets[_header.size :]))


def seal(message: Message, encryption: bytes, integrity: bytes) -> bytes:
    """The octets of a message in an Encrypted payload (section 3.14)."""
    first, plain = _chain(message.payloads)
    pad = -(len(plain) + 1) % esp.IV
    plain += bytes(pad) + bytes([pad])
    size = _generic.size + esp.IV + len(plain) + esp.ICV
    head = _head(message, _ENCRYPTED, size) + _generic.pack(first, 0, size)
    return esp.Protection(encryption, integrity).seal(head, plain)


def unseal(octets: bytes, encryption: bytes, integrity: bytes) -> Message:
    """Decode a message with an Encrypted payload."""
    message = header(octets)
    start = _header.size + _generic.size
    size = len(octets) - start - esp.IV - esp.ICV
    if octets[16] != _ENCRYPTED or size < esp.IV or size % esp.IV:
        raise ProtocolError("An IKE message is not protected.")
    protection = esp.Protection(encryption, integrity)
    if not protection.is_genuine(octets):
        raise ProtocolError("The integrity checksum of an IKE message is wrong.")
    plain = protection.decrypt(octets, start)
    plain = plain[: max(0, len(plain) - 1 - plain[-1])]
    return replace(message, payloads=_split(octets[_header.size], plain))


# -- payloads -------------------------------------------------------------------------------------


def proposal(protocol: int, spi: bytes = b"") -> Packet:
    """A Security Association payload that proposes, or chooses, our suite."""
    suite = _OF_IKE if protocol == IKE else _OF_ESP
    transforms = None
    for kind, number in suite.items():
        one = codec.IKEv2_Transform(transform_type=kind, transform_id=number)
        if kind == 1:
            one.length, one.key_length = 12, _BITS
        transforms = one if transforms is None else transforms / one
    made = codec.IKEv2_Proposal(proto=protocol, SPI=spi, trans_nb=len(suite), trans=transforms)
    return codec.IKEv2_SA(prop=made)


def chosen(payload: Packet, protocol: int) -> bytes | None:
    """Return the SPI in a proposal with our suite, None if there is no such proposal."""
    suite = _OF_IKE if protocol == IKE else _OF_ESP
    one: Packet = payload.prop
    while isinstance(one, codec.IKEv2_Proposal):
        offered = set()
        transform = one.trans
        while isinstance(transform, codec.IKEv2_Transform):
            is_cipher = transform.transform_type == 1
            if not is_cipher or (transform.length == 12 and transform.key_length & 0xFFFF == _BITS):
                offered.add((transform.transform_type, transform.transform_id))
            transform = transform.payload
        kinds = {kind for kind, _ in offered}
        if one.proto == protocol and kinds == set(suite) and set(suite.items()) <= offered:
            return bytes(one.SPI)
        one = one.payload
    return None


def notify(kind: int, content: bytes = b"", protocol: int = 0, spi: bytes = b"") -> Packet:
    return codec.IKEv2_Notify(type=kind, notify=content, proto=protocol, SPI=spi)


def delete(protocol: int, *spis: bytes) -> Packet:
    """Return a Delete payload; without an SPI it is for the IKE SA."""
    size = len(spis[0]) if spis else 0
    return codec.IKEv2_Delete(proto=protocol, SPIsize=size, SPInum=len(spis), SPI=list(spis))


def selectors(initiator: str, responder: str) -> tuple[Packet, Packet]:
    """Traffic selectors of two hosts or prefixes."""

    def one(prefix: str) -> list[Packet]:
        network = ipaddress.IPv4Network(prefix)
        made = codec.IPv4TrafficSelector(IP_protocol_ID=0)
        made.starting_address_v4 = str(network.network_address)
        made.ending_address_v4 = str(network.broadcast_address)
        return [made]

    return (
        codec.IKEv2_TSi(number_of_TSs=1, traffic_selector=one(initiator)),
        codec.IKEv2_TSr(number_of_TSs=1, traffic_selector=one(responder)),
    )


def nonce() -> bytes:
    """A nonce (section 2.10)."""
    return os.urandom(32)


# -- keys -----------------------------------------------------------------------------------------


class Exchange:
    """Our part of a Diffie-Hellman exchange in the 2048-bit MODP group."""

    def __init__(self) -> None:
        self._key = secrets.randbits(512) | 1 << 512

    def payload(self) -> Packet:
        return codec.IKEv2_KE(group=_MODP2048, ke=pow(2, self._key, _PRIME).to_bytes(_PRIME_SIZE))

    def secret(self, payload: Packet) -> bytes:
        """The shared secret with the peer's payload."""
        public = int.from_bytes(payload.ke)
        if payload.group != _MODP2048 or not 1 < public < _PRIME - 1:
            raise ProtocolError(f"The peer's key of group {payload.group} is not accepted.")
        return pow(public, self._key, _PRIME).to_bytes(_PRIME_SIZE)


def prf(key: bytes, octets: bytes) -> bytes:
    """PRF-HMAC-SHA2-256 (RFC 4868)."""
    return hmac.digest(key, octets, hashlib.sha256)


def prf_plus(key: bytes, seed: bytes, size: int) -> bytes:
    """Keying material (section 2.13)."""
    made = last = b""
    for number in range(1, -(-size // 32) + 1):
        last = prf(key, last + seed + bytes([number]))
        made += last
    return made[:size]


@dataclass(frozen=True)
class Keys:
    """Keys of an IKE SA (section 2.14), 32 octets each; names with ``i`` are the initiator's."""

    d: bytes = field(repr=False)
    ai: bytes = field(repr=False)
    ar: bytes = field(repr=False)
    ei: bytes = field(repr=False)
    er: bytes = field(repr=False)
    pi: bytes = field(repr=False)
    pr: bytes = field(repr=False)

    @classmethod
    def derive(cls, seed: bytes, nonces: bytes, spis: bytes) -> "Keys":
        """Derive them from SKEYSEED."""
        material = prf_plus(seed, nonces + spis, 7 * 32)
        return cls(*(material[at : at + 32] for at in range(0, 7 * 32, 32)))

    @classmethod
    def first(cls, secret: bytes, nonces: bytes, spis: bytes) -> "Keys":
        """Return the keys after IKE_SA_INIT."""
        return cls.derive(prf(nonces, secret), nonces, spis)

    def pair(self, initiator: bool) -> tuple[bytes, bytes]:
        """Encryption and integrity key of the initiator's messages, or of the responder's."""
        return (self.ei, self.ai) if initiator else (self.er, self.ar)

    def child(self, nonces: bytes) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Encryption and integrity key of the initiator's packets, and of the responder's."""
        material = prf_plus(self.d, nonces, 4 * 32)
        ei, ai, er, ar = (material[at : at + 32] for at in range(0, 4 * 32, 32))
        return (ei, ai), (er, ar)


def signed(octets: bytes, nonce: bytes, key: bytes, identity: Packet) -> bytes:
    """Return the octets that an end signs (section 2.15).

    Args:
        octets: its first message.
        nonce: the other end's nonce.
        key: its SK_p.
        identity: its Identification payload.
    """
    copied = identity.copy()
    copied.remove_payload()
    return octets + nonce + prf(key, bytes(copied)[4:])


def shared_auth(secret: bytes, octets: bytes) -> bytes:
    """Return authentication data by a shared secret, such as EAP's MSK (sections 2.15, 2.16)."""
    return prf(prf(secret, b"Key Pad for IKEv2"), octets)


def rsa_auth(key: rsa.RSAPrivateKey, octets: bytes) -> bytes:
    """Return authentication data by an RSA key; this method uses SHA-1 (section 3.8)."""
    return key.sign(octets, padding.PKCS1v15(), SHA1())  # noqa: S303


def verify_rsa(key: Any, signature: bytes, octets: bytes) -> None:
    """Check authentication data by an RSA key."""
    try:
        if not isinstance(key, rsa.RSAPublicKey):
            raise InvalidSignature
        key.verify(signature, octets, padding.PKCS1v15(), SHA1())  # noqa: S303
    except InvalidSignature:
        raise ProtocolError("The peer does not have the key of its certificate.") from None
