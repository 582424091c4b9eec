"""The image: the machine's own root, made to look like a fresh cloud image.

A VDU's root is an overlay: the lower layer is the machine's root file system, the upper layer
belongs to the VDU. A fresh image would not contain the machine's personal files, secrets, users,
services and state. Before the first boot, whiteouts, empty directories and new files in the upper
layer hide these.

The rules are general and hide too much rather than too little; `image.yaml` lists the paths:

- top level: only the directories of the operating system itself are visible;
- /usr: without /usr/local and /usr/src;
- /var: only the package database and similar state (``KEPT_STATE``);
- /etc: a file that not every user may read counts as a secret of the machine and is hidden. Its
  services, users, network, SSH and cloud-init configuration are hidden too.
"""

import grp
import os
import re
import shutil
import stat
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builder import documents
from lab.errors import VimError
from lab.vim.cloudinit import SEED, cloud_cfg
from lab.vim.containers import Simulators
from lab.vim.run import need

_PATHS = documents.read(Path(__file__).with_suffix(".yaml"))
SHOWN, KEPT_STATE = frozenset(_PATHS["shown"]), frozenset(_PATHS["kept-state"])
EMPTY, VAR = _PATHS["empty"], _PATHS["var"]
EMPTY_CONFIGURATION = _PATHS["empty-configuration"]
ABSENT_CONFIGURATION = _PATHS["absent-configuration"]

#: Stages of cloud-init with nothing to do: init-local is for addresses, which the VIM sets, and
#: config has no modules here. A stage loads all of cloud-init, for half a second of the processor.
MASKED_STAGES = ["cloud-init-local.service", "cloud-config.service"]
#: Since cloud-init 24.3 one process runs all stages, and waits for each of their services.
ONE_PROCESS = "cloud-init-main.service"

_HUMAN = range(1000, 60000)  # uids of people, not of services (adduser.conf)
_UNITS = Path("usr/lib/systemd/system")


@dataclass(frozen=True)
class Look:
    """What may differ between the images of two VDUs."""

    hostname: str  # its name.
    default_user: str  # the image's user, made by cloud-init.
    seed: Mapping[str, str]  # the NoCloud seed, text by file name.
    # Program to show as /usr/bin/wireguard-go, or None for no change.
    wireguard_go: Path | None = None
    keep: frozenset[str] = frozenset()  # further top-level directories to show.
    # Absolute paths of the machine that are always hidden (the lab's own state).
    hide: tuple[Path, ...] = ()
    # Replacement of the container engine and images, or None for the machine's.
    simulators: Simulators | None = None

    @property
    def binds(self) -> dict[str, str]:
        """Directories of the machine that the VDU shows read-only, by path in the VDU."""
        if self.simulators is None:
            return {}
        return {name: str(source) for name, source in self.simulators.binds.items()}


class Layer:
    """The upper layer of an overlay over ``lower``, written while it is not mounted.

    Directories made on the way get the owner and mode of the lower ones, so that the overlay
    shows the same.
    """

    def __init__(self, upper: Path, lower: Path = Path("/")) -> None:
        """Write to the empty directory ``upper``."""
        self.upper = upper
        self.lower = lower

    def directory(self, path: str | Path) -> Path:
        """Directory of a path in the layer; a missing one is made like that of the lower layer."""
        target = self.upper / path
        if target == self.upper or target.is_dir():
            return target
        self.directory(target.parent.relative_to(self.upper))
        target.mkdir()
        below = self.lower / path
        if below.is_dir():
            info = below.stat()
            os.chown(target, info.st_uid, info.st_gid)
            os.chmod(target, stat.S_IMODE(info.st_mode))
        return target

    def hide(self, path: str | Path) -> None:
        """Hide a path of the lower layer by a whiteout (character device 0,0)."""
        parent = self.directory(Path(path).parent)
        if os.path.lexists(self.lower / path):
            os.mknod(parent / Path(path).name, stat.S_IFCHR, os.makedev(0, 0))

    def empty(self, path: str | Path, mode: int | None = None) -> Path:
        """Make a directory appear empty (an opaque directory); ``mode`` None keeps its mode."""
        target = self.directory(path)
        os.setxattr(target, "trusted.overlay.opaque", b"y")
        if mode is not None:
            os.chmod(target, mode)
        return target

    def write(self, path: str | Path, text: str, mode: int = 0o644, group: int = 0) -> None:
        """Write a file that belongs to root."""
        target = self.directory(Path(path).parent) / Path(path).name
        target.unlink(missing_ok=True)  # it may be a whiteout by now
        target.write_text(text, encoding="utf-8")
        os.chown(target, 0, group)
        os.chmod(target, mode)

    def link(self, path: str | Path, target: str) -> None:
        place = self.directory(Path(path).parent) / Path(path).name
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def find_init() -> str:
    need({"cloud-init": "cloud-init", "sshd": "openssh-server", "sudo": "sudo"}, "Servers")
    for init in ("usr/lib/systemd/systemd", "lib/systemd/systemd"):
        if Path("/", init).exists():
            return f"/{init}"
    raise VimError("A server needs systemd, which is not installed: apt-get install systemd.")


def check_host() -> None:
    """Check that one overlay over the root shows the whole operating system."""
    for name in ("usr", "etc"):
        if os.stat(f"/{name}").st_dev != os.stat("/").st_dev:
            raise VimError(f"/{name} is a separate file system here, which the lab cannot overlay.")


def _distribution(root: Path) -> str:
    text = (root / "etc/os-release").read_text(encoding="utf-8")
    match = re.search(r'^ID="?([a-z]+)"?$', text, re.MULTILINE)
    return match.group(1) if match else "debian"


def build(upper: Path, look: Look, lower: Path = Path("/")) -> None:
    """Fill an empty upper layer so that the overlay over ``lower`` is a fresh image."""
    info = lower.stat()
    os.chmod(upper, stat.S_IMODE(info.st_mode))
    layer = Layer(upper, lower)
    _top_level(layer, look)
    for name in ("usr/local", "usr/src"):
        layer.empty(name)
    for name in ("bin", "lib", "sbin", "share"):
        layer.directory(f"usr/local/{name}")
    _var(layer)
    _hide_secrets(layer, "etc")
    _etc(layer, look)
    _accounts(layer)
    _services(layer)
    for name, text in look.seed.items():
        layer.write(SEED / name, text, 0o600)
    if look.wireguard_go is not None:
        program = layer.directory("usr/bin") / "wireguard-go"
        shutil.copyfile(look.wireguard_go, program)
        os.chmod(program, 0o755)  # noqa: S103
    if look.simulators is not None:
        for name, text in look.simulators.files.items():
            layer.write(name, text, 0o755)
        for name in look.simulators.binds:
            layer.directory(name)
    for path in look.hide:
        _hide_path(layer, path)


def give(upper: Path, base: int) -> None:
    """Give a layer's files to the same users in a user namespace whose ids begin at ``base``."""
    for directory, _, names in os.walk(upper):
        for path in (directory, *(os.path.join(directory, name) for name in names)):
            info = os.lstat(path)
            os.lchown(path, base + info.st_uid, base + info.st_gid)
            # chown(2) clears these bits.
            if stat.S_ISREG(info.st_mode) and info.st_mode & (stat.S_ISUID | stat.S_ISGID):
                os.chmod(path, stat.S_IMODE(info.st_mode))


def _top_level(layer: Layer, look: Look) -> None:
    kept = {name.strip("/") for name in look.keep}
    for entry in os.scandir(layer.lower):
        if entry.name not in SHOWN | kept | EMPTY.keys():
            layer.hide(entry.name)
    for name, mode in EMPTY.items():
        if name not in kept:
            target = layer.empty(name, mode)
            os.chown(target, 0, 0)


def _var(layer: Layer) -> None:
    for entry in os.scandir(layer.lower / "var"):
        if entry.is_symlink() or entry.name == "lib":
            continue  # /var/run and /var/lock point into /run
        layer.hide(f"var/{entry.name}")
    for entry in os.scandir(layer.lower / "var/lib"):
        if entry.name not in KEPT_STATE:
            layer.hide(f"var/lib/{entry.name}")
    for name, mode in VAR.items():
        place = layer.upper / "var" / name
        if place.exists() or place.is_symlink():
            place.unlink()  # the whiteout made above
        target = layer.empty(f"var/{name}", mode)
        os.chown(target, 0, 0)
    os.chown(layer.upper / "var/mail", 0, grp.getgrnam("mail").gr_gid)
    _hide_secrets(layer, "var/lib", KEPT_STATE)


def _hide_secrets(layer: Layer, top: str, only: frozenset[str] | None = None) -> None:
    """Hide files that are not readable for all, and empty such directories, below ``top``."""
    pending = [Path(top)]
    while pending:
        path = pending.pop()
        for entry in os.scandir(layer.lower / path):
            if only is not None and path == Path(top) and entry.name not in only:
                continue
            name = path / entry.name
            if entry.is_symlink():
                continue
            mode = entry.stat().st_mode
            if stat.S_ISDIR(mode):
                if mode & stat.S_IROTH:
                    pending.append(name)
                else:
                    layer.empty(name)
            elif not mode & stat.S_IROTH:
                layer.hide(name)


def _empty_over(layer: Layer, path: str) -> None:
    """Make an existing directory appear empty, also of what the layer has in it already."""
    if (layer.lower / path).is_dir() and not (layer.lower / path).is_symlink():
        target = layer.upper / path
        if target.is_dir():
            shutil.rmtree(target)
        layer.empty(path)


def _etc(layer: Layer, look: Look) -> None:
    for name in EMPTY_CONFIGURATION:
        _empty_over(layer, f"etc/{name}")
    for name in ABSENT_CONFIGURATION:
        if (
            not os.path.lexists(layer.upper / "etc" / name)
            and (layer.lower / "etc" / name).exists()
        ):
            layer.hide(f"etc/{name}")
    for key in (layer.lower / "etc/ssh").glob("ssh_host_*"):
        if not os.path.lexists(layer.upper / "etc/ssh" / key.name):
            layer.hide(f"etc/ssh/{key.name}")
    standard = layer.lower / "usr/share/openssh/sshd_config"
    if standard.exists():
        layer.write("etc/ssh/sshd_config", standard.read_text(encoding="utf-8"))
    for path, text in _PATHS["configuration"].items():
        mode = 0o440 if path == "sudoers" else 0o644
        layer.write(f"etc/{path}", text.replace("{name}", look.hostname), mode)
    layer.write("etc/machine-id", f"{uuid.uuid4().hex}\n")
    layer.write("etc/cloud/cloud.cfg", cloud_cfg(_distribution(layer.lower), look.default_user))
    # The distribution's own logging of cloud-init: to /var/log/cloud-init.log.
    logging = layer.lower / "etc/cloud/cloud.cfg.d/05_logging.cfg"
    if logging.exists():
        layer.write("etc/cloud/cloud.cfg.d/05_logging.cfg", logging.read_text(encoding="utf-8"))
    layer.link("var/lib/dbus/machine-id", "/etc/machine-id")


def _rows(layer: Layer, name: str) -> list[list[str]]:
    text = (layer.lower / "etc" / name).read_text(encoding="utf-8")
    return [line.split(":") for line in text.splitlines() if line and line[0] not in "#+-"]


def _accounts(layer: Layer) -> None:
    """Only the services' accounts remain, all without a password."""
    users = [row for row in _rows(layer, "passwd") if int(row[2]) not in _HUMAN]
    people = {row[0] for row in _rows(layer, "passwd")} - {row[0] for row in users}
    groups = [row for row in _rows(layer, "group") if int(row[2]) not in _HUMAN]
    for row in groups:
        row[3] = ",".join(name for name in row[3].split(",") if name and name not in people)
    if not any(row[0] == "sudo" for row in groups):
        groups.append(["sudo", "x", "27", ""])
    for row in users:
        row[1] = "x"
        if row[0] == "root":
            row[5:7] = ["/root", "/bin/bash"]

    def text(rows: list[list[str]]) -> str:
        return "".join(":".join(row) + "\n" for row in rows)

    shadow = grp.getgrnam("shadow").gr_gid
    layer.write("etc/passwd", text(users))
    layer.write("etc/group", text([[row[0], "x", *row[2:]] for row in groups]))
    hidden = [[row[0], "*", "19000", "0", "99999", "7", "", "", ""] for row in users]
    layer.write("etc/shadow", text(hidden), 0o640, shadow)
    layer.write("etc/gshadow", text([[row[0], "*", "", row[3]] for row in groups]), 0o640, shadow)
    for name in ("subuid", "subgid"):
        layer.write(f"etc/{name}", "")


def _services(layer: Layer) -> None:
    """Only sshd and cloud-init start, in addition to the services of every systemd system."""
    system = "etc/systemd/system"
    layer.empty(system, 0o755)
    layer.empty("etc/systemd/system-generators", 0o755)
    stages = [] if (layer.lower / _UNITS / ONE_PROCESS).exists() else MASKED_STAGES
    masked = documents.read(Path(__file__).with_name("masked.yaml"))
    for unit in [*masked["units"], *stages]:
        layer.link(f"{system}/{unit}", "/dev/null")
    for generator in masked["generators"]:
        layer.link(f"etc/systemd/system-generators/{generator}", "/dev/null")
    layer.link(f"{system}/default.target", "/lib/systemd/system/multi-user.target")
    layer.link(f"{system}/sshd.service", "/lib/systemd/system/ssh.service")
    layer.link(f"{system}/multi-user.target.wants/ssh.service", "/lib/systemd/system/ssh.service")
    layer.link(
        f"{system}/multi-user.target.wants/cloud-init.target",
        "/lib/systemd/system/cloud-init.target",
    )
    for file in sorted((layer.lower / _UNITS).glob("cloud-*.service")):
        # The unit's own [Install] section says whether it belongs to the boot.
        boots = "WantedBy=cloud-init.target" in file.read_text(encoding="utf-8")
        if boots and file.name not in stages:
            target = f"{system}/cloud-init.target.wants/{file.name}"
            layer.link(target, f"/lib/systemd/system/{file.name}")


def _hide_path(layer: Layer, path: Path) -> None:
    """Hide a path of the machine, unless a directory above it is hidden already."""
    relative = path.relative_to("/")
    if relative == Path() or not (layer.lower / relative).exists():
        return
    walked = layer.upper
    for part in relative.parts:
        walked = walked / part
        if not os.path.lexists(walked):
            continue
        if not walked.is_dir():
            return  # whited out
        try:
            os.getxattr(walked, "trusted.overlay.opaque")
        except OSError:
            continue
        return  # nothing below shows through
    layer.hide(relative)
