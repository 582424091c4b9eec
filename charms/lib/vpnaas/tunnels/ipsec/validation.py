"""Checks the certificates on the VDU and in offers."""

from typing import Dict, List, Mapping, Optional, Tuple, Union

import attr

from vpnaas.base import x509
from vpnaas.base.digests import digest
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.x509 import Certificate, Request, handle
from vpnaas.params.enrolment import Enrolment
from vpnaas.params.ipsec import CMP, ENROLLED
from vpnaas.peers.admission import Proof
from vpnaas.peers.offer import KeyOffer, Remote
from vpnaas.tunnels.ipsec import authority as ca
from vpnaas.tunnels.ipsec import cmp
from vpnaas.tunnels.ipsec.authority import Issue
from vpnaas.tunnels.ipsec.certificates import (
    AUTHORITY,
    SUBJECT,
    Held,
    chain_of,
    check_id,
    former,
    has,
    is_good,
    is_installed,
    next_file,
    own_file,
    pin_file,
    read_certificate,
    requests_of,
    role,
    server_of,
    trust_file,
    verdict,
)
from vpnaas.tunnels.technology import LinkInputs

MOST_AT_ONCE = 64
"""Limit of the certificates that one plan issues: a plan must fit one message to the VDU."""

Own = Union[Certificate, Issue]


@attr.frozen
class Validation:
    """Result of the check of certificates on the VDU and in offers."""

    proofs: Mapping[str, Proof]  # State of the authentication with each peer.
    own: Mapping[str, Own]  # Our certificate by slot, present or to be issued.
    # Our certificate for the staged key, unless an offer brings it.
    following: Optional[Own] = None
    # Certificates to be issued if their peer is admitted, by key.
    issues: Mapping[str, Issue] = attr.Factory(dict)
    # Text of the files that a peer needs, by the peer's name.
    files: Mapping[str, Mapping[str, str]] = attr.Factory(dict)
    lacking: Tuple[str, ...] = ()  # Who has not certified the next key yet.
    roots: Mapping[str, Certificate] = attr.Factory(dict)  # Authorities, by slot.
    # Intermediate authorities between our certificates and the root.
    chain: Tuple[Certificate, ...] = ()
    # Sentence about a certificate that we lack although tunnels may be up.
    waiting: Tuple[str, ...] = ()

    def own_handle(self, slot: str) -> str:
        """Return the name of our certificate, or ""."""
        own, root = self.own.get(slot), self.roots.get(slot)
        return handle(own.serial, root) if own is not None and root is not None else ""


def validate(inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str) -> Validation:
    """Decide which certificates are valid; `keys` are our key in use and the staged one."""
    kind = role(inputs.charm_state, inputs.link)
    if kind == AUTHORITY:
        return _validate_as_authority(inputs, held, keys, identity)
    if kind == SUBJECT:
        return _validate_as_subject(inputs, held, keys, identity)
    return _validate_operated(inputs, held, keys, identity)


def _validate_as_authority(
    inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str
) -> Validation:
    link, root = inputs.link, held.root
    if root is None:
        return Validation({}, {})
    now, seconds = inputs.vdu.now, inputs.params.ipsec.cert_lifetime

    def mine(key: str, request: Optional[Request], path: str) -> Optional[Own]:
        present = held.certificate(key)
        if is_good(held, present, key, identity):
            return present
        if not key or request is None or request.key != key:
            return None
        number = ca.serial(key, now, held.issued, former(held, present, key, identity))
        return Issue(request.pem, identity, number, path, seconds)

    own = mine(keys[0], held.request, own_file(link))
    following = mine(keys[1], held.next_request, next_file(link))
    proofs: Dict[str, Proof] = {}
    issues: Dict[str, Issue] = {}
    for remote, offered in _offers(inputs):
        handles, refused = {}, {}
        for key, text in requests_of(offered):
            where = "{}: certificate request".format(remote.label)
            pin = held.pins.get(digest(key))
            if is_good(held, pin, key, offered.identity) and pin is not None:
                handles[key] = handle(pin.serial, root)
                continue
            if len(issues) >= MOST_AT_ONCE:
                continue  # It waits for the next event; the certificates issued now cause one.
            refusal = verdict(inputs, check_id(link, text), where)
            before = former(held, pin, key, offered.identity)
            # The limit is for new keys. A key whose certificate has ended may be a running peer's.
            if not before and sum(entry.ends > now for entry in held.issued) >= ca.MOST:
                refusal = str(
                    InputError(
                        where,
                        "the authority has {} certificates that have not ended".format(ca.MOST),
                        "at most {}".format(ca.MOST),
                    )
                )
            if offered.identity == identity:
                refusal = str(InputError(where, "it asks for our own identity", "one of its own"))
            if refusal:
                refused[key] = refusal
                continue
            pem = x509.armour(text, x509.REQUEST)
            path, number = pin_file(link, key), ca.serial(key, now, held.issued, before)
            issues[key] = Issue(pem, offered.identity, number, path, seconds)
            handles[key] = handle(number, root)
        proofs[remote.peer_name] = Proof(
            certificate=handles.get(offered.public_key, ""),
            next_certificate=handles.get(offered.next_public_key, ""),
            refused=refused.get(offered.public_key, ""),
            problems=tuple(t for k, t in sorted(refused.items()) if k != offered.public_key),
            waiting="waiting for the certificate request of {}".format(remote.label),
        )
    return Validation(
        proofs=proofs,
        own={"": own} if own is not None else {},
        following=following,
        issues=issues,
        roots={"": root},
    )


def _validate_as_subject(
    inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str
) -> Validation:
    link = inputs.link
    proofs: Dict[str, Proof] = {}
    own: Dict[str, Own] = {}
    files: Dict[str, Dict[str, str]] = {}
    roots: Dict[str, Certificate] = {}
    lacking = []
    for remote in inputs.remotes:
        # Certificates in use, for peers that keep theirs whatever they offer now.
        kept, before = held.own.get(remote.peer_name), held.trusted.get(remote.peer_name)
        trusted = read_certificate(before)
        if kept is not None and kept.key == keys[0] and trusted is not None:
            own[remote.peer_name], roots[remote.peer_name] = kept, trusted
    for remote, offered in _offers(inputs):
        slot = remote.peer_name
        kept = held.own.get(slot)
        usable = slot in own
        root = read_certificate(offered.certs.authority)
        proof = Proof(waiting="waiting for a certificate from {}".format(remote.label), keep=usable)
        if root is None:
            proofs[slot] = proof
            continue
        good: Dict[str, Certificate] = {}
        refused = ""
        for text in (offered.certs.issued, offered.certs.next_issued):
            certificate = read_certificate(text)
            if certificate is None or certificate.key not in keys:
                continue
            where = "{}: issued certificate".format(remote.label)
            refusal = _refusal(inputs, held, where, certificate, certificate.key, identity, root)
            refused = refused or refusal
            if not refusal:
                good[certificate.key] = certificate
        # Without a tunnel, there is nothing that a switch could break.
        if usable and keys[1] and keys[1] not in good:
            lacking.append("from {}".format(remote.label))
        mine = good.get(keys[0])
        if mine is None and not refused and usable and kept is not None:
            mine = kept if is_installed(held, kept.text, root) else None
        if mine is None:
            proofs[slot] = attr.evolve(proof, refused=refused)
            continue
        proof, pins = _theirs(inputs, held, remote, offered, root)
        proofs[slot] = attr.evolve(proof, keep=usable)
        if proof.certificate:
            own[slot], roots[slot] = mine, root
            files[slot] = dict(pins)
            files[slot][own_file(link, slot)] = mine.pem
            files[slot][trust_file(link, slot)] = root.pem
    return Validation(proofs, own, files=files, lacking=tuple(lacking), roots=roots)


def _validate_operated(
    inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str
) -> Validation:
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
    own: Dict[str, Own] = {"": mine} if mine is not None else {}
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
    roots = {"": root} if root is not None else {}
    between: Tuple[Certificate, ...] = ()
    for one in (mine, following):
        if root is not None and one is not None:
            between += x509.path_to(root, one, held.chain) or ()
    chain = tuple(dict.fromkeys(between))
    return Validation(proofs, own, following, {}, files, lacking, roots, chain, waiting)


def _enrolled(
    inputs: LinkInputs, held: Held, keys: Tuple[str, str], identity: str, server: Enrolment
) -> Tuple[Optional[Certificate], str]:
    """Return a certificate from an enrolment that is not in use yet, or None and why."""
    results = inputs.results if inputs.prepared is None else inputs.prepared
    reason = cmp.refusal(inputs.link, results)
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
        certificate = read_certificate(text)
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


def renewal(validated: Validation) -> Optional[int]:
    """Return the time of the first renewal (seconds since the epoch), None without certificates."""
    times = [own.renewal for own in validated.own.values() if isinstance(own, Certificate)]
    return min(times) if times else None
