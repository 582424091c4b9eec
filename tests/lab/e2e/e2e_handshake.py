"""A WireGuard handshake initiation of a VDU whose clock shows another time.

The clock of a VDU in the lab is the machine's, and no program can have another one that reads it
without the C library, as those of Go do. So this is what such a VDU would send.
"""

import hashlib
import hmac
import os
import struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

# WireGuard: Next Generation Kernel Network Tunnel (Donenfeld, NDSS 2017), 5.4.
CONSTRUCTION = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"
IDENTIFIER = b"WireGuard v1 zx2c4 Jason@zx2c4.com"
MAC1 = b"mac1----"
#: Label of the first second of 1970 in TAI64, of which TAI was ten seconds ahead of UTC.
TAI64 = 0x400000000000000A


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2s(b"".join(parts)).digest()


def _derive(key: bytes, given: bytes) -> tuple[bytes, bytes]:
    """Return two keys of HKDF with BLAKE2s."""

    def code(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, hashlib.blake2s).digest()

    secret = code(key, given)
    first = code(secret, b"\x01")
    return first, code(secret, first + b"\x02")


def initiation(private: bytes, peer: bytes, seconds: float) -> bytes:
    """Return the first message of a handshake.

    Args:
        private: The sender's private key.
        peer: The receiver's public key.
        seconds: What the sender's clock shows, since the epoch.
    """
    own = X25519PrivateKey.from_private_bytes(private)
    theirs = X25519PublicKey.from_public_bytes(peer)
    ephemeral = X25519PrivateKey.generate()
    shown = ephemeral.public_key().public_bytes_raw()
    chaining = _hash(CONSTRUCTION)
    transcript = _hash(_hash(chaining, IDENTIFIER), peer)
    chaining, _ = _derive(chaining, shown)
    transcript = _hash(transcript, shown)
    chaining, key = _derive(chaining, ephemeral.exchange(theirs))
    nonce = bytes(12)
    static = ChaCha20Poly1305(key).encrypt(nonce, own.public_key().public_bytes_raw(), transcript)
    transcript = _hash(transcript, static)
    chaining, key = _derive(chaining, own.exchange(theirs))
    stamp = struct.pack("!QI", TAI64 + int(seconds), 0)
    message = bytes((1, 0, 0, 0)) + os.urandom(4) + shown + static
    message += ChaCha20Poly1305(key).encrypt(nonce, stamp, transcript)
    code = hashlib.blake2s(message, key=_hash(MAC1, peer), digest_size=16).digest()
    return message + code + bytes(16)
