"""The registry of an account, from which its VDUs pull the images of containers.

The store of the machine's labs is a directory that the distribution's docker-registry serves, over
HTTP and read-only, at the gateway of the management network. skopeo puts images into it. Day-0
configures the VDUs to find images of `docker.io` there, so charms pull an image by its usual name.
"""

import contextlib
import json
import re
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import VimError
from lab.vim import cgroups
from lab.vim.fabric import enter
from lab.vim.run import need, start
from lab.vim.store import locked

STORE = Path(__file__).resolve().parents[2] / ".cache" / "containers"
PORT = 5000
_SOURCE = "docker.io"
#: Name and tag as the registry's API has them (distribution-spec, "Pulling manifests").
_NAME = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
)


@dataclass(frozen=True)
class Loaded:
    """An image in the store: the name it is pulled by, and its digest."""

    name: str
    digest: str


def check(*programs: str) -> None:
    """Check that programs are installed; each has the name of its package."""
    need({name: name for name in programs}, "Images of containers")


def mirror(address: str) -> str:
    """Text of containers-registries.conf(5): images of `docker.io` are at a registry here."""
    rows = ["[[registry]]", f'prefix = "{_SOURCE}"', f'location = "{address}"', "insecure = true"]
    return "\n".join(rows) + "\n"


@dataclass(frozen=True)
class Registry:
    """The registry of an account."""

    netns: str  # network namespace with the gateway address of the management network.
    gateway: str  # that address.
    group: Path  # control group of its process.
    directory: Path  # the account's, for its files.

    @property
    def address(self) -> str:
        return f"[{self.gateway}]:{PORT}" if ":" in self.gateway else f"{self.gateway}:{PORT}"

    def start(self) -> None:
        self.stop()
        self.group.mkdir(parents=True, exist_ok=True)
        config = self.directory / "registry.json"
        config.write_text(_configuration(STORE, self.address, read_only=True), encoding="utf-8")
        words = [*cgroups.enter(self.group), *enter(self.netns)]
        log = self.directory / "registry.log"
        _serve(words, config, log).returncode = 0  # it outlives this process on purpose

    def stop(self) -> None:
        with contextlib.suppress(VimError):
            cgroups.kill(self.group)


def _configuration(store: Path, address: str, *, read_only: bool) -> str:
    store.mkdir(parents=True, exist_ok=True)
    storage = {
        "filesystem": {"rootdirectory": str(store)},
        "maintenance": {"readonly": {"enabled": read_only}},
    }
    # JSON is YAML, which the program reads.
    return json.dumps({
        "version": 0.1, "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": storage, "http": {"addr": address},
    })  # fmt: skip


def _serve(before: Sequence[str], config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the program and wait until it listens."""
    words = [*before, "docker-registry", "serve", str(config)]
    return start(words, log, _listens, "The registry did not start")


def _listens(pid: int) -> bool:
    """True when a process has a listening socket."""
    with contextlib.suppress(OSError):
        # Not by psutil, which reads the table of our own network namespace.
        sockets = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            for row in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = row.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    return True
    return False


def load(source: Path, name: str | None = None, store: Path = STORE) -> list[Loaded]:
    """Put images into the store; those of the same name are replaced.

    Args:
        source: archive of docker or of OCI, OCI layout, or directory of skopeo's `dir:`.
        name: for one image, the name to pull it by in place of its own.
    """
    check("docker-registry", "skopeo")
    images = [(words, named(name or own, source)) for words, own in _contents(source)]
    if name is not None and len(images) > 1:
        raise VimError(f"{source} has {len(images)} images: one name cannot be for all.")
    loaded = []
    with locked(store.with_name(f"{store.name}.lock"), 1800), _writable(store) as address:
        for words, image in images:
            with tempfile.NamedTemporaryFile("r") as digest:
                _copy(words, f"docker://{address}/{image}", digest.name)
                loaded.append(Loaded(f"{_SOURCE}/{image}", digest.read().strip()))
    return loaded


def named(name: str, source: Path) -> str:
    """The name and tag of an image below `docker.io`."""
    if "/" not in name and ":" not in name:
        raise VimError(f"An image in {source} has no name: add `--name REPOSITORY/NAME:TAG`.")
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        if first != _SOURCE:
            raise VimError(
                f"{name} in {source} is of the registry {first}, and VDUs find images of "
                f"{_SOURCE} only: give the name that they shall pull it by."
            )
        name = rest
    if "/" not in name:
        name = f"library/{name}"
    if ":" not in name:
        name = f"{name}:latest"
    if not _NAME.fullmatch(name):
        raise VimError(
            f"'{name}' is no name of an image: REPOSITORY/NAME:TAG is wanted, in small letters."
        )
    return name


def _contents(source: Path) -> list[tuple[str, str]]:
    """Images in a source: skopeo's reference and the name of each."""
    if source.is_dir():
        files = {path.name: path.read_bytes() for path in source.glob("*.json")}
        kind = "oci" if "index.json" in files else "dir"
        if kind == "dir" and "manifest.json" in files:
            return [(f"dir:{source}", "")]
    else:
        files, kind = _archived(source), "oci-archive"
        if "manifest.json" in files:  # newer archives of docker are archives of OCI, too
            kind = "docker-archive"
    listing = "manifest.json" if kind == "docker-archive" else "index.json"
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return _listed(kind, source, json.loads(files[listing]))
    raise VimError(f"{source} is no archive of images (docker, OCI) and no directory of them.")


def _archived(source: Path) -> dict[str, bytes]:
    """The index documents of an archive, by name."""
    files = {}
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                path = entry.name.removeprefix("./")
                if path in ("index.json", "manifest.json"):
                    stream = archive.extractfile(entry)
                    files[path] = stream.read() if stream else b""
    except FileNotFoundError:
        raise VimError(f"{source} does not exist.") from None
    except (tarfile.TarError, OSError, EOFError) as error:
        raise VimError(f"{source} is no archive: {error}.") from None
    return files


def _listed(kind: str, source: Path, document: Any) -> list[tuple[str, str]]:
    if kind == "docker-archive":
        return [
            (f"{kind}:{source}:@{number}", next(iter(image["RepoTags"] or []), ""))
            for number, image in enumerate(document)
        ]
    names = [
        (image.get("annotations") or {}).get("org.opencontainers.image.ref.name", "")
        for image in document["manifests"]
    ]
    return [(f"{kind}:{source}:{name}" if name else f"{kind}:{source}", name) for name in names]


@contextlib.contextmanager
def _writable(store: Path) -> Iterator[str]:
    """Serve a store to this machine alone, for writing, while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "registry.json")
        config.write_text(_configuration(store, address, read_only=False), encoding="utf-8")
        # It ends with this process, however that ends: anybody on the machine may write to it.
        words = ["setpriv", "--pdeathsig", "KILL"]
        process = _serve(words, config, Path(folder, "registry.log"))
        try:
            yield address
        finally:
            process.kill()
            process.wait()


def _copy(source: str, target: str, digest: str) -> None:
    words = ["--insecure-policy", "copy", "--quiet", "--digestfile", digest]
    done = subprocess.run(
        ["skopeo", *words, "--dest-tls-verify=false", source, target],
        capture_output=True, text=True, check=False, errors="replace",
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        message = re.search(r'msg="(.*)"$', lines[-1])
        raise VimError(f"{source}: {message[1] if message else lines[-1]}")
