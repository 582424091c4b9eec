"""All kinds of network functions, and their parameters by kind."""

import json
from typing import Any, Dict, Optional, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError

from . import amf, enb, gnb, hss, mme, n3iwf, n3ue, nr_ue, smf, spgwc, spgwu, ue, upf, values
from .function import Function
from .params import KEEP, SECRET_NAMES, STORE, VERSION, Common, Given, Secrets

_MODULES = (amf, smf, upf, gnb, nr_ue, n3iwf, n3ue, hss, mme, spgwc, spgwu, enb, ue)
FUNCTIONS: Dict[str, Function] = {module.FUNCTION.kind: module.FUNCTION for module in _MODULES}
KINDS: Tuple[str, ...] = tuple(FUNCTIONS)


def parse(kind: str, given: Given, where: str = "configure-nf") -> Common:
    """Parse the parameters of `configure-nf` of one kind of network function, without secrets."""
    named = fields.Parameters(where, given)
    plmn = values.plmn(named.at(""), named.text("mcc"), named.text("mnc"))
    return FUNCTIONS[kind].params.parse(given, where, plmn=plmn)


def completed(given: Given, stored: Optional[Common]) -> Dict[str, Any]:
    """Return the parameters of `configure-nf`; one that is not given keeps its value."""
    named = {name: value for name, value in given.items() if value not in (KEEP, -1)}
    return dict(to_given(stored) if stored is not None else {}, **named)


def parse_secrets(kind: str, given: Given) -> Optional[Secrets]:
    """Parse the keys of `configure-nf`.

    Returns:
        None if the VDU keeps those that it has, if a store has them, or if the kind needs none.
    """
    if not FUNCTIONS[kind].secrets:
        return None
    named = fields.Parameters("configure-nf", given)
    keys = {named.at(name): named.text(name, KEEP) for name in SECRET_NAMES}
    for word, other in ((STORE, "comes from a store"), (KEEP, "stays as it is")):
        if word in keys.values():
            for where, key in keys.items():
                if key != word:
                    raise InputError(where, "the other key " + other, word + ", or both keys")
            return None
    return Secrets(*(values.key(where, key) for where, key in keys.items()))


def to_given(params: Common) -> Dict[str, Any]:
    """Return action parameters that `parse` reads back."""
    return dict(params.to_params(), mcc=params.plmn.mcc, mnc=params.plmn.mnc)


def to_json(params: Common) -> str:
    """Return the document for the peer relation, which holds no secret."""
    return json.dumps({"version": VERSION, "nf": to_given(params)}, sort_keys=True)


def from_json(kind: str, text: str) -> Optional[Common]:
    """Read the document back; "" is a network function that is not configured yet."""
    if not text:
        return None
    where = "peer relation: nf"
    document = fields.json_object(where, text)
    version, given = document.get("version"), document.get("nf")
    if version != VERSION or not isinstance(given, dict):
        raise InputError(where, "version {}".format(fields.shown(version)), str(VERSION))
    return parse(kind, given, where)


def changed(kind: str, params: Common, given: Given, where: str) -> Common:
    """Return the parameters with those replaced that a day-2 primitive gives."""
    merged = dict(to_given(params), **dict(given))
    return parse(kind, merged, where)
