"""Agreement on a preshared key per peer, with nothing secret in a databag.

The requirer's VDU makes an RSA key and publishes its public half (`wrap-key`). The provider's VDU
makes the preshared key, encrypts it to that key (RSA-OAEP with SHA-256, RFC 8017 section 7.1) and
publishes the ciphertext. Both ends then hold the same file, made and opened on the VDUs only.
The owner of a manual peer gives the wrap key by hand, and gets the ciphertext.
docs/adr/0006 says what this protects against.
"""

import base64
import textwrap
from typing import Collection, List, Optional, Tuple

import attr

from vpnaas.base.digests import digest
from vpnaas.base.links import directory
from vpnaas.vdu.steps import Results, Step, read, remove, run, write

BITS = 3072
"""RSA modulus; 3072 bits are worth 128 (NIST SP 800-57 part 1, table 2), as X25519 is."""

SWANCTL = "/etc/swanctl"
"""Where strongSwan's form of a key lies, see `ipsec.names`."""

FETCHED = {"key": ("preshared-key", "[A-Za-z0-9+/]{43}=", "base64 of 32 bytes")}
"""The key as the field of a secret, see `vdu.secret_store.fetch`."""

_PEER = "(?:rel-[0-9]+|man-[a-z0-9-]+)"
_OAEP = ("-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256")


@attr.frozen
class PresharedState:
    """Files of the agreement with one peer on the VDU.

    Attributes:
        made_for: Digest of the wrap key (provider) or ciphertext (requirer) of this key.
        wrapped: Ciphertext to publish, on the provider.
        usable: Whether the preshared key file holds a key.
    """

    made_for: str = ""
    wrapped: str = ""
    usable: bool = False


def wrap_key_file(link: str) -> str:
    """Return the RSA private key file of a requirer's link."""
    return directory(link) + "/wrap.pem"


def observe_wrap_key(link: str, prefix: str = "") -> List[Step]:
    """Return the steps that make the RSA key where missing and read its public half."""
    path = wrap_key_file(link)
    bits = "rsa_keygen_bits:{}".format(BITS)
    make = ("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", bits)
    at = prefix + link
    return [
        run(at + "/wrap/make", *make, stdout_file=path, unless=path, timeout=60),
        run(at + "/wrap/public", "openssl", "pkey", "-in", path, "-pubout"),
    ]


def parse_wrap_key(link: str, results: Results, prefix: str = "") -> str:
    """Return the public half as base64 of its SubjectPublicKeyInfo."""
    pem = results.out(prefix + link + "/wrap/public") or ""
    return "".join(line for line in pem.splitlines() if not line.startswith("-----"))


def _path(link: str, peer: str, suffix: str) -> str:
    return preshared_file(link, peer) + suffix


def observe(link: str, peer: str, prefix: str = "") -> List[Step]:
    """Return the steps that look at one peer's preshared key, without showing it."""
    at = "{}{}/psk/{}".format(prefix, link, peer)
    wrapped, key = _path(link, peer, ".wrapped"), preshared_file(link, peer)
    return [
        read(at + "/for", _path(link, peer, ".for")),
        run(at + "/wrapped", "openssl", "base64", "-A", "-in", wrapped, only_if=wrapped),
        _check(at + "/check", key, _path(link, peer, ".check")),
    ]


def _check(id: str, key: str, output: str) -> Step:
    # The file contains one key and nothing else, in the form that `wg` and swanctl read.
    words = ("grep", "-z", "-q", "-x", "-E", "[A-Za-z0-9+/]{43}=[[:space:]]?")
    return run(id, *words, stdin_file=key, stdout_file=output, only_if=key, any_exit=True)


def observe_files(link: str) -> List[Step]:
    """Return the step that names the files of peers' keys, whether or not these remain."""
    names = r"^(preshared-{1}[.a-z]*|osm-vpnaas-{0}-{1}\.secret)$".format(link, _PEER)
    words = ("ls", directory(link), SWANCTL)
    return [run(link + "/psk/files", *words, any_exit=True, pick=names)]


def forget(link: str, peers: Collection[str], results: Results) -> List[Step]:
    """Return the steps that remove the keys of peers that are gone.

    Args:
        link: The link.
        peers: Names of the peers there are.
        results: Of `observe_files`.
    """
    steps = []
    for name in sorted(results.output(link + "/psk/files").split()):
        own = "preshared-" if name.startswith("preshared-") else ""
        start = own or "osm-vpnaas-{}-".format(link)
        if name[len(start) :].partition(".")[0] not in peers:
            folder = directory(link) if own else SWANCTL
            steps.append(remove("{}/psk-gone/{}".format(link, name), folder + "/" + name))
    return steps


def parse(link: str, peer: str, results: Results, prefix: str = "") -> PresharedState:
    """Read what `observe` brought back."""
    at = "{}{}/psk/{}".format(prefix, link, peer)
    return PresharedState(
        made_for=(results.text(at + "/for") or "").strip(),
        wrapped=(results.out(at + "/wrapped") or "").strip(),
        usable=results.exit_code(at + "/check") == 0,
    )


def wrap(link: str, peer: str, wrap_key: str) -> List[Step]:
    """Return the provider's steps: make a preshared key and encrypt it to `wrap_key`.

    A wrap key that openssl refuses leaves no ciphertext, and so no agreement.
    """
    at = "{}/psk-make/{}".format(link, peer)
    key, pem = preshared_file(link, peer), _path(link, peer, ".pem")
    armoured = "\n".join(textwrap.wrap(wrap_key, 64))
    text = "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n".format(armoured)
    command = ("openssl", "pkeyutl", "-encrypt", "-pubin", "-inkey", pem) + _OAEP
    return [
        remove(at + "/stale", _path(link, peer, ".wrapped")),
        write(at + "/pem", pem, text, 0o600),
        run(at + "/make", "openssl", "rand", "-base64", "32", stdout_file=key),
        run(
            at + "/encrypt",
            *command,
            stdin_file=key,
            stdout_file=_path(link, peer, ".wrapped"),
            any_exit=True,
        ),
        write(at + "/for", _path(link, peer, ".for"), digest(wrap_key) + "\n", 0o600),
    ]


def unwrap(link: str, peer: str, wrapped: str) -> List[Step]:
    """Return the requirer's steps: decrypt, check, and only then replace the key in use."""
    at = "{}/psk-open/{}".format(link, peer)
    cipher, new = _path(link, peer, ".cipher"), _path(link, peer, ".new")
    good, made_for = _path(link, peer, ".good"), _path(link, peer, ".for")
    command = ("openssl", "pkeyutl", "-decrypt", "-inkey", wrap_key_file(link), "-in", cipher)
    return [
        remove(at + "/stale", new),
        remove(at + "/forget", good),
        run(at + "/decode", "openssl", "base64", "-d", "-A", "-out", cipher, stdin=wrapped),
        run(at + "/decrypt", *(command + _OAEP), stdout_file=new, any_exit=True),
        _check(at + "/check", new, good),
        write(at + "/for", made_for + ".new", digest(wrapped) + "\n", 0o600),
        run(at + "/use", "mv", new, preshared_file(link, peer), only_if=good),
        run(at + "/note", "mv", made_for + ".new", made_for, only_if=good),
    ]


def is_wrap_key(text: str) -> bool:
    """Tell whether a peer's wrap key has the outer form of an RSA SubjectPublicKeyInfo."""
    # SEQUENCE { SEQUENCE { rsaEncryption, NULL } ... }, RFC 8017 appendix A.1
    return b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01" in base64.b64decode(text)[:32]


def agreement(
    provider: bool, remote_wrap_key: str, remote_wrapped: str, state: PresharedState
) -> Tuple[Optional[str], bool]:
    """Return the state of the agreement with one peer.

    Returns:
        The identity of the key to use (None before the agreement), and whether `wrap` or `unwrap`
        should run now.
    """
    source = remote_wrap_key if provider else remote_wrapped
    if not source:
        return None, False
    current = state.usable and state.made_for == digest(source)
    if provider:
        current = current and bool(state.wrapped)
        return (digest(state.wrapped) if current else None), not current
    return (digest(source) if current else None), not current


def fetched(state: PresharedState) -> Optional[str]:
    """Return the identity of a key that came from a secret store, None without one."""
    return state.made_for if state.usable and state.made_for else None


def preshared_file(link: str, peer: str) -> str:
    """Return the preshared key file of a peer."""
    return "{}/preshared-{}".format(directory(link), peer)
