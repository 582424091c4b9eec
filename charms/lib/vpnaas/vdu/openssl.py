"""Verification of certificates with openssl on the VDU."""

from typing import List, Sequence, Tuple

from vpnaas.base.x509 import Certificate
from vpnaas.vdu.steps import Step, run, write


def alone(*words: str) -> Tuple[str, ...]:
    """Return an openssl command that trusts only the authorities in its arguments."""
    return ("env", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/dev/null", "openssl") + words


def verify(
    id: str,
    path: str,
    certificate: str,
    root: Certificate,
    others: Sequence[Certificate] = (),
) -> List[Step]:
    """Return the steps that check signature and dates of a PEM under one authority and no other.

    Exit code 0 of `id` accepts it. `path` begins the names of files for openssl. Intermediate
    authorities of `others` may stand between.
    """
    file, trust, chain = path + ".pem", path + "-ca.pem", path + "-chain.pem"
    words = ["verify", "-CAfile", trust]
    steps = [
        write(id + "/trust", trust, root.pem, 0o600),
        write(id + "/text", file, certificate, 0o600),
    ]
    if others:
        steps.append(write(id + "/chain", chain, "".join(each.pem for each in others), 0o600))
        words += ["-untrusted", chain]
    return steps + [run(id, *alone(*words, file), any_exit=True)]
