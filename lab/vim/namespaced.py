"""VDUs in namespaces: the disk, keeper process and observed state of each.

The parts of a server and where they are:

- ``<vim>/servers/<id>/disk``: a tmpfs with the upper layer, which outlives the system's pid 1;
- ``<vim>/servers/<id>/{vdu.json, run.json, console.log}``: see :mod:`lab.vim.keeper`;
- the control group ``<prefix>/<id>``: the keeper in ``keeper``, the VDU in ``vdu``;
- devices ``p<...>`` in the fabric namespace, which end with the VDU's network namespace.
"""

import contextlib
import functools
import hashlib
import ipaddress
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab import files
from lab.errors import STOPPED, VimError
from lab.procs import ProcessRef, process_group
from lab.vim import cgroups, cloudinit, containers, dataplane, image, keeper
from lab.vim.model import ACTIVE, BUILD, ERROR, SHUTOFF, Network, Server, ServerSpec, devices
from lab.vim.run import start, tool
from lab.vim.store import Config, Image, ServerRecord, read_json
from lab.vim.vdu import MOST_READ, Tell, Vdu, lost

#: Seconds a system has to shut down before it is killed, as a cloud's soft stop.
SHUTDOWN_TIMEOUT = 15.0
#: Real-time signals that systemd takes as pid 1 (systemd(1), "Signals").
POWER_OFF, REBOOT = signal.SIGRTMIN + 4, signal.SIGRTMIN + 5

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
#: The keeper; -I -S -E: it ignores the Python environment of this process.
_KEEPER = [sys.executable, "-I", "-S", "-E", keeper.__file__]

#: First user id for containers; the ids from here on are free (systemd's UIDS-GIDS.md).
FIRST_USER = 0x80000


@functools.cache
def why_shared_users() -> str:
    """Why root of a VDU must be root of the machine here; "" if a VDU has its own users.

    Tested once per process, because file systems and kernels differ (idmapped mounts
    below an overlay: Linux 5.19).
    """
    with tempfile.TemporaryDirectory() as place:
        words = [*_KEEPER, "--try-users", str(FIRST_USER), place]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or "no reason known")


@dataclass(frozen=True)
class Running:
    """The content of run.json, checked against the machine."""

    state: str
    error: str
    boots: int
    keeper: ProcessRef | None
    init: ProcessRef | None


@dataclass(frozen=True)
class Namespaced(Vdu):
    """A server in namespaces, whose system is the machine's own systemd."""

    poll = 0.05

    @classmethod
    def prepare(cls, config: Config, tell: Tell) -> None:
        if config.registry:
            raise VimError(
                "The VIM configuration is wrong at 'registry': VDUs in namespaces pull no images "
                "of containers; those of the account type qemu do."
            )
        image.check_host()
        dataplane.probe()

    @classmethod
    def check_server(cls, spec: ServerSpec, settings: Image, old: Path | None = None) -> None:
        if spec.user_data is not None:
            cloudinit.check_packages(spec.user_data)

    @property
    def disk(self) -> Path:
        return self.directory / "disk"

    @property
    def users(self) -> int | None:
        """The user of the machine that acts as the VDU's root; None without a user namespace.

        It is chosen as by systemd-nspawn: by the name, from the free ids (UIDS-GIDS.md).
        """
        if why_shared_users():
            return None
        number = int.from_bytes(hashlib.sha256(self.directory.name.encode()).digest()[:4], "big")
        return FIRST_USER + number % 0x6FF7 * keeper.USERS

    # --- life --------------------------------------------------------------------------------

    def make(
        self, spec: ServerSpec, settings: Image, server: Server, networks: Mapping[str, Network]
    ) -> None:
        init = image.find_init()
        look = image.Look(
            hostname=spec.hostname,
            default_user=settings.default_user,
            seed=cloudinit.seed(
                server.id,
                spec.hostname,
                spec.ssh_keys,
                spec.user_data,
                devices(server.ports) if self.metadata else (),
            ),
            wireguard_go=dataplane.probe().binary,
            keep=frozenset(settings.keep),
            hide=(self.home,),
            simulators=containers.simulators(),
        )
        self._make_disk(spec.disk_gb, look)
        self._configure(server, networks, init, look.binds)

    def _make_disk(self, size_gb: int, look: image.Look) -> None:
        self.disk.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.disk.is_mount():
            options = f"size={size_gb}g,mode=700"
            tool(["mount", "-t", "tmpfs", "-o", options, "osm-lab-disk", str(self.disk)])
        for name in ("upper", "work", "root", "lower"):
            (self.disk / name).mkdir(exist_ok=True)
        try:
            image.build(self.disk / "upper", look)
            if self.users is not None:
                image.give(self.disk / "upper", self.users)
        except OSError as error:
            raise VimError(f"The server's disk could not be made: {error}.") from None

    def _configure(
        self, server: Server, networks: Mapping[str, Network], init: str, binds: Mapping[str, str]
    ) -> None:
        """Write what the keeper needs to know."""
        ports = []
        for port in server.ports:
            network = networks[port.network_id]
            length = ipaddress.ip_network(network.subnet).prefixlen
            known = self.metadata or network.dhcp_ports
            ports.append(
                {
                    "device": port.device,
                    "interface": port.interface,
                    "bridge": network.bridge,
                    "mac": port.mac,
                    "address": f"{port.ip}/{length}" if known else None,
                    "gateway": network.gateway if known else None,
                    "mtu": network.mtu,
                    "routes": list(network.host_routes) if known else [],
                }
            )
        config = {
            "hostname": server.hostname,
            "disk": str(self.disk),
            "lower": "/",
            "users": self.users,
            "binds": dict(binds),
            "init": init,
            "cgroup": str(self.group),
            "limits": [str(group) for group in self._other_groups()],
            "fabric": self.fabric,
            "ports": ports,
        }
        files.replace(self.directory / "vdu.json", json.dumps(config, indent=1))

    def power_on(self, record: ServerRecord) -> list[str]:
        """Start the keeper; returns as soon as it runs (the system boots meanwhile)."""
        (self.group / "keeper").mkdir(parents=True, exist_ok=True)
        (self.group / "vdu").mkdir(exist_ok=True)
        top = self.group.parents[1]
        notes = cgroups.limit(self.group, top, ram_mib=record.ram_mib, vcpus=record.vcpus)
        if why := why_shared_users():
            notes.append(f"root in it is root of the machine: {why}")
        if not self.disk.is_mount():
            raise VimError(
                "The server's disk is gone, since the machine was restarted: delete the server."
            )
        (self.directory / "run.json").unlink(missing_ok=True)
        report = self.directory / "run.json"
        start(
            [*_KEEPER, str(self.directory / "vdu.json")],
            self.directory / "keeper.log",
            lambda _: read_json(report) is not None,
            "The server's keeper did not start",
            _ENVIRONMENT,
        ).returncode = 0  # it outlives this process on purpose
        return notes

    def power_off(self, timeout: float | None = None) -> None:
        """Shut the system down; kill what is left after ``timeout`` seconds (0: at once)."""
        running = self.running()
        timeout = SHUTDOWN_TIMEOUT if timeout is None else timeout
        if running.init and timeout > 0 and running.init.signal(POWER_OFF):
            end = time.monotonic() + timeout
            while running.keeper and running.keeper.alive() and time.monotonic() < end:
                time.sleep(0.02)
        self.kill()
        (self.directory / "run.json").unlink(missing_ok=True)

    def kill(self) -> None:
        """End every process of the server at once and remove its control group."""
        cgroups.kill(self.group)
        (self.directory / "run.json").unlink(missing_ok=True)

    def reboot(self) -> bool:
        before = self.running()
        if not before.init or not before.init.signal(REBOOT):
            return False
        end = time.monotonic() + SHUTDOWN_TIMEOUT
        while time.monotonic() < end:
            now = self.running()
            if now.boots > before.boots:
                return True
            if now.keeper is None:
                return False
            time.sleep(0.02)
        return False

    def remove(self) -> None:
        """End the server and unmount its disk."""
        self.kill()
        unmount(self.disk)

    # --- observation -------------------------------------------------------------------------

    def running(self) -> Running:
        report = read_json(self.directory / "run.json") or {}

        def alive(key: str) -> ProcessRef | None:
            pair = report.get(key)
            process = ProcessRef(*pair) if pair else None
            return process if process and process.alive() else None

        return Running(
            state=report.get("state", "off"),
            error=report.get("error", ""),
            boots=report.get("boots", 0),
            keeper=alive("keeper"),
            init=alive("init"),
        )

    def on(self) -> bool:
        return self.running().keeper is not None

    def status(self) -> tuple[str, str]:
        now = self.running()
        if now.keeper is None:
            if now.state == "error":
                return ERROR, now.error
            if now.state in ("starting", "running"):  # The keeper writes "off" when it ends.
                return ERROR, lost(self.directory / "run.json")
            return SHUTOFF, ""
        if now.init is None or now.state != "running":
            return BUILD, ""
        result = self.cloud_init_result()
        return (ACTIVE if result is not None else BUILD), ""

    def cloud_init_result(self) -> list[str] | None:
        init = self.running().init
        if init is None:
            return None
        root = Path(f"/proc/{init.pid}/root")
        try:
            # The first is there in this boot only. cloud-init makes it a link to the second.
            with opened_inside(root, "run/cloud-init/result.json", os.O_PATH):
                pass
            with opened_inside(root, "var/lib/cloud/data/result.json", os.O_RDONLY) as file:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return None
                text = os.read(file, MOST_READ)
        except OSError:  # not there yet, just gone, or a link
            return None
        return cloudinit.result_errors(text)

    def listens(self, port: int) -> bool:
        init = self.running().init
        if init is None:
            return False
        tables = ""
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                tables += Path(f"/proc/{init.pid}/net/{table}").read_text()
        return listening(tables, port)

    def _other_groups(self) -> list[Path]:
        """Groups in addition to the server's own that carry a part of its limits."""
        other = cgroups.cpu1_group(self.group)
        return [] if other is None else [other]

    @contextlib.contextmanager
    def _joining(self) -> Iterator[list[int]]:
        """Open the member lists of the groups whose limits apply inside the server.

        The flavour limits a console's command like any other process of the VDU. They are open
        files, because what reaps the command must stay outside, see `_end_console`.
        """
        leaf = self.group / "console"
        with contextlib.suppress(OSError):
            leaf.mkdir(exist_ok=True)
        opened: list[int] = []
        try:
            for group in (leaf, *self._other_groups()):
                with contextlib.suppress(OSError):
                    opened.append(os.open(group / "cgroup.procs", os.O_WRONLY))
            yield opened
        finally:
            for number in opened:
                os.close(number)

    def _entering(self, groups: Sequence[int]) -> list[str]:
        """Return the words before a command that is run inside as root, in these groups."""
        init = self.running().init
        if init is None:
            raise VimError(STOPPED)
        return [*_KEEPER, "--enter", str(init.pid), ",".join(map(str, groups))]

    def terminal(self) -> int:
        size = os.get_terminal_size()
        script = f"stty rows {size.lines} cols {size.columns}; exec bash --login"
        environment = {**_ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")}
        words = [f"{name}={value}" for name, value in environment.items()]
        with self._joining() as groups:
            for number in groups:
                os.set_inheritable(number, True)
            shell = [*self._entering(groups), "bash", "-c", script]
            return os.waitstatus_to_exitcode(pty.spawn(["env", "-i", *words, *shell]))

    def console(
        self, argv: Sequence[str], stdin: str | bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with self._joining() as groups:
            process = subprocess.Popen(
                [*self._entering(groups), *argv],
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_ENVIRONMENT,
                start_new_session=True,
                pass_fds=groups,
            )
        data = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            out, err = process.communicate(data, timeout)
        except subprocess.TimeoutExpired:
            _end_console(process)
            raise VimError(
                f"'{' '.join(argv)}' did not end within {timeout:.0f} s in the server."
            ) from None
        except BaseException:
            _end_console(process)
            raise
        texts = (out.decode(errors="replace"), err.decode(errors="replace"))
        return subprocess.CompletedProcess(list(argv), process.returncode, *texts)


def _end_console(process: subprocess.Popen[bytes]) -> None:
    """Kill the command, but not the process that entered the VDU: it must reap its child.

    Otherwise the machine's init must reap it, and until then the VDU's pid namespace cannot end,
    and the VDU cannot restart.
    """
    for pid in process_group(process.pid):
        if pid != process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    try:
        process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def opened_inside(root: Path, path: str, flags: int) -> Iterator[int]:
    """Open a file below a VDU's root; a link on the way is refused, with OSError.

    The machine would follow a link of the VDU to its own files. A FIFO must not block it.
    """
    *folders, name = path.split("/")
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    with contextlib.ExitStack() as stack:

        def opened(part: Path | str, how: int, above: int | None = None) -> int:
            handle = os.open(part, how, dir_fd=above)
            stack.callback(os.close, handle)
            return handle

        folder = opened(root, os.O_PATH | os.O_DIRECTORY)
        for each in folders:
            folder = opened(each, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, folder)
        yield opened(name, flags, folder)


def listening(tables: str, port: int) -> bool:
    """True when /proc/net/tcp or tcp6 has a server on the port."""
    # proc(5): local address in hex; state 0A is LISTEN.
    return f":{port:04X} 0A" in {
        f":{fields[1].rpartition(':')[2]} {fields[3]}"
        for fields in map(str.split, tables.splitlines())
        if len(fields) > 3
    }


def unmount(path: Path) -> None:
    """Unmount a path as often as it is mounted."""
    while path.is_mount():
        tool(["umount", "--lazy", str(path)])


def mounts_below(path: Path) -> list[Path]:
    """Mount points at or below a path, deepest first."""
    points = [Path(mount.mountpoint) for mount in psutil.disk_partitions(all=True)]
    below = [point for point in points if point == path or path in point.parents]
    return sorted(below, key=lambda point: len(point.parts), reverse=True)
