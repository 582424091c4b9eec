"""`./run`: help comes at once, and packages are built without root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.tree import Tree
from builder.vendor import vendored

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# What the stamp of a set-up .venv holds, one after the other: see tools/python.sh.
STAMPED = ("pyproject.toml", "programs.lock", "tests.lock")


def run(*words: str, user: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./run", *words],
        cwd=ROOT,
        user=user,
        group="nogroup" if user else None,
        extra_groups=[] if user else None,
        env={"PATH": os.environ["PATH"], "HOME": str(ROOT / ".cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_names_every_command(word: str) -> None:
    done = run(word)
    assert done.returncode == 0
    commands = re.findall(r"^ {4}([a-z]+)\)", (ROOT / "run").read_text(encoding="utf-8"), re.M)
    assert len(commands) > 8
    assert [name for name in commands if not re.search(rf"^  {name}\b", done.stdout, re.M)] == []


def test_an_unknown_command_is_refused_with_the_list() -> None:
    done = run("bogus")
    assert done.returncode == 1
    assert "unknown command 'bogus'" in done.stderr
    assert "; allowed: acceptance, audit, bench, build, " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "allowed: demo, demo 5g, demo epc" in run("demo", "nope").stderr


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        ("", 0, ""),
        ("Found 1 known vulnerability in 1 package", 1, "an advisory that no page explains"),
        ("ERROR:pip_audit._cli:Tunnel failed", 2, "gives no answer, so nothing is known of"),
    ],
)
def test_an_audit_tells_an_advisory_from_a_database_that_gives_no_answer(
    tmp_path: Path, said: str, code: int, sentence: str
) -> None:
    """`said` is what pip-audit writes, for each of the files."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fails = f'[ -z "{said}" ] || {{ echo "{said}" >&2; exit 1; }}'
    for name, body in (("pip", ""), ("python", fails)):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    script = "set -eu; . tools/say.sh; . tools/tests.sh; setup_python() { :; }; audit"
    places = {"cache": str(tmp_path), "venv": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=places, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("ERROR: ") == bool(code)


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder of a user without rights; the tree itself has Python and wheels set up."""
    stamp = ROOT / ".venv/.installed-for"
    asked = b"".join((ROOT / name).read_bytes() for name in STAMPED)
    if not stamp.is_file() or stamp.read_bytes() != asked:
        pytest.skip("needs .venv as ./run makes it")
    venv = str(ROOT / ".venv/bin/python")
    if subprocess.run(["test", "-x", venv], user="nobody", check=False).returncode:
        pytest.skip("other users cannot enter the folder of this tree")
    vendored(Tree(ROOT))
    with tempfile.TemporaryDirectory(prefix="run-") as made:
        shutil.chown(made, "nobody", "nogroup")
        yield Path(made)


@pytest.mark.lab
def test_packages_are_built_by_a_user_without_rights(place: Path) -> None:
    packages = ("vpn_basic_ns", "vpn_endpoint_vnf")
    done = run("build", "--out", str(place / "dist"), *packages, user="nobody")
    assert done.returncode == 0, done.stderr
    assert "2 packages" in done.stdout
    assert "installing" not in done.stderr
    assert (place / "dist/vpn_endpoint_vnf.tar.gz").stat().st_uid != 0


@pytest.mark.lab
def test_what_needs_root_says_so() -> None:
    done = run("demo", user="nobody")
    assert done.returncode == 1
    assert "run this as root" in done.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [("demo", "--profile"), ("demo epc", "--keep"), ("build", "--architecture")],
)
def test_help_of_a_command_shows_its_options_and_builds_nothing(words: str, option: str) -> None:
    done = run(*words.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert option in done.stdout
    assert "building" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--profile", "quick", "4g"], "Got unexpected extra argument (4g)"),
        (["--profile", "nosuch"], "'nosuch' is not one of '5g'"),
        (["--profile", "quick", "--repetition", "2"], "No such option"),
        (["--profile", "quick", "--keep"], ""),
    ],
)
def test_arguments_of_a_campaign_are_checked_before_anything_is_built(
    words: list[str], sentence: str
) -> None:
    done = subprocess.run(
        [sys.executable, "tools/needs.py", "experiments", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == bool(sentence), done.stderr
    assert sentence in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="clean needs root")
def test_clean_keeps_results_and_says_what_all_takes(tmp_path: Path) -> None:
    for name in ("run", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for name in ("dist", "site", "results", ".cache"):
        (tmp_path / name).mkdir()
    done = subprocess.run(["./run", "clean"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert {"results", ".cache"} <= left
    assert not left & {"dist", "site"}
    assert re.search(r"kept: results/ \([\d.]+K?\), \.cache/ \(.*\), and 0 packages", done.stderr)
    assert "'./run clean --all' removes these too" in done.stderr
    done = subprocess.run(["./run", "clean", "--all"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "results" not in {path.name for path in tmp_path.iterdir()}
