"""`./run bench instances`: the cost of one more cell at a gateway, for 1 to 16 cells.

Each count is a separate service: `secgw_ns` with that number of cells and no other change.
"""

import copy
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench import DIST, Bench
from benchmarks.report import Goal, Report, command, counts
from builder import archive
from testbed.charon import backend

SERVICE, PARAMETERS = "secgw_ns", "secgw"
LINKS = ("s1c", "s1u")
Document = dict[str, Any]


def descriptor(shipped: Mapping[str, Any], count: int) -> Document:
    """Return the NSD of the service with `count` cells; `shipped` has cell1 and cell2."""
    document: Document = copy.deepcopy(dict(shipped))
    (body,) = document["nsd"]["nsd"]
    name = f"cells{count}_ns"
    body |= {"id": name, "name": name}
    _repeat(body["df"][0], "vnf-profile", "id", count)
    _repeat(body["ns-configuration"], "relation", "name", count)
    return document


def parameters(shipped: Mapping[str, Any], count: int) -> Document:
    """Return the parameters of `count` cells, with consecutive addresses from the first cell's."""
    document: Document = copy.deepcopy(dict(shipped))
    for network in document["vld"]:
        for point in _repeat(network, "vnfd-connection-point-ref", "member-vnf-index-ref", count):
            number = _number(point["member-vnf-index-ref"])
            if number:
                point["ip-address"] = str(ip_address(point["ip-address"]) + number - 1)
    for member in _repeat(document, "additionalParamsForVnf", "member-vnf-index", count):
        number, values = _number(member["member-vnf-index"]), member["additionalParams"]
        for link in LINKS if number else ():
            inner = ip_interface(values[f"{link}_inner_address"]) + (number - 1)
            values[f"{link}_inner_address"] = f"{inner.ip}/24"
    return document


def _number(name: str) -> int:
    """Return the number of a cell from its name, 0 for other names."""
    text = name.partition("-")[0].removeprefix("cell")
    return int(text) if text != name and text.isdigit() else 0


def _repeat(body: Document, key: str, name: str, count: int) -> list[Document]:
    """Put a copy of cell1's entries for each cell in place of those of all cells; return all."""
    first = yaml.safe_dump([entry for entry in body[key] if _number(entry[name]) == 1])
    body[key] = [entry for entry in body[key] if not _number(entry[name])]
    for number in range(1, count + 1):
        body[key] += yaml.safe_load(first.replace("cell1", f"cell{number}"))
    return body[key]  # type: ignore[no-any-return]


def package(dist: Path, folder: Path, count: int) -> Path:
    name = f"cells{count}_ns"
    shutil.copytree(dist / SERVICE, folder / name)
    (file,) = (folder / name).glob("*.yaml")
    document = descriptor(yaml.safe_load(file.read_text(encoding="utf-8")), count)
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    (folder / name / "checksums.txt").write_text(archive.checksums(folder / name), encoding="utf-8")
    target = folder / f"{name}.tar.gz"
    archive.write(folder / name, target)
    return target


def measure(bench: Bench, folder: Path, count: int) -> dict[str, Any]:
    """Instantiate a service with `count` cells, rotate the keys of its gateway, delete it."""
    bench.verb("nspkg-create", str(package(DIST, folder, count)))
    shipped = yaml.safe_load((DIST / "params" / f"{PARAMETERS}.yaml").read_text("utf-8"))
    name = f"cells{count}"
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(parameters(shipped, count)), encoding="utf-8")
    load = os.getloadavg()[0]
    bench.start(name, f"{name}_ns", str(file.with_suffix("")), "--wait")
    result: dict[str, Any] = {
        "cells": count,
        "load-before": load,
        "bringup-s": bench.settled(name),
    }
    spent = bench.spent(name)
    parts = ("charms-s", "vdus-s", "lab-s")
    result |= {part: spent[part] for part in ("processes", *parts)}
    result["reconciles"] = len(spent["round-trips"])
    result["processor-s"] = sum(spent[part] for part in parts)
    for link in LINKS:
        began = time.monotonic()
        action = ("--vnf_name", "gateway", "--action_name", "rotate-keys")
        bench.verb("ns-action", name, *action, "--params", f"{{link: {link}}}", "--wait")
        result[f"rotation-{link}-s"] = time.monotonic() - began
    rotated = bench.spent(name)
    # The charms' time for both rotations, at the gateway and at the cells.
    result["rotations-processor-s"] = rotated["charms-s"] - spent["charms-s"]
    status = bench.client.action(name, "gateway", "show-status", {"link": "all"})
    peers = [peer for link in LINKS for peer in status[link]["peers"]]
    result["up"] = sum(peer["state"] == "up" for peer in peers)
    result["ciphers"] = sorted({str(peer.get("esp")) for peer in peers})
    bench.verb("ns-delete", name, "--wait")
    return result


def judge(results: list[dict[str, Any]]) -> list[Goal]:
    """Compare the costs of the largest count with linear growth from the smallest."""
    goals = []
    for what in ("bringup-s", "processor-s", "rotations-processor-s"):
        few, many = results[0], results[-1]
        if few["cells"] < many["cells"]:
            linear = few[what] * many["cells"] / few["cells"]
            shown = f"{many[what]:.1f} s with {many['cells']}"
            goal = f"<= {linear:.1f} s: linear from {few['cells']}"
            goals.append(Goal(what, goal, shown, many[what] <= linear))
    return goals


@command("instances")
@counts("--cells", "1,2,4", "Counts, up to 16.")
def main(report: Report, cells: list[int]) -> None:
    """Instantiate services with increasing numbers of cells at one gateway."""
    report.document |= {"technology": "ipsec", "esp": backend()}
    results = report.document["results"] = []
    with Bench() as bench, tempfile.TemporaryDirectory(prefix="cells-") as folder:
        bench.onboard("secgw_vnf", "cell_vnf", "vpn_endpoint_vnf")
        for count in cells:
            results.append(measure(bench, Path(folder), count))
            report.say(f"{count} cells: up after {results[-1]['bringup-s']:.1f} s")
    report.results("Cells at one gateway", results)
    report.goals(judge(results))
