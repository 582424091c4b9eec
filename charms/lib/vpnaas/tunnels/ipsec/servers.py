"""Certificates of an operator by CMPv2 (RFC 4210, RFC 9810; TS 33.310 clause 9) or EST (RFC 7030).

CMPv2: openssl on the VDU is the client. The key of the vendor's certificate signs the first request
(`ir`), the key in use signs the next ones (`kur`). Each request proves that the VDU has the new key
(proof of possession) and ends with `certConf`. An answer counts only if its signer and the
certificate in it have a chain to the operator's root.

EST: in TLS, the first request uses the vendor's certificate, and the next ones the certificate in
use. The server must have a certificate of the operator's root.
"""

import re
from typing import List

from vpnaas.base import fields
from vpnaas.params.servers import Enrolment
from vpnaas.tunnels.ipsec.names import (
    ENROLLED_CERTIFICATE,
    ENROLLED_CHAIN,
    ENROLMENT_ROOT,
    KEY,
    NEXT_KEY,
    NEXT_REQUEST,
    REQUEST,
)
from vpnaas.vdu import openssl
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, remove, run, write

VENDOR_KEY = "/etc/osm-vpnaas/vendor/key.pem"
VENDOR_CERTIFICATE = "/etc/osm-vpnaas/vendor/certificate.pem"
"""What a vendor puts on a VDU before the operator gets it; a chain follows the certificate."""
SECONDS = 30
"""Time limit of one enrolment."""
EXPLAINED = {
    "connect timeout": ": it does not answer, refuses, or its name has no address",
    "failed reading data": ": it ended the connection, or its answer is not of CMP",
}
"""What openssl's client hides."""


def by_cmp(link: str, identity: str, enrolment: Enrolment, own: str) -> List[Step]:
    """Return the steps that enrol a key for our IKE identity.

    `own` is the file of our certificate for the key in use, which signs the request for the staged
    one; "" enrols the key in use with the vendor's certificate.
    """
    at, root, path = link + "/enrol", ENROLMENT_ROOT.format(link), ENROLLED_CERTIFICATE.format(link)
    words = ["cmp", "-config", "", "-batch", "-verbosity", "4", "-server", enrolment.server]
    words += ["-msg_timeout", "10", "-total_timeout", str(SECONDS), "-trusted", root]
    words += ["-out_trusted", root, "-certout", path, "-chainout", ENROLLED_CHAIN.format(link)]
    if own:
        words += ["-cmd", "kur", "-cert", own, "-key", KEY.format(link), "-oldcert", own]
        words += ["-newkey", NEXT_KEY.format(link)]
    else:
        words += ["-cmd", "ir", "-cert", VENDOR_CERTIFICATE, "-key", VENDOR_KEY]
        words += ["-newkey", KEY.format(link), "-subject", "/CN=" + identity]
        words += ["-sans", identity]
    if enrolment.recipient:
        words += ["-recipient", enrolment.recipient]
    return [
        remove(at + "/stale", path),
        write(at + "/root", root, enrolment.root.pem, 0o600),
        run(at, *openssl.alone(*words), any_exit=True, timeout=SECONDS + 10),
    ]


def refusal(link: str, results: Results) -> str:
    """Return why an enrolment failed, "" if it did not or there was none."""
    id = link + "/enrol"
    if id not in results or results.exit_code(id) == 0:
        return ""
    text = results.error(id) + "\n" + results.output(id)
    # The server's own error comes last. Without it, the first error caused the others.
    errors = re.findall(r"CMP error: ([ -~]{1,200})", text)
    lines = [line for line in errors if "PKIStatus" in line] + errors
    last = fields.lines(text)[-1:] or ["the program ended without a reason"]
    reason = (lines or last)[0][:200]
    return reason + EXPLAINED.get(reason, "")


def by_est(link: str, identity: str, enrolment: Enrolment, own: str) -> List[Step]:
    """Return the steps that enrol a key, see `by_cmp`; the request names the identity."""
    at, root, path = link + "/enrol", ENROLMENT_ROOT.format(link), ENROLLED_CERTIFICATE.format(link)
    words = ["simpleenroll", enrolment.server, root, VENDOR_CERTIFICATE, VENDOR_KEY]
    words.append(REQUEST.format(link))
    if own:
        words = ["simplereenroll", enrolment.server, root, own, KEY.format(link)]
        words.append(NEXT_REQUEST.format(link))
    program = ("python3", "-I", "-c", source("est.py"), *words, path, ENROLLED_CHAIN.format(link))
    return [
        remove(at + "/stale", path),
        write(at + "/root", root, enrolment.root.pem, 0o600),
        run(at, *program, any_exit=True, timeout=2 * SECONDS),
    ]
