"""The post-quantum half of a preshared key: ML-KEM-768 (FIPS 203), on the VDU.

    kem.py able                            is there a library with ML-KEM?
    kem.py public KEY                      prints the public key; makes KEY (a seed) where missing
    kem.py seal PART WRAPPED SEALED NEW    public key of the peer on standard input
    kem.py open KEY PART WRAPPED NEW       ciphertext of the peer on standard input

PART holds the half that travels by RSA, base64 of 32 bytes, and WRAPPED its ciphertext. NEW gets
the preshared key: HKDF (RFC 5869) with SHA-256 over both halves, bound to the public key and to
both ciphertexts. An attacker needs both halves. SEALED gets the ciphertext of ML-KEM and a check
value, by which `open` detects a wrong private key: ML-KEM itself decapsulates any ciphertext.

The library is Python's cryptography, 47 or newer. FOLDER is searched first, so other programs can
keep the distribution's release. Exit code 3 means that no such library was found.
"""

import base64
import binascii
import hashlib
import hmac
import os
import sys
from typing import Any, List, Optional, TextIO, Tuple

from vpnaas.vdu.programs.common import put

FOLDER = "/usr/local/lib/osm-vpnaas/python"
LABEL = b"osm-vpnaas preshared key: RSA-OAEP with ML-KEM-768"
PUBLIC = 1184
"""Bytes of a public key (FIPS 203, table 3)."""
CIPHERTEXT = 1088
SEED = 64
CHECK = 32
NO_LIBRARY = 3


def library() -> Optional[Any]:
    """Return the module with ML-KEM, None if this VDU has none."""
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import mlkem
    except ImportError:
        return None
    try:
        mlkem.MLKEM768PrivateKey.generate()
    except UnsupportedAlgorithm:
        return None
    return mlkem


def combine(halves: Tuple[bytes, bytes], public: bytes, cipher: bytes, wrapped: bytes) -> bytes:
    """Return the preshared key (32 bytes), followed by the check value (32 bytes)."""
    bound = hashlib.sha256(public + cipher + hashlib.sha256(wrapped).digest()).digest()
    pseudorandom = hmac.new(LABEL, halves[0] + halves[1], hashlib.sha256).digest()
    first = hmac.new(pseudorandom, bound + b"\x01", hashlib.sha256).digest()
    return first + hmac.new(pseudorandom, first + bound + b"\x02", hashlib.sha256).digest()


def decode(text: str, size: int) -> bytes:
    """Read base64 of so many bytes; ValueError for anything else."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error))
    if len(raw) != size:
        raise ValueError("{} bytes instead of {}".format(len(raw), size))
    return raw


def bytes_of(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def main(argv: List[str], stdin: TextIO, mlkem: Any) -> int:
    """Do what the command line asks.

    Raises:
        ValueError: A key or ciphertext has the wrong form, or does not belong to the others.
        OSError: A file cannot be read or written.
    """
    verb, paths = argv[0], argv[1:]
    if verb == "public":
        if not os.path.exists(paths[0]):
            seed = mlkem.MLKEM768PrivateKey.generate().private_bytes_raw()
            put(paths[0], base64.b64encode(seed).decode() + "\n")
        own = mlkem.MLKEM768PrivateKey.from_seed_bytes(decode(bytes_of(paths[0]).decode(), SEED))
        print(base64.b64encode(own.public_key().public_bytes_raw()).decode())
    elif verb == "seal":
        part, wrapped, sealed, new = paths
        public = decode(stdin.read(), PUBLIC)
        shared, cipher = mlkem.MLKEM768PublicKey.from_public_bytes(public).encapsulate()
        halves = (decode(bytes_of(part).decode(), 32), shared)
        made = combine(halves, public, cipher, bytes_of(wrapped))
        put(new, base64.b64encode(made[:32]).decode() + "\n")
        put(sealed, base64.b64encode(cipher + made[32:]).decode() + "\n")
    elif verb == "open":
        key, part, wrapped, new = paths
        raw = decode(stdin.read(), CIPHERTEXT + CHECK)
        own = mlkem.MLKEM768PrivateKey.from_seed_bytes(decode(bytes_of(key).decode(), SEED))
        public, cipher = own.public_key().public_bytes_raw(), raw[:CIPHERTEXT]
        halves = (decode(bytes_of(part).decode(), 32), own.decapsulate(cipher))
        made = combine(halves, public, cipher, bytes_of(wrapped))
        if not hmac.compare_digest(made[32:], raw[CIPHERTEXT:]):
            raise ValueError("it was sealed to another key")
        put(new, base64.b64encode(made[:32]).decode() + "\n")
    return 0


if __name__ == "__main__":
    found = library()
    sys.exit(NO_LIBRARY if found is None else main(sys.argv[1:], sys.stdin, found))
