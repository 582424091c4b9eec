"""Vendored dependencies of the charms, for the proxy machine's Python 3.6 and newer ones."""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from builder import documents, strict
from builder.errors import BuildError
from builder.tree import BASES, Tree

ARCHITECTURES = ("x86_64", "aarch64")
"""Architectures of proxy machines; every pinned wheel exists for these."""

NOT_NEEDED = (
    # cryptography and PyNaCl call only the compiled backend of cffi, not its Python part.
    "cffi/",
    "ops/testing.py",
    "nacl/py.typed",
    "segno/cli.py",
    "segno/helpers.py",
)
NOTICES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "METADATA", "AUTHORS")

_PIN = re.compile(r"^(\S+)==(\S+)((?:\s+\\?\s*--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Backend(strict.Strict):
    """One entry of cffi-backends.yaml: cffi's compiled part for one more Python."""

    python: Annotated[str, StringConstraints(pattern=r"^3\.[0-9]+$")]
    version: str
    sha256: dict[str, Digest]


@dataclass(frozen=True)
class Wheel:
    """A vendored wheel and its pin."""

    name: str
    version: str
    sha256: str
    python: str = ""  # The Python version of the wheel, "" for all versions.


class _Backends(strict.Strict):
    backends: list[Backend]


def vendored(tree: Tree, architecture: str = ARCHITECTURES[0]) -> Path:
    """Return a folder with all wheels unpacked; download and check those that the cache lacks.

    The folder's name has a digest of the pins and of this module; each change gives a new folder.
    """
    if architecture not in ARCHITECTURES:
        raise BuildError(f"architecture {architecture}: allowed are {' and '.join(ARCHITECTURES)}")
    requirements = tree.pins / "requirements.txt"
    backends = tree.pins / "cffi-backends.yaml"
    stamp = hashlib.sha256(
        requirements.read_bytes() + backends.read_bytes() + Path(__file__).read_bytes()
    ).hexdigest()[:16]
    target = tree.cache / "vendor" / f"{architecture}-{stamp}"
    if target.is_dir():
        return target
    wheels = tree.cache / "wheels" / architecture
    wheels.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".staging-") as scratch:
        staging = Path(scratch, "tree")
        staging.mkdir(mode=0o755)
        for wheel in _required(tree, wheels, architecture):
            _unpack(wheel, staging)
        for backend in _backends(backends):
            _unpack_backend(_backend(tree, backend, wheels, architecture), staging)
        try:
            staging.rename(target)
        except OSError:
            # Another build made the same folder at the same time.
            if not target.is_dir():
                raise
    return target


def wheels(tree: Tree, architecture: str = ARCHITECTURES[0]) -> list[Wheel]:
    """Return the vendored wheels of an architecture, from the pins."""
    result = pinned(tree.pins / "requirements.txt", architecture)
    for backend in _backends(tree.pins / "cffi-backends.yaml"):
        digest = backend.sha256[architecture]
        result.append(Wheel("cffi", backend.version, digest, backend.python))
    return result


def pinned(path: Path, architecture: str) -> list[Wheel]:
    """Return the wheels of an architecture that a file of requirements pins."""
    result: list[Wheel] = []
    for name, version, hashes in _PIN.findall(path.read_text(encoding="utf-8")):
        digests = _DIGEST.findall(hashes)
        # A compiled wheel has one digest per architecture, in the order of ARCHITECTURES.
        index = ARCHITECTURES.index(architecture) if len(digests) > 1 else 0
        result.append(Wheel(name, version, digests[index]))
    return result


def _backends(path: Path) -> list[Backend]:
    return strict.checked(_Backends, documents.read(path), path).backends


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


def _platforms(tree: Tree, architecture: str) -> list[str]:
    names = BASES[tree.base].platforms
    return [word for name in names for word in ("--platform", f"{name}_{architecture}")]


def _required(tree: Tree, wheels: Path, architecture: str) -> list[Path]:
    """Return one pinned wheel per requirement, in a fixed order."""
    requirements = tree.pins / "requirements.txt"
    hashes = {wheel.sha256 for wheel in pinned(requirements, architecture)}
    matching = _with_digest(wheels, hashes)
    if len(matching) != len(hashes):
        base = BASES[tree.base]
        abis = [word for abi in (base.abi, "abi3", "none") for word in ("--abi", abi)]
        _pip(
            *["--python-version", base.python, "--implementation", "cp", *abis],
            *_platforms(tree, architecture),
            *["--only-binary=:all:", "--require-hashes", "--requirement", str(requirements)],
            *["--dest", str(wheels)],
        )
        matching = _with_digest(wheels, hashes)
    if len(matching) != len(hashes):
        raise BuildError(
            f"vendored wheels: {len(matching)} wheels for {architecture} "
            f"match {requirements.name}, which names {len(hashes)}"
        )
    return matching


def _backend(tree: Tree, backend: Backend, wheels: Path, architecture: str) -> Path:
    """Return the wheel of a backend; download it if the cache lacks it."""
    sums = {backend.sha256[architecture]} if architecture in backend.sha256 else set()
    matching = _with_digest(wheels, sums)
    if sums and not matching:
        digits = backend.python.replace(".", "")
        _pip(
            *["--python-version", backend.python, "--implementation", "cp"],
            *["--abi", f"cp{digits}", *_platforms(tree, architecture), "--only-binary=:all:"],
            *["--dest", str(wheels), f"cffi=={backend.version}"],
        )
        matching = _with_digest(wheels, sums)
    if not matching:
        raise BuildError(
            f"cffi {backend.version} for Python {backend.python}: "
            f"no wheel with the SHA-256 of cffi-backends.yaml for {architecture}"
        )
    return matching[0]


def _with_digest(wheels: Path, digests: set[str]) -> list[Path]:
    return [
        wheel
        for wheel in sorted(wheels.glob("*.whl"))
        if hashlib.sha256(wheel.read_bytes()).hexdigest() in digests
    ]


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
