import hashlib
import struct
from dataclasses import replace

import pytest

from builder import vendor
from builder.errors import BuildError

MACHINES = {"x86_64": 62, "aarch64": 183}
"""e_machine of an ELF header (System V ABI, processor supplements)."""


@pytest.mark.parametrize("architecture", vendor.ARCHITECTURES)
def test_every_binary_is_of_the_architecture_asked_for(tree, architecture):
    binaries = sorted(vendor.vendored(tree, architecture).rglob("*.so*"))
    assert binaries
    for path in binaries:
        header = path.read_bytes()[:20]
        assert header[:4] == b"\x7fELF"
        assert struct.unpack_from("<H", header, 18)[0] == MACHINES[architecture], path


@pytest.mark.parametrize("architecture", vendor.ARCHITECTURES)
def test_the_backend_is_there_for_all_proxy_machines(tree, architecture):
    found = {path.name for path in vendor.vendored(tree, architecture).glob("_cffi_backend*")}
    for abi in ("36m", "38", "310", "311", "312"):
        assert f"_cffi_backend.cpython-{abi}-{architecture}-linux-gnu.so" in found


def test_charms_for_jammy_carry_current_wheels_only(tree):
    jammy = replace(tree, base="jammy")
    found = {path.name.split("-")[1] for path in vendor.vendored(jammy).glob("_cffi_backend*")}
    assert found == {"310", "311", "312", "313", "314"}
    versions = {wheel.name: wheel.version for wheel in vendor.wheels(jammy)}
    old = {wheel.name: wheel.version for wheel in vendor.wheels(tree)}
    # paramiko 3 needs no six.
    assert set(old) - {"six"} <= set(versions)
    for name in ("paramiko", "cryptography", "bcrypt", "ops"):
        assert versions[name].split(".")[0] > old[name].split(".")[0], name


def test_licences_stay_and_ballast_goes(tree):
    folder = vendor.vendored(tree)
    for name in ("paramiko-2.12.0", "cryptography-40.0.2", "cffi-1.15.1", "attrs-22.2.0"):
        files = {path.name for path in (folder / f"{name}.dist-info").rglob("*")}
        assert any(file.startswith(("LICENSE", "COPYING")) for file in files), name
    assert not (folder / "cffi").exists()
    assert not list(folder.rglob("tests"))


def test_an_unknown_architecture_is_refused_before_anything_is_made(sources):
    with pytest.raises(BuildError, match=r"riscv64: allowed are x86_64 and aarch64"):
        vendor.vendored(sources, "riscv64")
    assert not sources.cache.exists()


def test_a_wheel_with_another_hash_is_refused(sources, monkeypatch):
    pins = sources.common / "requirements.txt"
    lines = pins.read_text().replace("--hash=sha256:8", "--hash=sha256:9")
    pins.write_text(lines)

    def download(*arguments):
        folder = arguments[arguments.index("--dest") + 1]
        with open(f"{folder}/six-1.17.0-py2.py3-none-any.whl", "wb") as file:
            file.write(b"not what was pinned")

    monkeypatch.setattr(vendor, "_pip", download)
    with pytest.raises(BuildError, match=r"vendored wheels: 0 wheels for x86_64 match"):
        vendor.vendored(sources)
    assert not list((sources.cache / "vendor").iterdir())


def test_the_folder_changes_with_the_pins(tree, sources):
    def stamp(where):
        return hashlib.sha256((where.common / "requirements.txt").read_bytes()).hexdigest()

    before = vendor.vendored(tree).name
    assert vendor.vendored(tree).name == before
    pins = sources.common / "requirements.txt"
    pins.write_text(pins.read_text() + "# another\n")
    assert stamp(tree) != stamp(sources)
    # The wheels are the same ones; lend them so that nothing is downloaded again.
    sources.cache.mkdir()
    (sources.cache / "wheels").symlink_to(tree.cache / "wheels")
    assert vendor.vendored(sources).name != before
