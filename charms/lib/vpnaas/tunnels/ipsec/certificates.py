"""Certificates of a link on its VDU: present, requested and valid ones.

The operator's authority issues them. They come by an action (credentials `cert-external`), by CMPv2
or by EST.

A certificate belongs to one key. Renewal is therefore a rotation: the next key is offered with a
request for its certificate, and takes over when both ends have what they need.
"""

import re
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import x509
from vpnaas.base.errors import InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import DIRECTORY
from vpnaas.base.x509 import Certificate, Request
from vpnaas.params.ipsec import CMP, ENROLLED, EST, OPERATED
from vpnaas.params.servers import Enrolment
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.offer import MAX_BETWEEN, CertOffer
from vpnaas.peers.peer import Peer, read_record
from vpnaas.tunnels.ipsec import names, servers
from vpnaas.vdu import facts, openssl
from vpnaas.vdu.steps import Results, Step, read, run

ENROL = {CMP: servers.by_cmp, EST: servers.by_est}


def has_certificates(charm_state: CharmState, link: str) -> bool:
    return charm_state.intent.links[link].ipsec.credentials in OPERATED


def pin_file(link: str, key: str) -> str:
    return "/etc/swanctl/osm-vpnaas-{}-key-{}.crt".format(link, digest(key))


@attr.frozen
class Held:
    """Certificates of a link on a VDU."""

    now: int = 0  # Seconds since the epoch, by the VDU's clock.
    # Names of the certificates of peers in the record; each has its authority's digest.
    applied: FrozenSet[str] = frozenset()
    # Certificate of the authority. It is written with our certificate, after this one was checked.
    root: Optional[Certificate] = None
    request: Optional[Request] = None  # Requests for the key in use and the staged one.
    next_request: Optional[Request] = None
    own: Optional[Certificate] = None  # Our certificate.
    following: Optional[Certificate] = None  # Our certificate for the staged key.
    trusted: str = ""  # Text of the authority's file that charon reads.
    # Certificates of peers, by digest of their key.
    pins: Mapping[str, Certificate] = attr.Factory(dict)
    # Certificate from the last enrolment, if the server's root has not changed.
    enrolled: Optional[Certificate] = None
    # Intermediate authorities, both installed ones and those from an enrolment.
    chain: Tuple[Certificate, ...] = ()
    files: Mapping[str, Optional[str]] = attr.Factory(dict)  # Text of all files, by path.

    def certificate(self, key: str) -> Optional[Certificate]:
        """Return our certificate for a key.

        It may be in either file: an interrupted rotation has moved the key only.
        """
        both = (self.own, self.following)
        return next((one for one in both if one is not None and one.key == key), None)

    def promoted(self, link: str) -> "Held":
        """Return the certificates after the staged key has replaced the current one."""
        files = dict(self.files)
        if self.following is not None:
            files[names.CERTIFICATE.format(link)] = files.get(names.NEXT_CERTIFICATE.format(link))
        return attr.evolve(
            self,
            request=self.next_request,
            next_request=None,
            own=self.following,
            following=None,
            files=files,
        )


def _keys(charm_state: CharmState, link: str) -> List[str]:
    """Return the keys that peers offer, each once."""
    offered = charm_state.keys(link).values()
    keys = {key for each in offered for key in (each.public_key, each.next_public_key)}
    return sorted(keys - {""})


def _files(charm_state: CharmState, link: str) -> List[str]:
    """Return the files of certificates; none for a link without certificates."""
    if not has_certificates(charm_state, link):
        return []
    own = (names.REQUEST, names.NEXT_REQUEST, names.CERTIFICATE, names.TRUST)
    paths = [path.format(link) for path in own]
    paths += [pin_file(link, key) for key in _keys(charm_state, link)]
    paths += [names.ROOT.format(link), names.NEXT_CERTIFICATE.format(link)]
    paths += [names.CHAIN.format(link, index) for index in range(MAX_BETWEEN)]
    paths.append(names.ENROLLED_CHAIN.format(link))
    if server_of(charm_state, link) is not None:
        paths += [names.ENROLLED_CERTIFICATE.format(link), names.ENROLMENT_ROOT.format(link)]
    return paths


def observe(charm_state: CharmState, link: str, prefix: str = "") -> List[Step]:
    """Return the steps that read certificates; none for a link without certificates."""
    at = prefix + link + "/cert"
    return [read(at + path, path) for path in _files(charm_state, link)]


def server_of(charm_state: CharmState, link: str) -> Optional[Enrolment]:
    """Return the server that certifies the keys of a link, None without one."""
    if charm_state.intent.links[link].ipsec.credentials not in ENROLLED:
        return None
    return charm_state.intent.enrolments.get(link)


def _certificates(texts: Sequence[Optional[str]]) -> Tuple[Certificate, ...]:
    """Return the certificates among texts, each once."""
    read = [x509.stored(text) for text in texts]
    return tuple(dict.fromkeys(one for one in read if one is not None))


def chain_of(certs: CertOffer) -> Tuple[Certificate, ...]:
    """Return the intermediate authorities that a peer offers."""
    return _certificates(certs.chain.split(","))


def read_request(text: Optional[str]) -> Optional[Request]:
    """Return a request, None if the text is missing or invalid."""
    try:
        return x509.request("VDU", text) if text else None
    except InputError:
        return None


def parse(
    charm_state: CharmState,
    link: str,
    results: Results,
    now: int,
    applied: Sequence[Peer],
    prefix: str = "",
) -> Held:
    """Read the results of `observe`; `applied` are the peers in the record."""
    if not has_certificates(charm_state, link):
        return Held()
    paths, at = _files(charm_state, link), prefix + link + "/cert"
    files = {path: results.text(at + path) for path in paths}
    pins = [(key, x509.stored(files[pin_file(link, key)])) for key in _keys(charm_state, link)]
    server, enrolled = server_of(charm_state, link), None
    if server is not None and files[names.ENROLMENT_ROOT.format(link)] == server.root.pem:
        enrolled = x509.stored(files[names.ENROLLED_CERTIFICATE.format(link)])
    installed = [files.get(names.CHAIN.format(link, index)) for index in range(MAX_BETWEEN)]
    brought = x509.bundle(files.get(names.ENROLLED_CHAIN.format(link)) or "")
    return Held(
        now=now,
        applied=frozenset(n for peer in applied for n in (peer.certificate, peer.next_certificate)),
        root=x509.stored(files[names.ROOT.format(link)]),
        request=read_request(files[names.REQUEST.format(link)]),
        next_request=read_request(files[names.NEXT_REQUEST.format(link)]),
        own=x509.stored(files[names.CERTIFICATE.format(link)]),
        following=x509.stored(files[names.NEXT_CERTIFICATE.format(link)]),
        trusted=files[names.TRUST.format(link)] or "",
        pins={digest(key): pin for key, pin in pins if pin is not None},
        enrolled=enrolled,
        chain=_certificates([*installed, *brought]),
        files=files,
    )


def ask(link: str, identity: str, staged: bool = False) -> List[Step]:
    """Return the steps that make the request for a key's certificate."""
    key, path = names.KEY.format(link), names.REQUEST.format(link)
    at = link + "/ask"
    if staged:
        key, path, at = names.NEXT_KEY.format(link), names.NEXT_REQUEST.format(link), at + "-next"
    # The authority may copy the name from the request.
    name = ("-subj", "/CN=" + identity, "-addext", "subjectAltName=DNS:" + identity)
    command = ("openssl", "req", "-new", "-config", "/dev/null", "-key", key) + name
    return [
        run(at + "/make", *command, stdout_file=path),
        read(at + "/text", path),
    ]


def prepare(
    charm_state: CharmState, link: str, keys: Tuple[str, str], identity: str, results: Results
) -> List[Step]:
    """Return the steps that request missing certificates, and let openssl check new ones.

    `keys` are our keys: the one in use and the staged one.
    """
    if not has_certificates(charm_state, link):
        return []
    now = facts.parse(results).now
    applied = read_record(results.text(link + "/applied"))
    held = parse(charm_state, link, results, now, applied)
    steps: List[Step] = []
    for key, made, staged in ((keys[0], held.request, False), (keys[1], held.next_request, True)):
        if key and (made is None or (made.key, made.name) != (key, identity)):
            steps += ask(link, identity, staged)
    checks: Dict[str, List[Step]] = {}
    for _, offered in sorted(charm_state.keys(link).items()):
        certs = offered.certs
        for root in _roots(charm_state, link, held):
            for text in filter(None, (certs.certificate, certs.next_certificate)):
                if not is_installed(held, text, root):
                    others = held.chain + chain_of(certs)
                    checks[check_id(link, text, root)] = _check(link, text, root, others)
    server = server_of(charm_state, link)
    if server is not None:
        enrol = ENROL[charm_state.intent.links[link].ipsec.credentials]
        own = _enrolling(link, held, keys, identity, server)
        steps += enrol(link, identity, server, own) if own is not None else []
    given = charm_state.certificates.get(link)
    if given is not None:
        text, root = given.certificate.text, given.root
        checks[check_id(link, text, root)] = _check(link, text, root, given.chain)
    return steps + [step for _, each in sorted(checks.items()) for step in each]


def _enrolling(
    link: str, held: Held, keys: Tuple[str, str], identity: str, server: Enrolment
) -> Optional[str]:
    """Return the argument `own` of `servers.by_cmp`; None if we lack no certificate."""

    def lacking(key: str) -> bool:
        brought = held.enrolled
        if brought is not None and brought.key == key and brought.begins <= held.now:
            if _fits(held, brought, server, identity):
                return False  # It is there, although a plan that failed has not put it to use.
        return not has(held, server, key, identity)

    if lacking(keys[0]):
        return ""
    if keys[1] and lacking(keys[1]) and has(held, server, keys[0], identity):
        return names.CERTIFICATE.format(link)
    return None


def has(held: Held, server: Enrolment, key: str, identity: str) -> bool:
    """Tell whether we have a certificate of a server's root for a key; the key may be staged."""
    # Another root may have the same name.
    return held.root == server.root and _fits(held, held.certificate(key), server, identity)


def _fits(held: Held, certificate: Optional[Certificate], server: Enrolment, identity: str) -> bool:
    return (
        certificate is not None
        and x509.path_to(server.root, certificate, held.chain) is not None
        and identity in certificate.names
        and held.now < certificate.ends
    )


def _roots(charm_state: CharmState, link: str, held: Held) -> Sequence[Certificate]:
    """Return the authorities of which one must have issued a peer's certificate."""
    roots = [held.root]
    given, server = charm_state.certificates.get(link), server_of(charm_state, link)
    if server is not None:
        # The former root stays until there is a certificate of this one.
        roots = [server.root, held.root]
    elif given is not None:
        roots = [given.root]
    return [root for root in dict.fromkeys(roots) if root is not None]


def is_installed(held: Held, text: str, root: Certificate) -> bool:
    """Tell whether a certificate is in use under this authority, and so was checked before."""
    in_use = [each.text for each in (held.own, held.following) if each is not None]
    # The pin of a peer that was kept may be of a former authority, even of one with this name.
    pins = held.pins.values()
    in_use += [pin.text for pin in pins if x509.handle(pin.serial, root) in held.applied]
    return text in in_use and root.pem == held.trusted


def check_id(link: str, text: str, root: Certificate) -> str:
    return "{}/check/{}".format(link, digest(text + root.text))


def _check(
    link: str, text: str, root: Certificate, others: Sequence[Certificate] = ()
) -> List[Step]:
    """Return the steps that check signature and dates under one authority and no other."""
    pem, certificate = x509.armour(text, x509.CERTIFICATE), x509.stored(text)
    # Of authorities with one name openssl tries only the first.
    between = x509.path_to(root, certificate, others) or () if certificate is not None else ()
    id = check_id(link, text, root)
    return openssl.verify(id, DIRECTORY.format(link) + "/check", pem, root, between)


def verdict(inputs: LinkInputs, id: str, where: str) -> str:
    """Return why openssl refused a certificate, "" if it accepted."""
    results = inputs.results if inputs.prepared is None else inputs.prepared
    text = results.error(id) + "\n" + results.output(id)
    if results.exit_code(id) == 0 and ": OK" in text:
        return ""
    match = re.search(r"lookup: ?([ -~]{1,80})", text)
    reason = match.group(1) if match else "its signature does not verify"
    allowed = "one that the authority of the link signed and that is valid now"
    return str(InputError(where, "openssl says: " + reason, allowed))
