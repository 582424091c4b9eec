"""The state of a service's links in a few words, as the page and the list of services show it."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builder.link_table import Answer
from lab.graph import states
from lab.lcm import looking

ENVIRONMENTS = [
    SimpleNamespace(application=name, member_vnf_index=name, config=[{"name": primitive}])
    for name, primitive in (("hss", "show-status"), ("mme", "show-status"), ("ue", "health"))
]


def told(monkeypatch: pytest.MonkeyPatch, juju: bool, **units: tuple[str, str]) -> str:
    """Return what is told of VNFs by the workload status and message of each."""
    at = time.time() - 50
    found = {
        f"{name}/0": SimpleNamespace(workload=word, message=text, since=at)
        for name, (word, text) in units.items()
    }
    status = SimpleNamespace(units=found) if juju else None
    monkeypatch.setattr(states, "status_of", lambda *_: status)
    svc = SimpleNamespace(environments=ENVIRONMENTS)
    monkeypatch.setattr(states, "service", lambda *_: svc)
    looks = [
        Answer("n", name, at, {} if word == "blocked" else {"s6a": {"state": "up", "peers": []}},
               text if word == "blocked" else "")
        for name, (word, text) in units.items()
    ]  # fmt: skip
    monkeypatch.setattr(looking, "looks", lambda *_: (looks, []))
    charms = [{"application": e.application, "member-vnf-index": e.application}
              for e in ENVIRONMENTS]  # fmt: skip
    nsr: Any = {"_id": "n1", "_admin": {"deployed": {"VCA": charms}}}
    store: Any = SimpleNamespace(home=Path())
    return states.links_of(store, nsr)


@pytest.mark.parametrize("juju", [True, False])
def test_a_vnf_whose_links_nobody_saw_is_not_hidden_by_one_whose_links_are_up(
    juju: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, lost = ("active", "s6a up"), ("blocked", "the VDU does not answer")
    assert told(monkeypatch, juju, hss=up, mme=up) == "up, seen 50 s ago"
    assert told(monkeypatch, juju, hss=up, mme=lost) == "unknown (mme), seen 50 s ago"


def test_a_vnf_without_links_says_nothing_of_links(monkeypatch: pytest.MonkeyPatch) -> None:
    up, broken = ("active", "s6a up"), ("blocked", "nr-ue failed")
    assert told(monkeypatch, True, hss=up, ue=broken) == "up, seen 50 s ago"
