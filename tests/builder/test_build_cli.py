import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from builder.cli import main
from builder.tree import Tree
from builder.unchanged import STAMP

pytestmark = pytest.mark.slow


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_list_names_every_package(dist):
    result = run("list")
    assert result.exit_code == 0
    listed = sorted(line.split()[1] for line in result.output.splitlines())
    assert listed == sorted(path.name.removesuffix(".tar.gz") for path in dist.glob("*.tar.gz"))


def test_an_unknown_package_is_one_sentence_and_makes_nothing(tmp_path):
    result = run("build", "nope", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.output.startswith("Error: no package nope; allowed: ")
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "/proc/none/out"], "Error: /proc/none: No such file or directory"),
        (["--alarm-url", "http://["], "Error: alarm URL 'http://['"),
        (["--alarm-url", "http://host:99999/"], "Error: alarm URL 'http://host:99999/'"),
    ],
)
def test_a_target_or_url_that_cannot_be_is_one_sentence(tmp_path, arguments, words):
    result = run("build", "vpn_endpoint_vnf", "--out", str(tmp_path / "out"), *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert words in result.output
    assert not (tmp_path / "out").exists()


def test_an_unknown_architecture_is_refused(tmp_path):
    result = run("build", "hss_vnf", "--architecture", "../x", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "is not one of 'x86_64', 'aarch64'" in result.output
    assert not (tmp_path / "out").exists()


def test_a_service_can_be_built_without_its_vnfs_and_all_of_it_is_valid(tmp_path):
    result = run("build", "epc_ns", "vpn_basic_ns", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    made = {path.name for path in (tmp_path / "out").iterdir()}
    archives = {"epc_ns.tar.gz", "vpn_basic_ns.tar.gz"}
    assert made == archives | {"epc_ns", "vpn_basic_ns", "params", "sbom.cdx.json", STAMP}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_was_built_passes_the_validator(dist):
    result = run("validate", "--strict", *map(str, sorted(dist.glob("*.tar.gz"))))
    assert result.exit_code == 0, result.output
    assert result.output == ""


def test_an_invalid_package_is_named_and_nothing_of_it_is_kept(sources, tmp_path, monkeypatch):
    path = sources.root / "ns-packages/epc_ns/epc_nsd.yaml"
    path.write_text(
        path.read_text().replace("constituent-cpd-id: s6a-ext", "constituent-cpd-id: s6b-ext")
    )
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    result = run("build", "epc_ns", "--out", str(tmp_path / "o" / "out"))
    assert result.exit_code == 1
    assert "s6b-ext" in result.output
    assert not list((tmp_path / "o").iterdir())


def test_a_parameter_nobody_supplies_fails_the_build(sources, tmp_path, monkeypatch):
    path = sources.root / "params/vpn_basic.yaml"
    path.write_text(path.read_text().replace("    vpn_gateway: auto\n", "", 1))
    for name in ("variants", "slices"):
        (sources.root / f"params/{name}.yaml").write_text("{}\n")
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    result = run("build", "vpn_basic_ns", "--out", str(tmp_path / "o" / "out"))
    assert result.exit_code == 1
    assert "vpn_gateway" in result.output
    assert not list((tmp_path / "o").iterdir())


def test_a_parameter_file_that_fits_no_service_fails_the_build(sources, tmp_path, monkeypatch):
    path = sources.root / "params/vpn_basic.yaml"
    path.write_text(path.read_text().replace("member-vnf-index: server", "member-vnf-index: x"))
    for name in ("variants", "slices"):
        (sources.root / f"params/{name}.yaml").write_text("{}\n")
    shutil.rmtree(sources.root / "params/deployments")
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    result = run("build", "vpn_basic_ns", "--out", str(tmp_path / "o" / "out"))
    assert result.exit_code == 1
    assert "vpn_basic.yaml: no service has exactly the members client, x" in result.output
    assert not list((tmp_path / "o").iterdir())


def test_silent_problems_fail_only_when_asked(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("nst: [{id: a, name: a}]\nother: 1\n")
    result = run("validate", str(path))
    assert result.exit_code == 0
    assert result.output.startswith("silent: x.yaml: OSM ignores keys beside")
    assert run("validate", "--strict", str(path)).exit_code == 1


@pytest.mark.parametrize(
    ("name", "text", "begins"),
    [
        ("x.yaml", "vnfd: [a\n", "refused: x.yaml: not usable as YAML"),
        ("x.json", "{}", "refused: x.json: OSM cannot read"),
        ("x.yaml", "vnfd: 1\n", "refused: x.yaml: wrong envelope"),
        ("x.yaml", "nst: [{id: a, nsme: b}]\n", "refused: x.yaml: nst[0]/nsme: "),
        ("x.yaml", "nsd: {nsd: [{id: a, df: [{id: b}]}]}\n", "silent: x.yaml: nsd/nsd[0]: name is"),
    ],
)
def test_a_lone_descriptor_is_named_once(tmp_path, name, text, begins):
    (tmp_path / name).write_text(text)
    lines = run("validate", str(tmp_path / name)).output.splitlines()
    assert any(line.startswith(begins) for line in lines), lines
    assert all(line.count(name) == 1 for line in lines)


@pytest.mark.parametrize("words", ["vpnaas-build list", "vpnaas-operate --help", "osm-lab --help"])
def test_who_reads_no_further_hears_no_complaint(words: str) -> None:
    """As `| head -1` does: the reader is gone before the first line."""
    program, *arguments = words.split()
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
