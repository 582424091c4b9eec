"""Quality of service of a link, by the 5QI of its slice."""

from typing import Any, Mapping, Optional

import attr

from vpnaas.base import fields, tables
from vpnaas.base.declared import At, Declared, any_text, number_field, text_field, value_field
from vpnaas.base.errors import InputError

NON_GBR = "non-GBR"
DELAY_CRITICAL = "delay-critical GBR"

EF, AF41, AF31, AF32, AF21, AF11, DEFAULT = "ef", "af41", "af31", "af32", "af21", "af11", "cs0"
"""DSCPs by the names of nft(8); RFC 3246, RFC 2597, RFC 2474."""


@attr.frozen
class FiveQi:
    """Characteristics of one 5QI."""

    value: int  # The 5QI.
    resource: str  # "GBR", NON_GBR or DELAY_CRITICAL.
    priority: int  # Default priority level; lower goes first.
    budget_ms: int  # Packet delay budget between UE and the UPF that ends N6.
    burst: Optional[int] = None  # Default maximum data burst volume in bytes, or None.
    # Part of the budget between that UPF and the access network (clause 5.7.3.4 and the table's
    # notes). Links of a core may use this part.
    core_ms: int = 20

    @property
    def guaranteed(self) -> bool:
        return self.resource != NON_GBR

    @property
    def dscp(self) -> str:
        """Return the DSCP of the outer header.

        3GPP leaves the mapping to operators (TS 23.501 clause 5.8.2.7). The QCIs of GSMA IR.34 have
        the DSCP given there. Other 5QIs have the DSCP of the most similar QCI.
        """
        if self.value in _IR34:
            return _IR34[self.value]
        if self.resource == DELAY_CRITICAL:
            return EF
        if self.guaranteed:
            return EF if self.budget_ms <= 100 else AF41
        return _ALIKE.get(self.value, DEFAULT)

    @property
    def precedence(self) -> int:
        """Return the priority of its HTB class, 0 (first) to 6. Other traffic has 7."""
        if self.resource == DELAY_CRITICAL:
            return 0
        return min(6, 1 + self.priority // 16)


_IR34 = {1: EF, 2: EF, 3: EF, 4: AF41, 5: AF31, 6: AF32, 7: AF21, 8: AF11, 9: DEFAULT}
_ALIKE = {69: AF31, 70: AF32, 79: AF21, 80: AF31, 10: DEFAULT}


TABLE = {
    int(value): FiveQi(int(value), **row)
    for value, row in tables.read("five_qi.json", __package__).items()
}
"""The standardised 5QIs (TS 23.501 table 5.7.4-1), by 5QI."""


MAX_MBPS = 400000


def _five_qi(where: str, value: Any) -> int:
    five_qi = fields.integer(where, value, 0, 255)
    if five_qi not in TABLE:
        known = ", ".join(str(each) for each in sorted(TABLE))
        raise InputError(where, "{} is not standardised".format(five_qi), known)
    return five_qi


@attr.frozen
class LinkQos(Declared):
    """Quality of service of a link (the `set-qos` primitive)."""

    action = "set-qos"
    link: str = text_field(any_text)  # Name of the link.
    five_qi: int = value_field(_five_qi, 0)  # 5QI of its slice.
    guaranteed_mbps: int = number_field(0, MAX_MBPS, 0)  # GFBR in Mbit/s; 0 for a non-GBR 5QI.
    # MFBR, or for a non-GBR 5QI the slice's share (AMBR), in Mbit/s; 0 for none.
    maximum_mbps: int = number_field(0, MAX_MBPS, 0)
    # Rate of the network below the link, in Mbit/s, for all links of the interface together; 0 if
    # unknown.
    underlay_mbps: int = number_field(0, MAX_MBPS, 0)

    @property
    def characteristics(self) -> FiveQi:
        return TABLE[self.five_qi]

    def check(self, at: At) -> None:
        row, where = self.characteristics, at("guaranteed-mbps")
        if row.guaranteed and not self.guaranteed_mbps:
            what = "5QI {} is {} and has no guaranteed rate".format(self.five_qi, row.resource)
            raise InputError(where, what, "1 or more")
        if not row.guaranteed and self.guaranteed_mbps:
            what = "5QI {} is {} and guarantees nothing".format(self.five_qi, row.resource)
            raise InputError(where, what, "0")
        for name in ("maximum_mbps", "underlay_mbps"):
            limit = getattr(self, name)
            if limit and self.guaranteed_mbps > limit:
                form, key = "{} is more than {} {}", name.replace("_", "-")
                what = form.format(self.guaranteed_mbps, key, limit)
                raise InputError(where, what, "at most that")


def link_qos(params: Mapping[str, Any], where: str = "set-qos") -> Optional[LinkQos]:
    """Parse the parameters of `set-qos`; None for 5QI 0, which is no quality of service."""
    if fields.Parameters(where, params).integer("five-qi", 0, 0, 255) == 0:
        return None
    return LinkQos.parse(params, where)
