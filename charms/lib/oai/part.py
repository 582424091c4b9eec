"""The part of a network function in a relation: what it is, and whether it is ready.

It is in the application databag of the link, beside the offer (`vpnaas.peers.offer`), or in that of
a relation between network functions. Every value is public. `decode` is as strict as for an offer,
because the other side writes the databag.
"""

import json
from typing import Dict, List, Mapping, Optional, Tuple

import attr
from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError

from . import nssai, values
from .kinds import FUNCTIONS
from .model import Part
from .params import Common

PREFIX = "nf-"
VERSION = "1"
READY = ("yes", "no")

ENDS = (
    ("s6a", "hss", "mme"),
    ("s11", "spgwc", "mme"),
    ("s1c", "mme", "enb"),
    ("sxab", "spgwc", "spgwu"),
    ("s1u", "spgwu", "enb"),
    ("uu", "enb", "ue"),
    ("n2", "amf", "gnb"),
    ("sbi", "amf", "smf"),
    ("n4", "smf", "upf"),
    ("n3", "upf", "gnb"),
    ("uu", "gnb", "nr-ue"),
    # An N3IWF can take the place of a gNB (TS 23.501 clause 4.2.8.2).
    ("n2", "amf", "n3iwf"),
    ("n3", "upf", "n3iwf"),
    ("nwu", "n3iwf", "n3ue"),
)
"""Links with the kinds of network functions at their ends; the second one connects to the first."""

FUNCTION = "-function"
"""Suffix of a relation between network functions, after the name of their link.

They have such a relation if the link of one ends on a gateway and not on the other one.
"""


def link_of(relation: str) -> str:
    """Return the link of a relation between network functions; for another relation, its name."""
    return relation[: -len(FUNCTION)] if relation.endswith(FUNCTION) else relation


def of(kind: str, params: Common, ready: bool) -> Part:
    named = ("realm", "plmn", "tac", "apn", "ue_pool", "inner")
    return Part(
        kind=kind,
        ready=ready,
        gateway=getattr(params, "gateway", ""),
        slices=nssai.text(params.served),
        **{name: str(getattr(params, name, "")) for name in named},
    )


def encode(part: Optional[Part]) -> Dict[str, str]:
    """Return the databag content; None clears it."""
    bag = {PREFIX + "version": VERSION if part else ""}
    for field in attr.fields(Part):
        bag[PREFIX + field.name.replace("_", "-")] = getattr(part, field.name) if part else ""
    bag[PREFIX + "ready"] = ("yes" if part.ready else "no") if part else ""
    return bag


def decode(bag: Mapping[str, str], where: str) -> Optional[Part]:
    """Read the databag of the other end; None if it contains no part."""
    if not any(value for key, value in bag.items() if key.startswith(PREFIX)):
        return None

    def at(key: str) -> str:
        return "{}: {}".format(where, PREFIX + key)

    def text(key: str) -> str:
        return fields.string(at(key), bag.get(PREFIX + key, ""))

    if text("version") != VERSION:
        raise InputError(
            at("version"), "{} is unknown".format(fields.shown(text("version"))), VERSION
        )
    kind = fields.choice(at("kind"), text("kind"), sorted(FUNCTIONS))
    authority = text("authority")
    in_5gs = FUNCTIONS[kind].in_5gs
    area = values.tac_5g if in_5gs else values.tac
    return Part(
        kind=kind,
        realm="" if in_5gs else values.realm(at("realm"), text("realm")),
        plmn=str(values.plmn_text(at("plmn"), text("plmn"))),
        ready=fields.choice(at("ready"), text("ready"), READY) == "yes",
        tac=str(area(at("tac"), text("tac"))) if text("tac") else "",
        apn=values.apn(at("apn"), text("apn")) if text("apn") else "",
        ue_pool=str(values.pool(at("ue-pool"), text("ue-pool"))) if text("ue-pool") else "",
        gateway=values.realm(at("gateway"), text("gateway")) if text("gateway") else "",
        address=values.ipv4(at("address"), text("address")) if text("address") else "",
        slices=nssai.text(nssai.of_peer(at("slices"), text("slices"))) if text("slices") else "",
        inner=values.ipv4(at("inner"), text("inner")) if text("inner") else "",
        authority=x509.authority(at("authority"), authority).text if authority else "",
    )


def from_json(text: str, where: str) -> Part:
    """Read a part from the JSON text that `show-status` of another network function prints."""
    allowed = "one of network-function, functions of show-status"
    part = decode(fields.json_object(where, text, allowed), where)
    if part is None or not part.address:
        raise InputError(where, "no network function with an address", allowed)
    return part


def functions_to_json(functions: Mapping[str, Mapping[str, Part]]) -> str:
    """Return the document for the peer relation."""
    given = {
        link: {name: encode(part) for name, part in named.items()}
        for link, named in functions.items()
    }
    return json.dumps(given, sort_keys=True)


def functions_from_json(text: str) -> Dict[str, Dict[str, Part]]:
    where = "peer relation: nf-functions"
    given = fields.json_object(where, text) if text else {}
    return {
        link: {name: from_json(json.dumps(bag), where) for name, bag in named.items()}
        for link, named in given.items()
    }


def _met(kind: str, link: str) -> Tuple[str, ...]:
    """Return the kinds allowed at the other end of a link of our kind."""
    pairs = [(one, other) for name, one, other in ENDS if name == link]
    return tuple(other if kind == one else one for one, other in pairs if kind in (one, other))


def expected(kind: str, link: str, part: Part) -> bool:
    """Tell whether the kind of a part is allowed at the other end of a link of our kind."""
    return part.kind in _met(kind, link)


_COMPARED = (
    ("realm", "realm"),
    ("plmn", "network (MCC and MNC)"),
    ("tac", "tracking area code"),
    ("apn", "APN"),
    ("ue_pool", "pool of UE addresses"),
    ("gateway", "name of the user plane"),
)


def disagreements(own: Part, other: Part, link: str, label: str) -> List[str]:
    """Return a sentence for each value that two ends of a link disagree on."""
    result = []
    fits = expected(own.kind, link, other)
    if not fits:
        allowed = " or ".join(_met(own.kind, link)) or "none"
        form = "{}: {} is a network function {}; allowed: {}"
        result.append(form.format(link, label, other.kind, allowed))
    for name, title in _COMPARED:
        mine, theirs = getattr(own, name), getattr(other, name)
        if mine and theirs and mine != theirs:
            result.append(
                "{}: {} of {} is {}; allowed: {}, as here".format(link, title, label, theirs, mine)
            )
    if own.slices and other.slices and fits:
        differing = nssai.disagreement(own.slices, other.slices)
        if differing:
            form = "{}: {} of {} is {}; allowed: {}, as here"
            result.append(form.format(link, differing, label, other.slices, own.slices))
    return result
