"""Checks whether charon on a VDU has the algorithms of a proposal."""

import re
from typing import FrozenSet, Tuple

from vpnaas.params.ipsec import Proposal, Suite
from vpnaas.vdu.steps import Results, Step, run

_NAMES = {
    "aes256gcm16": "AES_GCM_16",
    "aes192gcm16": "AES_GCM_16",
    "aes128gcm16": "AES_GCM_16",
    "chacha20poly1305": "CHACHA20_POLY1305",
    "aes256": "AES_CBC",
    "aes192": "AES_CBC",
    "aes128": "AES_CBC",
    "sha256": "HMAC_SHA2_256_128",
    "sha384": "HMAC_SHA2_384_192",
    "sha512": "HMAC_SHA2_512_256",
    "prfsha256": "PRF_HMAC_SHA2_256",
    "prfsha384": "PRF_HMAC_SHA2_384",
    "prfsha512": "PRF_HMAC_SHA2_512",
    "curve25519": "CURVE_25519",
    "curve448": "CURVE_448",
    "ecp256": "ECP_256",
    "ecp384": "ECP_384",
    "ecp521": "ECP_521",
    "modp2048": "MODP_2048",
    "mlkem512": "ML_KEM_512",
    "mlkem768": "ML_KEM_768",
    "mlkem1024": "ML_KEM_1024",
}
"""Words of proposals, and their names in `swanctl --list-algs`."""


def observe() -> Step:
    """Return the step that lists charon's algorithms; it prints none if charon does not run."""
    return run("ipsec/algorithms", "swanctl", "--list-algs", any_exit=True, timeout=60)


def lacking(proposal: Proposal, results: Results) -> Tuple[str, ...]:
    """Return the algorithms that charon lacks for the proposal, () also if they are unknown."""
    names = re.findall(r"^\s+([A-Z0-9_]+)\[", results.output("ipsec/algorithms"), re.MULTILINE)
    if not names:
        return ()
    # One suite suffices. If none is complete, report the first, which is the most wanted one.
    missing = [_missing(suite, frozenset(names)) for suite in proposal.suites]
    return () if () in missing else missing[0]


def _missing(suite: Suite, loaded: FrozenSet[str]) -> Tuple[str, ...]:
    hybrid = (suite.hybrid,) if suite.hybrid else ()
    kinds = (suite.ciphers, suite.integrity, suite.prfs, suite.groups, hybrid)
    names = [[_NAMES[word] for word in words] for words in kinds if words]
    return tuple(" or ".join(kind) for kind in names if not loaded.intersection(kind))
