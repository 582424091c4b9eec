"""Profiles: the runs of a campaign."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments import fiveg, sessions, sweep
from experiments.dependability import FAULTS
from experiments.model import Cell
from experiments.setups import DOUBLE, EPC, PAIR, SITES
from experiments.slices import EMBB, URLLC
from experiments.testbed import LINKS, PAIR_LINKS


@dataclass(frozen=True)
class Profile:
    """The runs of a campaign in their order: checks, repeated measurements, checks."""

    name: str
    first: Sequence[Cell]  # checks before the measurements.
    measured: Sequence[Cell]  # measurements, repeated and interleaved.
    repetitions: int  # number of repetitions of `measured`.
    last: Sequence[Cell]  # checks at the end, because they break links.
    # Whether network functions run, in the slices, the double and the single EPC.
    functions: bool = False
    slices: bool = True  # whether there are two slices; else there is one service instead.
    machines: bool = False  # whether VDUs are virtual machines.
    fiveg: Sequence[str] = ()  # slices of a 5G network, instead of two EPCs.


def _performance(
    names: Sequence[str],
    links: Sequence[str],
    seconds: int,
    loads: Sequence[str] = ("", "saturated"),
    paths: Sequence[str] = ("underlay", "tunnel"),
) -> list[Cell]:
    return [
        Cell(
            "performance",
            {"slice": name, "link": link, "path": path, "neighbour": load, "seconds": seconds},
        )
        for name in names
        for link in links
        for path in paths
        for load in loads
    ]


def _beside(name: str, links: Sequence[str], seconds: int) -> list[Cell]:
    """Return the cells of a service beside the slices; it has no neighbour."""
    return _performance([name], links, seconds, [""])


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
        # First True, because the slices start with their 5QIs.
        for enforced in (True, False)
    ]


def _with_and_without(
    experiment: str, names: Sequence[str], ues: int, **more: object
) -> list[Cell]:
    """Return the cells of an experiment with UEs, without the tunnel and with it."""
    return [
        Cell(experiment, {"slice": name, "path": path, "ues": ues, **more})
        for name in names
        for path in ("underlay", "tunnel")
    ]


def _revocations(pairs: Sequence[tuple[str, str]]) -> list[Cell]:
    return [
        Cell("revocation", {"victim": victim, "thief": thief, "seconds": 2})
        for victim, thief in pairs
    ]


def _storm(name: str, rates: Sequence[int]) -> list[Cell]:
    """Return storms of ten seconds each."""
    return [Cell("storm", {"slice": name, "ues": 10 * rate, "rate": rate}) for rate in rates]


def _confidentiality() -> list[Cell]:
    return [Cell("confidentiality", {"path": path}) for path in ("tunnel", "underlay")]


_BOTH = ((EMBB, URLLC), (URLLC, EMBB))

PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="quick",
            first=[*_confidentiality(), Cell("reach", {"patience": 0.5})],
            # The cost of a tunnel for URLLC alone; profile `full` has it beside a busy neighbour.
            measured=_performance([URLLC], ["s6a"], 1, [""]),
            repetitions=3,
            last=[
                *_qos(4),
                *_faults(_BOTH[:1], FAULTS, 4),
                *_revocations(_BOTH[:1]),
            ],
        ),
        # All experiments on S6a and S1-U; it takes half an hour on two processors.
        Profile(
            name="full",
            first=[
                *_confidentiality(),
                Cell("reach", {"patience": 0.5}),
                # First, because measurements of S1-U remove the 5QIs that nsi-create has set.
                *_qos(10),
            ],
            measured=[
                *_performance([EMBB, URLLC], ["s6a", "s1u"], 2),
                *_beside(DOUBLE, ["s6a", "s1u"], 2),
                *_beside(SITES, ["s6a"], 4),
                # One slice, as published. A run without the tunnel spends most time reconnecting.
                *_with_and_without("signalling", (EMBB, DOUBLE), 50),
            ],
            repetitions=5,
            last=[
                *_faults(_BOTH, FAULTS, 4),
                *_revocations(_BOTH),
            ],
            functions=True,
        ),
        # Two slices of a 5G network: the UE's path through N3, and a slice's own N4.
        Profile(
            name="5g",
            first=[
                *_confidentiality(),
                Cell("reach", {"patience": 0.5}),
                Cell("sessions", {"count": 20}),
            ],
            measured=_performance([URLLC], ["n3"], 1),
            repetitions=3,
            last=[
                *_qos(4),
                *_faults(_BOTH[:1], FAULTS, 4),
                *_revocations(_BOTH[:1]),
            ],
            fiveg=fiveg.TWO,
        ),
        # All experiments on the 5G network.
        Profile(
            name="5g-full",
            first=[
                *_confidentiality(),
                Cell("reach", {"patience": 0.5}),
                Cell("sessions", {"count": 100}),
                *_qos(10),
            ],
            measured=[
                *_performance([EMBB, URLLC], ["n3"], 2),
                *_performance([fiveg.SHARED], ["n2"], 2, [""]),
                *_performance([EMBB, URLLC], [sessions.LINK], 2, paths=("tunnel",)),
                *_with_and_without("procedures", (EMBB,), 50),
            ],
            repetitions=3,
            last=[
                *_storm(EMBB, (10, 20, 40, 80)),
                *_faults(_BOTH, FAULTS, 4),
                *_revocations(_BOTH),
            ],
            fiveg=fiveg.TWO,
        ),
        # URLLC's delay by 5QI, load and number of slices; mMTC has many small senders.
        Profile(
            name="5g-sweep",
            first=[],
            measured=[
                Cell("sweep", {"five_qi": five_qi, "load": load, "slices": slices, "seconds": 4})
                for five_qi in sweep.GUARANTEED
                for load in ("light", "saturated")
                for slices in (2, 3)
            ],
            repetitions=3,
            last=[],
            fiveg=fiveg.THREE,
        ),
        # One EPC: each of its links with and without its tunnel.
        Profile(
            name="epc",
            first=_confidentiality(),
            measured=_beside(EPC, list(LINKS), 3),
            repetitions=1,
            last=[],
            slices=False,
        ),
        # The cost of an EPC's five tunnels for its procedures, and where it is saturated.
        Profile(
            name="epc-load",
            first=[],
            measured=_with_and_without("signalling", (EPC,), 200, links="all"),
            repetitions=2,
            last=[
                cell
                for rate in (80, 320)
                for cell in _with_and_without("storm", (EPC,), min(5 * rate, 900), rate=rate)
            ],
            functions=True,
            slices=False,
        ),
        # Two virtual machines, with and without the WireGuard of their kernel.
        Profile(
            name="machines",
            first=_confidentiality(),
            measured=_beside(PAIR, list(PAIR_LINKS), 3),
            repetitions=3,
            last=[],
            slices=False,
            machines=True,
        ),
        # Only S6a, with many registrations.
        Profile(
            name="functions",
            first=_confidentiality(),
            measured=_with_and_without("signalling", (EMBB, URLLC), 100),
            repetitions=5,
            last=[],
            functions=True,
        ),
    )
}
