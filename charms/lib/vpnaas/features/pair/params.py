"""Parameters of a gateway that is one of a pair."""

import json
from typing import Any, Dict, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.gateway import SharedAddress

PRIMARY = "primary"
SECONDARY = "secondary"
NO_ROLE = "none"
ROLES = (PRIMARY, SECONDARY, NO_ROLE)


@attr.frozen
class PairParams:
    """Parameters of `configure-standby`."""

    role: str  # PRIMARY or SECONDARY; the primary is active if both are equally good.
    virtual: fields.IPInterface  # Address that moves: the core's next hop to the peers.
    other: fields.IPAddress  # Address of the other gateway on the trusted side.
    trusted: str  # Interface towards the core; it has VRRP and `virtual`.
    untrusted: str  # Interface towards the peers; without carrier the other gateway takes over.
    router_id: int = 51  # VRID, unique on the trusted subnet.
    # Advertisement interval in milliseconds, a multiple of ten; the other gateway counts as dead
    # after three intervals and the skew time (RFC 5798, 6.1).
    advert: int = 30
    away: bool = False  # Whether the operator moved the service to the other gateway.
    # Address and identity that manual peers use; None if each peer has two tunnels.
    shared: Optional[SharedAddress] = None

    @classmethod
    def parse(
        cls, params: Mapping[str, Any], where: str = "configure-standby"
    ) -> Optional["PairParams"]:
        """Parse the parameters of the action, or the result of `to_params`; None for no pair."""
        given = fields.Parameters(where, params)
        role = fields.choice(given.at("role"), given.text("role") or NO_ROLE, ROLES)
        if role == NO_ROLE:
            return None
        advert = given.integer("advert-interval-ms", 30, 10, 40950)
        if advert % 10:
            raise InputError(
                given.at("advert-interval-ms"), str(advert), "a multiple of 10 (RFC 5798, 5.2.7)"
            )
        for key in ("virtual-address", "other-address"):
            if given.text(key) in fields.NOTHING:
                raise InputError(given.at(key), "none given", "an address on the trusted side")
        parsed = cls(
            role=role,
            virtual=given.parsed("virtual-address", fields.interface_address),
            other=given.parsed("other-address", fields.address),
            trusted=given.parsed("trusted-interface", fields.network_interface),
            untrusted=given.parsed("untrusted-interface", fields.network_interface),
            router_id=given.integer("router-id", 51, 1, 255),
            advert=advert,
            away=bool(params.get("away", False)),
            shared=_shared(given),
        )
        if parsed.trusted == parsed.untrusted:
            raise InputError(
                given.at("untrusted-interface"),
                "{} is the trusted interface too".format(parsed.trusted),
                "an interface of its own for each side",
            )
        return parsed

    def to_params(self) -> Dict[str, Any]:
        """Return parameters that `parse` reads back."""
        return {
            "role": self.role,
            "virtual-address": str(self.virtual),
            "other-address": str(self.other),
            "trusted-interface": self.trusted,
            "untrusted-interface": self.untrusted,
            "router-id": self.router_id,
            "advert-interval-ms": self.advert,
            "away": self.away,
            "shared-address": str(self.shared.address) if self.shared else "none",
            "shared-identity": self.shared.identity if self.shared else "none",
        }

    def to_json(self) -> str:
        """Return the document for the peer relation."""
        return json.dumps(self.to_params(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Optional["PairParams"]:
        """Read the parameters back; "" is no pair."""
        where = "peer relation: standby"
        return cls.parse(fields.json_object(where, text), where) if text else None


def _shared(given: fields.Parameters) -> Optional[SharedAddress]:
    missing = [
        key for key in ("address", "identity") if given.text("shared-" + key) in fields.NOTHING
    ]
    if len(missing) == 2:
        return None
    for key in missing:
        other = "identity" if key == "address" else "address"
        what = "none beside a shared-" + other
        raise InputError(given.at("shared-" + key), what, "both, or none of them")
    return SharedAddress(
        given.parsed("shared-address", fields.interface_address),
        given.parsed("shared-identity", fields.ike_identity),
    )
