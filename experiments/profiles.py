"""Which runs a campaign is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.dependability import FAULTS
from experiments.model import Cell
from experiments.slices import EMBB, URLLC
from experiments.testbed import LINKS


@dataclass(frozen=True)
class Profile:
    """Cells that are measured over and over, and checks that are made once, in this order.

    Attributes:
        first: made before measuring.
        measured: repeated and interleaved.
        repetitions: of `measured`.
        last: made at the end, since they break things.
        functions: whether the slices run network functions.
    """

    name: str
    first: Sequence[Cell]
    measured: Sequence[Cell]
    repetitions: int
    last: Sequence[Cell]
    functions: bool = False


def _performance(links: Sequence[str], seconds: int) -> list[Cell]:
    return [
        Cell(
            "performance",
            {"slice": name, "link": link, "path": path, "neighbour": load, "seconds": seconds},
        )
        for name in (EMBB, URLLC)
        for link in links
        for path in ("underlay", "tunnel")
        for load in ("", "saturated")
    ]


def _faults(victims: Sequence[tuple[str, str]], faults: Sequence[str], seconds: int) -> list[Cell]:
    return [
        Cell(
            "dependability",
            {"victim": victim, "neighbour": other, "fault": fault, "seconds": seconds},
        )
        for victim, other in victims
        for fault in faults
    ]


def _qos(seconds: int) -> list[Cell]:
    return [
        Cell("qos", {"urllc": URLLC, "embb": EMBB, "enforced": enforced, "seconds": seconds})
        # As the slices came up first.
        for enforced in (True, False)
    ]


def _signalling(ues: int) -> list[Cell]:
    return [
        Cell("signalling", {"slice": name, "path": path, "ues": ues})
        for name in (EMBB, URLLC)
        for path in ("underlay", "tunnel")
    ]


def _confidentiality() -> list[Cell]:
    return [Cell("confidentiality", {"path": path}) for path in ("tunnel", "underlay")]


_BOTH = ((EMBB, URLLC), (URLLC, EMBB))

PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="quick",
            first=[*_confidentiality(), Cell("reach", {"ports": "listening", "patience": 0.5})],
            measured=_performance(["s6a"], 1),
            repetitions=3,
            last=[
                *_qos(4),
                *_faults(_BOTH[:1], FAULTS, 4),
                Cell("revocation", {"victim": EMBB, "thief": URLLC, "seconds": 2}),
            ],
        ),
        Profile(
            name="full",
            first=[*_confidentiality(), Cell("reach", {"ports": "all", "patience": 1.0})],
            measured=[*_performance(list(LINKS), 5), *_qos(10)],
            repetitions=5,
            last=[
                *_faults(_BOTH, FAULTS, 12),
                Cell("revocation", {"victim": EMBB, "thief": URLLC, "seconds": 5}),
                Cell("revocation", {"victim": URLLC, "thief": EMBB, "seconds": 5}),
            ],
        ),
        Profile(
            name="functions",
            first=_confidentiality(),
            measured=_signalling(100),
            repetitions=5,
            last=[],
            functions=True,
        ),
    )
}
