"""Lookups over many prefixes that cost the same however many there are."""

import bisect
import ipaddress
from typing import Dict, Generic, Iterable, List, Optional, Tuple, TypeVar

from vpnaas.base import fields

Value = TypeVar("Value")


class Routes(Generic[Value]):
    """Prefixes with a value each; the longest that covers an address counts, of equals the first.

    Args:
        items: Prefixes and their values.
    """

    def __init__(self, items: Iterable[Tuple[fields.IPNetwork, Value]]) -> None:
        found: Dict[Tuple[int, int], Dict[int, Value]] = {}
        for network, value in items:
            same_length = found.setdefault((network.version, network.prefixlen), {})
            same_length.setdefault(int(network.network_address), value)
        self._by_length = sorted(found.items(), key=lambda item: -item[0][1])

    def to(self, address: fields.IPAddress) -> Optional[Value]:
        """Return the value of the longest prefix that covers an address, None where none does."""
        number, width = int(address), address.max_prefixlen
        for (version, length), values in self._by_length:
            if version == address.version:
                rest = width - length
                value = values.get(number >> rest << rest)
                if value is not None:
                    return value
        return None


class Spans:
    """Prefixes with an owner each; prefixes of two owners are equal or have nothing in common."""

    def __init__(self) -> None:
        # By IP version: first addresses, ascending, and (last address, owners) of each.
        self._firsts: Dict[int, List[int]] = {4: [], 6: []}
        self._rest: Dict[int, Dict[int, Tuple[int, List[int]]]] = {4: {}, 6: {}}

    def add(self, prefixes: Iterable[fields.IPNetwork], owner: int) -> None:
        """Add the prefixes of an owner, which may overlap each other."""
        for version in (4, 6):
            mine = [prefix for prefix in prefixes if prefix.version == version]
            firsts, rest = self._firsts[version], self._rest[version]
            for network in ipaddress.collapse_addresses(mine):  # type: ignore[type-var]
                first, last = int(network.network_address), int(network.broadcast_address)
                if first in rest:
                    before, owners = rest[first]
                    rest[first] = (max(before, last), owners + [owner])
                else:
                    bisect.insort(firsts, first)
                    rest[first] = (last, [owner])

    def overlapping(self, prefix: fields.IPNetwork) -> List[int]:
        """Return the owners of prefixes that overlap one, ascending."""
        firsts, rest = self._firsts[prefix.version], self._rest[prefix.version]
        first, last = int(prefix.network_address), int(prefix.broadcast_address)
        found: List[int] = []
        index = bisect.bisect_right(firsts, last)
        # Going back, the first that ends before it is followed by such only.
        while index > 0:
            index -= 1
            end, owners = rest[firsts[index]]
            if end < first:
                break
            found += owners
        return sorted(set(found))
