"""Makes container images of the simulators, for a real container engine.

    python -m simulators.engine.oci DIRECTORY

The images are an OCI layout (image-spec, "Image Layout") with the names that charms pull. They
share layers: a small system of the machine's distribution, the simulators with the libraries of
4G, and the libraries that 5G needs besides.
"""

import compileall
import hashlib
import importlib.metadata
import io
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simulators.engine.images import IMAGES_4G, IMAGES_5G, PATH, Image, reference
from simulators.errors import EpcError

#: System packages that the simulators need.
_PACKAGES = ("bash", "iproute2", "libusrsctp2", "nftables", "python3", "usr-is-merged")
#: Files of packages that no program reads.
_UNUSED = (
    "/usr/lib/*/gconv/*", "/usr/lib/*/perl/*", "/usr/share/doc/*", "/usr/share/i18n/*",
    "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/perl/*",
)  # fmt: skip
#: Python distributions that the simulators import; their dependencies are added.
LIBRARIES_4G = ("cryptography", "libconf", "pycrate", "python-diameter", "PyYAML")
LIBRARIES_5G = (
    "PyMySQL", "granian", "h2", "httpx", "mysql-mimic", "scapy", "sqlglot", "starlette",
)  # fmt: skip
#: This package of pycrate has 250 MB of protocols, one module each; images get only these modules.
_PROTOCOLS, _WANTED_PROTOCOLS = "pycrate_asn1dir", ("__init__", "MAP", "NGAP", "S1AP", "SS")
_PYTHON = f"usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/dist-packages"
_WRAPPER = '#!/bin/sh\nexec /usr/bin/python3 -IB -m simulators.programs {} "$@"\n'
#: The program's name may be omitted, as with the entry points of the databases' own images.
_ENTRYPOINT = '#!/bin/sh\n[ "$1" = {0} ] || set -- {0} "$@"\nexec "$@"\n'
_ENTRYPOINT_FILE = "/image/entrypoint"
_BASE_4G, _BASE_5G = "base-4g", "base-5g"
_STAMP = "made-from"


def _run(argv: Sequence[str], cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            list(argv), capture_output=True, text=True, check=False, errors="replace", cwd=cwd
        )
    except FileNotFoundError:
        raise EpcError(f"The program {argv[0]} is missing: apt-get install {argv[0]}.") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        said = next((line for line in lines if line.startswith("E: ")), lines[-1])
        raise EpcError(f"The images could not be made: {argv[0]}: {said}")


def required(roots: Iterable[str]) -> list[str]:
    """Return the names of installed distributions: the roots and all their dependencies."""
    names: dict[str, None] = {}
    left = list(roots)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in names:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # a dependency for another version of Python or another system
        names[name] = None
        left += [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs if "extra" not in need]
    return sorted(names)


def _files(name: str) -> Iterator[tuple[Path, str]]:
    """Yield a distribution's files for images, each with its path below its directory."""
    for file in importlib.metadata.files(name) or []:
        parts = file.parts
        unwanted = parts[0] == _PROTOCOLS and parts[-1].partition(".")[0] not in _WANTED_PROTOCOLS
        if parts[0] == ".." or unwanted:
            continue
        path = Path(str(file.locate()))
        if path.is_file():
            yield path, str(file)


def _system(output: Path, suite: str) -> None:
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _UNUSED]
    _run([
        "mmdebstrap", "--variant=essential", "--mode=root", f"--include={','.join(_PACKAGES)}",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        '--aptopt=APT::Install-Recommends "false"', *options, suite, str(output),
    ])  # fmt: skip


def _libraries(layer: tarfile.TarFile, names: Iterable[str]) -> None:
    for name in names:
        for path, place in _files(name):
            layer.add(path, f"{_PYTHON}/{place}", filter=_root_owned)


def _python(output: Path, work: Path) -> None:
    """Write the layer with the compiled simulators and the libraries of all images."""
    own = work / "simulators"
    source = Path(__file__).resolve().parents[1]
    shutil.copytree(source, own, ignore=shutil.ignore_patterns("__pycache__"))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(own, quiet=2, invalidation_mode=unchecked, stripdir=str(work))
    with tarfile.open(output, "w") as layer:
        _libraries(layer, required(LIBRARIES_4G))
        layer.add(own, f"{_PYTHON}/simulators", filter=_root_owned)


def _python_5g(output: Path) -> None:
    """Write the layer with the additional libraries for 5G."""
    here = set(required(LIBRARIES_4G))
    with tarfile.open(output, "w") as layer:
        _libraries(layer, (name for name in required(LIBRARIES_5G) if name not in here))


def _root_owned(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _programs(output: Path, image: Image) -> None:
    """Write the layer that belongs to one image only."""
    texts = {path: _WRAPPER.format(program) for path, program in image.programs.items()}
    for program in image.entrypoint:
        texts[_ENTRYPOINT_FILE] = _ENTRYPOINT.format(program)
    with tarfile.open(output, "w") as layer:
        for path in image.directories:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        for path, text in texts.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(text.encode()), 0o755
            layer.addfile(entry, io.BytesIO(text.encode()))


def _configuration(image: Image) -> list[str]:
    # A real image has one version; a simulator gets the version (tag) as a variable.
    age = "" if image.tag == "latest" else image.tag
    words = ["--config.env", f"PATH={PATH}", "--config.env", f"SIMULATORS_TAG={age}"]
    words += ["--config.workingdir", "/"]
    return [*words, "--config.entrypoint", _ENTRYPOINT_FILE] if image.entrypoint else words


def _inputs(suite: str) -> str:
    state = hashlib.sha256(
        repr((suite, sys.version_info, required((*LIBRARIES_4G, *LIBRARIES_5G)))).encode()
    )
    for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest() + "\n"


def make(directory: Path) -> None:
    """Make the images, unless the directory has them from the same inputs."""
    directory = directory.resolve()
    fields = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text("utf-8").splitlines()
        if "=" in line
    )  # fmt: skip
    suite = fields.get("VERSION_CODENAME", "").strip('"')
    inputs = _inputs(suite)
    stamp = directory / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == inputs:
        return
    if directory.exists() and not stamp.is_file() and any(directory.iterdir()):
        raise EpcError(f"{directory} is not empty, and not a directory of these images.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=directory.parent) as name:
        work = Path(name)
        layout, layer = work / "layout", work / "layer.tar"
        _run(["umoci", "init", "--layout", str(layout)])
        _run(["umoci", "new", "--image", f"{layout}:{_BASE_4G}"])

        def add(base: str, tag: str) -> None:
            words = ["--image", f"{layout}:{base}", "--tag", tag]
            _run(["umoci", "raw", "add-layer", *words, str(layer)])

        _system(layer, suite)
        add(_BASE_4G, _BASE_4G)
        _python(layer, work)
        add(_BASE_4G, _BASE_4G)
        _python_5g(layer)
        add(_BASE_4G, _BASE_5G)
        for base, images in ((_BASE_4G, IMAGES_4G), (_BASE_5G, IMAGES_5G)):
            for key, image in images.items():
                _programs(layer, image)
                add(base, reference(key))
                made = f"{layout}:{reference(key)}"
                _run(["umoci", "config", "--image", made, *_configuration(image)])
            _run(["umoci", "rm", "--image", f"{layout}:{base}"])
        _run(["umoci", "gc", "--layout", str(layout)])
        (layout / _STAMP).write_text(inputs, encoding="ascii")
        shutil.rmtree(directory, ignore_errors=True)
        os.rename(layout, directory)


def main(words: Sequence[str]) -> int:
    """Make the images; print an error; return the exit code."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m simulators.engine.oci DIRECTORY\n")
        return 2
    try:
        make(Path(words[0]))
    except EpcError as error:
        sys.stderr.write(f"ERROR: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
