"""OPc of MILENAGE (TS 35.206 clause 4.1); only this module needs a cipher."""

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def opc(key: str, operator_key: str) -> str:
    """Return OPc = AES-128 of OP under K, xored with OP; all in hexadecimal."""
    op = bytes.fromhex(operator_key)
    # A single block: ECB is AES itself here.
    encryptor = Cipher(algorithms.AES(bytes.fromhex(key)), modes.ECB()).encryptor()  # noqa: S305
    encrypted = encryptor.update(op) + encryptor.finalize()
    return bytes(a ^ b for a, b in zip(encrypted, op)).hex()
