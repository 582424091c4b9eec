"""Certificates of an operator by EST (RFC 7030); `cmp` has what both protocols share.

In TLS, the first request uses the vendor's certificate, and the next ones the certificate in use.
The server must have a certificate of the operator's root.
"""

from typing import List

from vpnaas.params.enrolment import Enrolment
from vpnaas.tunnels.ipsec import cmp
from vpnaas.tunnels.ipsec.names import (
    ENROLLED_CERTIFICATE,
    ENROLLED_CHAIN,
    ENROLMENT_ROOT,
    KEY,
    NEXT_REQUEST,
    REQUEST,
)
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Step, remove, run, write


def enrol(link: str, identity: str, enrolment: Enrolment, own: str) -> List[Step]:
    """Return the steps that enrol a key, see `cmp.enrol`; the request names the identity."""
    at, root, path = link + "/enrol", ENROLMENT_ROOT.format(link), ENROLLED_CERTIFICATE.format(link)
    words = ["simpleenroll", enrolment.server, root, cmp.VENDOR_CERTIFICATE, cmp.VENDOR_KEY]
    words.append(REQUEST.format(link))
    if own:
        words = ["simplereenroll", enrolment.server, root, own, KEY.format(link)]
        words.append(NEXT_REQUEST.format(link))
    program = ("python3", "-I", "-c", source("est.py"), *words, path, ENROLLED_CHAIN.format(link))
    return [
        remove(at + "/stale", path),
        write(at + "/root", root, enrolment.root.pem, 0o600),
        run(at, *program, any_exit=True, timeout=2 * cmp.SECONDS),
    ]
