"""The two slices of a campaign: eMBB and URLLC, each a template, a service and parameters.

The first is the built template with the built parameters. The second has other address ranges, so
that each address belongs to one slice. With equal addresses a probe from slice A to slice B would
stay in A and prove nothing. OSM takes the subnets of a slice's links only from the NSD. So this
module makes a second NSD from the built one, as an operator would do, and a template for it.
"""

import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder import archive, documents
from operate.osm import SERVICES, SLICES

EMBB, URLLC, MMTC = "embb", "urllc", "mmtc"
SUBNET = "core"  # The one netslice-subnet of each template.
NSD = "epc_ns"
SECOND = "epc_second_ns"

RANGES: dict[str, dict[str, str]] = documents.read(Path(__file__).with_name("ranges.yaml"))
"""Address ranges in the written files with their replacements, by slice."""


@dataclass(frozen=True)
class Request:
    """A slice or a service to instantiate."""

    name: str  # Name of the instance.
    descriptor: str  # Its template or NSD.
    document: Mapping[str, Any]  # Its parameters.
    # Id of the netslice-subnet that a slice does not share with others, "" for a service.
    subnet: str = ""
    vim: str = ""  # VIM account of VNFs without a place in the parameters, "" for the campaign's.
    alone: bool = False  # Whether the campaign has this service instead of slices.

    @property
    def place(self) -> str:
        return SLICES if self.subnet else SERVICES

    @property
    def service(self) -> str:
        """Name of its own service."""
        return f"{self.name}.{self.subnet}" if self.subnet else self.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of its own service."""
        return self.part(self.subnet) if self.subnet else self.document

    def part(self, subnet: str) -> Mapping[str, Any]:
        """Return the parameters of a service of a slice, by the id of the netslice-subnet."""
        parts: Sequence[Mapping[str, Any]] = self.document["netslice-subnet"]
        return next(part for part in parts if part["id"] == subnet)


def moved(text: str, ranges: Mapping[str, str]) -> str:
    """Return a text in which every address of a range is moved to the replacement of the range."""
    for one, other in ranges.items():
        text = re.sub(rf"(?<![\d.]){re.escape(one)}", other, text)
    return text


def parameters(file: Path, ranges: Mapping[str, str], functions: bool = False) -> dict[str, Any]:
    """Return parameters in other address ranges, with which VNFs allow experiments.

    Args:
        functions: Whether they run network functions.
    """
    document: dict[str, Any] = yaml.safe_load(moved(file.read_text(encoding="utf-8"), ranges))
    for values in members(document):
        values["allow_experiments"] = "yes"
        if functions:
            values["nf_software"] = "oai"
    return document


def members(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of each VNF of a service, or of all services of a slice."""
    for service in document.get("netslice-subnet", [document]):
        for member in service["additionalParamsForVnf"]:
            yield member["additionalParams"]


def limit(document: Mapping[str, Any], link: str, rates: Mapping[str, int]) -> None:
    """Set the rates of a link at its ends, which have a 5QI."""
    for values in members(document):
        if values.get(f"{link}_five_qi"):
            values.update({f"{link}_{key}": value for key, value in rates.items()})


def derived(
    source: Path,
    target: Path,
    names: Mapping[str, str],
    ranges: Mapping[str, str] = RANGES["epc"],
) -> Path:
    """Write a copy of a service or template with other names and addresses."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, target.name.partition(".")[0])
        folder.mkdir()
        with tarfile.open(source) as packed:
            for member in packed:
                stream = packed.extractfile(member)
                name = Path(member.name).name
                if stream is None or not name.endswith(".yaml"):
                    continue
                text = moved(stream.read().decode("utf-8"), ranges)
                for one, other in names.items():
                    text = re.sub(rf"\b{re.escape(one)}\b", other, text)
                (folder / name).write_text(text, encoding="utf-8")
        (folder / "checksums.txt").write_text(archive.checksums(folder), encoding="utf-8")
        archive.write(folder, target)
    return target


def packages(dist: Path, folder: Path) -> list[Path]:
    """Return the NS and NST packages of both slices, in the order to onboard them."""
    names = {NSD: SECOND}
    return [
        dist / f"{NSD}.tar.gz",
        derived(dist / f"{NSD}.tar.gz", folder / f"{SECOND}.tar.gz", names),
        dist / f"{EMBB}_nst.tar.gz",
        derived(dist / f"{URLLC}_nst.tar.gz", folder / f"{URLLC}_nst.tar.gz", names),
    ]


def requests(
    dist: Path, rates: Mapping[str, Mapping[str, int]], functions: bool = False
) -> list[Request]:
    """Return both slices.

    Args:
        rates: Rates for the parameters of S1-U, by slice.
        functions: Whether the slices run network functions.
    """
    made = []
    for name in (EMBB, URLLC):
        ranges = {} if name == EMBB else RANGES["epc"]
        document = parameters(dist / "params" / f"{name}.yaml", ranges, functions)
        limit(document, "s1u", rates[name])
        made.append(Request(name, f"{name}_nst", document, SUBNET))
    return made
