"""Charms under other people's frameworks: charms.osm's contract, python-libjuju, ops-scenario.

The frameworks come from PyPI into a folder of their own, as they want another ops than the charms.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builder import charms
from builder.tree import Tree

pytestmark = pytest.mark.schedule(idle=True, order=7)

TREE = Tree.find(Path(__file__).resolve().parent)
LIBJUJU = "juju==2.9.44.0"
"""What OSM's LCM pins."""
SCENARIO = "ops[testing]>=2.17,<3"
JUBILANT = "jubilant>=1.0"


def installed(*packages: str) -> Path:
    """Return a folder with packages from PyPI, kept between runs; without network, skip."""
    name = "-".join("".join(c if c.isalnum() else "_" for c in word) for word in packages)
    target = TREE.cache / f"tests-{name}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not target.is_dir():
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        words = ["install", "--quiet", "--no-compile", "--target", str(partial), *packages]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            shutil.rmtree(partial, ignore_errors=True)
            pytest.skip(f"{' '.join(packages)} cannot be had: {done.stderr.strip()[-200:]}")
        partial.rename(target)
    return target


def run(folder: Path, program: str, *words: str, path: str = "") -> Any:
    """Run a program with the packages of a folder; return the JSON it prints."""
    paths = os.pathsep.join(part for part in (str(folder), path) if part)
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


# -- charms.osm ------------------------------------------------------------------------------------

#: What the methods of SSHProxyCharm (charms.osm) do, one by one, with what LCM and operators
#: see of it. Each has a counterpart in every charm.
CONTRACT = {
    "SSHProxyCharm.__init__": {"peer": "proxypeer"},
    "SSHProxyCharm.get_ssh_proxy": {"options": ("ssh-hostname", "ssh-username", "ssh-password")},
    "SSHProxyCharm.on_generate_ssh_key_action": {"action": "generate-ssh-key", "params": ()},
    "SSHProxyCharm.on_get_ssh_public_key_action": {"action": "get-ssh-public-key", "params": ()},
    "SSHProxyCharm.on_run_action": {"action": "run", "params": ("command",)},
    "SSHProxyCharm.on_verify_ssh_credentials_action": {
        "action": "verify-ssh-credentials", "params": (),
    },
}  # fmt: skip
#: Results that a caller reads, by action; `verified` is compared with the text "True".
RESULTS = {
    "get-ssh-public-key": "pubkey",
    "run": "output",
    "verify-ssh-credentials": "verified",
}


@pytest.mark.parametrize("name", TREE.charms())
@pytest.mark.parametrize("method", sorted(CONTRACT))
def test_every_charm_has_what_sshproxycharm_has(name: str, method: str) -> None:
    charm, expected = charms.load(TREE, name), CONTRACT[method]
    if "peer" in expected:
        assert charm.metadata["peers"] == {expected["peer"]: {"interface": expected["peer"]}}
    for option in expected.get("options", ()):
        declared = charm.config["options"][option]
        assert (declared["type"], declared["default"]) == ("string", "")
    if "action" in expected:
        declared = charm.actions[str(expected["action"])]
        assert tuple(declared.get("params", {})) == expected["params"]
        assert tuple(declared.get("required", ())) == expected["params"]
        for schema in declared.get("params", {}).values():
            assert schema["type"] == "string"


def test_results_have_the_names_that_callers_of_sshproxycharm_read() -> None:
    from vpnaas.actions import declared
    from vpnaas.unit import VduActions

    actions = declared([VduActions])
    for name in ("generate-ssh-key", *RESULTS):
        # Results by key, not one JSON text.
        assert actions[name][1].plain
    assert actions["verify-ssh-credentials"][1].failed == {"verified": "False"}


# -- ops-scenario ----------------------------------------------------------------------------------

_SCENARIO = r"""
import json, logging, runpy, sys
import yaml
from ops import testing
from vpnaas import edge, juju
logging.disable(logging.CRITICAL)
folder, entry = sys.argv[1:]
def of(name):
    with open(folder + "/" + name) as stream:
        return yaml.safe_load(stream)
told = []
edge.main = lambda *names: told.append(edge.kind_of(*names))
runpy.run_path(entry, run_name="__main__")
(code,) = told
meta, actions = of("metadata.yaml"), of("actions.yaml")
context = testing.Context(
    juju.charm_of(code), meta=meta, actions=actions, config=of("config.yaml")
)
peer = testing.PeerRelation("proxypeer")
ends = [*meta.get("provides", {}), *meta.get("requires", {})]
relations = [peer, *(testing.Relation(name) for name in ends)]
told = {}
for leader in (True, False):
    state = testing.State(leader=leader, relations=relations)
    names = ["install", "start", "config_changed", "update_status", "upgrade_charm", "stop"]
    events = [getattr(context.on, name)() for name in names]
    events += [context.on.leader_elected()] if leader else []
    for relation in relations:
        kinds = ["created", "joined", "changed", "departed", "broken"]
        # A peer relation lives as long as its unit, and there is no other unit here.
        kinds = ["created", "changed"] if relation is peer else kinds
        for kind in kinds:
            more = {"remote_unit": 0} if kind in ("joined", "departed") else {}
            events.append(getattr(context.on, "relation_" + kind)(relation, **more))
    for event in events:
        # Context.run checks event, state and declarations for consistency before it runs.
        status = context.run(event, state).unit_status
        told[f"{event.name} {leader}"] = [status.name, status.message]
    for name, action in actions.items():
        # Units beside the leader refuse all actions at one place.
        if action.get("required") or not leader and name != "show-status":
            continue
        try:
            context.run(context.on.action(name), state)
            told[f"{name} {leader}"] = ["done", ""]
        except testing.ActionFailed as failed:
            told[f"{name} {leader}"] = ["failed", failed.message]
print(json.dumps(told))
"""


@pytest.mark.parametrize(
    "name",
    [n if n == "mme" else pytest.param(n, marks=pytest.mark.long) for n in TREE.charms()],
)
def test_scenario_finds_every_event_consistent(name: str, tmp_path: Path) -> None:
    charms.declare(TREE, name, tmp_path)
    done = run(
        installed(SCENARIO), _SCENARIO, str(tmp_path), str(tmp_path / "src/charm.py"),
        path=str(TREE.library.parent),
    )  # fmt: skip
    assert "install True" in done
    assert "config_changed False" in done
    for what, (status, sentence) in done.items():
        # OSM waits for active or blocked, and shows the sentence of what failed.
        assert status in ("active", "blocked", "unknown", "done", "failed"), what
        assert status != "failed" or sentence, what


# -- jubilant --------------------------------------------------------------------------------------

_JUBILANT = r"""
import json, sys
import jubilant
folder = sys.argv[1]
with jubilant.temp_model() as juju:
    juju.deploy(folder, "mme", base="ubuntu@22.04", config={"allow-experiments": "yes"})
    juju.wait(lambda status: jubilant.all_active(status, "mme"), timeout=1800)
    key = juju.run("mme/leader", "get-ssh-public-key").results["pubkey"]
    try:
        told = juju.run("mme/leader", "verify-ssh-credentials").results
    except jubilant.TaskError as failed:
        told = failed.task.results
print(json.dumps({"key": key, "verified": told["verified"]}))
"""


@pytest.mark.long
@pytest.mark.juju
def test_a_controller_deploys_a_charm_and_runs_its_actions(tmp_path: Path) -> None:
    if shutil.which("juju") is None:
        pytest.skip("needs the command juju, logged in to a controller with a cloud of machines")
    charms.assemble(TREE, "mme", tmp_path / "mme")
    done = run(installed(JUBILANT), _JUBILANT, str(tmp_path / "mme"))
    assert done["key"].startswith("ssh-ed25519 ")
    assert done["verified"] == "False"


# -- python-libjuju --------------------------------------------------------------------------------

_LIBJUJU = r"""
import asyncio, json, sys, tempfile, zipfile
from juju import utils
from juju.model import CharmArchiveGenerator, LocalDeployType
told = {}
for folder in sys.argv[1:]:
    with tempfile.NamedTemporaryFile() as file:
        CharmArchiveGenerator(folder).make_archive(file.name)
        with zipfile.ZipFile(file.name) as packed:
            names = packed.namelist()
            assert packed.testzip() is None
            mode = packed.getinfo("dispatch").external_attr >> 16 & 0o777
    found = asyncio.run(LocalDeployType().resolve(
        type("Url", (), {"path": lambda self: folder, "name": None})(), "amd64"))
    told[folder] = [found.app_name, found.is_local, found.is_bundle, mode, len(names),
                    utils.get_local_charm_metadata(folder)["series"]]
print(json.dumps(told))
"""


@pytest.mark.long
def test_libjuju_of_lcm_takes_every_charm_folder(tmp_path: Path) -> None:
    packages = installed(LIBJUJU)
    folders = []
    for name in TREE.charms():
        charms.assemble(TREE, name, tmp_path / name)
        folders.append(str(tmp_path / name))
    done = run(packages, _LIBJUJU, *folders)
    assert sorted(done) == sorted(folders)
    for folder, (name, local, bundle, mode, count, series) in done.items():
        assert (name, local, bundle, mode) == (Path(folder).name, True, False, 0o755)
        assert count > 100
        assert "bionic" in series  # LCM makes the machine so
