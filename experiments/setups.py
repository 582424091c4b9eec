"""Services besides the two slices: an EPC with double resources, one on two sites, and others.

These two are network services as an operator makes them: `epc_ns_double` names VNFDs with twice the
vCPUs and memory, and `epc_multisite.yaml` places the HSS at another VIM.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from builder import documents
from experiments.slices import Request, parameters

DOUBLE, SITES = "double", "sites"
EPC = "epc"  # One EPC, without slices beside it.
PAIR = "pair"  # Two VNFs and one tunnel (`vpn_basic_ns`), without slices beside them.

_SETUPS = documents.read(Path(__file__).with_suffix(".yaml"))
VIMS = Path(__file__).resolve().parents[1] / "lab" / "sites"
"""Configurations of the VIM accounts of the sites; between them are 18 ms and 200 Mbit/s."""


def packages(dist: Path, names: Iterable[str]) -> list[Path]:
    """Return the packages of set-ups, without those of the slices, in the order to onboard them."""
    listed = (package for name in names for package in _SETUPS[name].get("packages", ()))
    return [dist / f"{package}.tar.gz" for package in listed]


def vims(names: Iterable[str]) -> Mapping[str, Path]:
    """Return the VIM accounts of set-ups with their configurations."""
    return {vim: VIMS / f"{vim}.yaml" for name in names for vim in _SETUPS[name].get("vims", ())}


def requests(dist: Path, names: Iterable[str], functions: bool) -> list[Request]:
    """Return services to instantiate.

    Args:
        functions: Whether network functions run, in the set-ups that may have them.
    """
    made = []
    for name in names:
        setup = _SETUPS[name]
        file = dist / "params" / f"{setup['parameters']}.yaml"
        run = functions and setup.get("functions", False)
        document = parameters(file, setup.get("ranges", {}), run)
        vim = next(iter(setup.get("vims", ())), "")
        alone = setup.get("alone", False)
        made.append(Request(name, setup["service"], document, vim=vim, alone=alone))
    return made
