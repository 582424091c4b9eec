"""The way of one value, as the page on architecture has it, against a run of a charm."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attr
import pytest
from ops.testing import Harness
from support.juju import Juju
from support.model import ModelVdu
from support.over_model import OverModel
from vpnaas import unit
from vpnaas.juju import JujuCharm, JujuEnvironment, charm_of
from vpnaas.kinds.vnf import VNF
from vpnaas.params.intent import Intent

PAGE = Path(__file__).parents[2] / "docs/explanation/architecture.md"
META = """
name: hss
peers: {proxypeer: {interface: proxypeer}}
provides: {s6a: {interface: vpnaas-link}}
"""
CONFIG = """
options:
  ssh-hostname: {type: string, default: 10.0.0.1}
  ssh-username: {type: string, default: root}
  ssh-password: {type: string, default: ""}
  ssh-host-key-fingerprint: {type: string, default: ""}
"""


def named() -> list[str]:
    """Return the functions that the page names, in its order."""
    section = PAGE.read_text(encoding="utf-8").split("### One value on its way\n")[1]
    return re.findall(r"^\d+\. `([\w.]+)`", section.split("\n### ")[0], re.M)


def test_the_page_names_at_most_ten_functions() -> None:
    assert 5 <= len(named()) <= 10


@pytest.fixture
def hss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Harness[JujuCharm]]:
    """Return a charm of an HSS whose S6a is configured, with nobody related."""
    wg = tmp_path / "wg"
    wg.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/said\n', encoding="utf-8")
    wg.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.8.129/24"}
    model = OverModel.models["10.0.0.1"] = ModelVdu(Juju().world, nics)
    monkeypatch.setattr(unit, "Vdu", OverModel)
    # There is no relation-set here; the harness takes one key after another.
    keywise = lambda code, bag, values: bag.data[code._charm.app].update(values)  # noqa: E731
    monkeypatch.setattr(JujuEnvironment, "_write", keywise)
    harness = Harness(charm_of(VNF), meta=META, config=CONFIG, actions="{}")
    monkeypatch.setattr(unit.Unit, "path", lambda _, name: str(tmp_path / "key" / name))
    harness.set_leader(True)
    peers = harness.add_relation("proxypeer", "hss")
    intent = Intent().configured(
        {"link": "s6a", "inner-address": "172.16.6.129/24", "underlay-interface": "ens4"}
    )
    harness.update_relation_data(peers, "hss", {"intent": intent.to_json()})
    harness.begin()
    harness.charm.on.config_changed.emit()
    assert "wg-s6a" in model.interfaces
    yield harness
    harness.cleanup()


def texts(value: object, depth: int = 0) -> Iterator[str]:
    """Return all texts in a value of the library, the very objects."""
    if isinstance(value, str):
        yield value
    elif depth > 12:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(key, depth + 1)
            yield from texts(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from texts(item, depth + 1)
    elif attr.has(type(value)):
        for field in attr.fields(type(value)):
            yield from texts(getattr(value, field.name), depth + 1)


@attr.define
class Call:
    """A call of a function of the library that had or gave the value."""

    name: str
    given: list[str]
    returned: list[str] = attr.Factory(list)


@contextlib.contextmanager
def traced(names: list[str], value: str) -> Iterator[list[Call]]:
    """Record the calls of these functions, with the objects that equal a value."""
    calls: list[Call] = []
    running: dict[Any, Call] = {}

    def same(found: object) -> list[str]:
        return [text for text in texts(found) if text == value]

    def profile(frame: Any, event: str, result: object) -> None:
        if event not in ("call", "return"):
            return
        module = str(frame.f_globals.get("__name__", "")).partition("vpnaas.")[2]
        name = f"{module}.{frame.f_code.co_qualname}"
        if name not in names:
            return
        sys.setprofile(None)
        if event == "call":
            given = [item for key, item in frame.f_locals.items() if key not in ("self", "cls")]
            calls.append(Call(name, same(given)))
            running[frame] = calls[-1]
        else:
            running.pop(frame).returned = same(result)
        sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def test_a_key_takes_the_way_of_the_page(hss: Harness[JujuCharm], tmp_path: Path) -> None:
    juju = Juju()
    juju.world = OverModel.models["10.0.0.1"].world
    mme = juju.deploy("mme", {"s6a": "requirer"}, {"ens4": "192.168.8.2/24"})
    mme.configure("s6a", "172.16.6.2/24", **{"underlay-interface": "ens4"})
    link = juju.relate("s6a", "hss", "mme")
    mme.reconcile()
    offered = link.ends["mme"]
    key = offered["vpnaas-public-key"]
    names = named()
    with traced(names, key) as calls:
        relation = hss.add_relation("s6a", "mme")
        hss.add_relation_unit(relation, "mme/0")
        hss.update_relation_data(relation, "mme", offered)
    assert "s6a pending" in str(hss.charm.unit.status.message)
    (said,) = [line for line in (tmp_path / "said").read_text().splitlines() if key in line]
    assert said.startswith("set wg-s6a peer ")

    # Those that had the value, in the order in which they were called: the page's, each once but
    # the databag, which is also read to see whether anything changed.
    had = [call for call in calls if call.given or call.returned]
    once = [call for call in had if call.name != names[0]]
    assert [call.name for call in once] == names[1:]
    assert had[0].name == names[0]
    # It is one object from the databag to the step. Then it travels.
    (value, *_) = once[0].given
    for call in once[:-1]:
        assert any(text is value for text in call.given), call.name
    assert once[-1].given == [key]
