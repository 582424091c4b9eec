"""What the charms do before, without and in spite of a VDU."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path

import pytest
import yaml
from conftest import WAIT

from lab.vca import Model

UNREACHABLE = "127.0.0.2"
"""Loopback, where no SSH server listens on this address's port 22 in a fresh namespace; where one
does, the login is refused. Both are a VDU that cannot be used."""


def healthy(model: Model) -> dict[str, tuple[str, str]]:
    """Return (status, message) by unit; no hook may have failed."""
    found = {}
    for app in model.wait_idle(WAIT).applications.values():
        if app.name == "hostile":
            continue  # not ours
        for name, unit in app.units.items():
            assert unit.agent == "idle", (name, unit.agent_message)
            assert unit.workload in ("active", "blocked"), (name, unit.workload)
            found[name] = (unit.workload, unit.message)
    for log in logs(model):
        assert "Uncaught exception" not in log
    return found


def logs(model: Model) -> list[str]:
    units = [u for app in model.status().applications.values() for u in app.units]
    return [model.log_path(unit).read_text() for unit in units]


def test_a_charm_without_configuration_is_ready_at_once(related: Model):
    for status, message in healthy(related).values():
        assert (status, message) == (
            "active",
            "ready, waiting for OSM to set ssh-hostname and ssh-username",
        )


def test_actions_before_config_fail_with_the_reason_in_output(related: Model):
    for name, params in (
        ("verify-ssh-credentials", {}),
        ("show-status", {}),
        ("run", {"command": "true"}),
        ("configure", {"link": "s6a", "inner-address": "172.16.6.129/24"}),
        ("measure-latency", {"link": "s6a"}),
        ("rotate-keys", {}),
        ("restart", {}),
    ):
        result = related.run_action("hss", name, params, timeout=60)
        assert result.status == "failed", name
        assert "not set" in result.results["output"] or "configured" in result.results["output"]
    healthy(related)


def test_every_action_answers(related: Model, folders: Path):
    actions = yaml.safe_load((folders / "mme" / "actions.yaml").read_text())
    samples = {"string": "x", "integer": 1, "boolean": False}
    for name, action in actions.items():
        params = {
            key: (action["params"][key].get("enum") or [samples[action["params"][key]["type"]]])[0]
            for key in action.get("required", ())
        }
        result = related.run_action("mme", name, params, timeout=60)
        assert result.status in ("completed", "failed")
        assert result.results, name
        if result.status == "failed":
            assert "\n" not in result.results["output"].strip()
    healthy(related)


def test_the_ssh_key_is_made_once_and_its_private_half_stays_in_a_0600_file(related: Model):
    related.run_action("hss", "generate-ssh-key", {}, timeout=60)
    first = related.run_action("hss", "get-ssh-public-key", {}, timeout=60).results["pubkey"]
    second = related.run_action("hss", "get-ssh-public-key", {}, timeout=60).results["pubkey"]
    assert first == second
    assert re.match(r"ssh-ed25519 \S+$", first)
    (key,) = related.charm_dir("hss/0").glob(".osm-vpnaas/*/id_ed25519")
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    secret = "".join(key.read_text().splitlines()[1:-1])[40:80]
    assert secret not in json.dumps(related.show_unit("hss/0"))
    assert all(secret not in log for log in logs(related))


def test_an_unreachable_vdu_blocks_with_a_sentence_in_bounded_time(related: Model):
    started = time.monotonic()
    result = related.run_action("hss", "get-ssh-public-key", {}, timeout=60)
    assert result.status == "completed"
    # OSM's two-address form; the first one counts.
    login = {"ssh-hostname": f"{UNREACHABLE};10.0.0.1", "ssh-username": "nobody-here"}
    related.set_config("hss", login)
    related.wait_idle(WAIT)
    result = related.run_action("hss", "verify-ssh-credentials", {}, timeout=60)
    assert result.status == "failed"
    assert result.results["verified"] == "False"
    assert UNREACHABLE in result.results["output"]
    result = related.run_action(
        "hss", "configure", {"link": "s6a", "inner-address": "172.16.6.129/24"}, timeout=60
    )
    assert result.status == "failed"
    assert UNREACHABLE in result.results["output"]
    # Nothing of a failed configure is kept.
    assert "172.16.6.129" not in json.dumps(related.show_unit("hss/0"))
    healthy(related)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"inner-address": "172.16.6.129"}, "inner-address"),
        ({"inner-address": "172.16.6.0/24"}, "inner-address"),
        ({"inner-address": "$(reboot)/24"}, "inner-address"),
        ({"inner-address": "172.16.6.2/24", "mtu": 576}, "mtu"),
        ({"inner-address": "172.16.6.2/24", "gateway": "localhost"}, "gateway"),
        ({"inner-address": "172.16.6.2/24", "underlay-interface": "a b"}, "underlay-interface"),
        ({"inner-address": "172.16.6.2/24", "allowed-prefixes": "0.0.0.0/0"}, "allowed-prefixes"),
        ({"inner-address": "172.16.6.2/24", "accept-prefixes": "172.16.6.0/24"}, "accept-prefixes"),
    ],
)
def test_bad_link_parameters_are_one_sentence(related: Model, params, words):
    result = related.run_action("mme", "configure", {"link": "s6a", **params}, timeout=60)
    assert result.status == "failed"
    assert result.results["output"].startswith(f"configure: {words}: ")
    assert "allowed: " in result.results["output"]
    healthy(related)


def test_a_remote_may_write_anything_and_no_hook_fails(model: Model, folders: Path, tmp_path: Path):
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    metadata = {
        "name": "hostile",
        "summary": "s",
        "description": "d",
        "series": ["bionic"],
        "requires": {"s6a": {"interface": "vpnaas-link"}},
    }
    (hostile / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    (hostile / "dispatch").write_text(
        "#!/bin/sh\n"
        'case "$JUJU_DISPATCH_PATH" in hooks/s6a-relation-joined)\n'
        "relation-set --app vpnaas-version=1 vpnaas-public-key='$(reboot)' vpnaas-mtu=-1"
        " vpnaas-inner-address='; rm -rf /' ;; esac\n"
    )
    (hostile / "dispatch").chmod(0o755)
    model.deploy("hss", folders / "hss")
    model.deploy("hostile", hostile)
    model.add_relation("hss:s6a", "hostile:s6a")
    deadline = time.monotonic() + 60
    while "$(reboot)" not in json.dumps(model.show_unit("hss/0")):
        model.wait_idle(WAIT)
        assert time.monotonic() < deadline
    model.update_status()
    assert healthy(model)["hss/0"][0] == "active"
    model.remove_relation("hss:s6a", "hostile:s6a")
    healthy(model)


def test_units_beside_the_leader_stand_by_and_announce_their_own_key(model: Model, folders: Path):
    model.deploy("hss", folders / "hss", num_units=2)
    states = healthy(model)
    assert sorted(message for _, message in states.values()) == [
        "ready, waiting for OSM to set ssh-hostname and ssh-username",
        "standby, the leader manages the VDU",
    ]
    (standby,) = [unit for unit, (_, message) in states.items() if "standby" in message]
    (leader,) = set(states) - {standby}
    view = json.dumps(model.show_unit(leader))
    assert "ssh-ed25519" in view
    assert "PRIVATE KEY" not in view
    model.kill_unit_agent(leader)
    model.wait_for(lambda status: status.applications["hss"].leader == standby, WAIT)
    model.wait_for(lambda s: "standby" not in s.applications["hss"].units[standby].message, WAIT)


def test_upgrade_and_removal_need_no_vdu(related: Model, folders: Path):
    related.upgrade_charm("hss", folders / "hss")
    healthy(related)
    related.set_config("hss", {"ssh-hostname": UNREACHABLE, "ssh-username": "nobody-here"})
    healthy(related)
    started = time.monotonic()
    related.remove_application("hss")
    related.wait_for(lambda status: "hss" not in status.applications, WAIT)
    assert time.monotonic() - started < 40
    healthy(related)
