"""State that an execution environment keeps over restarts of its pod, in its own Secret."""

import json
from typing import Any, Dict, Mapping, Sequence

import attr
from vpnaas.base.errors import VpnaasError


@attr.frozen
class State:
    """The stored state."""

    options: Mapping[str, str] = attr.Factory(dict)  # Options that the primitive `config` set.
    stored: Mapping[str, str] = attr.Factory(dict)  # Texts that the charm's code stores, by key.
    # Files of the SSH key of this environment, by name; none before it is made.
    key: Mapping[str, str] = attr.field(factory=dict, repr=False)
    # ConfigMap of each related member, by member; the first that claimed it.
    members: Mapping[str, str] = attr.Factory(dict)
    # ConfigMaps of later claims, by member; they stay refused.
    refused: Mapping[str, Sequence[str]] = attr.Factory(dict)

    def to_json(self) -> str:
        return json.dumps(attr.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "State":
        """Read what `to_json` wrote; "" is a new environment.

        Raises:
            VpnaasError: It is something else. An unreadable state must not count as a new one.
        """
        if not text:
            return cls()
        try:
            body: Dict[str, Any] = json.loads(text)
            return cls(**body)
        except (ValueError, TypeError):
            raise VpnaasError("the state in the Secret of this release is damaged; restore it")
