"""Vendored dependencies of the charms, for the proxy machine's Python 3.6 and newer ones."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml

from builder.errors import BuildError
from builder.tree import Tree

PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_12", "manylinux2010", "manylinux1")
NOT_NEEDED = (
    # cryptography and PyNaCl call the compiled backend, never cffi's Python side.
    "cffi/",
    "ops/testing.py",
    "nacl/py.typed",
)
NOTICES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "METADATA", "AUTHORS")


def vendored(tree: Tree, architecture: str = "x86_64") -> Path:
    """Return a folder with everything unpacked; downloads and checks what the cache lacks.

    The folder's name is a digest of the pins, so that a change of one makes a new folder.
    """
    requirements = tree.common / "requirements.txt"
    backends = tree.common / "cffi-backends.yaml"
    stamp = hashlib.sha256(
        requirements.read_bytes()
        + backends.read_bytes()
        + Path(__file__).read_bytes()
        + architecture.encode()
    ).hexdigest()[:16]
    target = tree.cache / "vendor" / f"{architecture}-{stamp}"
    if target.is_dir():
        return target
    wheels = tree.cache / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    _download(requirements, wheels, architecture)
    staging = target.with_suffix(".tmp")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for wheel in _pinned(requirements, wheels):
        _unpack(wheel, staging)
    for backend in yaml.safe_load(backends.read_text())["backends"]:
        _unpack_backend(_download_backend(backend, wheels, architecture), staging)
    staging.rename(target)
    return target


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise BuildError(f"vendored wheels: {(lines or ['pip download failed'])[-1]}")


def _platforms(architecture: str) -> list[str]:
    return [word for name in PLATFORMS for word in ("--platform", f"{name}_{architecture}")]


def _download(requirements: Path, wheels: Path, architecture: str) -> None:
    if len(_pinned(requirements, wheels, strict=False)) == _count(requirements):
        return
    abis = [word for abi in ("cp36m", "abi3", "none") for word in ("--abi", abi)]
    target = ["--python-version", "3.6", "--implementation", "cp", *abis]
    _pip(
        *target,
        *_platforms(architecture),
        "--only-binary=:all:",
        "--require-hashes",
        "--requirement",
        str(requirements),
        "--dest",
        str(wheels),
    )


def _download_backend(backend: dict[str, str], wheels: Path, architecture: str) -> Path:
    def found() -> Path | None:
        for wheel in wheels.glob("cffi-*.whl"):
            if hashlib.sha256(wheel.read_bytes()).hexdigest() == backend["sha256"]:
                return wheel
        return None

    if found() is None:
        digits = backend["python"].replace(".", "")
        target = ["--python-version", digits, "--implementation", "cp", "--abi", f"cp{digits}"]
        _pip(
            *target,
            *_platforms(architecture),
            "--only-binary=:all:",
            "--dest",
            str(wheels),
            f"cffi=={backend['version']}",
        )
    wheel = found()
    if wheel is None:
        raise BuildError(
            f"cffi {backend['version']} for Python {backend['python']}: "
            f"no wheel with the SHA-256 of cffi-backends.yaml for {architecture}"
        )
    return wheel


def _hashes(requirements: Path) -> list[str]:
    words = requirements.read_text().split()
    return [word.removeprefix("--hash=sha256:") for word in words if word.startswith("--hash=")]


def _count(requirements: Path) -> int:
    return len(_hashes(requirements))


def _pinned(requirements: Path, wheels: Path, strict: bool = True) -> list[Path]:
    """Return the wheels the requirements name, by hash, in a fixed order."""
    wanted = set(_hashes(requirements))
    found = {}
    for wheel in sorted(wheels.glob("*.whl")):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest in wanted:
            found[digest] = wheel
    if strict and len(found) != len(wanted):
        missing = sorted(wanted - set(found))
        raise BuildError(f"vendored wheels: none has SHA-256 {missing[0]} of {requirements.name}")
    return sorted(found.values())


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/") or name.startswith(NOT_NEEDED) or "/tests/" in name:
                continue
            folder, _, leaf = name.partition("/")
            if folder.endswith(".dist-info") and not leaf.split("/")[-1].startswith(NOTICES):
                continue
            archive.extract(name, target)


def _unpack_backend(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("_cffi_backend", "cffi.libs/")):
                archive.extract(name, target)
