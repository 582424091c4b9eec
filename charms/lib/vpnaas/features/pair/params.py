"""Parameters of a gateway that is one of a pair."""

import json
from typing import Any, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.declared import (
    At,
    Declared,
    choice_field,
    number_field,
    optional_field,
    text_field,
    value_field,
)
from vpnaas.base.errors import InputError
from vpnaas.params.gateway import SharedAddress

PRIMARY = "primary"
SECONDARY = "secondary"
ROLES = (PRIMARY, SECONDARY)
NO_ROLE = "none"


def _advert(where: str, value: Any) -> int:
    advert = fields.integer(where, value, 10, 40950)
    if advert % 10:
        raise InputError(where, str(advert), "a multiple of 10 (RFC 5798, 5.2.7)")
    return advert


def _trusted_side(where: str, text: str) -> str:
    if text in fields.NOTHING:
        raise InputError(where, "none given", "an address on the trusted side")
    return text


def _virtual(where: str, text: str) -> fields.IPInterface:
    return fields.interface_address(where, _trusted_side(where, text))


def _other(where: str, text: str) -> fields.IPAddress:
    return fields.address(where, _trusted_side(where, text))


@attr.frozen
class PairParams(Declared):
    """Parameters of `configure-standby`."""

    action = "configure-standby"
    # PRIMARY or SECONDARY; the primary is active if both are equally good.
    role: str = choice_field(ROLES)
    # Advertisement interval in milliseconds, a multiple of ten; the other gateway counts as dead
    # after three intervals and the skew time (RFC 5798, 6.1).
    advert: int = value_field(_advert, 30, key="advert-interval-ms")
    # Address that moves: the core's next hop to the peers.
    virtual: fields.IPInterface = text_field(_virtual, show=str, key="virtual-address")
    # Address of the other gateway on the trusted side.
    other: fields.IPAddress = text_field(_other, show=str, key="other-address")
    # Interface towards the core; it has VRRP and `virtual`.
    trusted: str = text_field(fields.network_interface, key="trusted-interface")
    # Interface towards the peers; without carrier the other gateway takes over.
    untrusted: str = text_field(fields.network_interface, key="untrusted-interface")
    router_id: int = number_field(1, 255, 51)  # VRID, unique on the trusted subnet.
    # Whether the operator moved the service to the other gateway.
    away: bool = value_field(lambda _, value: bool(value), False)
    shared_address: Optional[fields.IPInterface] = optional_field(
        fields.interface_address, None, show=str
    )
    shared_identity: str = optional_field(fields.ike_identity)

    def check(self, at: At) -> None:
        both = {"address": self.shared_address, "identity": self.shared_identity}
        for key, value in both.items():
            if not value and any(both.values()):
                (other,) = set(both) - {key}
                what = "none beside a shared-" + other
                raise InputError(at("shared-" + key), what, "both, or none of them")
        if self.trusted == self.untrusted:
            raise InputError(
                at("untrusted-interface"),
                "{} is the trusted interface too".format(self.trusted),
                "an interface of its own for each side",
            )

    @property
    def shared(self) -> Optional[SharedAddress]:
        """Return what manual peers use; None if each peer has two tunnels."""
        if self.shared_address is None:
            return None
        return SharedAddress(self.shared_address, self.shared_identity)

    def to_json(self) -> str:
        """Return the document for the peer relation."""
        return json.dumps(self.to_params(), sort_keys=True)


def pair_params(params: Mapping[str, Any], where: str = "") -> Optional[PairParams]:
    """Parse the parameters of the action, or the result of `to_params`; None for no pair."""
    given = fields.Parameters(where or PairParams.action, params)
    role = fields.choice(given.at("role"), given.text("role") or NO_ROLE, (*ROLES, NO_ROLE))
    return None if role == NO_ROLE else PairParams.parse(params, where)


def from_json(text: str) -> Optional[PairParams]:
    """Read what `PairParams.to_json` wrote; "" is no pair."""
    where = "peer relation: standby"
    return pair_params(fields.json_object(where, text), where) if text else None
