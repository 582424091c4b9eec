"""What an operator may choose for IPsec: algorithms, lifetimes and behaviour, as typed values.

A proposal is words joined by '-', in the order of IKEv2's transforms: cipher, integrity (for
ciphers without their own), key exchange, and possibly a second, post-quantum key exchange. One
proposal serves IKE and ESP alike, so both ends agree on exactly one. The proposal "3gpp" is a list
for base stations that know the profiles of 3GPP only.
"""

from typing import Any, Dict, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.declared import (
    choice_field,
    number_field,
    or_off_field,
    parameters_of,
    text_field,
    value_field,
)
from vpnaas.base.errors import InputError
from vpnaas.params import pools

PORT = 4500
"""UDP port of IKE and of ESP in UDP (RFC 3948). IKE starts on it and uses no other port."""
PUBKEY = "pubkey"
PSK = "psk"
EXTERNAL = "cert-external"
CMP = "cmp"
EST = "est"
ENROLLED = (CMP, EST)
"""Credentials that are certificates from a server of the operator."""
OPERATED = (EXTERNAL, *ENROLLED)
"""Credentials that are certificates of the operator's authority."""
CREDENTIALS = (PUBKEY, PSK, *OPERATED)

KEY_TYPES = (fields.ED25519, fields.P256, fields.P384, fields.RSA)

_AEAD = {
    "aes256gcm": ("aes256gcm16", "prfsha384"),
    "aes192gcm": ("aes192gcm16", "prfsha384"),
    "aes128gcm": ("aes128gcm16", "prfsha256"),
    "chacha20poly1305": ("chacha20poly1305", "prfsha384"),
}
"""RFC 4106, RFC 7634; IKE also needs a pseudorandom function (RFC 5282)."""
_BLOCK = ("aes256", "aes192", "aes128")
_INTEGRITY = ("sha256", "sha384", "sha512")
_GROUPS = ("curve25519", "curve448", "ecp256", "ecp384", "ecp521")
_HYBRID = ("mlkem512", "mlkem768", "mlkem1024")
"""FIPS 203 as an additional key exchange (RFC 9370)."""
WEAK = {
    "3des": "its 64-bit blocks leak after some GByte (RFC 8247)",
    "des": "its 56-bit keys can be searched in hours (RFC 8247)",
    "blowfish128": "its 64-bit blocks leak after some GByte",
    "cast128": "its 64-bit blocks leak after some GByte",
    "null": "it does not encrypt",
    "md5": "it is broken (RFC 8247)",
    "sha1": "collisions are practical (RFC 8247 keeps it for old peers only)",
    "modp768": "a group this small has been broken (RFC 8247)",
    "modp1024": "states can break a group this small (RFC 8247)",
    "modp1536": "the group is too small (RFC 8247)",
    "modp2048": "112 bits are less than the rest of the tunnel has (the proposal 3gpp has it)",
}
IKEV1 = (
    "IKEv1 is obsolete (RFC 9395): it is open to amplification attacks, knows no AEAD ciphers, and "
    "TS 33.210 has IKEv2 only"
)
_VERSION = ("version", "ike-version", "keyexchange")
"""Names of the option for the IKE version in other products."""
DEFAULT_PROPOSAL = "aes256gcm-curve25519"


@attr.frozen
class Suite:
    """One combination of algorithms, or several if there are alternatives."""

    ciphers: Tuple[str, ...]  # strongSwan's names, the most wanted first.
    # Hashes of the separate integrity algorithms, none for AEAD ciphers.
    integrity: Tuple[str, ...]
    prfs: Tuple[str, ...]  # strongSwan's names of IKE's pseudorandom functions.
    groups: Tuple[str, ...]  # Key exchanges.
    hybrid: str = ""  # Additional post-quantum key exchange, "" for none.

    def ike(self) -> str:
        """Return the proposal of IKE_SA_INIT."""
        return "-".join(self.ciphers + self.integrity + self.prfs + self._exchanges())

    def esp(self, numbers: Tuple[str, ...]) -> str:
        """Return the proposal of a child; `numbers` are the kinds of sequence numbers."""
        return "-".join(self.ciphers + self.integrity + self._exchanges() + numbers)

    def _exchanges(self) -> Tuple[str, ...]:
        return self.groups + (("ke1_" + self.hybrid,) if self.hybrid else ())

    def overhead(self) -> int:
        """Return the maximum growth of a packet in bytes: tunnel-mode ESP in UDP over IPv6.

        40 IPv6, 8 UDP, 8 ESP header, then IV, padding with its two bytes, and integrity value.
        """
        if not self.integrity:
            return 40 + 8 + 8 + 8 + (3 + 2) + 16  # RFC 4106 sections 3.1 and 6: ICV of 16
        values = {"sha256": 16, "sha384": 24, "sha512": 32}  # RFC 4868
        return 40 + 8 + 8 + 16 + (15 + 2) + max(values[name] for name in self.integrity)


TGPP = "3gpp"
_GROUPS_3GPP = ("ecp384", "ecp256", "modp2048")
_SUITES_3GPP = (
    Suite(("aes256gcm16", "aes128gcm16"), (), ("prfsha384", "prfsha256"), _GROUPS_3GPP),
    Suite(("aes256", "aes128"), ("sha384", "sha256"), ("prfsha384", "prfsha256"), _GROUPS_3GPP),
)
"""What a security gateway must support (TS 33.210 clauses 5.3 and 5.4, TS 33.310 clause 6.2).

Groups 20, 19 and 14. Group 14 (modp2048) is here since a base station may offer nothing else.
"""


@attr.frozen
class Proposal:
    """The algorithms of a link."""

    text: str  # As the operator wrote it.
    suites: Tuple[Suite, ...]  # Combinations, the most wanted first; peers agree on one.

    @classmethod
    def parse(cls, where: str, text: str) -> "Proposal":
        """Parse a proposal; "auto" is the default one, "3gpp" the list of 3GPP's profiles."""
        text = DEFAULT_PROPOSAL if text in fields.AUTO else text
        if text == TGPP:
            return cls(text, _SUITES_3GPP)
        words = text.split("-")
        for word in words:
            for weak, reason in sorted(WEAK.items()):
                if word == weak or word.startswith(weak + "_"):
                    raise InputError(
                        where, "{} is too weak: {}".format(word, reason), _allowed_algorithms()
                    )
        rest = list(words)
        cipher = rest.pop(0)
        integrity: Tuple[str, ...] = ()
        if cipher in _AEAD:
            cipher, prf = _AEAD[cipher]
        elif cipher in _BLOCK and rest and rest[0] in _INTEGRITY:
            prf = "prf" + rest[0]
            integrity = (rest.pop(0),)
        else:
            raise _unknown(where, text)
        if not rest or rest[0] not in _GROUPS or rest[1:] not in ([], *([h] for h in _HYBRID)):
            raise _unknown(where, text)
        hybrid = rest[1] if len(rest) > 1 else ""
        return cls(text, (Suite((cipher,), integrity, (prf,), (rest[0],), hybrid),))

    def ike(self) -> str:
        """Return the proposals of IKE_SA_INIT."""
        return ", ".join(suite.ike() for suite in self.suites)

    def esp(self, esn: str) -> str:
        """Return the proposals of a child; `esn` is "yes", "no" or "auto" (preferred)."""
        numbers = {"yes": ("esn",), "no": ("noesn",), "auto": ("esn", "noesn")}[esn]
        return ", ".join(suite.esp(numbers) for suite in self.suites)

    def overhead(self) -> int:
        """Return the maximum growth of a packet in bytes, see `Suite.overhead`."""
        return max(suite.overhead() for suite in self.suites)


def _allowed_algorithms() -> str:
    return "{}; or {} or {} with {}; then {}; then possibly {}".format(
        TGPP,
        ", ".join(sorted(_AEAD)),
        ", ".join(_BLOCK),
        ", ".join(_INTEGRITY),
        ", ".join(_GROUPS),
        ", ".join(sorted(_HYBRID)),
    )


def _unknown(where: str, text: str) -> InputError:
    return InputError(
        where, "{} is not a proposal".format(fields.shown(text)), _allowed_algorithms()
    )


def _switch(default: bool) -> Any:
    return value_field(
        lambda where, text: fields.choice(where, text, ("yes", "no")) == "yes",
        default,
        lambda value: "yes" if value else "no",
    )


@attr.frozen
class IpsecParams:
    """IPsec parameters of a link."""

    # How the ends authenticate: "pubkey" (raw public keys), "psk", or certificates of the
    # operator's authority that come by an action ("cert-external"), by CMPv2 ("cmp") or by EST
    # ("est").
    credentials: str = PUBKEY
    proposal: Proposal = attr.Factory(lambda: Proposal.parse("proposal", "auto"))  # Algorithms.
    # Extended sequence numbers (RFC 4304): "yes", "no", or "auto" where both ends can.
    esn: str = choice_field(("auto", "yes", "no"))
    replay_window: int = or_off_field(32, 4096, 128)  # Packets, 0 is off.
    encap: bool = _switch(False)  # Put ESP into UDP even where no NAT is in between.
    mobike: bool = _switch(False)  # Let addresses of the underlay change (RFC 4555).
    # Seconds of silence before a check for a dead peer (RFC 7296 section 2.4).
    dpd_delay: int = number_field(1, 3600, 10)
    ike_rekey: int = number_field(300, 604800, 14400)  # Seconds a key of IKE is used.
    child_rekey: int = number_field(60, 604800, 3600)  # Seconds a key of ESP is used.
    # Megabytes (10^6 bytes) a key of ESP is used for, 0 for no limit.
    child_mbytes: int = number_field(0, 999999999, 0)
    # Packets a key of ESP is used for, 0 for no limit.
    child_packets: int = or_off_field(1000, 9999999999, 0)
    # "start" keeps the tunnel up, "trap" opens it with the first packet.
    start: str = choice_field(("start", "trap"))
    # Headers that get a copy of the DSCP: "out" the outer, "in" the inner, "yes" both.
    copy_dscp: str = choice_field(("out", "in", "yes", "no"))
    copy_df: bool = _switch(True)  # Whether the DF bit is copied to the outer header.
    # Whether a peer is refused if its certificate of the operator's authority has an unknown
    # revocation status: "strict" yes, "ifuri" if the certificate has a URI to get the status from,
    # "relaxed" no.
    revocation: str = choice_field(("relaxed", "ifuri", "strict"))
    key_type: str = choice_field(KEY_TYPES)  # Type of our key.
    # Whether an end's inner address may be its outer address too.
    same_address: bool = _switch(False)
    # Prefixes from which peers that ask get addresses.
    pool: Tuple[fields.IPNetwork, ...] = text_field(pools.parse, (), pools.show)

    @property
    def proof(self) -> str:
        """Return the credentials as a peer sees them: not how this end gets its certificate."""
        return EXTERNAL if self.credentials in ENROLLED else self.credentials

    def to_params(self) -> Dict[str, Any]:
        return {
            "credentials": self.credentials,
            "proposal": self.proposal.text,
            "ipsec-options": self.options() or "none",
        }

    def options(self) -> str:
        """Return the options that are not at their defaults, as text."""
        words = []
        for key, field in sorted(OPTIONS.items()):
            value = getattr(self, field.name)
            if value != field.default:
                words.append("{}={}".format(key, field.metadata["show"](value)))
        return ",".join(words)


OPTIONS = parameters_of(IpsecParams)
"""Keys of `ipsec-options`, and their fields."""


def options(where: str, text: str) -> Dict[str, object]:
    """Parse "key=value,key=value"; "none" and "" mean all defaults."""
    result: Dict[str, object] = {}
    for part in () if text in fields.NOTHING else text.split(","):
        key, equals, value = (word.strip(" ") for word in part.partition("="))
        if key in _VERSION:
            raise InputError(where, IKEV1, "no option for the version: it is IKEv2 always")
        if not equals or key not in OPTIONS:
            raise InputError(
                where,
                "{} is not an option with a value".format(fields.shown(part)),
                ", ".join("{}=".format(name) for name in sorted(OPTIONS)),
            )
        field = OPTIONS[key]
        if field.name in result:
            raise InputError(where, "{} is given twice".format(key), "each option once")
        result[field.name] = field.metadata["parse"]("{}: {}".format(where, key), value)
    return result
