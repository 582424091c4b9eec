"""Documents that execution environments exchange in place of Juju's databags.

A document names the member of the service that wrote it, and has one databag for each relation. The
databags are those that charms exchange through Juju. All of it is public. The reader trusts nothing
in it: sizes are limited, and a document of another form is ignored and reported.
"""

import hashlib
import json
from typing import Any, Dict, List, Mapping, Tuple

import attr
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.peers import offer

VERSION = 1
MAX_DOCUMENT = 1 << 20
MAX_RELATIONS = 1024
MAX_KEYS = 64
MAX_VALUE = offer.MAX_VALUE * offer.MAX_BETWEEN
"""Characters of the longest value that charms exchange: the certificates of authorities."""


@attr.frozen
class Relation:
    """One end of a relation, as the member itself sees it."""

    endpoint: str  # Our endpoint.
    member: str  # member-vnf-index of the other end.
    remote: str  # Its endpoint.

    @property
    def id(self) -> int:
        """Return a number that stays the same, even if an environment loses its state."""
        text = " ".join((self.endpoint, self.member, self.remote))
        return int(hashlib.sha256(text.encode("utf-8")).hexdigest()[:7], 16)


@attr.frozen
class Document:
    """The document of one execution environment."""

    member: str  # The member-vnf-index that it claims.
    bags: Mapping[Relation, Mapping[str, str]]  # Databag for each of its relations.

    def for_reader(self, own: Relation, member: str) -> Mapping[str, str]:
        """Return the databag for the member whose end of a relation is `own`."""
        return self.bags.get(Relation(own.remote, member, own.endpoint), {})


def relations(where: str, text: str) -> Tuple[Relation, ...]:
    """Read relations as `endpoint=member:endpoint`, separated by commas; "none" for none."""
    if text.strip() in fields.NOTHING:
        return ()
    result: List[Relation] = []
    for part in text.split(","):
        endpoint, _, other = part.strip().partition("=")
        member, _, remote = other.partition(":")
        if not endpoint or not member or not remote or len(part) > 200:
            raise InputError(
                where, "{} is no relation".format(fields.shown(part.strip())), "s6a=mme:s6a"
            )
        result.append(Relation(endpoint, member, remote))
    if len(frozenset(result)) != len(result) or len(result) > MAX_RELATIONS:
        raise InputError(where, "a relation is named twice, or there are too many", "each once")
    return tuple(result)


def named(where: str, text: str) -> Dict[str, str]:
    """Read who is believed: `member=release`, separated by commas; "none" for nobody."""
    result: Dict[str, str] = {}
    for part in text.split(",") if text.strip() not in fields.NOTHING else ():
        member, _, release = part.strip().partition("=")
        if not member or not release or member in result or len(part) > 200:
            what = "{} is no release".format(fields.shown(part.strip()))
            raise InputError(where, what, "mme=mme-0012345678")
        result[member] = release
    return result


def encode(document: Document) -> str:
    """Return the text of a document; equal documents have equal texts."""
    items = [
        {
            "endpoint": relation.endpoint,
            "member": relation.member,
            "remote": relation.remote,
            "data": {key: value for key, value in sorted(bag.items()) if value},
        }
        for relation, bag in sorted(document.bags.items(), key=lambda item: attr.astuple(item[0]))
    ]
    body = {"version": VERSION, "member": document.member, "relations": items}
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def decode(where: str, text: str) -> Document:
    """Read a document that another execution environment wrote."""

    def wrong(what: str) -> InputError:
        return InputError(where, what, "an offer of this version")

    if len(text) > MAX_DOCUMENT:
        raise wrong("it is too long")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong("it is not JSON")
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise wrong("its version is unknown")
    listed = body.get("relations")
    if not isinstance(listed, list) or len(listed) > MAX_RELATIONS:
        raise wrong("its relations are not a list, or too many")
    bags: Dict[Relation, Mapping[str, str]] = {}
    for entry in listed:
        entry = entry if isinstance(entry, dict) else {}
        words = [entry.get(key) for key in ("endpoint", "member", "remote")]
        if not all(isinstance(word, str) and 0 < len(word) <= 100 for word in words):
            raise wrong("a relation has no ends")
        relation = Relation(*(str(word) for word in words))
        if relation in bags or not _is_bag(entry.get("data")):
            raise wrong("the data of a relation are not texts, or told twice")
        bags[relation] = entry["data"]
    member = body.get("member")
    if not isinstance(member, str) or len(member) > 100:
        raise wrong("its member is no text")
    return Document(member, bags)


def _is_bag(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= MAX_KEYS
        and all(isinstance(item, str) and len(item) <= MAX_VALUE for item in value.values())
    )
