"""Strict reader of DER (ITU-T X.690): definite, minimal lengths and nothing left over.

Certificates and requests come from peers, so whatever is not plainly well-formed is refused rather
than interpreted.
"""

from typing import List, Tuple

import attr

BOOLEAN, INTEGER, BITS, OCTETS, OID = 0x01, 0x02, 0x03, 0x04, 0x06
UTF8, PRINTABLE, IA5, UTC_TIME, TIME = 0x0C, 0x13, 0x16, 0x17, 0x18
SEQUENCE, SET = 0x30, 0x31


class MalformedError(ValueError):
    """The bytes are not the DER that was expected."""


@attr.frozen
class Item:
    """One element.

    Attributes:
        tag: Identifier octet; only those of one octet occur in what we read.
        content: Octets of its value.
        whole: With tag and length, as it stood in the text.
    """

    tag: int
    content: bytes
    whole: bytes

    def items(self, *tags: int) -> List["Item"]:
        """Return the elements inside; where `tags` are given, there must be just these."""
        found = items(self.content)
        if tags and [item.tag for item in found] != list(tags):
            raise MalformedError("other elements than expected")
        return found


def items(data: bytes) -> List[Item]:
    """Return the elements that follow one another in `data`."""
    found = []
    at = 0
    while at < len(data):
        item, at = _item(data, at)
        found.append(item)
    return found


def one(data: bytes, tag: int) -> Item:
    """Return the only element of `data`, which must have this tag."""
    found = items(data)
    if len(found) != 1 or found[0].tag != tag:
        raise MalformedError("not one element of tag {:#x}".format(tag))
    return found[0]


def _item(data: bytes, at: int) -> Tuple[Item, int]:
    if at + 2 > len(data):
        raise MalformedError("it ends within an element")
    tag, length, start = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise MalformedError("a tag of several octets")
    if length >= 0x80:
        count = length & 0x7F
        octets = data[start : start + count]
        if not 1 <= count <= 3 or len(octets) != count:
            raise MalformedError("a length that cannot be")
        length, start = int.from_bytes(octets, "big"), start + count
        if length < 0x80 or octets[0] == 0:
            raise MalformedError("a length that is not minimal")
    end = start + length
    if end > len(data):
        raise MalformedError("it ends within an element")
    return Item(tag, data[start:end], data[at:end]), end


def oid(item: Item) -> str:
    """Return an object identifier in dotted form."""
    data = item.content
    if item.tag != OID or not data or data[-1] & 0x80:
        raise MalformedError("not an object identifier")
    numbers: List[int] = []
    value = 0
    for octet in data:
        if value == 0 and octet == 0x80:
            raise MalformedError("an object identifier that is not minimal")
        value = value << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(n) for n in [first, numbers[0] - 40 * first] + numbers[1:])


def bits(item: Item) -> bytes:
    """Return a BIT STRING of whole octets."""
    if item.tag != BITS or len(item.content) < 1 or item.content[0] > 7:
        raise MalformedError("not a bit string")
    return item.content[1:]
