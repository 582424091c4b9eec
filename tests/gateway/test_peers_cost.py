"""1,000 peers of a link on a VDU with a real charon: they fit, and one more is one more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import peers
from benchmarks.peers import Driver

pytestmark = pytest.mark.lab
MANY, MORE = 1000, 250


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with peers.gateway() as drive:
        made = drive("ipsec")
        made.reconcile([])
        yield made


def _loaded(driver: Driver) -> set[str]:
    result = driver.vdu.run("swanctl", "--list-conns", "--raw")
    return {line.split("{")[1].strip() for line in result.splitlines() if "list-conn event" in line}


def test_one_more_of_many_costs_what_it_costs_of_few(driver: Driver) -> None:
    few = {row["what"]: row for row in peers.measure(driver, 32, "ipsec")}
    many = {row["what"]: row for row in peers.measure(driver, MORE, "ipsec")}
    for what in ("one more", "one less", "nothing changed"):
        assert abs(many[what]["request-bytes"] - few[what]["request-bytes"]) < 1000
        assert many[what]["answer-bytes"] < 220 * MORE
        # `swanctl --load-conns` costs the daemon more than to load all of them at first.
        assert many[what]["daemon-cpu-s"] < many["all at once"]["daemon-cpu-s"] / 3
    assert _loaded(driver) == set()


def test_the_daemon_has_what_is_on_file_and_a_restart_changes_nothing(driver: Driver) -> None:
    given = peers.manual(MANY, "ipsec")
    driver.reconcile(given)
    before = _loaded(driver)
    assert len(before) == MANY
    driver.reconcile([*given[:-1], *peers.manual(MANY, "ipsec")[-1:]])
    after = _loaded(driver)
    assert len(after) == MANY
    assert len(after - before) == len(before - after) == 1
    driver.vdu.run("systemctl", "restart", "strongswan")
    assert _loaded(driver) == after
    driver.reconcile([])
    assert _loaded(driver) == set()
