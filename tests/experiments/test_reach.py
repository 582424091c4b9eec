"""Who reached whom: the experiment `reach` over two services that are made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import click
import pytest

from experiments import reach
from experiments.testbed import PAIR_LINKS, Addresses, Slice, Vnf


@dataclass
class World:
    """Who hears what: connections to SSH on management and through tunnels open, nothing else.

    Attributes:
        leaky: A VNF that is reached by force, "" for none.
        forged: What happens to a datagram with a forged source.
        listens: Whether the listeners run until they are stopped.
    """

    leaky: str = ""
    forged: str = "sent"
    listens: bool = True
    tokens: dict[str, set[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def opens(self, attempt: dict[str, Any], port: int) -> bool:
        if attempt["label"] == "control":
            return True
        return port == 22 and attempt["to"].startswith("10.254.")

    def hears(self, attempt: dict[str, Any]) -> bool:
        owner = self.owners[attempt["to"]]
        return attempt["label"] == "control" or (
            attempt["label"] == "forced" and owner == self.leaky
        )


@dataclass(frozen=True)
class Member(Vnf):
    """A VNF whose primitives are told of a world."""

    world: World = field(default_factory=World, repr=False)

    def action(self, primitive: str, /, **params: object) -> dict[str, Any]:
        if primitive == "start-listener":
            return {"tcp-ports": [22]}
        if primitive == "stop-listener":
            tokens = sorted(self.world.tokens.get(str(self), ()))
            return {"tokens": tokens, "ran-until-stopped": self.world.listens}
        assert primitive == "probe"
        attempts = json.loads(str(params["attempts"]))
        opened = [
            [number, port]
            for number, attempt in enumerate(attempts)
            for port in attempt.get("ports", ())
            if self.world.opens(attempt, port)
        ]
        for attempt in attempts:
            assert len(attempt["token"]) <= 100  # see charm-actions.md
            assert attempt["token"].isascii()
            if "datagram" in attempt and self.world.hears(attempt):
                heard = self.world.tokens.setdefault(self.world.owners[attempt["to"]], set())
                heard.add(attempt["token"])
        outcomes = {"routed": {"tcp open": 1}, "forged": {f"udp {self.world.forged}": 1}}
        return {"outcomes": outcomes, "open": opened, "opened": len(opened)}


class Bed:
    """Two services of two VNFs each."""

    def __init__(self, world: World, names: tuple[str, str] = ("basic", "second")) -> None:
        self.slices: dict[str, Slice] = {}
        for number, name in enumerate(names):
            inner = {("client", "vpn"): f"10.7{number}.0.2", ("server", "vpn"): f"10.7{number}.0.1"}
            outer = {(vnf, "data"): f"192.168.{number}.{host}"
                     for host, vnf in enumerate(("client", "server"), 1)}  # fmt: skip
            vnfs: dict[str, Vnf] = {}
            for host, vnf in enumerate(("client", "server"), 1):
                made = Member(name, name, vnf, "", "", "", f"10.254.{number}.{host}", "", "", None,  # type: ignore[arg-type]
                              world)  # fmt: skip
                vnfs[vnf] = made
                for address in (made.management, inner[vnf, "vpn"], outer[vnf, "data"]):
                    world.owners[address] = str(made)
            found = Slice(name, "", Addresses(inner, outer), vnfs, links=PAIR_LINKS)
            self.slices[name] = found

    def all_vnfs(self) -> list[Vnf]:
        return [vnf for found in self.slices.values() for vnf in found.vnfs.values()]

    def in_slices(self, work: Callable[[Slice], Any]) -> dict[str, Any]:
        return {name: work(found) for name, found in self.slices.items()}


def test_who_reached_whom_has_every_pair() -> None:
    result, good = reach.run(Bed(World()), 0.5)  # type: ignore[arg-type]
    assert good, result
    row = result["matrix"]["basic/client"]
    assert set(row) == {"basic/server", "second/client", "second/server"}
    assert row["basic/server"] == {"tunnel": True}
    assert (row["second/server"]["allowed"], row["second/server"]["forbidden"]) == (1, 0)
    # Routed: ports and a datagram for each of three addresses; forced and forged besides.
    assert row["second/server"]["attempts"] > 3 * len(reach.SERVICES)


@pytest.mark.parametrize("leaky", ["basic/server", "second/client"])
def test_who_is_reached_by_force_is_told(leaky: str) -> None:
    result, good = reach.run(Bed(World(leaky)), 0.5)  # type: ignore[arg-type]
    assert not good
    assert {row["to"] for row in result["unexpected"]} == {leaky}
    reached = {one: cell["forbidden"] for one, row in result["matrix"].items()
               if "forbidden" in (cell := row.get(leaky, {}))}  # fmt: skip
    assert set(reached) == {row["from"] for row in result["unexpected"]}
    assert min(reached.values()) > 0


@pytest.mark.parametrize("name", ["s" * 60, "größte"])
def test_slices_may_have_any_name(name: str) -> None:
    names = (f"{name}.one", f"{name}.two")
    result, good = reach.run(Bed(World(), names), 0.5)  # type: ignore[arg-type]
    assert good, result
    result, good = reach.run(Bed(World(f"{name}.two/client"), names), 0.5)  # type: ignore[arg-type]
    assert not good
    assert {row["to"] for row in result["unexpected"]} == {f"{name}.two/client"}


def test_equal_addresses_in_two_slices_are_no_result() -> None:
    bed = Bed(World())
    addresses = bed.slices["basic"].addresses
    bed.slices["second"] = replace(bed.slices["second"], addresses=addresses)
    sentence = "basic/client and second/client both have the inner address 10.70.0.2"
    with pytest.raises(click.ClickException, match=sentence):
        reach.run(bed, 0.5)  # type: ignore[arg-type]


def test_a_listener_that_ended_before_the_attempts_shows_nothing() -> None:
    with pytest.raises(click.ClickException, match="basic/client: the listener ended before"):
        reach.run(Bed(World(listens=False)), 0.5)  # type: ignore[arg-type]


def test_attempts_that_could_not_be_made_are_no_result() -> None:
    with pytest.raises(click.ClickException, match="none of the forged datagrams .*: eperm"):
        reach.run(Bed(World(forged="eperm")), 0.5)  # type: ignore[arg-type]
