"""What the action rotate-keys says when the VDU fails half-way, and what its two passes do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attr
from support.juju import pair
from vpnaas.base.errors import VduError
from vpnaas.link_actions import LinkActions

FAILURE = VduError("the command on the VDU did not end within 30 s")


def rotate(*passes: Any, **params: Any) -> Any:
    """Run the action with what its two reconciles do: options to an outcome, or an error."""
    todo = list(passes)

    def reconcile(**options: Any) -> Any:
        doing = todo.pop(0)
        if isinstance(doing, Exception):
            raise doing
        return SimpleNamespace(plans=doing(options))

    link = SimpleNamespace(technology="wireguard")
    charm: Any = SimpleNamespace(
        intent=lambda: SimpleNamespace(links={"s6a": link}),
        chosen=lambda given: frozenset({"s6a"}),
        reconcile_now=reconcile,
    )
    try:
        return LinkActions(charm).rotate_keys(params)["s6a"]
    except VduError as error:
        return {"failed": str(error)}


def test_keys_that_are_staged_are_not_lost_with_the_second_pass() -> None:
    juju, hss, mme, _ = pair()

    def run(options: Any) -> Any:
        hss.reconcile(**options)
        return hss.plans

    before = hss.plans["s6a"].state.public_key
    result = rotate(run, FAILURE)
    assert result["rotation"] == "waiting for peers"
    assert result["reason"] == str(FAILURE)
    # And so it is: the next events finish it.
    juju.settle()
    hss.reconcile()
    juju.settle()
    assert hss.plans["s6a"].state.public_key == result["next-public-key"] != before


def test_a_link_that_cannot_be_read_after_staging_is_not_called_failed() -> None:
    _, hss, _, _ = pair()

    def run(options: Any) -> Any:
        hss.reconcile(**options)
        return hss.plans

    def unreadable(options: Any) -> Any:
        plan = hss.plans["s6a"]
        return {"s6a": attr.evolve(plan, state=None, problems=("ens4 has no address",))}

    result = rotate(run, unreadable)
    assert (result["rotation"], result["reason"]) == ("waiting for peers", "ens4 has no address")


def test_what_fails_before_keys_are_staged_fails() -> None:
    assert rotate(FAILURE) == {"failed": str(FAILURE)}


def test_force_begins_no_rotation_after_the_one_that_it_ends() -> None:
    _, hss, mme, _ = pair()

    def run(options: Any) -> Any:
        hss.reconcile(**options)
        return hss.plans

    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()  # The acknowledgement is there, but no event has come yet.
    result = rotate(run, run, force=True)
    assert (result["rotation"], result["key-generation"]) == ("done", 2)
    # Without an acknowledgement it forces the switch.
    result = rotate(run, run, force=True)
    assert (result["rotation"], result["key-generation"]) == ("done", 3)
