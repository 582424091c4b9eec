"""Writes certificates to the VDU and into offers."""

from typing import Dict, List, Optional, Sequence, Tuple

from vpnaas.base import x509
from vpnaas.peers.inputs import LinkInputs
from vpnaas.peers.offer import MAX_BETWEEN, CertOffer
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.certificates import Held, pin_file
from vpnaas.tunnels.ipsec.names import (
    CERTIFICATE,
    CHAIN,
    NEXT_CERTIFICATE,
    NEXT_REQUEST,
    REQUEST,
    ROOT,
    TRUST,
)
from vpnaas.tunnels.ipsec.validation import Validation
from vpnaas.vdu.steps import Step, move, remove, write


def promote(link: str, held: Held) -> List[Step]:
    """Return the steps that make the request and certificate of the staged key the current ones."""
    at = link + "/promote"
    steps = []
    if held.next_request is not None:
        steps.append(move(at + "/request", NEXT_REQUEST.format(link), REQUEST.format(link)))
    if held.following is not None:
        steps.append(
            move(at + "/certificate", NEXT_CERTIFICATE.format(link), CERTIFICATE.format(link))
        )
    return steps


def steps_to(
    inputs: LinkInputs,
    held: Held,
    validated: Validation,
    peers: Sequence[Peer],
    applied: Sequence[Peer],
) -> List[Step]:
    link, root = inputs.link, validated.root
    files: Dict[str, str] = {}
    for peer in peers:
        files.update(validated.files.get(peer.name, {}))
    if root is not None and (validated.own is not None or validated.following is not None):
        files[TRUST.format(link)] = files[ROOT.format(link)] = root.pem
        for index, between in enumerate(validated.chain[:MAX_BETWEEN]):
            files[CHAIN.format(link, index)] = between.pem
        if validated.own is not None:
            files[CERTIFICATE.format(link)] = validated.own.pem
        if validated.following is not None:
            files[NEXT_CERTIFICATE.format(link)] = validated.following.pem
    # The root goes last: our certificate was checked under the one on the VDU.
    last = ROOT.format(link)
    steps = [
        write("{}/certs{}".format(link, path), path, text, 0o600)
        for path, text in sorted(files.items(), key=lambda each: (each[0] == last, each))
        if held.files.get(path) != text
    ]
    keys = {key for peer in peers for key in peer.public_keys()}
    gone = {pin_file(link, k) for p in applied for k in p.public_keys() if k not in keys}
    if held.following is not None and validated.following is None:
        gone.add(NEXT_CERTIFICATE.format(link))
    chain = {CHAIN.format(link, index) for index in range(MAX_BETWEEN)}
    gone |= {path for path in chain if held.files.get(path)}
    steps += [remove("{}/certs{}".format(link, path), path) for path in sorted(gone - set(files))]
    return steps


def offered(validated: Optional[Validation]) -> CertOffer:
    """Return the certificates to publish in a relation; a link may have none."""
    if validated is None:
        return CertOffer()
    own, following = validated.own, validated.following
    return CertOffer(
        certificate=own.text if own is not None else "",
        next_certificate=following.text if following is not None else "",
        chain=",".join(each.text for each in validated.chain),
    )


def untimely(held: Held, now: int) -> Tuple[str, ...]:
    """Return a sentence if a certificate of ours is not valid now by the VDU's clock."""
    own = held.own
    if own is None or own.begins <= now < own.ends:
        return ()
    text = "the clock of this VDU shows {}; its certificate is valid from {} to {} only"
    return (text.format(x509.date(now), x509.date(own.begins), x509.date(own.ends)),)


def shown(held: Held) -> Dict[str, str]:
    """Return our certificates for show-status; empty if there are none."""
    own = held.own
    if own is None:
        return {}
    return {
        "certificate-serial": own.serial,
        "certificate-renewal": x509.date(own.renewal),
        "certificate-end": x509.date(own.ends),
    }


def absent(link: str) -> List[Step]:
    """Return the steps that remove authorities from strongSwan."""
    at = link + "/unsafe"
    between = [
        remove("{}/between-{}".format(at, index), CHAIN.format(link, index))
        for index in range(MAX_BETWEEN)
    ]
    return [*between, remove(at + "/trust", TRUST.format(link))]
