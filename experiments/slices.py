"""The two slices of a campaign: eMBB and URLLC, each a template, a service and parameters.

The first is the built template with the built parameters. The second has other address ranges, so
that each address belongs to one slice. If slice A had the same address, a probe from A to B would
stay in A and prove nothing. OSM takes the subnets of a slice's links from the NSD only. So a second
NSD is made from the built one, as an operator would do, with a template that names it.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder import archive

EMBB, URLLC, MMTC = "embb", "urllc", "mmtc"
SUBNET = "core"
"""The one netslice-subnet of each template."""
NSD = "epc_ns"
SECOND = "epc_second_ns"

#: Ranges of the written files and those the second slice takes for them.
_RANGES = (("172.16.", "172.20."), ("172.30.", "172.22."), ("192.168.", "10.68."),
           ("10.254.", "10.253."))  # fmt: skip


@dataclass(frozen=True)
class SliceRequest:
    """A slice to bring up.

    Attributes:
        name: Of the instance.
        nst: Its template.
        text: Parameters for nsi-create.
        subnet: Its part that it shares with no other slice.
    """

    name: str
    nst: str
    text: str
    subnet: str = SUBNET

    vim = ""

    @property
    def document(self) -> Mapping[str, Any]:
        """The parameters of nsi-create."""
        document: Mapping[str, Any] = yaml.safe_load(self.text)
        return document

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of its own service."""
        return self.part(self.subnet)

    @property
    def service(self) -> str:
        """Name of its own network service."""
        return f"{self.name}.{self.subnet}"

    def part(self, subnet: str) -> Mapping[str, Any]:
        """Return the parameters of one of its services."""
        parts: Sequence[Mapping[str, Any]] = self.document["netslice-subnet"]
        return next(part for part in parts if part["id"] == subnet)


def moved(text: str, ranges: Sequence[tuple[str, str]]) -> str:
    """Return a text with every address that begins with a range moved to another."""
    for one, other in ranges:
        text = re.sub(rf"(?<![\d.]){re.escape(one)}", other, text)
    return text


def second(text: str) -> str:
    """Return a text with every address moved to the ranges of the second slice."""
    return moved(text, _RANGES)


def derived(
    source: Path,
    target: Path,
    names: Mapping[str, str],
    ranges: Sequence[tuple[str, str]] = _RANGES,
) -> Path:
    """Write a service or template with other names and the ranges of the second slice.

    Args:
        source: Archive.
        target: Archive to write.
        names: Identifiers to replace.
        ranges: Of addresses, and those in their place.
    """
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
    """Return the packages of both slices, VNF packages apart, in the order to onboard them."""
    names = {NSD: SECOND}
    return [
        dist / f"{NSD}.tar.gz",
        derived(dist / f"{NSD}.tar.gz", folder / f"{SECOND}.tar.gz", names),
        dist / f"{EMBB}_nst.tar.gz",
        derived(dist / f"{URLLC}_nst.tar.gz", folder / f"{URLLC}_nst.tar.gz", names),
    ]


def requests(
    dist: Path, rates: Mapping[str, Mapping[str, int]], link: str, functions: bool = False
) -> list[SliceRequest]:
    """Return both slices.

    Args:
        dist: With the built parameter files.
        rates: What to put into the parameters of a link, by slice.
        link: The link whose ends have them.
        functions: Whether they run network functions.
    """
    made = []
    for name in (EMBB, URLLC):
        text = (dist / "params" / f"{name}.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(text if name == EMBB else second(text))
        for member in document["netslice-subnet"][0]["additionalParamsForVnf"]:
            values = member["additionalParams"]
            values["allow_experiments"] = "yes"
            if f"{link}_five_qi" in values:
                values.update({f"{link}_{key}": value for key, value in rates[name].items()})
            if functions:
                values["nf_software"] = "oai"
        made.append(SliceRequest(name, f"{name}_nst", yaml.safe_dump(document, sort_keys=False)))
    return made
