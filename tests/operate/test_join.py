"""What joining two services asks of their charms."""

from __future__ import annotations

import re
from typing import Any

import pytest
from operate_support import Answering, Instance

from operate.client import OperateError
from operate.join import End, State, introduce, join, part

KEYS = {"east": "A" * 43 + "=", "west": "B" * 43 + "="}


class Charms(Answering):
    """Answers show-status and remembers the rest."""

    def answer(
        self, ns: str, vnf: str, name: str, params: dict[str, Any], instance: Instance
    ) -> dict[str, Any]:
        instances.add((ns, instance))
        if name == "show-status":
            result = {"public-key": KEYS[ns], "inner-address": "10.80.0.1/24", "listen-port": 51820}
            links = dict.fromkeys(("site-hub", "site-spoke", "s1c"), result)
            return {**links, **FUNCTIONS.get(ns, {})}
        asked.append((ns, name, params))
        return {"state": "ready", "reason": ""} if name == "add-function" else {}


asked: list[tuple[str, str, dict[str, Any]]] = []
instances: set[tuple[str, tuple[str, int] | None]] = set()
FUNCTIONS: dict[str, dict[str, Any]] = {}


def test_each_end_is_told_what_lies_behind_the_other() -> None:
    asked.clear()
    one = End.parse("east/hub:site-hub@198.51.100.20", "10.81.0.0/16,10.91.0.0/24")
    join(Charms(), one, End.parse("west/spoke:site-spoke"))
    (ns, name, peer), (_, _, back) = asked
    assert (ns, name, peer["allowed-prefixes"]) == ("east", "add-peer", "10.80.0.1/32")
    assert "endpoint" not in peer
    assert back["allowed-prefixes"] == "10.80.0.1/32,10.81.0.0/16,10.91.0.0/24"
    assert (back["endpoint"], back["public-key"]) == ("198.51.100.20:51820", KEYS["east"])


def test_an_instance_of_a_vdu_is_an_end_of_its_own() -> None:
    asked.clear()
    instances.clear()
    one = End.parse("west/cell/box/3:s1c")
    assert (str(one), one.name) == ("west/cell/box/3:s1c", "west-cell-box-3")
    join(Charms(), one, End.parse("east/gateway:s1c@198.51.100.20"))
    assert instances == {("west", ("box", 3)), ("east", None)}
    # Who is called is told first.
    assert [params["name"] for _, _, params in asked] == ["west-cell-box-3", "east-gateway"]
    with pytest.raises(OperateError, match="is no end; allowed: NS/VNF:LINK or NS/VNF/VDU/COUNT"):
        End.parse("west/cell/box:s1c")


def test_long_names_of_services_do_not_become_one() -> None:
    ends = [End(f"customer-{one}-mobile-network-production.core", "mme", "s6a") for one in "ab"]
    names = [end.name for end in ends]
    assert len(set(names)) == 2
    for name in names:
        assert re.fullmatch(r"[a-z0-9-]{1,32}", name)
        assert name.startswith("ork-production-core-mme-")


@pytest.mark.parametrize("text", ["10.81.0.1/16", "everything", "10.81.0.0/16;ls"])
def test_what_is_no_prefix_is_refused(text: str) -> None:
    with pytest.raises(OperateError, match="is no prefix"):
        End.parse("east/hub:site-hub", text)


def test_a_function_that_comes_up_late_is_told_of_the_other_and_nothing_twice() -> None:
    ends = (End.parse("east/hss:site-hub@198.51.100.20"), End.parse("west/mme:site-spoke"))
    mme = State(KEYS["west"], "10.80.0.2", 51820, {"nf-kind": "mme"})
    without = (State(KEYS["east"], "10.80.0.1", 51820), mme)
    both = (State(KEYS["east"], "10.80.0.1", 51820, {"nf-kind": "hss"}), mme)
    asked.clear()
    introduce(Charms(), ends, without)
    assert [(ns, name) for ns, name, _ in asked] == [("east", "add-peer"), ("west", "add-peer")]
    asked.clear()
    # What the HSS is told of the MME is what was known before. But it was not told then.
    introduce(Charms(), ends, both, without)
    assert [(ns, name) for ns, name, _ in asked] == [
        ("east", "add-function"),
        ("west", "add-function"),
    ]
    asked.clear()
    introduce(Charms(), ends, both, both)
    assert asked == []


def test_network_functions_are_told_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked.clear()
    one = End.parse("east/hss:site-hub@198.51.100.20")
    other = End.parse("west/mme:site-spoke")
    kinds = {"east": ("site-hub", "hss"), "west": ("site-spoke", "mme")}
    for ns, (link, kind) in kinds.items():
        result = {"functions": {link: {"nf-kind": kind}}, "added": {link: ["west-mme", "east-hss"]}}
        monkeypatch.setitem(FUNCTIONS, ns, {"network-function": result})
    lines = join(Charms(), one, other)
    added = {(ns, given["name"], given["function"]) for ns, n, given in asked if "fun" in n}
    assert added == {
        ("east", "west-mme", '{"nf-kind": "mme"}'),
        ("west", "east-hss", '{"nf-kind": "hss"}'),
    }
    assert lines[-1] == "west/mme:site-spoke: hss of east, ready"
    asked.clear()
    part(Charms(), one, other)
    assert [name for _, name, _ in asked] == ["delete-function", "delete-peer"] * 2
    # One end without a network function: nobody is told of any.
    monkeypatch.delitem(FUNCTIONS, "east")
    asked.clear()
    join(Charms(), one, other)
    assert [name for _, name, _ in asked] == ["add-peer", "add-peer"]
