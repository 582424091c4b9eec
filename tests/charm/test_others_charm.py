"""Somebody else's charm, outside the tree: the library as a package secures its one relation."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from flavours import WAIT, Flavour
from vdus import Site, healthy, refused, site

from lab.vca.python import choose_python

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "charms/lib"
BLOCK = re.compile(r"^`([\w./]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INNER = {"sensor": "172.16.9.1", "archive": "172.16.9.2"}


def run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as it is installed from a wheel."""
    base = tmp_path_factory.mktemp("package")
    shutil.copytree(LIBRARY, base / "lib")
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", base, base / "lib")
    (wheel,) = base.glob("osm_vpnaas_charm-*.whl")
    run(*pip, "install", "-q", "--no-deps", "--no-compile", "--target", base / "venv", wheel)
    return base / "venv"


def lines() -> dict[str, str]:
    """Return the files of the charm as the page shows them."""
    return dict(BLOCK.findall((LIBRARY / "README.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def charms(package: Path, vendored: Path, tmp_path_factory: pytest.TempPathFactory) -> Flavour:
    """The charm, and its like for the other end of the relation."""
    base = tmp_path_factory.mktemp("others")
    for name in INNER:
        for file, text in lines().items():
            path = base / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == "archive" and file == "metadata.yaml":
                text = text.replace("sensor\n", "archive\n", 1).replace("provides", "requires")
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        shutil.copytree(vendored / "hss/venv", base / name / "venv", symlinks=True)
        shutil.copytree(package, base / name / "venv", dirs_exist_ok=True)
    return Flavour("others", base, choose_python().path)


def test_the_charm_has_25_lines() -> None:
    texts = lines()
    assert sorted(texts) == [
        "actions.yaml",
        "config.yaml",
        "dispatch",
        "metadata.yaml",
        "src/charm.py",
    ]
    assert sum(len(re.findall("(?m)^.+$", text)) for text in texts.values()) <= 25


def test_the_package_is_the_library_whole(package: Path) -> None:
    ours = {
        path.relative_to(LIBRARY)
        for path in (LIBRARY / "vpnaas").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert ours <= {path.relative_to(package) for path in package.rglob("*")}
    assert not (package / "oai").exists()
    versions = [
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
        for folder in (ROOT, LIBRARY)
    ]
    assert versions[0] == versions[1]


def test_it_answers_before_it_has_a_vdu(charms: Flavour, tmp_path: Path) -> None:
    with charms.model(tmp_path) as model:
        for name in INNER:
            model.deploy(name, charms.charm(name))
        model.add_relation("sensor:readings", "archive:readings")
        waiting = ("active", "ready, waiting for OSM to set ssh-hostname and ssh-username")
        assert healthy(model) == {f"{name}/0": waiting for name in INNER}
        result = model.run_action("sensor", "read-sensor", timeout=WAIT)
        assert json.loads(result.results["output"]) == {"celsius": 21}
        asked = {"link": "readings", "inner-address": "172.16.9.1/24", "underlay-interface": "ens4"}
        assert refused(model, "sensor", "configure", **asked).startswith("ssh-hostname")


@pytest.fixture(scope="module")
def service(charms: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    members = {vnf: [("plant", f"192.168.9.{end}")] for end, vnf in enumerate(INNER, start=10)}
    home = tmp_path_factory.mktemp("vdus")
    with site(home, charms, {"plant": "192.168.9.0/24"}, members) as made:
        made.model.add_relation("sensor:readings", "archive:readings")
        made.model.wait_idle(WAIT)
        for vnf, address in INNER.items():
            made.let_in(vnf)
            link = {"link": "readings", "underlay-interface": "ens4"}
            asked = {**link, "inner-address": f"{address}/24"}
            result = made.model.run_action(vnf, "configure", asked, timeout=WAIT)
            assert result.status == "completed", result.results
        yield made


@pytest.mark.lab
def test_its_relation_is_a_tunnel(service: Site) -> None:
    assert set(healthy(service.model).values()) == {("active", "readings up")}
    service.out("sensor", "ping", "-n", "-q", "-c", "2", "-w", "5", INNER["archive"])
    assert "latest handshake" in service.out("sensor", "wg", "show", "wg-readings")
