"""The dataplane is what was tried, not what a name suggests."""

from pathlib import Path

import pytest

from lab.errors import VimError
from lab.vim import dataplane


@pytest.fixture(autouse=True)
def fresh() -> None:
    dataplane.probe.cache_clear()


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataplane, "kernel_has_wireguard", lambda: False)
    monkeypatch.setattr(dataplane, "TUN", Path("/dev/null"))
    monkeypatch.setattr(dataplane, "kernel_has_esp", lambda: False)


def program(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho 'wireguard-go {version}'\necho\necho more\n")
    path.chmod(0o755)
    return path


def test_kernel_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataplane, "kernel_has_wireguard", lambda: True)
    monkeypatch.setattr(dataplane, "kernel_has_esp", lambda: True)
    found = dataplane.probe()
    assert (found.backend, found.binary, found.esp) == ("kernel", None, True)


@pytest.mark.usefixtures("no_kernel")
def test_built_program_before_the_distributions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = program(tmp_path / "built", "v0.0.20250522")
    packaged = program(tmp_path / "packaged", "v0.0.20220316")
    monkeypatch.setattr(dataplane, "BUILT", built)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(packaged))
    found = dataplane.probe()
    assert (found.backend, found.version, found.binary) == ("wireguard-go", "v0.0.20250522", built)
    built.unlink()
    dataplane.probe.cache_clear()
    assert dataplane.probe().version == "v0.0.20220316"


@pytest.mark.usefixtures("no_kernel")
def test_nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dataplane, "BUILT", tmp_path / "absent")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(VimError, match="wireguard-go is not installed"):
        dataplane.probe()


@pytest.mark.usefixtures("no_kernel")
def test_no_tun_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dataplane, "BUILT", program(tmp_path / "built", "v1"))
    monkeypatch.setattr(dataplane, "TUN", tmp_path / "absent")
    with pytest.raises(VimError, match=r"no /dev/net/tun"):
        dataplane.probe()


@pytest.mark.lab
@pytest.mark.usefixtures("lab_machine")
def test_probe_of_this_machine_leaves_nothing() -> None:
    before = sorted(path.name for path in Path("/sys/class/net").iterdir())
    assert dataplane.probe().backend in (dataplane.KERNEL, dataplane.USERSPACE)
    assert sorted(path.name for path in Path("/sys/class/net").iterdir()) == before
