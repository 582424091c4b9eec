"""Services besides the two slices: an EPC with double resources, one on two sites, and others.

These two are network services as an operator makes them: `epc_ns_double` names VNFDs with twice the
vCPUs and memory, and `epc_multisite.yaml` places the HSS at another VIM.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.slices import Request, moved

DOUBLE, SITES = "double", "sites"
EPC = "epc"  # One EPC, without slices beside it.
PAIR = "pair"  # Two VNFs and one tunnel (`vpn_basic_ns`), without slices beside them.

#: Address ranges, and their replacements in the service with double resources; no slice has them.
_RANGES = (("172.16.", "172.24."), ("172.30.", "172.26."), ("192.168.", "10.72."),
           ("10.254.", "10.252."))  # fmt: skip
VIMS = Path(__file__).resolve().parents[1] / "lab" / "sites"
"""Configurations of the VIM accounts of the sites; between them are 18 ms and 200 Mbit/s."""
HOME, REMOTE = "site-a", "site-b"


@dataclass(frozen=True)
class Service(Request):
    """A network service to instantiate."""

    vim: str = ""
    alone: bool = False  # Whether the campaign has this service instead of slices.

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Its parameters, for the same use as `SliceRequest.parameters`."""
        return self.document

    @property
    def service(self) -> str:
        return self.name


def packages(dist: Path, names: Iterable[str]) -> list[Path]:
    """Return the packages of set-ups, without those of the slices, in the order to onboard them."""
    if PAIR in names:
        return [dist / "vpn_endpoint_vnf.tar.gz", dist / "vpn_basic_ns.tar.gz"]
    if EPC in names:
        return [dist / "epc_ns.tar.gz"]
    if DOUBLE not in names:
        return []
    vnfs = [dist / f"{vnf}_vnf_double.tar.gz" for vnf in ("hss", "mme", "spgwc", "spgwu", "enb")]
    return [*vnfs, dist / "epc_ns_double.tar.gz"]


def vims(names: Iterable[str]) -> Mapping[str, Path]:
    """Return the VIM accounts of set-ups with their configurations."""
    if SITES not in names:
        return {}
    return {name: VIMS / f"{name}.yaml" for name in (HOME, REMOTE)}


def requests(dist: Path, names: Iterable[str], functions: bool) -> list[Service]:
    """Return services to instantiate.

    Args:
        functions: Whether network functions run. On two sites they do not: without its tunnel S6a
            has no route between inner addresses, so there is no baseline.
    """
    made = []
    for name in names:
        files = {DOUBLE: "epc", SITES: "epc_multisite", EPC: "epc", PAIR: "vpn_basic"}
        file = files[name]
        text = (dist / "params" / f"{file}.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(moved(text, _RANGES) if name == DOUBLE else text)
        for member in document["additionalParamsForVnf"]:
            member["additionalParams"]["allow_experiments"] = "yes"
            if name in (DOUBLE, EPC) and functions:
                member["additionalParams"]["nf_software"] = "oai"
        text = yaml.safe_dump(document, sort_keys=False)
        nsd = {DOUBLE: "epc_ns_double", PAIR: "vpn_basic_ns"}.get(name, "epc_ns")
        vim = HOME if name == SITES else ""
        made.append(Service(name, nsd, text, vim, alone=name in (EPC, PAIR)))
    return made
