"""A container engine's command line for the images that the lab has simulators for.

A container is a mount and pid namespace on the machine: the machine's own root with the image's
directories and the volumes in it. ``docs/reference/network-functions.md`` lists the forms of the
command that the charms use. Other forms are refused as by podman (exit code 125). This module uses
the standard library only, because it starts often.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from simulators.engine.images import IMAGES, PATH, Image

STATE = Path("/run/osm-lab-containers")
#: Program that starts a simulator by its name.
LAUNCH = "/usr/lib/osm-lab/launch"
FAILED = 125  # podman-run(1): the error is with podman itself

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_REMOUNT, _MS_RDONLY = 4096, 16384, 1 << 18, 32, 1
_libc = ctypes.CDLL(None, use_errno=True)


class EngineError(Exception):
    """An error; its text is what podman prints after "Error: "."""


def image_of(reference: str) -> tuple[str, Image]:
    """Return name and content of the image of a reference, with any registry, tag or digest.

    Raises:
        EngineError: the lab has no such image.
    """
    name = reference.rpartition("/")[2].partition("@")[0].partition(":")[0]
    if name not in IMAGES:
        raise EngineError(f"{reference}: image not known")
    return name, IMAGES[name]


@dataclass
class Run:
    """The arguments of ``podman run``."""

    name: str = ""
    image: str = ""
    words: list[str] = field(default_factory=list)
    volumes: list[tuple[str, str, bool]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    entrypoint: str = ""


def parse_run(words: list[str]) -> Run:
    """Read the arguments after ``run``.

    Raises:
        EngineError: an argument is not supported, or a file is missing.
    """
    run, rest = Run(), list(words)
    while rest and rest[0].startswith("-"):
        flag, equals, value = rest.pop(0).partition("=")
        if flag in ("--rm", "--privileged", "--replace"):
            continue
        if not equals:
            if not rest:
                raise EngineError(f"flag needs an argument: {flag}")
            value = rest.pop(0)
        if flag == "--name":
            run.name = value
        elif (flag, value) in (("--network", "host"), ("--log-driver", "none")):
            pass
        elif flag == "--env-file":
            run.environment.update(_environment(value))
        elif flag == "--volume":
            parts = value.split(":")
            if len(parts) not in (2, 3) or not parts[1].startswith("/"):
                raise EngineError(f"invalid volume {value}")
            if not os.path.exists(parts[0]):
                raise EngineError(f"statfs {parts[0]}: no such file or directory")
            run.volumes.append((parts[0], parts[1], parts[2:] == ["ro"]))
        elif flag == "--workdir":
            run.workdir = value
        elif flag == "--entrypoint":
            run.entrypoint = value
        else:
            raise EngineError(f"unknown flag: {flag} {value}".rstrip())
    if not rest:
        raise EngineError("an image is needed")
    run.image, run.words = rest[0], rest[1:]
    return run


def _environment(path: str) -> dict[str, str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise EngineError(f"open {path}: {error.strerror}") from None
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


# -- running containers ---------------------------------------------------------------------------


def _state(name: str) -> Path:
    if not name or "/" in name or name.startswith("."):
        raise EngineError(f"invalid name: {name}")
    return STATE / f"{name}.json"


def _start_time(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()[19]


def pid_of(name: str) -> int | None:
    """The pid of a running container's first process."""
    try:
        document = json.loads(_state(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pid = int(document["pid"])
    return pid if _start_time(pid) == document["start"] else None


def _end(name: str, seconds: float) -> bool:
    """Stop a container by SIGTERM, later by SIGKILL; return False if it does not run."""
    pid = pid_of(name)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + seconds
    while pid_of(name) == pid and time.monotonic() < until:
        time.sleep(0.05)
    if pid_of(name) == pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


# -- verbs ----------------------------------------------------------------------------------------


def run(words: list[str]) -> int:
    """Run a container in the foreground; return its exit code."""
    container = parse_run(words)
    name, image = image_of(container.image)
    STATE.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = _state(container.name)
    if pid_of(container.name) is not None:
        raise EngineError(f'the container name "{container.name}" is already in use')
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID), "unshare")
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go_write)
        os.read(go_read, 1)
        _become(container, image)
    start = _start_time(child)
    state.write_text(json.dumps({"pid": child, "start": start, "image": name}), encoding="utf-8")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: os.kill(child, number))
    os.close(go_write)
    while True:
        with contextlib.suppress(InterruptedError):
            _, status = os.waitpid(child, 0)
            break
    state.unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    done = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        None,
    )
    _check(done, f"mount {source}")


def _become(container: Run, image: Image) -> NoReturn:
    """Build the root in the new namespaces, and execute the entry point there."""
    try:
        root = _build_root(container, image)
        os.chroot(root)
        os.chdir(container.workdir)
        words = [container.entrypoint, *container.words] if container.entrypoint else []
        if not words:
            own = list(image.entrypoint)
            words = container.words if container.words[:1] == own else own + container.words
        environment = {"PATH": PATH, "HOME": "/root", "container": "podman"} | container.environment
        # A real image has one version; a simulator gets the version (tag) as a variable.
        tag = container.image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        environment["SIMULATORS_TAG"] = tag
        os.umask(0o022)
        os.execvpe(words[0], words, environment)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"Error: {error.strerror or error}: {error.filename or ''}\n")
    os._exit(127)


def _build_root(container: Run, image: Image) -> Path:
    _mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE)
    root = STATE / "root"
    root.mkdir(exist_ok=True)
    _mount("tmpfs", root, "tmpfs", 0)
    own = {path.split("/")[1] for path in (*image.programs, *image.directories)}
    for entry in os.scandir("/"):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry.path))
        elif entry.is_dir() and entry.name not in own | {"tmp"}:
            target.mkdir()
            _mount(entry.path, target, None, _MS_BIND | _MS_REC)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for directory in image.directories:
        _inside(root, directory).mkdir(parents=True, exist_ok=True)
    for path, program in image.programs.items():
        file = _inside(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#!/bin/sh\nexec {LAUNCH} {program} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    for source, path, read_only in container.volumes:
        _volume(Path(source), _inside(root, path), read_only, own, root)
    return root


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _volume(source: Path, target: Path, read_only: bool, own: set[str], root: Path) -> None:
    if target.relative_to(root).parts[0] not in own and not target.exists():
        # The machine's own directory must not get new entries, so mount an empty one over it.
        _mount("tmpfs", target.parent, "tmpfs", 0)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    elif not target.exists():
        target.touch()
    _mount(str(source), target, None, _MS_BIND)
    if read_only:
        _mount("none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def remove(words: list[str]) -> int:
    """``rm --force NAME``."""
    if words[:1] != ["--force"] or len(words) != 2:
        raise EngineError("only rm --force NAME is understood")
    _end(words[1], 10)
    _state(words[1]).unlink(missing_ok=True)
    return 0


def stop(words: list[str]) -> int:
    """``stop --time SECONDS NAME``."""
    if words[:1] != ["--time"] or len(words) != 3:
        raise EngineError("only stop --time SECONDS NAME is understood")
    if not _end(words[2], float(words[1])):
        raise EngineError(f'no container with name or ID "{words[2]}" found: no such container')
    return 0


def execute(words: list[str]) -> int:
    """``exec --interactive NAME WORD...``."""
    rest = [word for word in words[:1] if word != "--interactive"] + words[1:]
    if len(rest) < 2:
        raise EngineError("exec needs a container and a command")
    pid = pid_of(rest[0])
    if pid is None:
        raise EngineError(f'no container with name or ID "{rest[0]}" found: no such container')
    inside = ["nsenter", "-t", str(pid), "-m", "-p", "-r", "-w", "--"]
    given = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    environment = dict(one.split("=", 1) for one in given if "=" in one)
    return subprocess.run(
        [*inside, "/usr/bin/env", *rest[1:]], env=environment, check=False
    ).returncode


def image(words: list[str]) -> int:
    """``image inspect --format {{.Id}} IMAGE``."""
    if words[:3] != ["inspect", "--format", "{{.Id}}"] or len(words) != 4:
        raise EngineError("only image inspect --format {{.Id}} IMAGE is understood")
    name, _ = image_of(words[3])
    print(hashlib.sha256(f"osm-lab simulator of {name}".encode()).hexdigest())
    return 0


def version(words: list[str]) -> int:
    """``--version``: print the name of this program."""
    print("podman (simulators of the lab, no engine)")
    return 0


VERBS = {
    "run": run,
    "rm": remove,
    "stop": stop,
    "exec": execute,
    "image": image,
    "--version": version,
}


def main(words: list[str]) -> int:
    try:
        if not words or words[0] not in VERBS:
            raise EngineError(f"unrecognized command `podman {' '.join(words[:1])}`")
        return VERBS[words[0]](words[1:])
    except EngineError as error:
        sys.stderr.write(f"Error: {error}\n")
    except OSError as error:
        sys.stderr.write(f"Error: {error.strerror or error}\n")
    return FAILED
