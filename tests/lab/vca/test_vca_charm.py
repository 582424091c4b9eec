"""Charm folders: what is refused, how they are copied, options and relations."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.juju_operator import add_units, config, remove_relation, remove_unit
from vca_support import WAIT, new_model, write_charm

from lab.errors import (
    NotFoundError,
    VcaError,
)
from lab.vca.charm import pack, unpack
from lab.vca.controller import Controller
from lab.vca.model import Model
from lab.vca.python import choose_python

Change = Callable[[Path], object]


def edit(file: str, **values: object) -> Change:
    def change(folder: Path) -> None:
        path = folder / file
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**content, **values}))

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda f: (f / "metadata.yaml").unlink(),
            "metadata.yaml: is missing: this is not a charm",
        ),
        (
            lambda f: (f / "metadata.yaml").write_text("a: ["),
            "metadata.yaml: is not usable as YAML: line 2",
        ),
        (
            lambda f: (f / "config.yaml").write_text("- a"),
            "config.yaml: the document: must be a mapping",
        ),
        (
            edit("metadata.yaml", name="Not A Name"),
            'metadata.yaml: name: "Not A Name" is no charm name',
        ),
        (
            edit("metadata.yaml", provides={"x": {}}),
            "metadata.yaml: provides/x/interface: field required",
        ),
        (
            edit("metadata.yaml", provides={"x": "i"}, requires={"x": "i"}),
            "endpoint x is declared twice",
        ),
        (edit("metadata.yaml", requires={"juju-x": "i"}), "reserved to Juju"),
        (
            edit("config.yaml", options={"o": {"type": "text"}}),
            "config.yaml: options/o/type: must be",
        ),
        (
            edit("config.yaml", options={"o": {"type": "int", "default": "x"}}),
            'invalid default: option "o" expected int, got "x"',
        ),
        (edit("actions.yaml", Bad_Name={}), "action Bad_Name has a name Juju does not take"),
        (edit("actions.yaml", **{"juju-x": {}}), "reserved to Juju"),
        (
            edit("actions.yaml", act={"params": {"p": {"type": "str"}}}),
            "actions.yaml: act: no JSON schema at properties/p",
        ),
        (lambda f: (f / "out").symlink_to("../../../etc/passwd"), "link"),
        (lambda f: (f / "gone").symlink_to("nowhere"), "gone links to a file that does not exist"),
    ],
)
def test_charms_that_are_refused_leave_nothing(
    idle_model: Model, tmp_path: Path, change: Change, text: str
) -> None:
    folder = write_charm(tmp_path / "a", "a")
    change(folder)
    with pytest.raises(VcaError, match=re.escape(text)) as caught:
        idle_model.deploy("a", folder)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "h") not in str(caught.value), "the user's path, not ours"
    assert idle_model.status().applications == {}
    assert list((idle_model.paths.model / "charms").glob("*")) == []


def test_an_outward_link_that_exists_is_refused(idle_model: Model, tmp_path: Path) -> None:
    folder = write_charm(tmp_path / "a", "a")
    (tmp_path / "secret").write_text("x")
    (folder / "out").symlink_to("../secret")
    with pytest.raises(VcaError, match="Only internal symlinks are allowed"):
        idle_model.deploy("a", folder)


def test_pack_leaves_out_what_libjuju_leaves_out(tmp_path: Path) -> None:
    folder = write_charm(tmp_path / "a", "a")
    for name in ("build/x", ".git/config", "src/build/y", "src/.hidden", "lib/pkg/z"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".env").write_text("x")
    (folder / "empty").mkdir()
    (folder / "inner").symlink_to("src/build/y")
    (folder / "dirlink").symlink_to("src")
    warnings = pack(folder, tmp_path / "packed")
    found = {str(p.relative_to(tmp_path / "packed")) for p in (tmp_path / "packed").rglob("*")}
    assert found == {
        "metadata.yaml",
        "config.yaml",
        "actions.yaml",
        "dispatch",
        "empty",
        "inner",
        "lib",
        "lib/pkg",
        "lib/pkg/z",
        "src",
        "src/build",
        "src/build/y",
        "src/.hidden",
    }
    assert (tmp_path / "packed" / "inner").is_symlink()
    assert os.access(tmp_path / "packed" / "dispatch", os.X_OK)
    assert warnings == ["dirlink links to a folder and is left out of the charm"]


def test_unpack_replaces_files_by_other_kinds_and_can_be_repeated(tmp_path: Path) -> None:
    one, two, unit = tmp_path / "one", tmp_path / "two", tmp_path / "unit"
    (one / "thing").mkdir(parents=True)
    (one / "thing" / "inner.py").write_text("1")
    (one / "file").write_text("1")
    (two / "file").mkdir(parents=True)
    (two / "file" / "now-a-folder").write_text("2")
    (two / "thing").write_text("2")
    unpack(one, unit)
    (unit / "made-by-charm").write_text("kept")
    assert (unit / "thing" / "__pycache__").is_dir()
    for _ in range(2):
        unpack(two, unit)
        assert (unit / "file" / "now-a-folder").read_text() == "2"
        assert (unit / "thing").read_text() == "2"
        assert (unit / "made-by-charm").read_text() == "kept"


def test_units_share_python_packages_and_nothing_else(tmp_path: Path) -> None:
    source = write_charm(tmp_path / "a", "a")
    (source / "venv" / "pkg").mkdir(parents=True)
    (source / "venv" / "pkg" / "module.py").write_text("x = 1")
    (source / "venv" / "link.py").symlink_to("pkg/module.py")
    pack(source, tmp_path / "packed")
    units = [tmp_path / "unit-0", tmp_path / "unit-1"]
    for unit in units:
        unpack(tmp_path / "packed", unit)
    module = Path("venv", "pkg", "module.py")
    assert (units[0] / module).samefile(units[1] / module)
    assert (units[0] / "venv" / "link.py").is_symlink()
    assert not (units[0] / "dispatch").samefile(units[1] / "dispatch")
    # An upgrade of one unit leaves the other as it was.
    (source / "venv" / "pkg" / "module.py").unlink()
    (source / "venv" / "pkg" / "module.py").write_text("x = 2")
    pack(source, tmp_path / "revised")
    unpack(tmp_path / "revised", units[0])
    assert [(unit / module).read_text() for unit in units] == ["x = 2", "x = 1"]


def test_bytecode_is_that_of_the_modules_and_of_all_units_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an upgrade changes neither date nor size of a file, as those of an archive."""
    monkeypatch.setattr("lab.vca.charm.BYTECODE", tmp_path / "bytecode")
    packed, units = tmp_path / "packed", [tmp_path / "unit-0", tmp_path / "unit-1"]
    (packed / "lib" / "__pycache__").mkdir(parents=True)  # of whoever packed it
    for word in ("one", "two"):
        (packed / "lib" / "module.py").write_text(f"print('{word}', __cached__, __file__)")
        os.utime(packed / "lib" / "module.py", (1640995200, 1640995200))
        cached = set()
        for unit in units:
            unpack(packed, unit)
            words = [sys.executable, "-c", "import module"]
            done = subprocess.check_output(words, text=True, env={"PYTHONPATH": str(unit / "lib")})
            said, compiled, file = done.split()
            assert (said, file) == (word, str(unit / "lib" / "module.py"))
            cached.add(Path(compiled).resolve(strict=True))
        assert len(cached) == 1
    shutil.rmtree(packed / "lib")
    unpack(packed, units[0])
    assert not (units[0] / "lib").exists()


def test_an_unpack_that_was_cut_off_does_not_forget_old_files(tmp_path: Path) -> None:
    one, two, unit = tmp_path / "one", tmp_path / "two", tmp_path / "unit"
    for folder, name in ((one, "old"), (two, "new")):
        folder.mkdir()
        (folder / name).write_text("x")
    unpack(one, unit)
    shutil.move(two / "new", tmp_path / "aside")
    (two / "new").mkdir()  # a copy of which a later step is missing
    unpack(two, unit)
    (two / "new").rmdir()
    shutil.move(tmp_path / "aside", two / "new")
    unpack(two, unit)
    assert not (unit / "old").exists()
    assert (unit / "new").read_text() == "x"


OPTIONS: dict[str, object] = {
    "s": {"default": ""},
    "i": {"type": "int", "default": 1},
    "f": {"type": "float"},
    "b": {"type": "boolean", "default": False},
}


@pytest.fixture
def app(idle_model: Model, tmp_path: Path) -> Model:
    idle_model.deploy("a", write_charm(tmp_path / "a", "a", options=OPTIONS, provides="db web"))
    return idle_model


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("s", "text", "text"),
        ("s", "", ""),
        ("i", "7", 7),
        ("i", -3, -3),
        ("f", "1.5", 1.5),
        ("f", 2, 2.0),
        ("b", "true", True),
        ("b", "F", False),
        ("b", True, True),
    ],
)
def test_options_are_converted(
    app: Model, name: str, value: str | int | bool, kept: object
) -> None:
    app.set_config("a", {name: value})
    assert config(app, "a")[name] == kept
    assert type(config(app, "a")[name]) is type(kept)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("s", 5, 'option "s" expected string, got 5'),
        ("s", True, 'option "s" expected string, got True'),
        ("i", "x", 'option "i" expected int, got "x"'),
        ("i", "", 'option "i" expected int, got ""'),
        ("i", True, 'option "i" expected int, got True'),
        ("i", 2**63, f'option "i" expected int, got {2**63}'),
        ("f", "wide", 'option "f" expected float, got "wide"'),
        ("f", 10**400, f'option "f" expected float, got {10**400}'),
        ("b", "yes", 'option "b" expected boolean, got "yes"'),
        ("b", 1, 'option "b" expected boolean, got 1'),
    ],
)
def test_wrong_options_change_nothing(
    app: Model, name: str, value: str | int | bool, text: str
) -> None:
    with pytest.raises(VcaError, match=f"^{re.escape(text)}$"):
        app.set_config("a", {"s": "new", name: value})
    assert config(app, "a") == {"s": "", "i": 1, "f": None, "b": False}


def test_unknown_options(app: Model) -> None:
    with pytest.raises(NotFoundError, match='^unknown option "nope"$'):
        app.set_config("a", {"s": "new", "nope": "x"})
    assert config(app, "a")["s"] == ""


def test_relations_juju_refuses(app: Model, tmp_path: Path) -> None:
    app.deploy("b", write_charm(tmp_path / "b", "b", requires="db web", peers="ring"))
    app.deploy("c", write_charm(tmp_path / "c", "c", requires="db", interface="other"))
    number = app.add_relation("a:db", "b:db")
    cases: list[tuple[str, str, type[VcaError], str]] = [
        (
            "b:db",
            "a:db",
            VcaError,
            'cannot add relation "b:db a:db": relation b:db a:db already exists',
        ),
        ("x:db", "b:db", NotFoundError, 'application "x" not found'),
        ("a:nope", "b:db", NotFoundError, 'application "a" has no "nope" relation'),
        ("a:db", "a:web", NotFoundError, "no relations found"),
        ("a:db", "c:db", NotFoundError, "no relations found"),
        ("b:ring", "b:ring", NotFoundError, "no relations found"),
        ("a:d b", "b:db", NotFoundError, 'application "a" has no "d b" relation'),
    ]
    for first, second, error, result in cases:
        with pytest.raises(error, match=re.escape(result)):
            app.add_relation(first, second)
    with pytest.raises(NotFoundError, match='relation "a:web b:web" not found'):
        remove_relation(app, "a:web", "b:web")
    with pytest.raises(VcaError, match="is a peer relation"):
        remove_relation(app, "b:ring", "b:ring")
    assert app.add_relation("a:db", "b:web") == number + 1, "one endpoint, two relations"


def test_relation_limit(idle_model: Model, tmp_path: Path) -> None:
    folder = write_charm(tmp_path / "a", "a")
    edit("metadata.yaml", requires={"db": {"interface": "link", "limit": 1}})(folder)
    idle_model.deploy("a", folder)
    for name in ("p", "q"):
        idle_model.deploy(name, write_charm(tmp_path / name, name, provides="db"))
    idle_model.add_relation("a:db", "p:db")
    with pytest.raises(VcaError, match="would exceed its maximum relation limit of 1"):
        idle_model.add_relation("a:db", "q:db")


@pytest.mark.parametrize("name", ["A", "a_b", "a-1", "1a", "", "a/0", "a-z0-1-vnf", "../x"])
def test_application_names_juju_refuses(idle_model: Model, tmp_path: Path, name: str) -> None:
    with pytest.raises(VcaError, match="invalid application name"):
        idle_model.deploy(name, write_charm(tmp_path / "a", "a"))


def test_names_osm_makes_are_taken(idle_model: Model, tmp_path: Path) -> None:
    assert idle_model.deploy("vpn-ee-z0-z1-vnf", write_charm(tmp_path / "a", "a")) == [
        "vpn-ee-z0-z1-vnf/0"
    ]


def test_deploy_twice_and_unknown_things(app: Model, tmp_path: Path) -> None:
    with pytest.raises(VcaError, match="already exists"):
        app.deploy("a", tmp_path / "a")
    for call in (
        lambda: add_units(app, "x"),
        lambda: app.remove_application("x"),
        lambda: app.upgrade_charm("x", tmp_path / "a"),
        lambda: app.set_config("x", {}),
        lambda: remove_unit(app, "a/7"),
        lambda: app.show_unit("a/7"),
    ):
        with pytest.raises(NotFoundError, match="not found"):
            call()
    with pytest.raises(VcaError, match="must not be negative"):
        add_units(app, "a", -1)
    with pytest.raises(VcaError, match="250 units"):
        add_units(app, "a", 300)


def test_upgrades_juju_refuses(app: Model, tmp_path: Path) -> None:
    app.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    app.add_relation("a:db", "b:db")
    with pytest.raises(VcaError, match='from charm "a" to charm "other"'):
        app.upgrade_charm("a", write_charm(tmp_path / "o", "other"))
    with pytest.raises(VcaError, match='would break relation "b:db a:db"'):
        app.upgrade_charm("a", write_charm(tmp_path / "p", "a", provides="web"))
    assert {p.name for p in (app.paths.model / "charms").iterdir()} == {"a-0", "b-0"}


def test_an_upgrade_drops_options_that_are_gone(app: Model, tmp_path: Path) -> None:
    app.set_config("a", {"s": "x", "i": 5})
    app.upgrade_charm("a", write_charm(tmp_path / "v2", "a", options={"i": {"type": "int"}}))
    assert config(app, "a") == {"i": 5}


def test_names_of_models(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "h")
    controller.add_model("8b5f5a06-3c5e-4b63-8a8e-1f6d8f4c2b11")
    assert controller.models() == ["8b5f5a06-3c5e-4b63-8a8e-1f6d8f4c2b11"]
    with pytest.raises(VcaError):
        controller.add_model(controller.models()[0])
    with pytest.raises(NotFoundError):
        controller.model("other")


def test_charm_python_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSMLAB_CHARM_PYTHON", "/usr/bin/python3")
    model = new_model(tmp_path / "h")
    script = "echo python=$(python3 -c 'import sys; print(sys.version_info[0])')\n"
    with model:
        model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
        model.wait_idle(WAIT)
    assert "python=3" in model.log_path("a/0").read_text()
    monkeypatch.setenv("OSMLAB_CHARM_PYTHON", "/no/such/python")
    with pytest.raises(VcaError, match="is not a Python interpreter that runs"):
        choose_python()
