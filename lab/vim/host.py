"""Shared by all labs of a machine: kernel settings, and a mount of the control groups.

Several labs may run at the same time. So each lab registers here while it has VIM accounts. The
first one changes the machine. The last one restores it. One lock covers both.

- ``fs.inotify.max_user_instances``: a systemd uses about ten instances and each wireguard-go uses
  one, all as root. The usual limit is 128 (inotify(7)). Above it, interfaces fail to come up with
  misleading errors.
- ``net.core.rmem_max`` and ``wmem_max``: wireguard-go asks for socket buffers of 7 MiB. Root of a
  VDU is not root of the machine, so this limit applies to it (socket(7), SO_RCVBUFFORCE).
- The controllers ``cpu`` and ``memory`` in the top group of cgroup version 2: without them the
  kernel does not limit servers to their flavours.
- The cgroup version 2 hierarchy is mounted in ``REGISTRY`` where the machine has not mounted it.

``REGISTRY`` is in /run, which ends with the boot, as do these settings.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lab.vim import cgroups, fabric
from lab.vim.run import tool
from lab.vim.store import Home, locked

REGISTRY = Path("/run/osm-lab")
SETTINGS = Path("/proc/sys")
#: The lowest values with which labs work.
LEAST = {
    "fs/inotify/max_user_instances": 4096,
    "net/core/rmem_max": 7 << 20,
    "net/core/wmem_max": 7 << 20,
}
CONTROLLERS = ("cpu", "memory")


def join(home: Home) -> None:
    """Register a lab and change the machine's settings; a second call changes nothing."""
    with _registry():
        (_labs() / home.prefix).write_text(str(home.path), encoding="utf-8")
        for name, least in LEAST.items():
            with contextlib.suppress(OSError):  # not there, or read-only, as in a container
                before = int((SETTINGS / name).read_text(encoding="ascii"))
                if before < least:
                    (SETTINGS / name).write_text(str(least), encoding="ascii")
                    # Only the first value is the original: somebody may lower it again later.
                    if not (note := _note(name)).exists():
                        note.write_text(str(before), encoding="ascii")
        control = cgroups.hierarchy(REGISTRY / "cgroup") / "cgroup.subtree_control"
        for controller in CONTROLLERS:
            if controller not in control.read_text(encoding="ascii").split():
                # Refused where version 1 has the controller, or it was not delegated to us.
                with contextlib.suppress(OSError):
                    control.write_text(f"+{controller}")
                    (REGISTRY / f"controller-{controller}").touch()


def leave(home: Home) -> None:
    """Unregister a lab; after the last one restore the machine's settings."""
    if not REGISTRY.exists():
        return
    with _registry():
        (_labs() / home.prefix).unlink(missing_ok=True)
        for entry in _labs().iterdir():
            if not _exists(entry):
                entry.unlink()
        if any(_labs().iterdir()):
            return
        for name, least in LEAST.items():
            if (note := _note(name)).exists():
                # Somebody else has set another value since: keep it.
                if int((SETTINGS / name).read_text(encoding="ascii")) == least:
                    before = note.read_text(encoding="ascii")
                    (SETTINGS / name).write_text(before, encoding="ascii")
                note.unlink()
        _restore_controllers()
        if (own := REGISTRY / "cgroup").is_mount():
            tool(["umount", "--lazy", str(own)])


def homes() -> list[Path]:
    """Directories of the labs that are registered now."""
    labs = _labs()
    names = sorted(labs.iterdir()) if labs.is_dir() else []
    return [Path(entry.read_text(encoding="utf-8")) for entry in names]


def _restore_controllers() -> None:
    for controller in CONTROLLERS:
        note = REGISTRY / f"controller-{controller}"
        if note.exists():
            control = cgroups.hierarchy(REGISTRY / "cgroup") / "cgroup.subtree_control"
            with contextlib.suppress(OSError):  # another group uses it by now
                control.write_text(f"-{controller}")
            note.unlink()


def _note(name: str) -> Path:
    return REGISTRY / name.replace("/", ".")


def _labs() -> Path:
    return REGISTRY / "labs"


@contextlib.contextmanager
def _registry() -> Iterator[None]:
    _labs().mkdir(parents=True, exist_ok=True, mode=0o755)
    os.chmod(REGISTRY, 0o700)
    with locked(REGISTRY / "lock"):
        yield


def _exists(entry: Path) -> bool:
    """Tell whether a registered lab still has a record or a namespace on the machine.

    If somebody deletes the lab's directory without a clean-up, neither is left when its servers
    end.
    """
    recorded = Path(entry.read_text(encoding="utf-8")) / "vims"
    return recorded.is_dir() or bool(fabric.netns_names(entry.name))
