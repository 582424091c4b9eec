"""The execution environment of a charm, as its code sees it.

Two modules implement it: `juju` for a Juju unit, and `helm_ee` for a Kubernetes pod. No other code
of a charm depends on where it runs.
"""

import abc
from typing import Dict, FrozenSet, List, Mapping, Tuple

Related = Tuple[int, str, Mapping[str, str]]
"""Relation id, name and databag of a related application."""


class Environment(abc.ABC):
    """What OSM's VCA gives to the code of one charm."""

    folder = ""  # Folder for files of this unit only, such as its SSH key. It may be missing.
    version = ""  # Version of the charm, "" where unknown.
    actions: FrozenSet[str] = frozenset()  # Names of the actions that the charm declares.

    @abc.abstractmethod
    def endpoints(self, interface: str) -> Dict[str, str]:
        """Return "provider" or "requirer" by endpoint, for the endpoints of an interface."""

    @abc.abstractmethod
    def option(self, name: str) -> str:
        """Return an option that the primitive `config` sets, "" if it is not set."""

    def is_leader(self) -> bool:
        """Tell whether this unit manages the VDU; the others stand by."""
        return True

    @abc.abstractmethod
    def set_status(self, blocked: bool, text: str) -> None:
        """Show a sentence about the VNF, and whether an operator has to act."""

    # Relations

    @abc.abstractmethod
    def related(self, endpoint: str) -> List[Related]:
        """Return the related applications that still have units, by relation id."""

    def problems(self) -> Tuple[str, ...]:
        """Return sentences on data from others that cannot be used."""
        return ()

    @abc.abstractmethod
    def published(self, endpoint: str) -> List[Mapping[str, str]]:
        """Return our databags in the relations whose other end still has units."""

    @abc.abstractmethod
    def relation_ids(self, endpoint: str) -> List[int]:
        """Return the relations of an endpoint."""

    @abc.abstractmethod
    def tell(self, endpoint: str, relation_id: int, values: Mapping[str, str]) -> None:
        """Publish values to the other end of a relation; an empty value removes a key.

        Raises:
            NotReadyError: This unit does not lead any more.
        """

    # Stored data

    def has_store(self) -> bool:
        """Tell whether `store` works already."""
        return True

    @abc.abstractmethod
    def stored(self, key: str) -> str:
        """Return the text stored under a key, "" if there is none.

        Raises:
            NotReadyError: It cannot be read yet. So a text that cannot be read never counts as "".
        """

    @abc.abstractmethod
    def store(self, key: str, value: str) -> None:
        """Store a text for later runs and for the next leader.

        Raises:
            NotReadyError: It cannot be stored yet, or this unit does not lead any more.
        """

    @abc.abstractmethod
    def settled(self) -> str:
        """Return the last digest that `settle` stored."""

    @abc.abstractmethod
    def settle(self, digest: str) -> None:
        """Store a digest of the data of the last reconcile; its loss does no harm."""

    # Our other units, where there can be any

    def unit_keys(self) -> Dict[str, str]:
        """Return the SSH public key of each of our other units, "" if it announced none yet."""
        return {}

    @abc.abstractmethod
    def announce(self, key: str) -> None:
        """Publish our SSH public key to our other units."""

    def others_go_on(self) -> bool:
        """Tell whether another unit stays when this one stops."""
        return False
