"""Text form of S-NSSAIs with their data networks and 5QIs, as in parameters.

A slice is `SST-SD` or `SST` (TS 23.003 clause 28.4): SST decimal, SD six hexadecimal digits. SD
FFFFFF means none, so it is not written. After a `/` follows a data network in the slice, and after
another the 5QI of the default QoS flow of its PDU sessions: `1-000001/internet/6`. Commas separate
several slices.
"""

import re
from typing import List, Optional, Tuple

import attr
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.qos import NON_GBR, TABLE

from . import values

_SNSSAI = re.compile(r"\A([0-9]{1,3})(?:-([0-9A-Fa-f]{6}))?\Z")
NO_SD = "FFFFFF"
MOST = 8
"""Most S-NSSAIs in an allowed NSSAI (TS 24.501 clause 9.11.3.37), and so in a network here."""


@attr.frozen
class Snssai:
    """A slice's identity: slice/service type and an optional slice differentiator."""

    sst: int
    sd: str = ""

    def __str__(self) -> str:
        return "{}-{}".format(self.sst, self.sd) if self.sd else str(self.sst)

    @property
    def differentiator(self) -> str:
        """Return the six digits of the SD; without an SD, those that mean none."""
        return self.sd or NO_SD


@attr.frozen
class Session:
    """A PDU session of a slice."""

    slice: Snssai  # Its S-NSSAI.
    dnn: str = ""  # Data network name; "" if only the slice is given.
    five_qi: int = 0  # 5QI of its default QoS flow, 0 if it is not given.

    def __str__(self) -> str:
        words = [str(self.slice)] + [self.dnn] * bool(self.dnn)
        return "/".join(words + [str(self.five_qi)] * bool(self.five_qi))


def snssai(where: str, text: str) -> Snssai:
    match = _SNSSAI.match(text)
    if not match or not 1 <= int(match.group(1)) <= 255:
        raise InputError(
            where,
            "{} is no S-NSSAI".format(fields.shown(text)),
            "SST 1 to 255, or SST-SD with six hexadecimal digits, such as 1-000001",
        )
    sd = (match.group(2) or "").upper()
    return Snssai(int(match.group(1)), "" if sd == NO_SD else sd)


def five_qi(where: str, value: object) -> int:
    """Parse the 5QI of a default QoS flow.

    A subscriber's default 5QI is a standardised one (TS 23.501 table 5.7.4-1) that is non-GBR
    (clause 5.7.2.7).
    """
    five_qi_value = fields.integer(where, value, 1, 255)
    row = TABLE.get(five_qi_value)
    if row is None or row.guaranteed:
        what = "{} is no standardised 5QI".format(five_qi_value)
        if row is not None:
            what = "5QI {} is {}, and a default QoS flow is {}".format(
                five_qi_value, row.resource, NON_GBR
            )
        allowed = ", ".join(str(number) for number in sorted(TABLE) if not TABLE[number].guaranteed)
        raise InputError(where, what, allowed)
    return five_qi_value


def _session(where: str, text: str, parts: int) -> Session:
    words = [word.strip(" ") for word in text.split("/")]
    if len(words) != parts:
        form = "/".join(("SST-SD", "DNN", "5QI")[:parts])
        raise InputError(where, "{} is not {}".format(fields.shown(text), form), form)
    return Session(
        snssai(where, words[0]),
        values.apn(where, words[1]) if parts > 1 else "",
        five_qi(where, words[2]) if parts > 2 else 0,
    )


def parse(where: str, text: str, parts: int) -> Tuple[Session, ...]:
    """Parse several sessions, each of one, two (with DNN) or three parts (with 5QI).

    OAI's UDR finds a subscription by SST and DNN alone, so two sessions must not share both.
    """
    result: List[Session] = []
    for part in text.split(","):
        one = _session(where, part.strip(" "), parts)
        same = [s for s in result if (s.slice.sst, s.dnn) == (one.slice.sst, one.dnn)]
        if parts > 1 and same:
            what = "{} and {} have one SST and one DNN".format(same[0], one)
            raise InputError(where, what, "a DNN of its own for each slice of an SST")
        if one in result:
            raise InputError(where, "{} is repeated".format(one), "each slice once")
        result.append(one)
    if len({one.slice for one in result}) > MOST:
        raise InputError(where, "more than {} slices".format(MOST), "up to {}".format(MOST))
    return tuple(result)


def text(sessions: Tuple[Session, ...]) -> str:
    return ",".join(str(one) for one in sessions)


def of_peer(where: str, given: str) -> Tuple[Session, ...]:
    """Parse the slices of another network function: S-NSSAIs with optional DNN."""
    listed = given.split(",")
    return tuple(_session(where, one, 2 if "/" in one else 1) for one in listed)


def disagreement(mine: str, theirs: str) -> Optional[str]:
    """Return what two network functions disagree on, None if they agree.

    One may serve more slices than the other. In a slice they must use the same DNN.
    """
    own, other = of_peer("", mine), of_peer("", theirs)
    ours, others = {one.slice for one in own}, {one.slice for one in other}
    if not (ours <= others or others <= ours):
        return "slices"
    for one in own:
        names = {o.dnn for o in other if o.slice == one.slice and o.dnn}
        if one.dnn and names and one.dnn not in names:
            return "DNN of slice {}".format(one.slice)
    return None
