"""Typed peers of a link: their wanted state on the VDU, and the record of the applied one."""

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import RECORD
from vpnaas.params.intent import MANUAL
from vpnaas.params.ipsec import Proposal
from vpnaas.vdu.steps import Step, write

RECORD_VERSION = 1

HYBRID = "pq-"
"""Start of the identity of a hybrid preshared key, which withstands a quantum computer."""


@attr.frozen
class Peer:
    """A wanted peer of a link."""

    name: str  # Stable key, "rel-<relation id>" or `ManualPeer.peer_name`.
    label: str  # Name for people: the remote application or the manual peer's name.
    prefixes: Tuple[fields.IPNetwork, ...]  # All prefixes it may send from.
    technology: str  # Technology of its tunnel.
    # Its address in the tunnel, None for a manual peer of prefixes only.
    inner_address: Optional[fields.IPAddress] = None
    public_key: str = ""  # Key in use, in the form of the technology; "" for none.
    next_public_key: str = ""  # Key it will switch to.
    identity: str = ""  # Its IKE identity, "" if the technology has none.
    # Its outer address and UDP port, None if it initiates.
    endpoint: Optional[Tuple[fields.IPAddress, int]] = None
    keepalive: int = 0  # Seconds between the keepalives that we send, 0 for none.
    mtu: int = 0  # Largest inner packet it can receive, in bytes; 0 if unknown.
    # Identity of the preshared key in force (a digest of its encrypted form), "" for none.
    preshared: str = ""
    # Whether its offer says that it has installed us, so that a probe must succeed.
    reached: bool = False
    certificate: str = ""  # Name of the certificate of its key in use, "" if it needs none.
    next_certificate: str = ""  # The same for its next key.
    # Algorithms that both ends have, "" for those of the link. While only one end has new
    # parameters, a running peer keeps the former algorithms.
    proposal: str = ""
    # Addresses that it gets from us by IKEv2; they are among `prefixes`.
    given: Tuple[fields.IPAddress, ...] = ()
    generation: int = 0  # Generation of its key in use, from its offer; 0 if unknown.

    @property
    def is_manual(self) -> bool:
        """Tell whether an operator added it; others are related."""
        return self.name.startswith(MANUAL)

    @property
    def asks(self) -> bool:
        """Tell whether it gets an address from the link's pool, and so has no prefix."""
        return not self.prefixes

    @property
    def hybrid(self) -> bool:
        """Tell whether its preshared key withstands a quantum computer."""
        return self.preshared.startswith(HYBRID)

    def public_keys(self) -> Tuple[str, ...]:
        """Return its keys, the one in use first."""
        return tuple(key for key in (self.public_key, self.next_public_key) if key)

    def echo_address(self) -> Optional[fields.IPAddress]:
        """Return the address at which it may answer an echo request, None if none is known."""
        hosts = [p.network_address for p in self.prefixes if p.prefixlen == p.max_prefixlen]
        return self.inner_address or (hosts[0] if hosts else None)

    def holdings(self) -> str:
        """Return a digest of what no other peer of the link may take from it."""
        prefixes = [str(prefix) for prefix in self.prefixes]
        own = [str(self.inner_address), *prefixes, *self.public_keys(), self.identity]
        return digest(json.dumps([*own, str(self.endpoint)]))


@attr.frozen
class Agreed:
    """The agreement on the preshared key with one peer."""

    identity: Optional[str]  # Identity of the key, None before the agreement.
    wrapped: str = ""  # Ciphertext to publish.
    sealed: str = ""  # Ciphertext of the other half of a hybrid key.
    lacking: str = ""  # Why the key cannot be hybrid though one end asks for that, "" otherwise.


@attr.frozen
class KeyState:
    """Observed state of the keys of one link."""

    public_key: str  # Public key of the private key on the VDU.
    next_public_key: str  # Public key of the staged key, "" if no rotation is in progress.
    generation: int  # Generation of the private key on the VDU.
    applied: Tuple[Peer, ...]  # Peers of the last successful reconcile.
    # Text of the record of these peers, or None.
    recorded: Optional[str] = attr.ib(default=None, kw_only=True)
    # The agreement on the preshared key with each peer.
    agreed: Mapping[str, Agreed] = attr.ib(factory=dict, kw_only=True)
    kem_key: str = attr.ib(default="", kw_only=True)  # ML-KEM public key to publish.
    # Whether the VDU has ML-KEM; True if no end asks for it.
    able: bool = attr.ib(default=True, kw_only=True)


def record(peers: Sequence[Peer]) -> str:
    """Return the record for the VDU, from which a later reconcile reads what was applied."""
    document = {"version": RECORD_VERSION, "peers": [_to_json(peer) for peer in peers]}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def recording(link: str, peers: Sequence[Peer], state: KeyState, more: bool) -> List[Step]:
    """Return the step that writes the record, if it changed or the plan has `more` steps."""
    text = record(peers)
    if text == state.recorded and not more:
        return []
    return [write(link + "/apply/record", RECORD.format(link), text, 0o600, state.recorded)]


def read_record(text: Optional[str]) -> Tuple[Peer, ...]:
    """Read the record; a missing or unknown one has no peers."""
    try:
        document = json.loads(text or "")
        if document["version"] != RECORD_VERSION:
            return ()
        return tuple(_from_json(item) for item in document["peers"])
    except (InputError, *MALFORMED):
        return ()


def _to_json(peer: Peer) -> Dict[str, Any]:
    values = dict(
        attr.asdict(peer, recurse=False),
        prefixes=fields.show_networks(peer.prefixes),
        inner_address=str(peer.inner_address or ""),
        endpoint=fields.show_endpoint(*peer.endpoint) if peer.endpoint else "",
        given=",".join(map(str, peer.given)),
        reached=False,  # The next offer says it again.
    )
    return {key.replace("_", "-"): value for key, value in values.items() if value}


def _from_json(item: Dict[str, Any]) -> Peer:
    values = {key.replace("-", "_"): value for key, value in item.items()}
    if item.get("proposal"):
        Proposal.parse("record", item["proposal"])
    for key in ("keepalive", "mtu", "generation"):
        values[key] = int(item.get(key, 0))
    inner, endpoint = item.get("inner-address"), item.get("endpoint")
    values["prefixes"] = fields.networks("record", item.get("prefixes", ""))
    values["inner_address"] = fields.address("record", inner) if inner else None
    values["endpoint"] = fields.endpoint("record", endpoint) if endpoint else None
    given = item.get("given", "").split(",")
    values["given"] = tuple(fields.address("record", part) for part in given if part)
    return Peer(**values)


def in_turn(names: Sequence[str], most: int, now: int) -> Sequence[str]:
    """Return at most `most` names. Each minute (`now` is in seconds) selects the next ones."""
    if len(names) <= most:
        return names
    start = now // 60 * most % len(names)
    return (list(names) + list(names))[start : start + most]
