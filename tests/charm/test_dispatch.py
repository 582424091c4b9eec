"""What the charms do before, without and in spite of a VDU, under the lab's Juju.

The models are shared by a module: each test leaves one as it found it.
"""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from barejuju import is_sentence
from flavours import WAIT, Flavour, once
from support.juju_operator import kill_unit_agent
from vdus import healthy, refused

from lab.errors import VcaError
from lab.vca.model import Model

pytestmark = pytest.mark.schedule(idle=True, order=6)

UNREACHABLE = "127.0.0.2"
"""Loopback, where no SSH server listens on this address's port 22 in a fresh namespace; where one
does, the login is refused. Both are a VDU that cannot be used."""
WAITING = "ready, waiting for OSM to set ssh-hostname and ssh-username"
KEY = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="
"""Base64 of 32 bytes, as a WireGuard public key has."""


def shown(model: Model) -> str:
    """Return all that `juju show-unit` and `juju status` tell, as text."""
    status = model.status()
    return json.dumps([model.show_unit(unit) for unit in status.units]) + json.dumps(
        {name: (unit.workload, unit.message) for name, unit in status.units.items()}
    )


@pytest.fixture(scope="module")
def related(flavour: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """An HSS and an MME, related, before OSM has configured anything."""
    with flavour.model(tmp_path_factory.mktemp("related")) as model:
        model.deploy("hss", flavour.charm("hss"))
        model.deploy("mme", flavour.charm("mme"))
        model.add_relation("hss:s6a", "mme:s6a")
        model.wait_idle(WAIT)
        yield model


def test_a_charm_without_configuration_is_ready_at_once(related: Model) -> None:
    assert healthy(related) == {"hss/0": ("active", WAITING), "mme/0": ("active", WAITING)}
    # Never anything else on the way: OSM takes the first active or blocked for ready.
    for unit in ("hss/0", "mme/0"):
        assert "maintenance" not in related.log_path(unit).read_text()


def test_actions_before_config_fail_with_the_reason_in_output(related: Model) -> None:
    before = shown(related)
    login = "ssh-hostname and ssh-username are not set"
    unconfigured = "no link is configured yet; run configure first"
    for action, params, reason in (
        ("verify-ssh-credentials", {}, login),
        ("show-status", {}, login),
        ("run", {"command": "true"}, login),
        ("configure", {"link": "s6a", "inner-address": "172.16.6.129/24"}, login),
        ("trust-host-key", {}, login),
        ("rotate-keys", {}, unconfigured),
        ("restart", {}, unconfigured),
        ("measure-latency", {"link": "s6a"}, login),
        ("measure-throughput", {"link": "s6a"}, login),
        ("delete-peer", {"link": "s6a", "name": "laptop"}, "delete-peer: name: "),
    ):
        assert refused(related, "hss", action, **params).startswith(reason), action
    healthy(related)
    assert shown(related) == before


@pytest.mark.long
def test_every_action_answers(related: Model, flavour: Flavour) -> None:
    actions = yaml.safe_load((flavour.charm("mme") / "actions.yaml").read_text())
    samples = {"string": "x", "integer": 1, "boolean": False}
    for name, action in actions.items():
        params = {
            key: (action["params"][key].get("enum") or [samples[action["params"][key]["type"]]])[0]
            for key in action.get("required", ())
        }
        result = related.run_action("mme", name, params, timeout=60)
        assert "exit status" not in result.message, name
        assert result.results, name
        if result.status == "failed":
            assert is_sentence(result.results["output"]), name
    healthy(related)


def test_the_ssh_key_is_made_once_and_its_private_half_stays_in_a_0600_file(
    related: Model,
) -> None:
    answers = [
        related.run_action("hss", name, {}, timeout=60).results
        for name in ("generate-ssh-key", "get-ssh-public-key", "generate-ssh-key")
    ]
    public = answers[1]["pubkey"]
    assert [answers[0]["output"], answers[2]["output"]] == [public, public]
    assert re.match(r"ssh-ed25519 \S+$", public)
    (key,) = related.paths.charm("hss/0").glob(".osm-vpnaas/*/id_ed25519")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    # The last lines of the file hold the private part.
    secrets = key.read_text().splitlines()[-3:-1]
    result = shown(related) + json.dumps(answers) + related.log_path("hss/0").read_text()
    assert all(secret not in result for secret in secrets)
    assert "PRIVATE KEY" not in result


LINK = {"link": "s6a", "inner-address": "172.16.6.2/24"}


@once
@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"inner-address": "$(reboot)/24"}, "inner-address"),
        ({"mtu": 576}, "mtu"),
        ({"underlay-interface": "ens4\nPostUp = reboot"}, "underlay-interface"),
        ({"five-qi": 82}, "guaranteed-mbps"),
    ],
)
def test_values_a_schema_cannot_judge_are_one_sentence(
    related: Model, params: dict[str, object], word: str
) -> None:
    before = shown(related)
    sentence = refused(related, "mme", "configure", **{**LINK, **params})
    assert sentence.startswith(f"configure: {word}: ")
    assert "; allowed: " in sentence
    healthy(related)
    assert shown(related) == before


@once
@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"name": "x" * 33}, "name"),
        ({"endpoint": "192.0.2.1:0"}, "endpoint"),
    ],
)
def test_manual_peers_that_make_no_sense_are_one_sentence(
    related: Model, params: dict[str, object], word: str
) -> None:
    peer = {"link": "s6a", "name": "laptop", "public-key": KEY, "allowed-prefixes": "172.16.6.9/32"}
    sentence = refused(related, "mme", "add-peer", **{**peer, **params})
    assert sentence.startswith(f"add-peer: {word}: ")
    assert "; allowed: " in sentence


@once
@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("configure", {**LINK, "link": "s1u"}),
        ("configure", {"link": "s6a"}),
        ("configure", {**LINK, "listen-port": 70000}),
        ("configure", {**LINK, "mtu": 70000}),
        ("configure", {**LINK, "keepalive": -2}),
        ("configure", {**LINK, "preshared-key": "yes"}),
        ("configure", {**LINK, "innner-address": "172.16.6.2/24"}),
        ("measure-throughput", {"link": "s6a", "duration": 0}),
        ("measure-throughput", {"link": "s6a", "parallel": 129}),
        ("measure-latency", {"link": "s6a", "path": "wire"}),
        ("rotate-keys", {"link": "s1u"}),
    ],
)
def test_the_schema_stops_what_it_can(
    related: Model, action: str, params: dict[str, object]
) -> None:
    with pytest.raises(VcaError):
        related.enqueue_action("mme", action, params)


def test_an_unreachable_vdu_blocks_with_a_sentence_in_bounded_time(
    flavour: Flavour, tmp_path: Path
) -> None:
    with flavour.model(tmp_path) as model:
        model.deploy("hss", flavour.charm("hss"))
        # Without a link there is nothing to log in for.
        model.set_config(
            # OSM's two-address form; the first one counts.
            "hss",
            {"ssh-hostname": f"{UNREACHABLE};10.0.0.1", "ssh-username": "nobody-here"},
        )
        assert healthy(model)["hss/0"] == ("active", "ready, waiting for OSM to set a link")
        started = time.monotonic()
        result = model.run_action("hss", "verify-ssh-credentials", {}, timeout=60)
        assert result.status == "failed"
        assert result.results["verified"] == "False"
        assert UNREACHABLE in result.results["output"]
        assert "10.0.0.1" not in result.results["output"]
        configure = {"link": "s6a", "inner-address": "172.16.6.129/24"}
        assert UNREACHABLE in refused(model, "hss", "configure", **configure)
        # A first configure is kept: later looks try again.
        assert "172.16.6.129" in shown(model)
        assert healthy(model)["hss/0"][0] == "blocked"
        assert time.monotonic() - started < WAIT
        # Upgrade and removal need no VDU either.
        model.upgrade_charm("hss", flavour.charm("hss"))
        healthy(model)
        started = time.monotonic()
        model.remove_application("hss")
        model.wait_for(lambda status: "hss" not in status.applications, WAIT)
        assert time.monotonic() - started < WAIT


def test_units_beside_the_leader_stand_by_and_announce_their_own_key(
    flavour: Flavour, tmp_path: Path
) -> None:
    with flavour.model(tmp_path) as model:
        model.deploy("hss", flavour.charm("hss"), num_units=2)
        states = healthy(model)
        assert sorted(message for _, message in states.values()) == [
            WAITING,
            "standby, the leader manages the VDU",
        ]
        (standby,) = [unit for unit, (_, message) in states.items() if "standby" in message]
        (leader,) = set(states) - {standby}
        view = json.dumps(model.show_unit(leader))
        assert "ssh-ed25519" in view
        assert "PRIVATE KEY" not in view
        for action, params in (
            ("show-status", {}),
            ("configure", {"link": "s6a", "inner-address": "172.16.6.129/24"}),
            ("restart", {}),
        ):
            assert "not the leader" in refused(model, standby, action, **params)
        kill_unit_agent(model, leader)
        model.wait_for(lambda status: status.units[standby].leader, WAIT)
        model.wait_for(lambda s: s.applications["hss"].units[standby].message == WAITING, WAIT)
