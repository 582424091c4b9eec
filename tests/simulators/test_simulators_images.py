"""Images of the simulators: their names are those that the charms pull, and nothing is missing."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import grimp
import pytest
from oai.images import IMAGES as PULLED
from oai.images import Registry

from simulators.engine import oci
from simulators.engine.images import IMAGES, reference
from simulators.errors import EpcError


def test_names_are_those_that_charms_pull() -> None:
    # By its digest an image is the real one and no other; a tag stands for it here.
    references = {Registry().reference(name).partition("@") for name in PULLED}
    names = {f"{name}:latest" if digest else name for name, _, digest in references}
    assert names <= {reference(name) for name in IMAGES}


def imports(*starts: str) -> set[str]:
    """Return the distributions that modules import by whatever way, by normalised names."""
    graph = grimp.build_graph("simulators", include_external_packages=True)
    modules = {name for name in graph.modules if name.startswith(starts)}
    assert all(any(name.startswith(start) for name in modules) for start in starts)
    modules |= {name for each in modules for name in graph.find_upstream_modules(each)}
    found = importlib.metadata.packages_distributions()
    tops = {name.partition(".")[0] for name in modules} - {*sys.stdlib_module_names, "simulators"}
    return {name.lower().replace("_", "-") for top in tops for name in found[top]}


def test_images_have_every_library_that_is_imported() -> None:
    first = set(oci.required(oci.LIBRARIES_4G))
    assert imports("simulators.epc.", "simulators.programs.configs_4g") - first == set()
    both = first | set(oci.required(oci.LIBRARIES_5G))
    assert imports("simulators.") - both == set()
    assert "pytest" not in both


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(EpcError, match="is not empty, and not a directory of these images"):
        oci.make(tmp_path)
    assert (tmp_path / "mine").exists()


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EpcError, match="umoci is missing: apt-get install umoci"):
        oci.make(tmp_path / "images")
    assert not (tmp_path / "images").exists()
