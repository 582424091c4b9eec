"""Lookups in many prefixes, at a cost that hardly depends on their number."""

import bisect
import ipaddress
from typing import Dict, Generic, Iterable, Iterator, List, Optional, Tuple, TypeVar

from vpnaas.base import fields

Value = TypeVar("Value")


class Routes(Generic[Value]):
    """Prefixes with values. The longest that covers an address counts; of equal ones, the first."""

    def __init__(self, items: Iterable[Tuple[fields.IPNetwork, Value]]) -> None:
        by_length: Dict[Tuple[int, int], Dict[int, Value]] = {}
        for network, value in items:
            same_length = by_length.setdefault((network.version, network.prefixlen), {})
            same_length.setdefault(int(network.network_address), value)
        self._by_length = sorted(by_length.items(), key=lambda item: -item[0][1])

    def to(self, address: fields.IPAddress) -> Optional[Value]:
        """Return the value of the longest prefix that covers an address, or None."""
        number, width = int(address), address.max_prefixlen
        for (version, length), values in self._by_length:
            if version == address.version:
                rest = width - length
                value = values.get(number >> rest << rest)
                if value is not None:
                    return value
        return None


class Spans:
    """Prefixes with owners; prefixes of two owners must be equal or disjoint."""

    def __init__(self) -> None:
        # By IP version: first addresses, ascending, and (last address, owners) of each.
        self._firsts: Dict[int, List[int]] = {4: [], 6: []}
        self._rest: Dict[int, Dict[int, Tuple[int, List[str]]]] = {4: {}, 6: {}}

    def add(self, prefixes: Iterable[fields.IPNetwork], owner: str) -> None:
        """Add the prefixes of an owner, which may overlap each other."""
        for version, first, last in _spans(prefixes):
            rest = self._rest[version]
            if first not in rest:
                bisect.insort(self._firsts[version], first)
                rest[first] = (last, [])
            rest[first][1].append(owner)

    def remove(self, prefixes: Iterable[fields.IPNetwork], owner: str) -> None:
        """Remove the prefixes of an owner, exactly as they were added."""
        for version, first, _ in _spans(prefixes):
            firsts, rest = self._firsts[version], self._rest[version]
            rest[first][1].remove(owner)
            if not rest[first][1]:
                del rest[first]
                del firsts[bisect.bisect_left(firsts, first)]

    def overlapping(self, prefix: fields.IPNetwork) -> List[str]:
        """Return the owners of prefixes that overlap one, ascending."""
        firsts, rest = self._firsts[prefix.version], self._rest[prefix.version]
        first, last = int(prefix.network_address), int(prefix.broadcast_address)
        names: List[str] = []
        index = bisect.bisect_right(firsts, last)
        # Go back to the first one that ends before the prefix: all others end earlier.
        while index > 0:
            index -= 1
            end, owners = rest[firsts[index]]
            if end < first:
                break
            names += owners
        return sorted(set(names))


def _spans(prefixes: Iterable[fields.IPNetwork]) -> Iterator[Tuple[int, int, int]]:
    """Return IP version, first and last address of each range that prefixes cover."""
    for version in (4, 6):
        mine = [prefix for prefix in prefixes if prefix.version == version]
        if len(mine) > 1:  # Most peers have one prefix.
            mine = list(ipaddress.collapse_addresses(mine))  # type: ignore[type-var]
        for network in mine:
            yield version, int(network.network_address), int(network.broadcast_address)
