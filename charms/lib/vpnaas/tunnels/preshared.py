"""Agreement on a preshared key per peer, with nothing secret in a databag.

The requirer's VDU makes an RSA key and publishes its public half (`wrap-key`). The provider's VDU
makes the preshared key, encrypts it to that key (RSA-OAEP with SHA-256, RFC 8017 section 7.1) and
publishes the ciphertext. Both ends then hold the same file, made and opened on the VDUs only.
The owner of a manual peer gives the wrap key by hand, and gets the ciphertext.
docs/adr/0006 says what this protects against.

A hybrid key has a second half that travels by ML-KEM (`programs.kem`); docs/adr/0083 says why.
"""

import base64
from typing import Collection, List, Optional, Tuple

import attr

from vpnaas.base.fields import digest
from vpnaas.base.links import DIRECTORY
from vpnaas.base.x509 import armour, body
from vpnaas.params.intent import PREFER, REQUIRE
from vpnaas.peers.offer import QUANTUM_OFFERS, UNABLE, KeyOffer
from vpnaas.peers.peer import HYBRID, Agreed
from vpnaas.vdu.programs import source
from vpnaas.vdu.secret_store import MARK
from vpnaas.vdu.steps import Results, Step, read, remove, run, write

# Files of a link: `WRAP_KEY.format(link)`.
WRAP_KEY = DIRECTORY + "/wrap.pem"  # RSA private key of a requirer.
KEM_KEY = DIRECTORY + "/kem.key"  # ML-KEM private key of a requirer.
PRESHARED = DIRECTORY + "/preshared-{}"  # Key with a peer, by its name.

BITS = 3072
"""Bits of the RSA modulus, as strong as X25519: 128 bits (NIST SP 800-57 part 1, table 2)."""

SWANCTL = "/etc/swanctl"
"""Directory of the keys in strongSwan's form, see `ipsec.names`."""

FETCHED = {"key": ("preshared-key", "[A-Za-z0-9+/]{43}=", "base64 of 32 bytes")}
"""The key as the field of a secret, see `vdu.secret_store.fetch`."""

_PEER = "(?:rel-[0-9]+|man-[a-z0-9-]+)"
_OAEP = ("-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256")


@attr.frozen
class PresharedState:
    """Files of the agreement with one peer on the VDU."""

    made_for: str = ""  # Digest of the wrap key (provider) or ciphertext (requirer) of this key.
    wrapped: str = ""  # Ciphertext to publish, on the provider.
    sealed: str = ""  # Ciphertext of a hybrid key's other half, on the provider.
    usable: bool = False  # Whether the preshared key file holds a key.


def observe_wrap_key(link: str, prefix: str) -> List[Step]:
    """Return the steps that make the RSA key if it is missing, and read its public half."""
    path = WRAP_KEY.format(link)
    bits = "rsa_keygen_bits:{}".format(BITS)
    make = ("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", bits)
    at = prefix + link
    return [
        run(at + "/wrap/make", *make, stdout_file=path, unless=path, timeout=60),
        run(at + "/wrap/public", "openssl", "pkey", "-in", path, "-pubout"),
    ]


def parse_wrap_key(link: str, results: Results) -> str:
    """Return the public half as base64 of its SubjectPublicKeyInfo."""
    return body(results.out(link + "/wrap/public"))


def _kem(id: str, *words: str, stdin: str = "", only_if: str = "") -> Step:
    command = ("python3", "-I", "-c", source("kem.py")) + words
    return run(id, *command, stdin=stdin, only_if=only_if, any_exit=True, timeout=60)


def observe_kem(link: str, provider: bool) -> List[Step]:
    """Return the step that tests for ML-KEM; it makes a requirer's key if that is missing."""
    words = ("able",) if provider else ("public", KEM_KEY.format(link))
    return [_kem(link + "/kem", *words)]


def parse_kem(link: str, results: Results) -> Tuple[bool, str]:
    """Return whether the VDU has ML-KEM, and the public key of a requirer."""
    key = results.out(link + "/kem")
    return key is not None, (key or "").strip()


def renew(link: str, provider: bool, peers: Collection[str]) -> List[Step]:
    """Return the steps after which new hybrid keys with these peers are agreed."""
    if provider:
        return [
            remove("{}/psk-renew/{}".format(link, peer), _path(link, peer, ".for"))
            for peer in sorted(peers)
        ]
    return [remove(link + "/psk-renew", KEM_KEY.format(link))] if peers else []


def _path(link: str, peer: str, suffix: str) -> str:
    return PRESHARED.format(link, peer) + suffix


def observe(link: str, peer: str, prefix: str = "") -> List[Step]:
    """Return the steps that read the state of one peer's preshared key, but not the key."""
    at = "{}{}/psk/{}".format(prefix, link, peer)
    wrapped, key = _path(link, peer, ".wrapped"), PRESHARED.format(link, peer)
    return [
        read(at + "/for", _path(link, peer, ".for")),
        run(at + "/wrapped", "openssl", "base64", "-A", "-in", wrapped, only_if=wrapped),
        read(at + "/sealed", _path(link, peer, ".sealed")),
        _check(at + "/check", key, _path(link, peer, ".check")),
    ]


def _check(id: str, key: str, output: str) -> Step:
    # The file contains one key and nothing else, in the form that `wg` and swanctl read.
    words = ("grep", "-z", "-q", "-x", "-E", "[A-Za-z0-9+/]{43}=[[:space:]]?")
    return run(id, *words, stdin_file=key, stdout_file=output, only_if=key, any_exit=True)


def observe_files(link: str) -> List[Step]:
    """Return the step that lists the key files of all peers, also of former ones."""
    names = r"^(preshared-{1}[.a-z]*|osm-vpnaas-{0}-{1}\.secret)$".format(link, _PEER)
    words = ("ls", DIRECTORY.format(link), SWANCTL)
    return [run(link + "/psk/files", *words, any_exit=True, pick=names)]


def forget(link: str, peers: Collection[str], results: Results) -> List[Step]:
    """Return the steps that remove the keys of all but these peers (`observe_files`)."""
    steps = []
    for name in sorted(results.output(link + "/psk/files").split()):
        own = "preshared-" if name.startswith("preshared-") else ""
        start = own or "osm-vpnaas-{}-".format(link)
        if name[len(start) :].partition(".")[0] not in peers:
            folder = DIRECTORY.format(link) if own else SWANCTL
            steps.append(remove("{}/psk-gone/{}".format(link, name), folder + "/" + name))
    return steps


def parse(link: str, peer: str, results: Results, prefix: str = "") -> PresharedState:
    """Read the results of `observe`."""
    at = "{}{}/psk/{}".format(prefix, link, peer)
    return PresharedState(
        made_for=(results.text(at + "/for") or "").strip(),
        wrapped=(results.out(at + "/wrapped") or "").strip(),
        sealed=(results.text(at + "/sealed") or "").strip(),
        usable=results.exit_code(at + "/check") == 0,
    )


def wrap(link: str, peer: str, wrap_key: str, kem_key: str = "") -> List[Step]:
    """Return the provider's steps: make a preshared key and encrypt it to `wrap_key`.

    A wrap key that openssl refuses leaves no ciphertext, and so no agreement. `kem_key` is the
    peer's ML-KEM public key, for a hybrid key.
    """
    at = "{}/psk-make/{}".format(link, peer)
    key, pem = PRESHARED.format(link, peer), _path(link, peer, ".pem")
    wrapped, sealed = _path(link, peer, ".wrapped"), _path(link, peer, ".sealed")
    made = _path(link, peer, ".part") if kem_key else key
    command = ("openssl", "pkeyutl", "-encrypt", "-pubin", "-inkey", pem) + _OAEP
    steps = [
        remove(at + "/stale", wrapped),
        remove(at + "/stale-seal", sealed),
        write(at + "/pem", pem, armour(wrap_key, "PUBLIC KEY"), 0o600),
        run(at + "/make", "openssl", "rand", "-base64", "32", stdout_file=made),
        run(at + "/encrypt", *command, stdin_file=made, stdout_file=wrapped, any_exit=True),
    ]
    if kem_key:
        new = _path(link, peer, ".new")
        words = ("seal", made, wrapped, sealed, new)
        steps += [
            _kem(at + "/seal", *words, stdin=kem_key, only_if=wrapped),
            run(at + "/use", "mv", new, key, only_if=sealed),
            remove(at + "/part", made),
        ]
    made_for = digest(_source(wrap_key, kem_key)) + "\n"
    return steps + [write(at + "/for", _path(link, peer, ".for"), made_for, 0o600)]


def unwrap(link: str, peer: str, wrapped: str, sealed: str = "") -> List[Step]:
    """Return the requirer's steps: decrypt, check, and only then replace the key in use."""
    at = "{}/psk-open/{}".format(link, peer)
    cipher, new = _path(link, peer, ".cipher"), _path(link, peer, ".new")
    good, made_for = _path(link, peer, ".good"), _path(link, peer, ".for")
    opened = _path(link, peer, ".part") if sealed else new
    command = ("openssl", "pkeyutl", "-decrypt", "-inkey", WRAP_KEY.format(link), "-in", cipher)
    steps = [
        remove(at + "/stale", new),
        remove(at + "/forget", good),
        run(at + "/decode", "openssl", "base64", "-d", "-A", "-out", cipher, stdin=wrapped),
        run(at + "/decrypt", *(command + _OAEP), stdout_file=opened, any_exit=True),
    ]
    if sealed:
        words = ("open", KEM_KEY.format(link), opened, cipher, new)
        steps.append(_kem(at + "/open", *words, stdin=sealed, only_if=opened))
        steps.append(remove(at + "/part", opened))
    noted = digest(_source(wrapped, sealed)) + "\n"
    return steps + [
        _check(at + "/check", new, good),
        write(at + "/for", made_for + ".new", noted, 0o600),
        run(at + "/use", "mv", new, PRESHARED.format(link, peer), only_if=good),
        run(at + "/note", "mv", made_for + ".new", made_for, only_if=good),
    ]


def is_wrap_key(text: str) -> bool:
    """Tell whether a peer's wrap key has the outer form of an RSA SubjectPublicKeyInfo."""
    # SEQUENCE { SEQUENCE { rsaEncryption, NULL } ... }, RFC 8017 appendix A.1
    return b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01" in base64.b64decode(text)[:32]


def wants_hybrid(ours: str, theirs: Collection[str]) -> bool:
    """Tell whether either end asks for a hybrid key: ours, or one of those that offer `theirs`."""
    asking = (QUANTUM_OFFERS[PREFER], QUANTUM_OFFERS[REQUIRE])
    return ours in (PREFER, REQUIRE) or any(offered in asking for offered in theirs)


def lacking(ours: str, able: bool, theirs: str) -> Tuple[bool, str]:
    """Return whether an end asks for a hybrid key, and why there can be none ("" if there can).

    It is `able` if our VDU has ML-KEM; `theirs` as in `KeyOffer.post_quantum`.
    """
    if not wants_hybrid(ours, [theirs]):
        return False, ""
    if not able:
        return True, "this VDU has no ML-KEM"
    if theirs == UNABLE:
        return True, "its VDU has no ML-KEM"
    return True, "" if theirs else "its charm has no post-quantum keys"


def agreement(
    link: str, peer: str, provider: bool, theirs: KeyOffer, hybrid: bool, state: PresharedState
) -> Tuple[Agreed, List[Step]]:
    """Return the agreement with one peer, and the steps that continue it.

    The `provider` makes the key; `theirs` is the key part of the peer's offer.
    """
    first = theirs.wrap_key if provider else theirs.wrapped
    second = (theirs.kem_key if provider else theirs.sealed) if hybrid else ""
    if not first or (hybrid and not second):
        return Agreed(None), []
    current = state.usable and state.made_for == digest(_source(first, second))
    if not provider:
        if current:
            return Agreed(_identity(first, second)), []
        return Agreed(None), unwrap(link, peer, first, second)
    sealed = state.sealed if hybrid else ""
    if current and state.wrapped and (sealed or not hybrid):
        return Agreed(_identity(state.wrapped, sealed), state.wrapped, sealed), []
    return Agreed(None), wrap(link, peer, first, second) if is_wrap_key(first) else []


def _source(first: str, second: str) -> str:
    return first + ("," + second if second else "")


def _identity(wrapped: str, sealed: str) -> str:
    return (HYBRID if sealed else "") + digest(_source(wrapped, sealed))


def fetched(state: PresharedState) -> Optional[str]:
    """Return the identity of a key that came from a secret store, None without one."""
    return state.made_for if state.usable and state.made_for.startswith(MARK) else None
