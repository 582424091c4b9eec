"""Labs of two VIM accounts, 18 ms and 200 Mbit/s apart, and members of services at either."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from e2e_leftovers import lasting_leftovers
from e2e_support import Lab, Secrets

from builder.tree import Tree
from lab.vim.account import Vim, clean
from lab.vim.store import Home

TREE = Tree.find(Path(__file__).resolve().parent)
CONFIGS = TREE.root / "lab/sites"
NAMES = ("site-a", "site-b")


class Sites:
    """A lab with two VIM accounts."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def out(self, ns: str, member: str, *argv: str) -> str:
        """Run a command on a member's console; return what it printed, whatever it exits with."""
        vnfr = self.lab.engine.vnf(ns, member)
        vim = self.lab.backends.local_vim(vnfr["vim-account-id"])
        return vim.console(vnfr["vdur"][0]["vim-id"], list(argv)).stdout

    def vim(self, name: str) -> Vim:
        return Vim.open(self.lab.home, name)

    def action(self, ns: str, member: str, name: str, **params: object) -> dict[str, Any]:
        given = {key.replace("_", "-"): value for key, value in params.items()}
        words = ("--vnf_name", member, "--action_name", name, "--wait")
        said = self.lab.done("--json", "ns-action", ns, *words, "--params", json.dumps(given))
        output: dict[str, Any] = json.loads(said)["detailed-status"]["output"]
        return output

    def status(self, ns: str, member: str, link: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.action(ns, member, "show-status", link=link)[link]
        return shown

    def round_trip(self, ns: str, member: str, *words: str) -> float:
        """Return the smallest of ten round trips, in ms: the least the machine had a say in."""
        said = self.out(ns, member, "ping", "-n", "-q", "-c", "10", "-i", "0.1", *words)
        match = re.search(r"= ([\d.]+)/", said)
        assert match, said
        return float(match[1])

    def whole(self, ns: str, member: str, address: str, size: int) -> bool:
        """Tell whether packets of that many bytes get to an address without being fragmented."""
        words = ("-n", "-q", "-c", "3", "-i", "0.2", "-W", "3", "-M", "do")
        said = self.out(ns, member, "ping", *words, "-s", str(size - 28), address)
        return " 0% packet loss" in said


def opened(
    home: Path,
    dist: Path,
    secrets: Secrets,
    change: Callable[[str, dict[str, Any]], None] = lambda _name, _config: None,
) -> Iterator[Sites]:
    """Make a lab of two sites, whose configuration `change` may change; leave nothing of it."""
    lab = Lab(home, dist, secrets)
    prefix = Home.at(home).prefix
    try:
        for name in NAMES:
            config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
            change(name, config)
            lab.done("vim-create", "--name", name, "--config", json.dumps(config))
        yield Sites(lab)
    finally:
        cleaned = lab.verb("lab", "clean")
        left = lasting_leftovers([str(home), prefix])
        clean(home)
    assert cleaned.returncode == 0, cleaned.stderr
    assert left == []
