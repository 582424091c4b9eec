"""docs/how-to/add-a-vnf.md, followed to the letter."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from builder import documents, new_vnf
from builder.cli import main
from builder.errors import BuildError
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
        if kind == "diff":
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
            program, *words = shlex.split(text.replace("\\\n", " "))
            assert program == "vpnaas-build"
            result = CliRunner().invoke(main, words)
            assert result.exit_code == 0, result.output
    return after


def test_the_author_of_a_vnf_edits_two_files() -> None:
    assert len([name for block in blocks() if block.kind == "diff" for name in block.files]) == 2


@pytest.fixture
def followed(sources: Tree, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    (sources.root / ".cache").symlink_to(tree.cache)
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    assert follow(sources.root)[0] == "./run build"
    return sources


@pytest.mark.usefixtures("followed")
def test_everything_can_be_built(tmp_path: Path) -> None:
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
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    build, *commands = follow(sources.root)
    assert build == "./run build"
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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(
            "PCRF --link gx:provider --to spgwc", "NAME PCRF; allowed: 1 to 12", id="name"
        ),
        pytest.param("pcrf --link gx --to spgwc", "NAME:provider or NAME:requirer", id="role"),
        pytest.param("pcrf --link gx:provider --to nothing", "--to nothing; allowed: ", id="other"),
        pytest.param("pcrf --link s11:provider --to spgwc", "spgwc has it; allowed: ", id="taken"),
        pytest.param("hss --link gx:provider --to spgwc", "charms/hss is there", id="there"),
        pytest.param("pcrf --link s6a:provider --to spgwc", "network of this name", id="network"),
        pytest.param(
            "pcrf --link gx:provider --to spgwc --ns hss_ns",
            "--ns hss_ns; allowed: epc",
            id="service",
        ),
        pytest.param(
            "pcrf --link gx:provider --to spgwc --carries 80", "one like tcp:3868", id="carries"
        ),
        pytest.param(
            "cell3 --link bb:requirer --to secgw", "no member-vnf-index secgw", id="midway"
        ),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    sources: Tree, words: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    before = contents(sources)
    result = CliRunner().invoke(main, ["new-vnf", *words.split()])
    assert result.exit_code == 1
    assert reason in result.output
    assert contents(sources) == before


def contents(sources: Tree) -> dict[Path, bytes]:
    return {p: p.read_bytes() if p.is_file() else b"" for p in sources.root.rglob("*")}


def test_lines_are_added_and_all_others_stay(
    sources: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    files = [p for p in sources.root.rglob("*.yaml") if p.is_file() and "vendor" not in p.parts]
    before = {path: path.read_text(encoding="utf-8").splitlines() for path in files}
    words = ["new-vnf", "pcrf", "--link", "gx:provider", "--to", "mme"]
    assert CliRunner().invoke(main, words).exit_code == 0
    for path, lines in before.items():
        left = iter(path.read_text(encoding="utf-8").splitlines())
        assert all(line in left for line in lines), path


def test_a_name_that_is_a_word_of_yaml_stays_a_name() -> None:
    edits = new_vnf._Edits(new_vnf.Link("on", "provider"), "no", "hss", [], "192.168.12.0/24")
    files = edits.filled(new_vnf.TEXTS["files"])
    charm = yaml.safe_load(documents.dump(files["charms/no/charm.yaml"]))
    assert (charm["name"], charm["links"]) == ("no", {"on": "provider"})
    vnfd = yaml.safe_load(documents.dump(files["vnf-packages/no_vnf/no_vnfd.yaml"]))
    assert vnfd["vnfd"]["vdu"][0]["id"] == "no"


def test_an_entry_that_is_missing_is_named_by_its_key(sources: Tree) -> None:
    edits = new_vnf._Edits(new_vnf.Link("gx", "provider"), "pcrf", "nobody", [], "192.168.12.0/24")
    with pytest.raises(BuildError, match="there is no member-vnf-index nobody, where a line"):
        edits.write(sources.root / "params/epc_secgw.yaml", "params")
