"""Real charms under ops: the release Python 3.6 charms are bound to, and the current one."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml
from support.juju_operator import remove_relation, remove_unit
from support.pip import fetched
from vca_support import WAIT, databag, log_text, new_model

from lab.vca.controller import Controller
from lab.vca.model import Model
from lab.vca.python import choose_python

CACHE = Path(__file__).resolve().parents[3] / ".cache"
PLATFORM = [
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.6",
    "--abi=cp36m",
    "--abi=none",
    "--abi=abi3",
    "--platform=manylinux2014_x86_64",
    "--platform=any",
]
OLD = ("ops==1.5.5", "PyYAML==6.0.1")
CURRENT = ("ops>=2.17", "PyYAML")
#: ops 1.5 imports cgi, which is gone in Python 3.13.
FLAVOURS = ["ops-1.5.5", pytest.param("ops-current", marks=pytest.mark.long)]
if sys.version_info >= (3, 13):
    FLAVOURS = ["ops-current"]

CHARM = """
import json
import logging
import sys

from ops.charm import CharmBase
from ops.framework import StoredState
from ops.main import main
from ops.model import ActiveStatus, BlockedStatus, MaintenanceStatus, ModelError, WaitingStatus

log = logging.getLogger(__name__)


class Talker(CharmBase):
    _stored = StoredState()

    def __init__(self, *args):
        super().__init__(*args)
        self._stored.set_default(starts=0, deferred=0)
        on = self.on
        for event in (on.install, on.start, on.config_changed, on.leader_elected, on.update_status,
                      on.upgrade_charm, on.stop):
            self.framework.observe(event, self._on_any)
        for event in (on.link_relation_created, on.link_relation_joined, on.link_relation_changed):
            self.framework.observe(event, self._on_link)
        self.framework.observe(on.link_relation_departed, self._on_departed)
        self.framework.observe(on.link_relation_broken, self._on_broken)
        self.framework.observe(on.ring_relation_changed, self._on_ring)
        self.framework.observe(on.show_action, self._on_show)
        self.framework.observe(on.fail_action, self._on_fail)

    def _on_any(self, event):
        log.info("event %s on python %s.%s", event.__class__.__name__, *sys.version_info[:2])
        if event.__class__.__name__ == "StartEvent":
            self._stored.starts += 1
            if self.unit.is_leader():
                self.model.get_relation("ring").data[self.app]["secret-of"] = self.unit.name
        if event.__class__.__name__ == "ConfigChangedEvent" and self.config["later"] == "yes":
            self._stored.deferred += 1
            if self._stored.deferred < 4:
                event.defer()
        if event.__class__.__name__ != "InstallEvent":  # databags are out of reach then
            self._publish()

    def _publish(self):
        words = []
        for relation in self.model.relations["link"]:
            if self.unit.is_leader():
                offer = json.dumps({"from": self.app.name, "word": self.config["word"]})
                relation.data[self.app]["offer"] = offer
            relation.data[self.unit]["unit"] = self.unit.name
            if relation.app is not None:
                remote = relation.data[relation.app].get("offer")
                if remote:
                    words.append(json.loads(remote)["word"])
            words += sorted(u.name for u in relation.units)
        status = ActiveStatus if words else BlockedStatus
        self.unit.status = status(" ".join(words) or "no link")

    def _on_link(self, event):
        log.info("link %s %s %s", event.__class__.__name__, event.app and event.app.name,
                 event.unit and event.unit.name)
        self._publish()

    def _on_departed(self, event):
        log.info("departed %s %s", event.unit.name, event.departing_unit.name)

    def _on_broken(self, event):
        log.info("broken %s units=%d", event.relation.name, len(event.relation.units))

    def _on_ring(self, event):
        log.info("ring %s", event.relation.data[self.app].get("secret-of"))

    def _on_show(self, event):
        relation = self.model.relations["link"][0]
        own = relation.data[self.unit].get("unit")
        try:
            app_data = relation.data[self.app].get("offer")
        except Exception as error:
            app_data = type(error).__name__
        event.set_results({
            "output": json.dumps({"param": event.params["text"], "own": own, "app": app_data}),
            "starts": str(self._stored.starts),
            "goal": "yes" if self.model.get_relation("ring") else "no",
        })

    def _on_fail(self, event):
        event.set_results({"output": "reason for the user"})
        event.fail("told to")


if __name__ == "__main__":
    main(Talker)
"""


@pytest.fixture(params=FLAVOURS)
def charm(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A charm folder laid out as the packages' are, with ops in venv/."""
    if request.param == "ops-1.5.5":
        libraries = fetched(CACHE, "old", *PLATFORM, *OLD)
    else:
        libraries = fetched(CACHE, "current", *CURRENT)
        monkeypatch.setenv("OSMLAB_CHARM_PYTHON", sys.executable)
    folder = tmp_path / "charm"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "charm.py").write_text(CHARM)
    shutil.copytree(libraries, folder / "venv", symlinks=True)
    dispatch = folder / "dispatch"
    dispatch.write_text(
        "#!/bin/sh\n"
        'cd "${JUJU_CHARM_DIR:-$(dirname "$0")}"\n'
        'PYTHONPATH="$PWD/lib:$PWD/venv" exec python3 src/charm.py\n'
    )
    dispatch.chmod(0o755)
    for file, content in (
        (
            "metadata.yaml",
            {
                "name": "talker",
                "summary": "s",
                "description": "d",
                "series": ["bionic"],
                "provides": {"link": {"interface": "talk"}},
                "peers": {"ring": {"interface": "ring"}},
            },
        ),
        (
            "config.yaml",
            {
                "options": {
                    "word": {"type": "string", "default": "hello"},
                    "later": {"type": "string", "default": ""},
                }
            },
        ),
        (
            "actions.yaml",
            {
                "show": {"params": {"text": {"type": "string", "default": "d"}}},
                "fail": {},
            },
        ),
    ):
        (folder / file).write_text(yaml.safe_dump(content))
    return folder


def requirer(folder: Path) -> Path:
    """Make the charm for the other end of the relation."""
    other = folder.with_name("other")
    shutil.copytree(folder, other, symlinks=True)
    metadata = yaml.safe_load((other / "metadata.yaml").read_text())
    metadata["requires"] = metadata.pop("provides")
    (other / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    return other


def lines(model: Model, unit: str, word: str) -> list[str]:
    return [
        line.partition(f"{word} ")[2]
        for line in log_text(model, unit).splitlines()
        if f".juju-log {word} " in line or f": {word} " in line
    ]


def test_the_life_of_two_ops_charms(charm: Path, tmp_path: Path) -> None:
    model = new_model(tmp_path / "home")
    with model:
        model.deploy("p", charm, num_units=2)
        model.deploy("r", requirer(charm))
        number = model.add_relation("p:link", "r:link")
        status = model.wait_idle(WAIT)
        assert status.units["r/0"].message == "hello p/0 p/1"
        assert status.units["p/0"].message == status.units["p/1"].message == "hello r/0"
        version = ".".join(map(str, choose_python().version[:2]))
        assert f"event InstallEvent on python {version}" in log_text(model, "p/0")
        # A change of the application's databag alone names no unit, wherever it falls.
        seen = set(lines(model, "p/1", "ring"))
        assert "p/0" in seen <= {"p/0", "None"}

        model.set_config("p", {"word": "ciao"})
        assert model.wait_idle(WAIT).units["r/0"].message == "ciao p/0 p/1"
        assert "RelationChangedEvent p None" in " ".join(lines(model, "r/0", "link"))

        shown = model.run_action("p", "show", {"text": "x <y> 'z'\n\"w\""}, WAIT)
        assert shown.status == "completed"
        assert yaml.safe_load(shown.results["output"]) == {
            "param": "x <y> 'z'\n\"w\"",
            "own": "p/0",
            "app": '{"from": "p", "word": "ciao"}',
        }
        assert (shown.results["starts"], shown.results["goal"]) == ("1", "yes")
        follower = model.run_action("p/1", "show", timeout=WAIT)
        assert yaml.safe_load(follower.results["output"])["app"] in (
            "ModelError",
            "RelationDataAccessError",
        )
        failed = model.run_action("r", "fail", timeout=WAIT)
        assert (failed.status, failed.message) == ("failed", "told to")
        assert failed.results == {"output": "reason for the user"}

        remove_unit(model, "p/0")
        status = model.wait_idle(WAIT)
        assert status.units["p/1"].leader
        assert lines(model, "r/0", "departed") == ["p/0 p/0"]
        remove_relation(model, "p:link", "r:link")
        model.wait_idle(WAIT)
        assert lines(model, "r/0", "broken") == ["link units=0"]
        assert number == 2
        assert "Uncaught exception" not in log_text(model, "p/1") + log_text(model, "r/0")
        model.update_status()
        assert model.wait_idle(WAIT).units["r/0"].message == "no link"


def test_deferred_events_come_again_in_later_hooks_and_processes(
    charm: Path, tmp_path: Path
) -> None:
    model = new_model(tmp_path / "home")
    model.deploy("p", charm)
    model.set_config("p", {"later": "yes"})
    with model:
        model.wait_idle(WAIT)
    # Deferred in config-changed, and again when start and ring-relation-changed repeated it.
    assert log_text(model, "p/0").count("event ConfigChangedEvent") == 3
    with Controller(tmp_path / "home").model("m") as again:
        again.update_status()
        again.wait_idle(WAIT)
        again.update_status()
        again.wait_idle(WAIT)
    assert log_text(model, "p/0").count("event ConfigChangedEvent") == 4


def test_an_exception_in_a_charm_is_a_failed_hook_with_its_traceback(
    charm: Path, tmp_path: Path
) -> None:
    model = new_model(tmp_path / "home")
    with model:
        model.deploy("p", charm)
        model.deploy("r", requirer(charm))
        model.add_relation("p:link", "r:link")
        model.wait_idle(WAIT)
        source = (charm / "src" / "charm.py").read_text()
        (charm / "src" / "charm.py").write_text(
            source.replace(
                "    def _on_any(self, event):\n",
                "    def _on_any(self, event):\n"
                "        self.model.relations['link'][0].data[self.unit]['half'] = '1'\n"
                "        raise RuntimeError('by design')\n",
            )
        )
        model.upgrade_charm("p", charm)
        model.wait_for(lambda s: s.units["p/0"].workload == "error", WAIT)
        assert "RuntimeError: by design" in log_text(model, "p/0")
        assert "half" not in databag(model, "r/0", "link", "p/0")
        assert model.status().units["p/0"].message == 'hook failed: "upgrade-charm"'
        (charm / "src" / "charm.py").write_text(source)
        model.upgrade_charm("p", charm)
        # As in Juju, a unit in error does not take the repaired charm by itself.
        assert model.status().units["p/0"].workload == "error"
