"""Checks the certificates on the VDU and in offers."""

from typing import Dict, List, Mapping, Optional, Tuple

import attr

from vpnaas.base import x509
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.fields import digest
from vpnaas.base.x509 import Certificate, handle
from vpnaas.params.ipsec import CMP, ENROLLED
from vpnaas.params.servers import Enrolment
from vpnaas.peers.admission import Proof
from vpnaas.peers.inputs import LinkInputs
from vpnaas.peers.offer import KeyOffer, Remote
from vpnaas.tunnels.ipsec import servers
from vpnaas.tunnels.ipsec.certificates import (
    Held,
    chain_of,
    check_id,
    has,
    is_installed,
    pin_file,
    server_of,
    verdict,
)


@attr.frozen
class Validation:
    """Result of the check of certificates on the VDU and in offers."""

    proofs: Mapping[str, Proof]  # State of the authentication with each peer.
    own: Optional[Certificate]  # Our certificate.
    following: Optional[Certificate] = None  # Our certificate for the staged key.
    # Text of the files that a peer needs, by the peer's name.
    files: Mapping[str, Mapping[str, str]] = attr.Factory(dict)
    lacking: Tuple[str, ...] = ()  # Who has not certified the next key yet.
    root: Optional[Certificate] = None  # The authority.
    # Intermediate authorities between our certificates and the root.
    chain: Tuple[Certificate, ...] = ()
    # Sentence about a certificate that we lack although tunnels may be up.
    waiting: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of our certificate, or ""."""
        if self.own is None or self.root is None:
            return ""
        return handle(self.own.serial, self.root)

    @property
    def renewal(self) -> Optional[int]:
        """Return the time of renewal (seconds since the epoch), None without a certificate."""
        return self.own.renewal if self.own is not None else None


def validate(inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str) -> Validation:
    """Decide which certificates are valid; `keys` are our key in use and the staged one."""
    link = inputs.link
    present, following, root = held.certificate(keys[0]), held.certificate(keys[1]), held.root
    mine = present
    waiting: Tuple[str, ...] = ()
    given = inputs.charm_state.certificates.get(link)
    server, advice = server_of(inputs.charm_state, link), "see show-csr and set-certificate"
    if server is not None:
        enrolled, advice = _enrolled(inputs, held, keys, identity, server)
        if enrolled is not None and enrolled.key == keys[0]:
            mine = enrolled
            if root != server.root:
                # A former root issued the one for the staged key.
                held, following, root = attr.evolve(held, following=None), None, server.root
        elif enrolled is not None and root == server.root:
            following = enrolled
        if present is not None and root != server.root:
            waiting = ("waiting for a certificate under the new root, " + advice,)
    elif inputs.params.ipsec.credentials in ENROLLED:
        advice = "see set-enrolment"
    if given is not None:
        certificate, root = given.certificate, given.root
        held = attr.evolve(held, chain=held.chain + given.chain)
        where = "set-certificate: certificate"
        if certificate.key not in [key for key in keys if key]:
            raise InputError(
                where, "it is for another key", "one for a request that show-csr returns"
            )
        x509.matching(where, certificate, certificate.key, identity)
        if x509.path_to(root, certificate, held.chain) is None:
            raise InputError(
                where,
                "another authority issued it",
                "one of the given ca-certificate, with the intermediate authorities behind it",
            )
        x509.in_force(where, certificate, inputs.vdu.now)
        refusal = verdict(inputs, check_id(link, certificate.text, root), where)
        if refusal:
            raise VpnaasError(refusal)
        if certificate.key == keys[0]:
            mine = certificate
        else:
            following = certificate
    if mine is None or root is None or x509.path_to(root, mine, held.chain) is None:
        mine = None
    proofs: Dict[str, Proof] = {}
    files: Dict[str, Dict[str, str]] = {}
    for remote, offered in _offers(inputs):
        if mine is None or root is None:
            text = "waiting for a certificate, " + advice
            proofs[remote.peer_name] = Proof(waiting=text, keep=False)
            continue
        proof, pins = _theirs(inputs, held, remote, offered, root)
        proofs[remote.peer_name] = proof
        files[remote.peer_name] = dict(pins)
    for manual in inputs.charm_state.intent.manual(link):
        text = "{}: waiting for our certificate, {}".format(manual.name, advice)
        proofs[manual.peer_name] = Proof(waiting=text, keep=False)
        if mine is not None and root is not None:
            # Any certificate of the authority for this identity is good; it comes by IKE.
            proofs[manual.peer_name] = Proof(certificate="any-" + digest(root.text)[:8])
    protocol = "CMPv2" if inputs.params.ipsec.credentials == CMP else "EST"
    by = "set-certificate" if server is None else "{}: {}".format(protocol, advice).rstrip(": ")
    # One that is not on the VDU yet would be lost if the promotion failed.
    lacking = ("by " + by,) if keys[1] and held.certificate(keys[1]) is None else ()
    between: Tuple[Certificate, ...] = ()
    for one in (mine, following):
        if root is not None and one is not None:
            between += x509.path_to(root, one, held.chain) or ()
    chain = tuple(dict.fromkeys(between))
    return Validation(proofs, mine, following, files, lacking, root, chain, waiting)


def _enrolled(
    inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str, server: Enrolment
) -> Tuple[Optional[Certificate], str]:
    """Return a certificate from an enrolment that is not in use yet, or None and why."""
    results = inputs.results if inputs.prepared is None else inputs.prepared
    reason = servers.refusal(inputs.link, results)
    who = "the {} server".format(inputs.params.ipsec.credentials.upper())
    where = "the certificate of " + who
    if reason or held.enrolled is None:
        return None, "{} gave none: {}".format(who, reason or "not asked yet")
    key = keys[0] if held.enrolled.key == keys[0] else keys[1]
    if has(held, server, key, identity):
        return None, ""
    try:
        x509.matching(where, held.enrolled, key, identity)
        if x509.path_to(server.root, held.enrolled, held.chain) is None:
            raise InputError(where, "another authority issued it", "the root of set-enrolment")
        x509.in_force(where, held.enrolled, inputs.vdu.now)
    except InputError as error:
        return None, str(error)
    return held.enrolled, ""


def _theirs(
    inputs: LinkInputs, held: Held, remote: Remote, offered: KeyOffer, root: Certificate
) -> Tuple[Proof, Dict[str, str]]:
    """Check the certificates in a peer's offer; return their state, and the files to write."""
    proof = Proof(waiting="waiting for the certificate of {}".format(remote.label))
    files = {}
    others = held.chain + chain_of(offered.certs)
    for text, key, current in (
        (offered.certs.certificate, offered.public_key, True),
        (offered.certs.next_certificate, offered.next_public_key, False),
    ):
        certificate = x509.stored(text)
        if certificate is None or not key:
            continue
        where = "{}: certificate".format(remote.label)
        refusal = _refusal(inputs, held, where, certificate, key, offered.identity, root, others)
        if refusal and current:
            return attr.evolve(proof, refused=refusal), {}
        if refusal:
            proof = attr.evolve(proof, problems=(refusal,))
            continue
        files[pin_file(inputs.link, key)] = certificate.pem
        name = handle(certificate.serial, root)
        proof = (
            attr.evolve(proof, certificate=name)
            if current
            else attr.evolve(proof, next_certificate=name)
        )
    return proof, files


def _refusal(
    inputs: LinkInputs,
    held: Held,
    where: str,
    certificate: Certificate,
    key: str,
    identity: str,
    root: Certificate,
    others: Tuple[Certificate, ...] = (),
) -> str:
    """Return why a certificate does not prove a key and identity under a root, "" if it does."""
    try:
        x509.matching(where, certificate, key, identity)
        if x509.path_to(root, certificate, others) is None:
            raise InputError(where, "another authority issued it", "one of the link's authority")
    except InputError as error:
        return str(error)
    if is_installed(held, certificate.text, root):
        return ""
    return verdict(inputs, check_id(inputs.link, certificate.text, root), where)


def _offers(inputs: LinkInputs) -> List[Tuple[Remote, KeyOffer]]:
    offered = inputs.charm_state.keys(inputs.link)
    return [(r, offered[r.peer_name]) for r in inputs.remotes if r.peer_name in offered]
