"""Milenage, the authentication functions of 3GPP TS 35.206, over AES-128."""

from dataclasses import dataclass
from functools import lru_cache

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from simulators.errors import EpcError

#: Rotations r1..r5 in octets (TS 35.206 section 4.1 gives them in bits).
_ROTATION = (8, 0, 4, 8, 12)
_CONSTANT = (0, 1, 2, 4, 8)  # Last octet of the constants c1..c5; all other octets are zero.


@dataclass(frozen=True)
class Response:
    """Results of f2 to f5 for a RAND: RES (8 octets), CK, IK (16 each), AK and AK* (6 each)."""

    res: bytes
    ck: bytes
    ik: bytes
    ak: bytes
    ak_resync: bytes


def _xor(one: bytes, two: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, two, strict=True))


@lru_cache(maxsize=4096)
def _cipher(key: bytes) -> Cipher[modes.ECB]:
    # Milenage is defined with single AES blocks, which is ECB mode; each input is used once.
    return Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305


def _aes(key: bytes, block: bytes) -> bytes:
    return _cipher(key).encryptor().update(block)


def _check(**sizes: tuple[bytes, int]) -> None:
    for name, (value, size) in sizes.items():
        if len(value) != size:
            raise EpcError(f"{name} has {len(value)} octets, Milenage takes {size}.")


def opc(k: bytes, op: bytes) -> bytes:
    """OPc of a subscriber's key and the operator's OP (TS 35.206 section 4.1)."""
    _check(K=(k, 16), OP=(op, 16))
    return _xor(_aes(k, op), op)


def _out(k: bytes, opc_: bytes, temp: bytes, number: int) -> bytes:
    mixed = _xor(temp, opc_)
    shift = _ROTATION[number]
    rotated = bytearray(mixed[shift:] + mixed[:shift])
    rotated[15] ^= _CONSTANT[number]
    return _xor(_aes(k, bytes(rotated)), opc_)


def f1(k: bytes, opc_: bytes, rand: bytes, sqn: bytes, amf: bytes) -> tuple[bytes, bytes]:
    """MAC-A and MAC-S (8 octets each) of a challenge."""
    _check(K=(k, 16), OPc=(opc_, 16), RAND=(rand, 16), SQN=(sqn, 6), AMF=(amf, 2))
    temp = _aes(k, _xor(rand, opc_))
    mixed = _xor((sqn + amf) * 2, opc_)
    rotated = mixed[8:] + mixed[:8]
    out = _xor(_aes(k, _xor(temp, rotated)), opc_)
    return out[:8], out[8:]


def f2345(k: bytes, opc_: bytes, rand: bytes) -> Response:
    """RES, CK, IK, AK and AK* of a challenge."""
    _check(K=(k, 16), OPc=(opc_, 16), RAND=(rand, 16))
    temp = _aes(k, _xor(rand, opc_))
    two, three, four, five = (_out(k, opc_, temp, number) for number in (1, 2, 3, 4))
    return Response(two[8:], three, four, two[:6], five[:6])
