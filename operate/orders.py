"""Orders of services and slices, and the deletion of all that a run has made on an OSM."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from operate.client import OperateError
from operate.nbi import Refused
from operate.osm import NSDS, NSTS, SERVICES, SLICES, Osm

#: Descriptors, and the words for an instance and its descriptor in bodies of requests.
_WORDS = {SERVICES: (NSDS, "ns", "nsd"), SLICES: (NSTS, "nsi", "nst")}


@dataclass(frozen=True)
class Order:
    """An instantiation: ids of the slice or service, and of its operation."""

    id: str
    operation: str


def order(
    osm: Osm, place: str, descriptor: str, name: str, vim: str, document: Mapping[str, Any]
) -> Order:
    """Start an instantiation.

    Args:
        place: ``SERVICES`` or ``SLICES``.
        descriptor: id of the NSD or NST, as in the package.
    """
    descriptors, instance, kind = _WORDS[place]
    body = {f"{instance}Name": name, f"{kind}Id": osm.required(descriptors, id=descriptor)["_id"]}
    made = osm.nbi.post(place, {**body, "vimAccountId": vim, **document})
    return Order(made["id"], made[f"{instance}lcmop_id"])


class Undo:
    """Deletions that wait; the newest object is deleted first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, Callable[[], object]]] = []

    def add(self, name: str, delete: Callable[[], object]) -> None:
        """Note how to delete an object."""
        self._waiting.append((name, delete))

    def clean(self) -> list[tuple[str, OperateError]]:
        """Delete everything; return what is left, with the reasons. An object may be gone."""
        left = []
        while self._waiting:
            name, delete = self._waiting.pop()
            try:
                delete()
            except OperateError as error:
                if not isinstance(error, Refused) or error.status != 404:
                    left.append((name, error))
        return left
