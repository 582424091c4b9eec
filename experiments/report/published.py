"""Published figures (`reference.yaml`), each over the one without a VPN of its own source."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from experiments.stats import Estimate, single

REFERENCE = Path(__file__).resolve().parents[1] / "reference.yaml"

PLAIN = "no-vpn"
"""Name in reference.yaml of set-ups without a VPN; the suffix is the same as with a VPN."""
PUBLISHED = {"mbps": "throughput-mbps", "rtt_ms": "rtt-ms"}


@dataclass(frozen=True)
class Ratio:
    """A figure against its own baseline."""

    label: str
    value: Estimate
    source: str = ""


def signalling() -> list[Ratio]:
    """Return published response times of S6a over those without a VPN of the same source."""
    result = []
    for item in reference():
        table = item.get("service-response-ms", {})
        for label, times in table.items():
            for request, value in times.items():
                if not label.startswith(PLAIN):
                    over = single(value / table[PLAIN][request])
                    words = f"{request.upper()} {label.replace('-', ' ')}"
                    result.append(Ratio(words, over, item["id"]))
    return result


@cache
def reference(file: Path = REFERENCE) -> list[dict[str, Any]]:
    """Return published figures; they are cached, so callers must not change them."""
    loaded: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def over_plain(metric: str) -> list[Ratio]:
    """Return published figures over the figure without VPN of the same source and link."""
    name = PUBLISHED.get(metric, "")
    result = []
    for item in reference():
        table = item.get(name, {})
        for label, links in table.items():
            for link, given in links.items():
                base = _base(table, label, link)
                if label.startswith(PLAIN) or base is None:
                    continue
                where = "" if link == "any" else f"{link} "
                value = single(_middle(given) / _middle(base))
                result.append(Ratio(where + label.replace("-", " "), value, item["id"]))
    return result


def _base(table: Mapping[str, Any], label: str, link: str) -> Any:
    """Return the figure without a VPN of the same set-up; for slices else that of the one EPC.

    Double resources are another EPC. If they have no figure of their own, there is no base.
    """
    if label.startswith("vpn"):
        return table.get(f"no-{label}", {}).get(link)
    both = label.partition("-")[2]
    for name in (f"{PLAIN}-{label}", f"{PLAIN}-{both}", PLAIN):
        if link in table.get(name, {}):
            return table[name][link]
    return None


@dataclass(frozen=True)
class Published:
    """A published figure as it is, not a ratio."""

    source: str  # Id of the source.
    set_up: str  # Set-up in words.
    link: str  # Name of the link, in lower case.
    figures: Mapping[str, float]  # Mean of each metric, by its key in METRICS.


def absolute() -> list[Published]:
    """Return all published rates and round-trip times."""
    table: dict[tuple[str, str, str], dict[str, float]] = {}
    for item in reference():
        for metric, name in PUBLISHED.items():
            for label, links in item.get(name, {}).items():
                for link, given in links.items():
                    at = (item["id"], label.replace("-", " "), link)
                    table.setdefault(at, {})[metric] = _middle(given)
    return [Published(*at, figures) for at, figures in table.items()]


def _middle(given: Any) -> float:
    values = given if isinstance(given, list) else [given]
    return sum(float(v) for v in values) / len(values)


def double() -> list[Ratio]:
    """Return published throughput with double resources over that with plain ones, in tunnels."""
    result = []
    for item in reference():
        table = item.get(PUBLISHED["mbps"], {})
        for link, given in table.get("vpn-double-resources", {}).items():
            value = single(_middle(given) / _middle(table["vpn"][link]))
            result.append(Ratio(f"{link}, tunnel", value, item["id"]))
    return result


def gaining(cpus: int) -> list[str]:
    """Return the VNFs that gain processors from double resources on a host with so many."""
    vcpus: dict[str, int] = next(item["vcpus"] for item in reference() if "vcpus" in item)
    return sorted(name for name, number in vcpus.items() if number < cpus)
