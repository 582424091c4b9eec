"""Forms of parameters: what `x-form` of a charm's action or option names; `forms.yaml` has them."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from builder.documents import read
from builder.validate.context import Document

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
MAPPED = ipaddress.ip_network("::ffff:0:0/96")


def _prefix(text: str) -> Network:
    network = ipaddress.ip_network(text)
    if network.prefixlen < (8 if network.version == 4 else 16):
        raise ValueError(text)
    if network.version == 6 and network.overlaps(MAPPED):
        raise ValueError(text)
    _unicast(network.network_address)
    return network


def _host(text: str) -> None:
    address = ipaddress.ip_address(text)
    _unicast(address)
    if address.is_unspecified or address in MAPPED:
        raise ValueError(text)


def _unicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    special = address.is_multicast or address.is_loopback or address.is_link_local
    if special or (address.version == 4 and int(address) >> 24 not in range(1, 240)):
        raise ValueError(str(address))


def _interface(text: str) -> None:
    host, _, length = text.partition("/")
    _host(host)
    interface, bits = ipaddress.ip_interface(text), 128 if ":" in host else 32
    ends = (interface.network.network_address, interface.network.broadcast_address)
    if not 8 <= int(length) <= bits or (int(length) < 31 and bits == 32 and interface.ip in ends):
        raise ValueError(text)


def _ipv4(text: str) -> None:
    _host(str(ipaddress.IPv4Address(text)))


def _pool(text: str) -> None:
    network = _prefix(text)
    if network.version != 4 or network.prefixlen > 29:
        raise ValueError(text)


FORMS: dict[str, Document] = read(Path(__file__).with_name("forms.yaml"))
READERS: dict[str, Callable[[str], object]] = {
    "address": _host,
    "addresses": _host,
    "interface": _interface,
    "ipv4": _ipv4,
    "pool": _pool,
    "prefixes": _prefix,
}
WRITTEN = re.compile("[^/%]*(/(0|[1-9][0-9]*))?")
"""How charms want an address: with no scope, mask or leading zero, all of which Python takes."""
REQUESTS = ("pool:ipv4", "pool:ipv4+ipv4", "pool:ipv4+ipv6")
"""What a link may ask its gateway for, beside `pool` alone."""
EMPTY = {"", "none", "auto"}
"""Words for which a charm also takes an empty text, where they are allowed."""
RANGE = re.compile(r"([0-9]{1,10})\.\.([0-9]{1,10})")


def among(words: Sequence[str], text: str) -> bool:
    """Tell whether a text is one of some words, or a whole number in a range such as 1280..9500."""
    ranges = [match for match in map(RANGE.fullmatch, words) if match]
    number = int(text) if re.fullmatch("0|[1-9][0-9]{0,9}", text) else -1
    return text in words or any(int(match[1]) <= number <= int(match[2]) for match in ranges)


def fits(kind: str, text: str, words: Sequence[str] = ()) -> bool:
    """Tell whether a text has a form of FORMS."""
    parts = text.split(",") if FORMS[kind].get("list") else [text]
    once = re.compile(FORMS[kind].get("once", ""))
    keys = [key.groups() for part in parts if (key := once.fullmatch(part.strip(" ").upper()))]
    if len(keys) > len(set(keys)) or len(parts) > FORMS[kind].get("most", len(parts)):
        return False
    return all(_part_fits(kind, words, part.strip(" ")) for part in parts)


def _part_fits(kind: str, words: Sequence[str], part: str) -> bool:
    form = FORMS[kind]
    if kind == "one-of":
        return among(words, part)
    if "options" in form:
        key, equals, value = (word.strip(" ") for word in part.partition("="))
        known = form["options"].get(key)
        return bool(equals) and known is not None and among(known or [value], value)
    if "pattern" in form:
        pattern = re.sub("<([a-z-]+)>", lambda name: FORMS[name[1]]["pattern"], form["pattern"])
        return re.fullmatch(pattern, part) is not None
    try:
        READERS[kind](part)
    except ValueError:
        return False
    return WRITTEN.fullmatch(part) is not None


def check(_: Any, form: Any, value: Any, schema: Document) -> Iterator[Any]:
    """Check `x-form` of our charms: a form of FORMS, and words that are allowed instead."""
    kind, *words = map(str, form if isinstance(form, list) and form else ["any"])
    text, default = str(value), schema.get("default")
    if kind not in FORMS or isinstance(value, bool):
        return
    known = [*words, *(REQUESTS if "pool" in words else ())]
    usual = text in known or (default is not None and text == str(default))
    empty = not text and (default in EMPTY or (default == "keep" and EMPTY & {*words}))
    if not (usual or empty or fits(kind, text, words)):
        yield jsonschema.ValidationError(text)
