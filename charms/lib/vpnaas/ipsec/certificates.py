"""Certificates of a link on its VDU: what is there, what is asked for, what is good.

Three kinds of end: the *provider* of credentials `cert` has the link's authority; the *requirer*
has its certificate from the authority of each provider it is related to; with `cert-external` an
operator brings the certificate and that of the authority.

A certificate belongs to one key. Renewal is therefore a rotation: the next key is offered with a
request for its certificate, and takes over when both ends have what they need.
"""

import re
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

import attr

from .. import facts, x509
from ..errors import InputError, VpnaasError
from ..ipsec_params import CERTIFIED, EXTERNAL
from ..links import PROVIDER, directory
from ..offer import CertOffer, Offer
from ..steps import Results, Step, move, read, remove, run, write
from ..technology import Situation, View
from ..tunnel import Peer, digest
from ..vet import Proof, Remote
from ..x509 import Certificate, Request, handle
from . import authority as ca
from .authority import Entry, Issue
from .names import key_file, next_key_file

AUTHORITY, SUBJECT, OPERATED = "authority", "subject", "operated"
AGAIN = "again/"


def role(situation: Situation, link: str) -> str:
    """Return what this end is to certificates of a link, "" where it has none."""
    params = situation.intent.links[link]
    if params.ipsec.credentials not in CERTIFIED:
        return ""
    if params.ipsec.credentials == EXTERNAL:
        return OPERATED
    return AUTHORITY if situation.roles[link] == PROVIDER else SUBJECT


def request_file(link: str) -> str:
    """Return the request for the certificate of the key in use."""
    return directory(link) + "/request.pem"


def next_request_file(link: str) -> str:
    """Return the request for the certificate of the key a rotation has staged."""
    return directory(link) + "/next-request.pem"


def own_file(link: str, slot: str = "") -> str:
    """Return our certificate; `slot` is the peer whose authority issued it, "" for all peers."""
    return "/etc/swanctl/osm-vpnaas-{}{}.crt".format(link, slot and "-" + slot)


def next_file(link: str) -> str:
    """Return our certificate for the key a rotation has staged, where we have one for all."""
    return directory(link) + "/next.crt"


def pin_file(link: str, key: str) -> str:
    """Return the certificate of a peer's key."""
    return "/etc/swanctl/osm-vpnaas-{}-key-{}.crt".format(link, digest(key))


def trust_file(link: str, slot: str = "") -> str:
    """Return the certificate of the authority that peers' certificates must be of."""
    return "/etc/swanctl/x509ca/osm-vpnaas-{}{}.pem".format(link, slot and "-" + slot)


def root_file(link: str, kind: str) -> str:
    """Return where the authority's certificate is kept while the link has other credentials."""
    return ca.certificate_file(link) if kind == AUTHORITY else directory(link) + "/authority.pem"


@attr.frozen
class Held:
    """What a VDU has of a link's certificates.

    Attributes:
        root: Of the authority that is the link's own or the operator's, None for a requirer.
        request, next_request: For the key in use and the staged one.
        own: Ours, by slot.
        following: Ours for the staged key, where it does not come in an offer.
        trusted: Text of the authorities' files, by slot.
        pins: Those of peers, by digest of their key.
        issued: The authority's index.
        listed: What its revocation list was made from, None where there is none.
    """

    root: Optional[Certificate] = None
    request: Optional[Request] = None
    next_request: Optional[Request] = None
    own: Mapping[str, Certificate] = attr.Factory(dict)
    following: Optional[Certificate] = None
    trusted: Mapping[str, str] = attr.Factory(dict)
    pins: Mapping[str, Certificate] = attr.Factory(dict)
    issued: Tuple[Entry, ...] = ()
    listed: Optional[str] = None

    def promoted(self) -> "Held":
        """Return what is there after the staged key took the current one's place."""
        own = {"": self.following} if self.following else {}
        return attr.evolve(
            self, request=self.next_request, next_request=None, own=own, following=None
        )


def _slots(situation: Situation, link: str) -> List[str]:
    if role(situation, link) != SUBJECT:
        return [""]
    return [remote.peer_name for remote in situation.remotes.get(link, ())]


def _keys(situation: Situation, link: str) -> List[str]:
    """Return the keys that peers offer, each once."""
    found = []
    for _, offer in sorted(situation.offers(link).items()):
        keys = offer.keys
        found += [keys.public_key, keys.next_public_key] if keys else []
    return sorted({key for key in found if key})


def observe(situation: Situation, link: str, prefix: str = "") -> List[Step]:
    """Return the steps that read what is there; none for a link without certificates."""
    kind = role(situation, link)
    if not kind:
        return []
    at = prefix + link + "/cert"
    steps = [read(at + "/request", request_file(link))]
    steps.append(read(at + "/next-request", next_request_file(link)))
    for slot in _slots(situation, link):
        steps.append(read("{}/own/{}".format(at, slot), own_file(link, slot)))
        steps.append(read("{}/trust/{}".format(at, slot), trust_file(link, slot)))
    for key in _keys(situation, link):
        steps.append(read("{}/pin/{}".format(at, digest(key)), pin_file(link, key)))
    if kind != SUBJECT:
        steps.append(read(at + "/root", root_file(link, kind)))
        steps.append(read(at + "/next", next_file(link)))
    return steps + (ca.observe(link, prefix) if kind == AUTHORITY else [])


def looked_again(link: str, results: Results) -> bool:
    """Tell whether there was a second look after `prepare`."""
    return AGAIN + link + "/cert/request" in results


def _certificate(text: Optional[str]) -> Optional[Certificate]:
    try:
        return x509.certificate("VDU", text) if text else None
    except InputError:
        return None  # Not one of ours; it is written anew.


def _request(text: Optional[str]) -> Optional[Request]:
    try:
        return x509.request("VDU", text) if text else None
    except InputError:
        return None


def parse(situation: Situation, link: str, results: Results, prefix: str = "") -> Held:
    """Read what `observe` brought back."""
    if not role(situation, link):
        return Held()
    at = prefix + link + "/cert"
    own, trusted, pins = {}, {}, {}
    for slot in _slots(situation, link):
        mine = _certificate(results.text("{}/own/{}".format(at, slot)))
        if mine is not None:
            own[slot] = mine
        trusted[slot] = results.text("{}/trust/{}".format(at, slot)) or ""
    for key in _keys(situation, link):
        pin = _certificate(results.text("{}/pin/{}".format(at, digest(key))))
        if pin is not None:
            pins[digest(key)] = pin
    return Held(
        root=_certificate(results.text(at + "/root")),
        request=_request(results.text(at + "/request")),
        next_request=_request(results.text(at + "/next-request")),
        own=own,
        following=_certificate(results.text(at + "/next")),
        trusted=trusted,
        pins=pins,
        issued=ca.entries(results.text(prefix + link + "/ca/index")),
        listed=results.text(prefix + link + "/ca/listed"),
    )


def ask(link: str, identity: str, staged: bool = False) -> List[Step]:
    """Return the steps that make the request for a key's certificate."""
    key, path = key_file(link), request_file(link)
    at = link + "/ask"
    if staged:
        key, path, at = next_key_file(link), next_request_file(link), at + "-next"
    # An operator's authority may take the name over from the request; ours never does.
    name = ("-subj", "/CN=" + identity, "-addext", "subjectAltName=DNS:" + identity)
    command = ("openssl", "req", "-new", "-config", "/dev/null", "-key", key) + name
    return [
        run(at + "/make", *command, stdout_file=path),
        read(at + "/text", path),
    ]


def prepare(
    situation: Situation, link: str, keys: Tuple[str, str], identity: str, results: Results
) -> List[Step]:
    """Return the steps that make what is missing, and let openssl check what is new.

    `keys` are ours, the one in use and the staged one.
    """
    kind = role(situation, link)
    if not kind:
        return []
    held = parse(situation, link, results)
    steps: List[Step] = []
    for key, there, staged in ((keys[0], held.request, False), (keys[1], held.next_request, True)):
        if key and (there is None or (there.key, there.name) != (key, identity)):
            steps += ask(link, identity, staged)
    if kind == AUTHORITY and held.root is None:
        steps += ca.make(link, identity, facts.parse(results).now)
    checks: Dict[str, List[Step]] = {}
    for _, offer in sorted(situation.offers(link).items()):
        certs = offer.keys.certs if offer.keys else CertOffer()
        if kind == AUTHORITY:
            for key, text in _requests(offer):
                pin = held.pins.get(digest(key))
                if not _good(held, pin, key, _identity(offer)):
                    checks[_check_id(link, text)] = _check_request(link, text)
            continue
        root = _root(situation, link, held, certs)
        for text in _offered(kind, certs):
            if root is not None and not _installed(held, text, root):
                checks[_check_id(link, text, root)] = _check(link, text, root)
    given = situation.certificates.get(link)
    if kind == OPERATED and given is not None:
        text, root = given[0].text, given[1]
        checks[_check_id(link, text, root)] = _check(link, text, root)
    return steps + [step for _, each in sorted(checks.items()) for step in each]


def _identity(offer: Offer) -> str:
    return offer.keys.identity if offer.keys else ""


def _requests(offer: Offer) -> List[Tuple[str, str]]:
    """Return (key, request) of an offer, those that are there."""
    keys = offer.keys
    if keys is None:
        return []
    pairs = [
        (keys.public_key, keys.certs.request),
        (keys.next_public_key, keys.certs.next_request),
    ]
    return [(key, text) for key, text in pairs if key and text]


def _offered(kind: str, certs: CertOffer) -> List[str]:
    found = [certs.certificate, certs.next_certificate]
    if kind == SUBJECT:
        found += [certs.issued, certs.next_issued]
    return [text for text in found if text]


def _root(situation: Situation, link: str, held: Held, certs: CertOffer) -> Optional[Certificate]:
    """Return the authority that a peer's certificate must be of."""
    if role(situation, link) == SUBJECT:
        return _certificate(certs.authority)
    given = situation.certificates.get(link)
    return given[1] if given is not None else held.root


def _installed(held: Held, text: str, root: Certificate) -> bool:
    """Tell whether a certificate was checked before, since it is in use under this authority."""
    there = [c.text for c in held.own.values()] + [c.text for c in held.pins.values()]
    if held.following is not None:
        there.append(held.following.text)
    return text in there and root.pem in held.trusted.values()


def _check_id(link: str, text: str, root: Optional[Certificate] = None) -> str:
    return "{}/check/{}".format(link, digest(text + (root.text if root else "")))


def _check_request(link: str, text: str) -> List[Step]:
    """Return the steps that check whether the requester has the key (proof of possession)."""
    at, path = _check_id(link, text), directory(link) + "/check.pem"
    verify = ("openssl", "req", "-in", path, "-noout", "-verify")
    return [
        write(at + "/text", path, x509.armour(text, x509.REQUEST), 0o600),
        run(at, *verify, any_exit=True),
    ]


def _check(link: str, text: str, root: Certificate) -> List[Step]:
    """Return the steps that check signature and dates under one authority and no other."""
    at = _check_id(link, text, root)
    path, trust = directory(link) + "/check.pem", directory(link) + "/check-ca.pem"
    alone = ("env", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/dev/null")
    verify = alone + ("openssl", "verify", "-CAfile", trust, path)
    return [
        write(at + "/trust", trust, root.pem, 0o600),
        write(at + "/text", path, x509.armour(text, x509.CERTIFICATE), 0o600),
        run(at, *verify, any_exit=True),
    ]


def _verdict(view: View, id: str, where: str) -> str:
    """Return why openssl refuses what it was asked about, "" where it does not."""
    results = view.results if view.prepared is None else view.prepared
    text = results.error(id) + "\n" + results.output(id)
    if results.exit_code(id) == 0 and ("verify OK" in text or ": OK" in text):
        return ""
    found = re.search(r"lookup: ?([ -~]{1,80})", text)
    reason = found.group(1) if found else "its signature does not verify"
    allowed = "one that the authority of the link signed and that is good now"
    return str(InputError(where, "openssl says: " + reason, allowed))


def _good(held: Held, found: Optional[Certificate], key: str, identity: str) -> bool:
    return ca.is_good(found, held.root, held.issued, key, identity)


Own = Union[Certificate, Issue]


@attr.frozen
class Judgement:
    """What follows from what is there and what was offered.

    Attributes:
        proofs: Per peer, how it and we prove ourselves to each other.
        own: Our certificate by slot, there or to be issued.
        following: Ours for the staged key, where it does not come in an offer.
        issues: Certificates to be issued if their peer is admitted, by key.
        files: Text of files that a peer needs, by its name.
        lacking: Labels of peers whose authority has not issued for the staged key.
        roots: Authorities, by slot.
    """

    proofs: Mapping[str, Proof]
    own: Mapping[str, Own]
    following: Optional[Own] = None
    issues: Mapping[str, Issue] = attr.Factory(dict)
    files: Mapping[str, Mapping[str, str]] = attr.Factory(dict)
    lacking: Tuple[str, ...] = ()
    roots: Mapping[str, Certificate] = attr.Factory(dict)

    def own_handle(self, slot: str) -> str:
        """Return the name of our certificate, "" where there is none."""
        own, root = self.own.get(slot), self.roots.get(slot)
        return handle(own.serial, root) if own is not None and root is not None else ""


def judge(view: View, held: Held, keys: Tuple[str, str], identity: str) -> Judgement:
    """Decide what is good; `keys` are ours, the one in use and the staged one.

    Raises:
        InputError: What an operator gives is not.
    """
    kind = role(view.situation, view.link)
    if kind == AUTHORITY:
        return _judge_authority(view, held, keys, identity)
    if kind == SUBJECT:
        return _judge_subject(view, held, keys, identity)
    return _judge_operated(view, held, keys, identity)


def _judge_authority(view: View, held: Held, keys: Tuple[str, str], identity: str) -> Judgement:
    link, root = view.link, held.root
    if root is None:
        return Judgement({}, {})
    now, seconds = view.vdu.now, view.params.ipsec.cert_lifetime

    def mine(
        key: str, there: Optional[Certificate], asked: Optional[Request], path: str
    ) -> Optional[Own]:
        if _good(held, there, key, identity):
            return there
        if not key or asked is None or asked.key != key:
            return None
        return Issue(asked.pem, identity, ca.serial(key, now), path, seconds)

    own = mine(keys[0], held.own.get(""), held.request, own_file(link))
    following = mine(keys[1], held.following, held.next_request, next_file(link))
    proofs: Dict[str, Proof] = {}
    issues: Dict[str, Issue] = {}
    for remote, offer in _offers(view):
        told = offer.keys
        if told is None:
            continue
        handles, refused = {}, {}
        for key, text in _requests(offer):
            where = "{}: certificate request".format(remote.label)
            pin = held.pins.get(digest(key))
            if _good(held, pin, key, told.identity) and pin is not None:
                handles[key] = handle(pin.serial, root)
                continue
            refusal = _verdict(view, _check_id(link, text), where)
            if told.identity == identity:
                refusal = str(InputError(where, "it asks for our own identity", "one of its own"))
            if refusal:
                refused[key] = refusal
                continue
            pem = x509.armour(text, x509.REQUEST)
            path, number = pin_file(link, key), ca.serial(key, now)
            issues[key] = Issue(pem, told.identity, number, path, seconds)
            handles[key] = handle(number, root)
        proofs[remote.peer_name] = Proof(
            certificate=handles.get(told.public_key, ""),
            next_certificate=handles.get(told.next_public_key, ""),
            refused=refused.get(told.public_key, ""),
            problems=tuple(t for k, t in sorted(refused.items()) if k != told.public_key),
            waiting="waiting for the certificate request of {}".format(remote.label),
        )
    return Judgement(
        proofs=proofs,
        own={"": own} if own is not None else {},
        following=following,
        issues=issues,
        roots={"": root},
    )


def _judge_subject(view: View, held: Held, keys: Tuple[str, str], identity: str) -> Judgement:
    link = view.link
    proofs: Dict[str, Proof] = {}
    own: Dict[str, Own] = {}
    files: Dict[str, Dict[str, str]] = {}
    roots: Dict[str, Certificate] = {}
    lacking = []
    for remote in view.remotes:
        # What is in use, for peers that keep it whatever they offer now.
        kept, before = held.own.get(remote.peer_name), held.trusted.get(remote.peer_name)
        trusted = _certificate(before)
        if kept is not None and kept.key == keys[0] and trusted is not None:
            own[remote.peer_name], roots[remote.peer_name] = kept, trusted
    for remote, offer in _offers(view):
        told, slot = offer.keys, remote.peer_name
        if told is None:
            continue
        kept = held.own.get(slot)
        usable = slot in own
        root = _certificate(told.certs.authority)
        proof = Proof(waiting="waiting for a certificate from {}".format(remote.label), keep=usable)
        if root is None:
            proofs[slot] = proof
            continue
        good: Dict[str, Certificate] = {}
        refused = ""
        for text in (told.certs.issued, told.certs.next_issued):
            found = _certificate(text)
            if found is None or found.key not in keys:
                continue
            where = "{}: issued certificate".format(remote.label)
            refusal = _refusal(view, held, where, found, found.key, identity, root)
            refused = refused or refusal
            if not refusal:
                good[found.key] = found
        if keys[1] and keys[1] not in good:
            lacking.append(remote.label)
        mine = good.get(keys[0])
        if mine is None and not refused and usable and kept is not None:
            mine = kept if _installed(held, kept.text, root) else None
        if mine is None:
            proofs[slot] = attr.evolve(proof, refused=refused)
            continue
        proof, pins = _theirs(view, held, remote, offer, root)
        proofs[slot] = attr.evolve(proof, keep=usable)
        if proof.certificate:
            own[slot], roots[slot] = mine, root
            files[slot] = dict(pins)
            files[slot][own_file(link, slot)] = mine.pem
            files[slot][trust_file(link, slot)] = root.pem
    return Judgement(proofs, own, files=files, lacking=tuple(lacking), roots=roots)


def _judge_operated(view: View, held: Held, keys: Tuple[str, str], identity: str) -> Judgement:
    link = view.link
    own: Dict[str, Own] = {"": held.own[""]} if "" in held.own else {}
    following, root = held.following, held.root
    given = view.situation.certificates.get(link)
    if given is not None:
        found, root = given
        where = "set-certificate: certificate"
        if found.key not in [key for key in keys if key]:
            raise InputError(
                where, "it is for another key", "one for a request that show-csr returns"
            )
        x509.matching(where, found, found.key, identity)
        if not found.issued_by(root):
            raise InputError(
                where, "another authority issued it", "one of the given ca-certificate"
            )
        x509.in_force(where, found, view.vdu.now)
        refusal = _verdict(view, _check_id(link, found.text, root), where)
        if refusal:
            raise VpnaasError(refusal)
        if found.key == keys[0]:
            own[""] = found
        else:
            following = found
    mine = own.get("")
    if mine is not None and isinstance(mine, Certificate):
        if mine.key != keys[0] or root is None or not mine.issued_by(root):
            own, mine = {}, None
    if following is not None and (following.key != keys[1] or not keys[1]):
        following = None
    proofs: Dict[str, Proof] = {}
    files: Dict[str, Dict[str, str]] = {}
    for remote, offer in _offers(view):
        if mine is None or root is None:
            proofs[remote.peer_name] = Proof(
                waiting="waiting for a certificate, see show-csr and set-certificate",
                keep=False,
            )
            continue
        proof, pins = _theirs(view, held, remote, offer, root)
        proofs[remote.peer_name] = proof
        files[remote.peer_name] = dict(pins)
    lacking = ("set-certificate",) if keys[1] and following is None else ()
    roots = {"": root} if root is not None else {}
    return Judgement(proofs, own, following, {}, files, lacking, roots)


def _theirs(
    view: View, held: Held, remote: Remote, offer: Offer, root: Certificate
) -> Tuple[Proof, Dict[str, str]]:
    """Judge the certificates of a peer that come in its offer; return the files they go to."""
    told = offer.keys
    assert told is not None  # noqa: S101 - `_offers` sees to it
    proof = Proof(waiting="waiting for the certificate of {}".format(remote.label))
    files = {}
    for text, key, current in (
        (told.certs.certificate, told.public_key, True),
        (told.certs.next_certificate, told.next_public_key, False),
    ):
        found = _certificate(text)
        if found is None or not key:
            continue
        where = "{}: certificate".format(remote.label)
        refusal = _refusal(view, held, where, found, key, told.identity, root)
        if refusal and current:
            return attr.evolve(proof, refused=refusal), {}
        if refusal:
            proof = attr.evolve(proof, problems=(refusal,))
            continue
        files[pin_file(view.link, key)] = found.pem
        name = handle(found.serial, root)
        proof = (
            attr.evolve(proof, certificate=name)
            if current
            else attr.evolve(proof, next_certificate=name)
        )
    return proof, files


def _refusal(
    view: View,
    held: Held,
    where: str,
    found: Certificate,
    key: str,
    identity: str,
    root: Certificate,
) -> str:
    """Return why a certificate is not one of an authority for a key and identity, "" if it is."""
    try:
        x509.matching(where, found, key, identity)
        if not found.issued_by(root):
            raise InputError(where, "another authority issued it", "one of the link's authority")
    except InputError as error:
        return str(error)
    if _installed(held, found.text, root):
        return ""
    return _verdict(view, _check_id(view.link, found.text, root), where)


def _offers(view: View) -> List[Tuple[Remote, Offer]]:
    offers = view.situation.offers(view.link)
    return [
        (remote, offers[remote.peer_name])
        for remote in view.remotes
        if remote.peer_name in offers and offers[remote.peer_name].keys is not None
    ]


def promote(link: str, held: Held) -> List[Step]:
    """Return the steps by which requests and certificates follow their key."""
    at = link + "/promote"
    steps = []
    if held.next_request is not None:
        steps.append(move(at + "/request", next_request_file(link), request_file(link)))
    if held.following is not None:
        steps.append(move(at + "/certificate", next_file(link), own_file(link)))
    return steps


def renewal(judgement: Judgement) -> Optional[int]:
    """Return when the first of our certificates is to be renewed, None where there is none."""
    times = [own.renewal for own in judgement.own.values() if isinstance(own, Certificate)]
    return min(times) if times else None


def steps_to(
    view: View, held: Held, judgement: Judgement, peers: Sequence[Peer], applied: Sequence[Peer]
) -> List[Step]:
    """Return the steps that bring certificates, and what is said of revocations, onto the VDU."""
    link, kind, now = view.link, role(view.situation, view.link), view.vdu.now
    if not kind:
        return []
    wanted: Dict[str, str] = {}
    for peer in peers:
        wanted.update(judgement.files.get(peer.name, {}))
    root = judgement.roots.get("")
    if kind != SUBJECT and root is not None:
        wanted[trust_file(link)] = root.pem
        if kind == OPERATED:
            wanted[root_file(link, kind)] = root.pem
            for own, path in (
                (judgement.own.get(""), own_file(link)),
                (judgement.following, next_file(link)),
            ):
                if isinstance(own, Certificate):
                    wanted[path] = own.pem
    there = _texts(link, kind, held)
    steps = [
        write("{}/certs{}".format(link, path), path, text, 0o600)
        for path, text in sorted(wanted.items())
        if there.get(path) != text
    ]
    names = {peer.name for peer in peers}
    keys = {key for peer in peers for key in peer.public_keys()}
    gone = {pin_file(link, k) for p in applied for k in p.public_keys() if k not in keys}
    for peer in applied:
        if kind == SUBJECT and peer.name not in names:
            gone |= {own_file(link, peer.name), trust_file(link, peer.name)}
    steps += [remove("{}/certs{}".format(link, path), path) for path in sorted(gone - set(wanted))]
    if kind == AUTHORITY and root is not None:
        issues = [
            own for own in (*judgement.own.values(), judgement.following) if isinstance(own, Issue)
        ]
        issues += [issue for key, issue in sorted(judgement.issues.items()) if key in keys]
        in_force = {issue.serial for issue in issues}
        own_ones = (*judgement.own.values(), judgement.following)
        in_force |= {own.serial for own in own_ones if own is not None}
        for peer in peers:
            for name in (peer.certificate, peer.next_certificate):
                in_force.add(name.partition("-")[0])
        stolen = set(view.situation.intent.revoked.get(link, ()))
        steps += ca.revoke(link, held.issued, held.listed, in_force, stolen, now)
        for issue in issues:
            steps += ca.sign(link, issue, now)
    return steps


def _texts(link: str, kind: str, held: Held) -> Dict[str, str]:
    """Return the texts of files that were read, as they would be written."""
    found = {own_file(link, slot): own.pem for slot, own in held.own.items()}
    found.update({trust_file(link, slot): text for slot, text in held.trusted.items()})
    for pin in held.pins.values():
        found[pin_file(link, pin.key)] = pin.pem
    if held.following is not None:
        found[next_file(link)] = held.following.pem
    if held.root is not None:
        found[root_file(link, kind)] = held.root.pem
    return found


PENDING = "issued:"
"""What an offer holds in place of a certificate that the plan's steps issue, till `conclude`."""


def offered(
    view: View, held: Held, judgement: Judgement, remote: Remote, keys: Tuple[str, str]
) -> CertOffer:
    """Return what a relation is told of certificates."""
    kind = role(view.situation, view.link)

    def text(own: Optional[Own]) -> str:
        if isinstance(own, Issue):
            return PENDING + own.serial
        return own.text if own is not None else ""

    slot = remote.peer_name if kind == SUBJECT else ""
    told = CertOffer(
        certificate=text(judgement.own.get(slot)), next_certificate=text(judgement.following)
    )
    if kind == SUBJECT:
        asked = [held.request, held.next_request]
        texts = [r.text if r is not None and r.key == key else "" for r, key in zip(asked, keys)]
        return CertOffer(request=texts[0], next_request=texts[1], certificate=told.certificate)
    if kind == OPERATED:
        return told
    root = judgement.roots.get("")
    return attr.evolve(told, authority=root.text if root is not None else "")


def issued(
    held: Held, judgement: Judgement, peer: Optional[Peer], offer: Optional[Offer]
) -> Tuple[str, str]:
    """Return what an authority issued for a reader's keys, that in use and the next one."""
    if peer is None or offer is None or offer.keys is None:
        return "", ""

    def text(key: str) -> str:
        if key not in peer.public_keys():
            return ""
        if key in judgement.issues:
            return PENDING + judgement.issues[key].serial
        pin = held.pins.get(digest(key))
        return pin.text if pin is not None else ""

    return text(offer.keys.public_key), text(offer.keys.next_public_key)


def concluded(link: str, certs: CertOffer, results: Results) -> CertOffer:
    """Return an offer with the requests and certificates that the steps made."""
    changed = {}
    staged = _request(results.text(link + "/ask-next/text"))
    if staged is not None and certs.request and not certs.next_request:
        changed["next_request"] = staged.text
    for name, value in attr.asdict(certs).items():
        if value.startswith(PENDING):
            number = value[len(PENDING) :]
            found = _certificate(results.text("{}/issued/{}".format(link, number)))
            changed[name] = found.text if found is not None else ""
    return attr.evolve(certs, **changed) if changed else certs


def shown(held: Held) -> Dict[str, str]:
    """Return what show-status tells of our certificates; nothing where there are none."""
    own = sorted(held.own.values(), key=lambda c: c.ends)
    if not own:
        return {}
    return {
        "certificate-serial": own[0].serial,
        "certificate-renewal": x509.date(own[0].renewal),
        "certificate-end": x509.date(own[0].ends),
    }


def absent(link: str) -> List[Step]:
    """Return the steps that take certificates out of strongSwan's sight."""
    at = link + "/unsafe"
    return [
        remove(at + "/trust", trust_file(link)),
        remove(at + "/list", ca.crl_file(link)),
        remove(at + "/listed", ca.folder(link) + "/listed"),
    ]
