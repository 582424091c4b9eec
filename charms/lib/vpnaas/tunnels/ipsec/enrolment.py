"""Writes certificates to the VDU and into offers."""

from typing import Dict, List, Optional, Sequence, Tuple

import attr

from vpnaas.base import x509
from vpnaas.base.digests import digest
from vpnaas.base.x509 import Certificate
from vpnaas.peers.offer import MAX_BETWEEN, CertOffer, KeyOffer, Remote
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec import authority as ca
from vpnaas.tunnels.ipsec.authority import Issue
from vpnaas.tunnels.ipsec.certificates import (
    AUTHORITY,
    OPERATOR,
    SUBJECT,
    Held,
    chain_file,
    next_file,
    own_file,
    pin_file,
    read_certificate,
    read_request,
    role,
    root_file,
    trust_file,
)
from vpnaas.tunnels.ipsec.names import next_request_file, request_file
from vpnaas.tunnels.ipsec.validation import Own, Validation
from vpnaas.tunnels.technology import LinkInputs
from vpnaas.vdu.steps import Results, Step, move, remove, run, write


def promote(link: str, held: Held) -> List[Step]:
    """Return the steps that make the request and certificate of the staged key the current ones."""
    at = link + "/promote"
    steps = []
    if held.next_request is not None:
        steps.append(move(at + "/request", next_request_file(link), request_file(link)))
    if held.following is not None:
        steps.append(move(at + "/certificate", next_file(link), own_file(link)))
    return steps


def steps_to(
    inputs: LinkInputs,
    held: Held,
    validated: Validation,
    peers: Sequence[Peer],
    applied: Sequence[Peer],
) -> List[Step]:
    """Return the steps that write certificates and revocations to the VDU."""
    link, kind, now = inputs.link, role(inputs.charm_state, inputs.link), inputs.vdu.now
    if not kind:
        return []
    files: Dict[str, str] = {}
    for peer in peers:
        files.update(validated.files.get(peer.name, {}))
    root = validated.roots.get("")
    certified = validated.own or validated.following
    if kind != SUBJECT and root is not None and (kind == AUTHORITY or certified):
        files[trust_file(link)] = root.pem
        if kind == OPERATOR:
            files[root_file(link, kind)] = root.pem
            for index, between in enumerate(validated.chain[:MAX_BETWEEN]):
                files[chain_file(link, index)] = between.pem
        for own, path in (
            (validated.own.get(""), own_file(link)),
            (validated.following, next_file(link)),
        ):
            if isinstance(own, Certificate):
                files[path] = own.pem
    # The root goes last: our certificate was checked under the one on the VDU.
    last = root_file(link, kind)
    steps = [
        write("{}/certs{}".format(link, path), path, text, 0o600)
        for path, text in sorted(files.items(), key=lambda each: (each[0] == last, each))
        if held.files.get(path) != text
    ]
    names = {peer.name for peer in peers}
    keys = {key for peer in peers for key in peer.public_keys()}
    gone = {pin_file(link, k) for p in applied for k in p.public_keys() if k not in keys}
    if kind == OPERATOR and held.following is not None and validated.following is None:
        gone.add(next_file(link))
    chain = {chain_file(link, index) for index in range(MAX_BETWEEN)}
    gone |= {path for path in chain if held.files.get(path)}
    for peer in applied:
        if kind == SUBJECT and peer.name not in names:
            gone |= {own_file(link, peer.name), trust_file(link, peer.name)}
    steps += [remove("{}/certs{}".format(link, path), path) for path in sorted(gone - set(files))]
    if kind == AUTHORITY and root is not None:
        ours = [own for own in (*validated.own.values(), validated.following) if own is not None]
        issues = [own for own in ours if isinstance(own, Issue)]
        issues += [issue for key, issue in sorted(validated.issues.items()) if key in keys]
        in_force = {each.serial for each in (*ours, *issues)}
        for peer in peers:
            for name in (peer.certificate, peer.next_certificate):
                in_force.add(name.partition("-")[0])
        stolen = set(inputs.charm_state.intent.revoked.get(link, ()))
        steps += ca.revoke(link, held.issued, held.listed, in_force, stolen, now)
        for issue in issues:
            steps += ca.sign(link, issue, now)
    return steps


PENDING = "issued:"
"""A placeholder in an offer. `conclude` replaces it by the new certificate."""


def offered(
    inputs: LinkInputs, held: Held, validated: Validation, remote: Remote, keys: Tuple[str, str]
) -> CertOffer:
    """Return the certificates to publish in a relation."""
    kind = role(inputs.charm_state, inputs.link)

    def text(own: Optional[Own]) -> str:
        if isinstance(own, Issue):
            return PENDING + own.serial
        return own.text if own is not None else ""

    slot = remote.peer_name if kind == SUBJECT else ""
    certs = CertOffer(
        certificate=text(validated.own.get(slot)), next_certificate=text(validated.following)
    )
    if kind == SUBJECT:
        requests = [held.request, held.next_request]
        texts = [r.text if r is not None and r.key == key else "" for r, key in zip(requests, keys)]
        return CertOffer(request=texts[0], next_request=texts[1], certificate=certs.certificate)
    if kind == OPERATOR:
        return attr.evolve(certs, chain=",".join(each.text for each in validated.chain))
    root = validated.roots.get("")
    return attr.evolve(certs, authority=root.text if root is not None else "")


def issued(
    held: Held, validated: Validation, peer: Optional[Peer], offered: Optional[KeyOffer]
) -> Tuple[str, str]:
    """Return the certificates that our authority issued for a peer's current and next key."""
    if peer is None or offered is None:
        return "", ""

    def text(key: str) -> str:
        if key not in peer.public_keys():
            return ""
        if key in validated.issues:
            return PENDING + validated.issues[key].serial
        pin = held.pins.get(digest(key))
        return pin.text if pin is not None else ""

    return text(offered.public_key), text(offered.next_public_key)


def concluded(link: str, certs: CertOffer, results: Results) -> CertOffer:
    """Return an offer with the requests and certificates that the steps made."""
    changed = {}
    staged = read_request(results.text(link + "/ask-next/text"))
    if staged is not None and certs.request and not certs.next_request:
        changed["next_request"] = staged.text
    for name, value in attr.asdict(certs).items():
        if value.startswith(PENDING):
            number = value[len(PENDING) :]
            certificate = read_certificate(results.text("{}/issued/{}".format(link, number)))
            changed[name] = certificate.text if certificate is not None else ""
    return attr.evolve(certs, **changed) if changed else certs


def untimely(held: Held, now: int) -> Tuple[str, ...]:
    """Return a sentence if a certificate of ours is not valid now by the VDU's clock."""
    return tuple(
        "the clock of this VDU shows {}; its certificate is valid from {} to {} only".format(
            x509.date(now), x509.date(own.begins), x509.date(own.ends)
        )
        for _, own in sorted(held.own.items())
        if not own.begins <= now < own.ends
    )[:1]


def shown(held: Held) -> Dict[str, str]:
    """Return our certificates for show-status; empty if there are none."""
    own = sorted(held.own.values(), key=lambda c: c.ends)
    if not own:
        return {}
    return {
        "certificate-serial": own[0].serial,
        "certificate-renewal": x509.date(own[0].renewal),
        "certificate-end": x509.date(own[0].ends),
    }


def absent(link: str) -> List[Step]:
    """Return the steps that remove authorities and the revocation list from strongSwan."""
    at = link + "/unsafe"
    folder, _, name = trust_file(link, "rel-[0-9]*").rpartition("/")
    between = [
        remove("{}/between-{}".format(at, index), chain_file(link, index))
        for index in range(MAX_BETWEEN)
    ]
    return [
        *between,
        remove(at + "/trust", trust_file(link)),
        # Those of peers, also of former ones.
        run(at + "/trusts", "find", folder, "-name", name, "-delete", any_exit=True),
        remove(at + "/list", ca.crl_file(link)),
        remove(at + "/listed", ca.listed_file(link)),
    ]
