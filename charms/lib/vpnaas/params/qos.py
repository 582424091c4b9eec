"""Quality of service of a link, by the 5QI of its slice."""

from typing import Any, Dict, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.fiveqi import TABLE, FiveQi

MAX_MBPS = 400000


@attr.frozen
class LinkQos:
    """Quality of service of a link (the `set-qos` primitive)."""

    link: str  # Name of the link.
    five_qi: int  # 5QI of its slice.
    guaranteed_mbps: int = 0  # GFBR in Mbit/s; 0 for a non-GBR 5QI.
    # MFBR, or for a non-GBR 5QI the slice's share (AMBR), in Mbit/s; 0 for none.
    maximum_mbps: int = 0
    # Rate of the network below the link, in Mbit/s, for all links of the interface together; 0 if
    # unknown.
    underlay_mbps: int = 0

    @property
    def characteristics(self) -> FiveQi:
        """Return the characteristics of the 5QI."""
        return TABLE[self.five_qi]

    def to_params(self) -> Dict[str, Any]:
        """Return the action parameters that `link_qos` turns into this object."""
        return {key.replace("_", "-"): value for key, value in attr.asdict(self).items()}


def link_qos(params: Mapping[str, Any], where: str = "set-qos") -> Optional[LinkQos]:
    """Parse the parameters of `set-qos`; None for 5QI 0, which is no quality of service."""
    given = fields.Parameters(where, params)
    link, five_qi = given.text("link"), given.integer("five-qi", 0, 0, 255)
    if five_qi == 0:
        return None
    if five_qi not in TABLE:
        known = ", ".join(str(value) for value in sorted(TABLE))
        raise InputError(given.at("five-qi"), "{} is not standardised".format(five_qi), known)
    keys = ("guaranteed-mbps", "maximum-mbps", "underlay-mbps")
    qos = LinkQos(link, five_qi, *(given.integer(key, 0, 0, MAX_MBPS) for key in keys))
    row, at = qos.characteristics, given.at("guaranteed-mbps")
    if row.guaranteed and not qos.guaranteed_mbps:
        what = "5QI {} is {} and has no guaranteed rate".format(five_qi, row.resource)
        raise InputError(at, what, "1 or more")
    if not row.guaranteed and qos.guaranteed_mbps:
        what = "5QI {} is {} and guarantees nothing".format(five_qi, row.resource)
        raise InputError(at, what, "0")
    for key, limit in (("maximum-mbps", qos.maximum_mbps), ("underlay-mbps", qos.underlay_mbps)):
        if limit and qos.guaranteed_mbps > limit:
            what = "{} is more than {} {}".format(qos.guaranteed_mbps, key, limit)
            raise InputError(at, what, "at most that")
    return qos
