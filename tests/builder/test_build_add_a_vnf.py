"""docs/how-to/add-a-vnf.md, followed to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from builder.cli import main
from builder.tree import Tree

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/add-a-vnf.md"


class Block(NamedTuple):
    files: list[str]
    kind: str
    text: str


def blocks() -> list[Block]:
    """Return the page's blocks with the files that the paragraph before each names."""
    form = r"((?:[^\n]+\n)*)\n```(\w+)\n(.*?)```"
    found = re.findall(form, PAGE.read_text(encoding="utf-8"), re.S)
    return [Block(re.findall(r"`([^`]+/[^`]+)`", text), *rest) for text, *rest in found]


def follow(folder: Path) -> list[str]:
    """Do in `folder` what the page says, up to the build; return the commands after it."""
    after: list[str] = []
    for files, kind, text in blocks():
        if kind == "yaml":
            (name,) = files
            (folder / name).parent.mkdir()
            (folder / name).write_text(text, encoding="utf-8")
        elif kind == "diff":
            assert files
            for name in files:
                subprocess.run(
                    ["patch", "--no-backup-if-mismatch", "--fuzz=0", name],
                    cwd=folder,
                    input=text,
                    text=True,
                    check=True,
                )
        elif text.startswith("./run build") or after:
            after += text.splitlines()
        else:
            subprocess.run(["sh", "-eu", "-c", text], cwd=folder, check=True)
    return after


def test_a_vnf_with_a_new_link_needs_no_code() -> None:
    assert not [name for block in blocks() for name in block.files if name.endswith((".py", ".sh"))]


@pytest.fixture
def followed(sources: Tree, tree: Tree) -> Tree:
    (sources.root / ".cache").symlink_to(tree.cache)
    assert follow(sources.root)[0] == "./run build"
    return sources


def test_everything_can_be_built(
    followed: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: followed))
    # Every package that the page changes; the parameter files are always all made and checked.
    services = ("epc_ns", "epc_ue_ns", "epc_core_ns", "hss_ns")
    vnfs = [f"{name}_vnf" for name in ("hss", "mme", "spgwc", "spgwu", "enb", "ue", "pcrf")]
    templates = ("embb_nst", "embb_shared_nst", "urllc_shared_nst")
    out = tmp_path / "out"
    words = ["build", "--out", str(out), *services, *vnfs, *templates]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    parameters = yaml.safe_load((out / "params/embb_shared.yaml").read_text(encoding="utf-8"))
    core = parameters["netslice-subnet"][1]["additionalParamsForVnf"]
    values = {member["member-vnf-index"]: member["additionalParams"] for member in core}
    assert values["pcrf"]["gx_inner_address"] == "172.16.7.1/24"
    assert values["spgwc"]["gx_inner_address"] == "172.16.7.4/24"


@pytest.mark.lab
@pytest.mark.long
def test_the_new_link_comes_up_in_the_lab(
    sources: Tree, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources.root / ".cache").symlink_to(tree.cache)
    build, *commands = follow(sources.root)
    assert build == "./run build"
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    vnfs = [f"{name}_vnf" for name in ("hss", "mme", "spgwc", "spgwu", "enb", "pcrf")]
    result = CliRunner().invoke(main, ["build", "epc_ns", *vnfs])
    assert result.exit_code == 0, result.output
    home = tmp_path / "home"
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "OSMLAB_HOME": str(home), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    osm_lab = [bin_folder / "osm-lab", "lab", "clean"]
    try:
        done = subprocess.run(
            ["sh", "-eu", "-c", "\n".join(commands)],
            cwd=sources.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(osm_lab, env=env, check=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "3 received, 0% packet loss" in done.stdout
