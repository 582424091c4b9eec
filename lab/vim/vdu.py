"""The keeper of one VDU: a program of its own, started with the path of a JSON file.

    python -I -S -E vdu.py <server directory>/vdu.json

It boots a system in namespaces (its pid 1 is the machine's own systemd over an overlay of the
machine's root), connects its NICs, writes its console to a file, and boots it again when it
reboots. It ends when the system powers off or is killed. It uses the standard library only and
imports nothing of the lab, so that ten of them start fast and stay small.

What it does it tells in ``run.json`` beside its configuration::

    {"state": "starting" | "running" | "off" | "error", "error": "...", "boots": 1,
     "keeper": [pid, start time], "init": [pid, start time] | null}
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import pty
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

# From linux/sched.h, linux/mount.h, linux/prctl.h and linux/capability.h.
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 24, 36
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

#: Capabilities a VDU never has, since they reach the machine below (capabilities(7)).
DROPPED_CAPABILITIES = {
    "sys_module": 16,
    "sys_rawio": 17,
    "sys_time": 25,
    "mknod": 27,
    "mac_override": 32,
    "mac_admin": 33,
    "syslog": 34,
    "wake_alarm": 35,
    "block_suspend": 36,
}

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")
#: Files of /proc that act on, or tell about, the whole machine.
HIDDEN_PROC = ("kcore", "kmsg", "kallsyms", "sysrq-trigger", "keys", "timer_list")

CONSOLE_LIMIT = 1 << 20  # bytes kept of the console, twice that on disk at most

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2); raises OSError naming the target."""
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _checked(result, f"mount {kind or source} on {target}")


def start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot (proc(5), stat field 22)."""
    text = Path(f"/proc/{pid}/stat").read_bytes()
    return int(text[text.rindex(b")") + 2 :].split()[19])


# --- inside the new namespaces, as pid 1 -------------------------------------------------------


def _mount_dev(dev: Path, console: str) -> None:
    mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    (dev / "net").mkdir()
    for name in DEVICES:
        # Binds rather than mknod: they also work where making device nodes is not allowed.
        if Path("/dev", name).exists():
            (dev / name).touch()
            mount(f"/dev/{name}", dev / name, flags=MS_BIND)
    (dev / "pts").mkdir()
    mount("devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666")
    (dev / "shm").mkdir()
    mount("tmpfs", dev / "shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    (dev / "console").touch()
    mount(console, dev / "console", flags=MS_BIND)
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
    links |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
    for name, target in links.items():
        (dev / name).symlink_to(target)


def _mount_proc(proc: Path) -> None:
    mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # rp_filter is 2 (loose) in Ubuntu; set here so that NICs made later begin with it.
    for scope in ("all", "default"):
        (proc / f"sys/net/ipv4/conf/{scope}/rp_filter").write_text("2")
    # Kernel settings are the machine's and read-only; those of the network are the VDU's own.
    mount(str(proc / "sys"), proc / "sys", flags=MS_BIND)
    mount(str(proc / "sys/net"), proc / "sys/net", flags=MS_BIND)
    mount("none", proc / "sys", flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC)
    for name in HIDDEN_PROC:
        if (proc / name).exists():
            mount("/dev/null", proc / name, flags=MS_BIND)


def build_root(disk: Path, lower: str, console: str, binds: dict[str, str]) -> Path:
    """Mount the VDU's root and what a kernel and its boot would give it; returns the root.

    ``binds`` are directories of the machine to show, read-only, by path in the VDU.
    """
    root = disk / "root"
    os.chdir(disk)  # relative names: a path may hold what the options' syntax does not
    layers = f"lowerdir={lower},upperdir=upper,workdir=work"
    mount("overlay", root, "overlay", 0, layers)
    for target, source in binds.items():
        mount(source, root / target, flags=MS_BIND)
        mount("none", root / target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    _mount_proc(root / "proc")
    mount("sysfs", root / "sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount_dev(root / "dev", console)
    mount("tmpfs", root / "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=128m")
    return root


def enter_root(root: Path) -> None:
    """Make a mounted tree the root, and leave nothing of the machine's mounts behind."""
    try:
        number = SYS_PIVOT_ROOT[platform.machine()]
    except KeyError:
        raise OSError(f"pivot_root is not known for {platform.machine()}") from None
    os.chdir(root)
    # pivot_root(".", "."): the old root ends up under the new one and is detached at once.
    _checked(_libc.syscall(number, b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chroot(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up for good what would let the VDU act on the machine."""
    for capability in DROPPED_CAPABILITIES.values():
        _checked(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl PR_CAPBSET_DROP")


def run_init(config: dict[str, Any], console: str, go: int, failure: int) -> NoReturn:
    """Be pid 1: build the root, wait for the NICs, become systemd.

    ``failure`` is closed by a successful exec; before, it carries the reason of a failure.
    """
    try:
        os.setsid()
        mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
        socket.sethostname(config["hostname"])
        root = build_root(Path(config["disk"]), config["lower"], console, config["binds"])
        if os.read(go, 1) != b"g":
            os._exit(1)  # the keeper is gone or could not connect the NICs
        enter_root(root)
        drop_capabilities()
        with open("/dev/null", "r+b") as null:
            for standard in (0, 1, 2):
                os.dup2(null.fileno(), standard)
        environment = {"container": "osmlab", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        os.umask(0o022)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python and the keeper ignore or handle these
        os.execve(config["init"], [config["init"]], environment)  # noqa: S606
    except OSError as error:
        os.write(
            failure, f"{error.strerror or error}: {error.filename or ''}".rstrip(": ").encode()
        )
    os._exit(1)


# --- outside: the keeper ----------------------------------------------------------------------


class BootError(Exception):
    """The VDU could not be booted; the text says why."""


def connect(config: dict[str, Any], pid: int) -> None:
    """Put the VDU's NICs into its network namespace, with addresses and default routes.

    This stands for the DHCP of a cloud: addresses, gateway and MTU are those of the ports.
    """
    fabric, outside, inside = config["fabric"], [], ["link set lo up"]
    for metric, port in enumerate(config["ports"]):
        nic, mtu, device = port["interface"], port["mtu"], port["device"]
        peer = f"peer name {nic} address {port['mac']} mtu {mtu} netns {pid}"
        outside.append(f"link add {device} mtu {mtu} type veth {peer}")
        outside.append(f"link set {device} master {port['bridge']} up")
        inside.append(f"link set {nic} up")
        flags = "nodad" if ":" in port["address"] else "brd +"
        inside.append(f"address add {port['address']} {flags} dev {nic}")
        if port["gateway"]:
            route = f"default via {port['gateway']} dev {nic} metric {100 + metric}"
            inside.append(f"route add {route}")
        for target in port["routes"]:
            inside.append(f"route add {target} via {port['gateway']} dev {nic}")
    stale = [f"link delete {port['device']}" for port in config["ports"]]
    _batch(["ip", "-force", "-n", fabric, "-batch", "-"], stale, check=False)
    _batch(["ip", "-n", fabric, "-batch", "-"], outside)
    _batch(["nsenter", f"--net=/proc/{pid}/ns/net", "--", "ip", "-batch", "-"], inside)


def _batch(argv: list[str], commands: list[str], check: bool = True) -> None:
    text = "\n".join(commands) + "\n"
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise BootError(f"the NICs could not be connected: {lines[0]}")


class Console:
    """The VDU's console: a terminal whose output goes to a file that does not grow for ever."""

    def __init__(self, path: Path) -> None:
        """Open a terminal pair; the other end stays open so that a reboot loses nothing."""
        self.path = path
        self.master, self.slave = pty.openpty()
        self.name = os.ttyname(self.slave)
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115

    def copy(self) -> None:
        """Copy what can be read now."""
        self.file.write(os.read(self.master, 65536))
        if self.file.tell() > CONSOLE_LIMIT:
            os.replace(self.path, self.path.with_suffix(".old"))
            self.file.close()
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115

    def drain(self) -> None:
        """Copy all that is still waiting."""
        while select.select([self.master], [], [], 0)[0]:
            self.copy()


class Keeper:
    """Boots the VDU, watches it, boots it again when it asks for that."""

    def __init__(self, directory: Path, config: dict[str, Any]) -> None:
        """Keep the VDU of a server directory."""
        self.directory = directory
        self.config = config
        self.group = Path(config["cgroup"])
        self.boots = 0
        self.console = Console(directory / "console.log")

    def tell(self, state: str, init: int | None = None, error: str = "") -> None:
        """Write run.json."""
        own = os.getpid()
        document = {
            "state": state,
            "error": error,
            "boots": self.boots,
            "keeper": [own, start_time(own)],
            "init": None if init is None else [init, start_time(init)],
        }
        fresh = self.directory / f".run.{own}"
        fresh.write_text(json.dumps(document))
        fresh.replace(self.directory / "run.json")

    def run(self) -> int:
        """Boot until the VDU powers off; returns the exit code."""
        try:
            while True:
                self.boots += 1
                self.tell("starting")
                end = self.watch(self.boot())
                # reboot(2) in a pid namespace ends its pid 1 with SIGHUP for a restart and
                # with SIGINT for power off (pid_namespaces(7)).
                if end != signal.SIGHUP:
                    break
        except (BootError, OSError) as error:
            self.tell("error", error=str(error))
            return 1
        if end == signal.SIGINT or end == signal.SIGKILL:
            self.tell("off")
            return 0
        self.tell("error", error=f"the system's pid 1 ended unexpectedly ({end.name})")
        return 1

    def boot(self) -> int:
        """Start pid 1 in new namespaces; returns its pid once it runs the VDU's systemd."""
        home = self.group / "vdu"
        for directory, _, _ in os.walk(home, topdown=False):  # groups of the boot before
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        home.mkdir(exist_ok=True)
        go_read, go_write = os.pipe()
        pid_read, pid_write = os.pipe()
        failure_read, failure_write = os.pipe()
        middle = os.fork()
        if middle == 0:
            # The one between: only a child of a process that unshared is pid 1 of the new pid
            # namespace. It ends at once, and the keeper, as sub-reaper, inherits pid 1.
            code = 1
            try:
                for fd in (go_write, pid_read, failure_read):
                    os.close(fd)
                (home / "cgroup.procs").write_text("0")
                for limit in map(Path, self.config["limits"]):
                    if limit.exists():
                        (limit / "cgroup.procs").write_text("0")
                kinds = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
                kinds |= CLONE_NEWNET | CLONE_NEWCGROUP
                _checked(_libc.unshare(kinds), "unshare")
                pid = os.fork()
                if pid == 0:
                    os.close(pid_write)
                    run_init(self.config, self.console.name, go_read, failure_write)
                os.write(pid_write, str(pid).encode())
                code = 0
            except OSError as error:
                os.write(failure_write, str(error).encode())
            finally:
                os._exit(code)
        for fd in (go_read, pid_write, failure_write):
            os.close(fd)
        with open(pid_read, "rb") as pids, open(failure_read, "rb") as failures:
            with open(go_write, "wb", buffering=0) as go:
                text = pids.read()
                os.waitpid(middle, 0)
                if not text:
                    raise BootError(failures.read().decode(errors="replace") or "fork failed")
                init = int(text)
                self.tell("starting", init)
                try:
                    connect(self.config, init)
                except BootError:
                    os.kill(init, signal.SIGKILL)
                    os.waitpid(init, 0)
                    raise
                with contextlib.suppress(BrokenPipeError):  # it failed: the reason comes next
                    go.write(b"g")
            reason = failures.read().decode(errors="replace")
        if reason:
            os.waitpid(init, 0)
            raise BootError(reason)
        self.tell("running", init)
        return init

    def watch(self, init: int) -> signal.Signals:
        """Copy the console until pid 1 ends; returns the signal that ended it."""
        ended = os.pidfd_open(init)
        try:
            while True:
                ready, _, _ = select.select([self.console.master, ended], [], [])
                if self.console.master in ready:
                    self.console.copy()
                elif ended in ready:
                    break
        finally:
            os.close(ended)
        self.console.drain()
        status = os.waitpid(init, 0)[1]
        with contextlib.suppress(ChildProcessError):  # strays that init itself did not reap
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else signal.SIGTERM


def main() -> int:
    """Run the keeper; the only argument is the configuration's path."""
    path = Path(sys.argv[1])
    config = json.loads(path.read_text())
    group = Path(config["cgroup"]) / "keeper"
    (group / "cgroup.procs").write_text("0")
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl PR_SET_CHILD_SUBREAPER")
    # A closing terminal or an interrupted verb must not take the VDU with it.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return Keeper(path.parent, config).run()


if __name__ == "__main__":
    sys.exit(main())
