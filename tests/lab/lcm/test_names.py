"""What the shell completes after a verb."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from lcm_support import World

from lab.cli.commands import cli
from lab.records.store import OPS, Store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with the service of the samples."""
    World(tmp_path).record()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param("ns-show ", ["demo"], id="service"),
        pytest.param("vnfd-delete a", ["a_vnf"], id="package"),
        pytest.param("vim-show ", ["north"], id="account"),
        pytest.param("ns-action demo --vnf_name ", ["1", "2"], id="vnf"),
        pytest.param("ns-action demo --action_name t", ["touch"], id="primitive"),
        pytest.param("ns-action demo --vnf_name none --action_name t", [], id="no-such-vnf"),
        pytest.param("lab capture demo d", ["data"], id="link"),
        pytest.param("lab console none ", [], id="no-such-service"),
        pytest.param("lab show-unit demo ", [], id="no-units-yet"),
    ],
)
def test_the_shell_completes_names(home: Path, words: str, names: list[str]) -> None:
    *before, incomplete = words.split(" ")
    shell = ShellComplete(cli, {}, "osm-lab", "_OSM_LAB_COMPLETE")
    known = shell.get_completions(["--home", str(home), *before], incomplete)
    assert [item.value for item in known] == names


@pytest.mark.parametrize("verb", [["ns-op-show"], ["lab", "trace"]])
def test_the_shell_completes_ids_of_operations(home: Path, verb: list[str]) -> None:
    shell = ShellComplete(cli, {}, "osm-lab", "_OSM_LAB_COMPLETE")
    known = shell.get_completions(["--home", str(home), *verb], "")
    ids = sorted(operation["_id"] for operation in Store(home).all(OPS))
    assert ids and [item.value for item in known] == ids
