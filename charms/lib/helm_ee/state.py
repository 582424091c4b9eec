"""What an execution environment keeps over restarts of its pod, in a Secret of its own."""

import json
from typing import Any, Dict, Mapping

import attr
from vpnaas.base.errors import VpnaasError


@attr.frozen
class State:
    """What persists.

    Attributes:
        options: Options that the primitive `config` set.
        stored: Texts that the charm's code keeps, by key.
        private_key: SSH key of this environment, OpenSSH's format; "" before it is made.
        public_key: Its public half.
        members: Object that speaks for each related member, by member; the first that was seen.
    """

    options: Mapping[str, str] = attr.Factory(dict)
    stored: Mapping[str, str] = attr.Factory(dict)
    private_key: str = ""
    public_key: str = ""
    members: Mapping[str, str] = attr.Factory(dict)

    def to_json(self) -> str:
        """Return the state as text."""
        return json.dumps(attr.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "State":
        """Read what `to_json` wrote; "" is a new environment.

        Raises:
            VpnaasError: It is something else. Nothing must pass for new that only cannot be read.
        """
        if not text:
            return cls()
        try:
            body: Dict[str, Any] = json.loads(text)
            return cls(**body)
        except (ValueError, TypeError):
            raise VpnaasError("the state in the Secret of this release is damaged; restore it")
