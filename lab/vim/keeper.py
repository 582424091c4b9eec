"""The keeper of one VDU: a separate program, started with the path of a JSON file.

    python -I -S -E keeper.py <server directory>/vdu.json

It boots a system in namespaces (its pid 1 is the machine's own systemd over an overlay of the
machine's root), connects its NICs, writes its console to a file, and boots it again when it
reboots. It ends when the system powers off, and the system ends with it. It uses the standard
library only and imports nothing of the lab, so that ten of them start fast and stay small.

It reports its state in ``run.json`` beside its configuration::

    {"state": "starting" | "running" | "off" | "error", "error": "...", "boots": 1,
     "keeper": [pid, start time], "init": [pid, start time] | null}
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

# From linux/sched.h, linux/mount.h, linux/prctl.h and linux/capability.h.
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x20000000, 0x40000000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, SECCOMP_MODE_FILTER = 22, 24, 36, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, KEYCTL_JOIN_SESSION_KEYRING = 1, 4, 1
AT_EMPTY_PATH, AT_RECURSIVE, AT_FDCWD = 0x1000, 0x8000, -100
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = 1, 4, 0x00100000
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442  # everywhere the same

#: Users and groups of a VDU: 0 to 65535; on the machine they start at a number per VDU.
USERS = 65536

#: Capabilities a VDU never has, not even over itself: it has no use for them (capabilities(7)).
DROPPED_CAPABILITIES = {
    "dac_read_search": 2,
    "sys_module": 16,
    "sys_rawio": 17,
    "sys_pacct": 20,
    "sys_time": 25,
    "mknod": 27,
    "audit_control": 30,
    "mac_override": 32,
    "mac_admin": 33,
    "syslog": 34,
    "wake_alarm": 35,
    "block_suspend": 36,
    "audit_read": 37,
    "perfmon": 38,
    "bpf": 39,
    "checkpoint_restore": 40,
}

#: System calls that a VDU may not make: they act on the machine's whole kernel, or are ways into it
#: that containers do not need. From what podman's default profile and systemd-nspawn leave out
#: (containers/common seccomp.json; systemd's nspawn-seccomp.c). Numbers: x86-64, and the generic
#: table of other architectures (asm-generic/unistd.h); None where there is no such call.
REFUSED_CALLS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "quotactl": (179, 60),
    "request_key": (249, 218),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "userfaultfd": (323, 282),
}
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun")
#: Files of /proc that act on, or tell about, the whole machine.
HIDDEN_PROC = ("kcore", "kmsg", "kallsyms", "sysrq-trigger", "keys", "timer_list")

DELEGATED = ("procs", "threads", "subtree_control")
TTY_GROUP = 5

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


def _machine(table: dict[str, int], what: str) -> int:
    try:
        return table[platform.machine()]
    except KeyError:
        raise OSError(f"{what} is not known for {platform.machine()}") from None


# --- users of its own ----------------------------------------------------------------------------


def make_user_namespace(base: int) -> int:
    """Make a user namespace whose root is the machine's user ``base``; returns a descriptor."""
    ready_read, ready_write = os.pipe()
    hold_read, hold_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hold_write)
        if _libc.unshare(CLONE_NEWUSER) == 0:
            os.write(ready_write, b"r")
            os.read(hold_read, 1)
        os._exit(0)
    os.close(ready_write)
    try:
        if not os.read(ready_read, 1):
            raise OSError("user namespaces are not allowed on this machine")
        for kind in ("uid", "gid"):
            Path(f"/proc/{pid}/{kind}_map").write_text(f"0 {base} {USERS}")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready_read, hold_read, hold_write):
            os.close(fd)
        os.waitpid(pid, 0)


def _clone_tree(source: str, flags: int = 0) -> int:
    tree: int = _libc.syscall(
        SYS_OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE | os.O_CLOEXEC | flags
    )
    _checked(tree < 0, f"open_tree {source}")
    return tree


def _attach(tree: int, target: Path) -> None:
    words = (tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)
    _checked(_libc.syscall(SYS_MOVE_MOUNT, *words), f"move_mount on {target}")


def mount_mapped(source: str, target: Path, users: int) -> None:
    """Mount a directory with its owners mapped to a user namespace (a descriptor)."""
    tree = _clone_tree(source)
    try:
        attributes = struct.pack("=QQQQ", MOUNT_ATTR_IDMAP, 0, 0, users)
        words = (tree, b"", AT_EMPTY_PATH, attributes, len(attributes))
        _checked(_libc.syscall(SYS_MOUNT_SETATTR, *words), f"mount_setattr {source}")
        _attach(tree, target)
    finally:
        os.close(tree)


def become_root_of(users: int) -> None:
    """Enter a user namespace (a descriptor) as its root."""
    _checked(_libc.setns(users, CLONE_NEWUSER), "setns")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


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
    # Every group may ping, as in systemd's 50-default.conf, whose range is too large for a VDU.
    (proc / "sys/net/ipv4/ping_group_range").write_text(f"0 {USERS - 1}")
    # Kernel settings are the machine's and read-only; those of the network are the VDU's own.
    mount(str(proc / "sys"), proc / "sys", flags=MS_BIND)
    mount(str(proc / "sys/net"), proc / "sys/net", flags=MS_BIND)
    mount("none", proc / "sys", flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC)
    for name in HIDDEN_PROC:
        if (proc / name).exists():
            mount("/dev/null", proc / name, flags=MS_BIND)


def mount_disk(config: dict[str, Any], users: int | None) -> None:
    """Mount the VDU's disk, still as the machine's root, and change into it.

    ``binds`` of the configuration are directories of the machine that the VDU shows read-only, by
    path in the VDU. ``users`` is a descriptor of the VDU's user namespace.
    """
    disk, lower = Path(config["disk"]), config["lower"]
    root = disk / "root"
    os.chdir(disk)  # relative names: mount options do not allow every character of a path
    if users is not None:
        mount_mapped(lower, disk / "lower", users)
        lower = "lower"
    mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir=upper,workdir=work")
    for target, source in config["binds"].items():
        if users is None:
            mount(source, root / target, flags=MS_BIND)
        else:
            mount_mapped(source, root / target, users)
        mount("none", root / target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chdir(root)


def mount_kernel(console: str) -> None:
    """Mount /proc, /sys, /dev and /run, from inside the new namespaces.

    Names are relative to the root: the VDU's users may not enter the directories above it.
    """
    # A mount of another user namespace is locked and cannot become the root; a copy of it can.
    tree = _clone_tree(".", AT_RECURSIVE)
    _attach(tree, Path())
    os.fchdir(tree)
    root = Path()
    _mount_proc(root / "proc")
    mount("sysfs", root / "sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("cgroup2", root / "sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount_dev(root / "dev", console)
    mount("tmpfs", root / "run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=128m")


def enter_root() -> None:
    """Make the current directory the root, and detach all mounts of the machine."""
    # pivot_root(".", "."): the old root ends up under the new one and is detached at once.
    _checked(_libc.syscall(_machine(SYS_PIVOT_ROOT, "pivot_root"), b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chroot(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up for ever the capabilities by which the VDU could act on the machine."""
    for capability in DROPPED_CAPABILITIES.values():
        _checked(_libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl PR_CAPBSET_DROP")


def refuse_calls() -> None:
    """Refuse ``REFUSED_CALLS`` for ever, and calls of other architectures (seccomp(2))."""
    column = 0 if platform.machine() == "x86_64" else 1
    numbers = [both[column] for both in REFUSED_CALLS.values()]
    refused = sorted(number for number in numbers if number is not None)
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06  # BPF_LD, BPF_JMP, BPF_RET with modes
    # "Not implemented": programs such as systemd go on without the call.
    allow, refuse = (answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | errno.ENOSYS)
    # Struct seccomp_data: the number at 0, the architecture at 4.
    program = [(load, 0, 0, 4), (equal, 1, 0, _machine(AUDIT_ARCH, "seccomp")), refuse]
    program.append((load, 0, 0, 0))
    if column == 0:
        program += [(at_least, 0, 1, 0x40000000), refuse]  # the x32 calls
    for number in refused:
        program += [(equal, 0, 1, number), refuse]
    program.append(allow)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    result = _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0)
    _checked(result, "prctl PR_SET_SECCOMP")


def run_init(config: dict[str, Any], console: str, go: int, failure: int) -> NoReturn:
    """Be pid 1: complete the root, wait for the NICs, become systemd.

    A successful exec closes ``failure``; without it the reason is written there.
    """
    try:
        os.setsid()
        socket.sethostname(config["hostname"])
        mount_kernel(console)
        if os.read(go, 1) != b"g":
            os._exit(1)  # the keeper is gone or could not connect the NICs
        # By now the keeper is the parent. The system ends with it, as a machine with its QEMU.
        _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl PR_SET_PDEATHSIG")
        enter_root()
        drop_capabilities()
        refuse_calls()
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

    This replaces the DHCP of a cloud: addresses, gateway and MTU are those of the ports.
    """
    fabric, outside, inside = config["fabric"], [], ["link set lo up"]
    for metric, port in enumerate(config["ports"]):
        nic, mtu, device = port["interface"], port["mtu"], port["device"]
        peer = f"peer name {nic} address {port['mac']} mtu {mtu} netns {pid}"
        outside.append(f"link add {device} mtu {mtu} type veth {peer}")
        outside.append(f"link set {device} master {port['bridge']} up")
        inside.append(f"link set {nic} up")
        if port["address"]:
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
    """The VDU's console: a terminal that writes to a file of limited size."""

    def __init__(self, path: Path) -> None:
        """Open a terminal pair; the other end stays open so that a reboot loses nothing."""
        self.path = path
        self.master, self.slave = pty.openpty()
        self.name = os.ttyname(self.slave)
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115

    def copy(self) -> None:
        """Copy what can be read now; on a full disk it is lost, and nothing else."""
        text = os.read(self.master, 65536)
        with contextlib.suppress(OSError):
            self.file.write(text)
            if self.file.tell() > CONSOLE_LIMIT:
                os.replace(self.path, self.path.with_suffix(".old"))
                old, self.file = self.file, open(self.path, "ab", buffering=0)  # noqa: SIM115
                old.close()

    def drain(self) -> None:
        """Copy all that is still waiting."""
        while select.select([self.master], [], [], 0)[0]:
            self.copy()


class Keeper:
    """Boots the VDU, watches it, boots it again when it asks for that."""

    def __init__(self, directory: Path, config: dict[str, Any]) -> None:
        self.directory = directory
        self.config = config
        self.group = Path(config["cgroup"])
        self.boots = 0
        self.console = Console(directory / "console.log")

    def tell(self, state: str, init: int | None = None, error: str = "") -> None:
        own = os.getpid()
        document = {
            "state": state,
            "error": error,
            "boots": self.boots,
            "keeper": [own, start_time(own)],
            "init": None if init is None else [init, start_time(init)],
        }
        text, place = json.dumps(document), self.directory / "run.json"
        fresh = self.directory / f".run.{own}"
        try:
            fresh.write_text(text)
            fresh.replace(place)
        except OSError:  # a full disk, on which the old report has room
            fresh.unlink(missing_ok=True)
            with place.open("r+") as file:
                file.write(text)
                file.truncate()

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
            # A process in the middle, whose child is pid 1 of the new pid namespace. It ends at
            # once, and the keeper, as sub-reaper, inherits pid 1.
            code = 1
            try:
                for fd in (go_write, pid_read, failure_read):
                    os.close(fd)
                (home / "cgroup.procs").write_text("0")
                for limit in map(Path, self.config["limits"]):
                    if limit.exists():
                        (limit / "cgroup.procs").write_text("0")
                self.separate()
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
                except BootError as error:
                    os.kill(init, signal.SIGKILL)
                    os.waitpid(init, 0)
                    # If pid 1 has failed, that is why: its reason comes first.
                    raise BootError(failures.read().decode(errors="replace") or error) from None
                with contextlib.suppress(BrokenPipeError):  # it failed: the reason comes next
                    go.write(b"g")
            reason = failures.read().decode(errors="replace")
        if reason:
            os.waitpid(init, 0)
            raise BootError(reason)
        self.tell("running", init)
        return init

    def separate(self) -> None:
        """Leave the machine's namespaces; the current directory becomes the VDU's root."""
        _checked(_libc.unshare(CLONE_NEWNS), "unshare")
        mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
        base = self.config["users"]
        users = None if base is None else make_user_namespace(base)
        mount_disk(self.config, users)
        if users is not None:
            # The VDU's root owns its terminal, and its control group with these files
            # (the kernel's documentation of cgroup v2, "Delegation").
            os.chown(self.console.name, base, base + TTY_GROUP)
            home = self.group / "vdu"
            for path in (home, *(home / f"cgroup.{name}" for name in DELEGATED)):
                os.chown(path, base, base)
            become_root_of(users)
        kinds = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
        _checked(_libc.unshare(kinds | CLONE_NEWNET | CLONE_NEWCGROUP), "unshare")

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


def try_users(base: int, place: Path) -> None:
    """Test, at an empty directory, the overlay of a VDU whose users begin at ``base``.

    OSError says that this machine cannot do that.
    """
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", place, "tmpfs")
    for name in ("upper", "work", "root", "lower"):
        (place / name).mkdir()
    mount_disk({"disk": place, "lower": "/", "binds": {}}, make_user_namespace(base))
    if (owner := os.stat("etc").st_uid) != base:
        raise OSError(f"an overlay shows owner {owner} in place of {base}")


# --- a command from outside --------------------------------------------------------------------


def new_keyring() -> None:
    """Give up the keys of this process's session for an empty keyring (keyctl(2))."""
    column = 0 if platform.machine() == "x86_64" else 1
    call = REFUSED_CALLS["keyctl"][column]
    # A kernel without keys has none to give up.
    if _libc.syscall(call, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        number = ctypes.get_errno()
        if number != errno.ENOSYS:
            raise OSError(number, f"keyctl: {os.strerror(number)}")


def enter(pid: int, groups: Sequence[int], argv: Sequence[str]) -> int:
    """Run a command inside as root, in the place of a process of the VDU; return its exit code.

    All that limits it is in force before the first file of the VDU is used. This process stays
    outside the groups, whose open member lists are ``groups``, and reaps the command.
    """
    new_keyring()
    # Nothing of the VDU may look into this process, whose descriptors are the machine's.
    _checked(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl PR_SET_DUMPABLE")
    users = Path(f"/proc/{pid}/ns/user")
    foreign = users.readlink() != Path("/proc/self/ns/user").readlink()
    names = ("cgroup", "ipc", "uts", "net", "pid", "mnt")
    spaces = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]
    if foreign:
        become_root_of(os.open(users, os.O_RDONLY))
    for space in spaces:
        _checked(_libc.setns(space, 0), "setns")
    child = os.fork()
    if child == 0:
        try:
            for group in groups:
                with contextlib.suppress(OSError):
                    os.write(group, b"0")
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.chdir("/")
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            drop_capabilities()
            refuse_calls()
            os.execvpe(argv[0], list(argv), os.environ)  # noqa: S606
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror or error}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def main() -> int:
    """Run the keeper; the argument is the configuration's path.

    Or --try-users BASE DIRECTORY, or --enter PID GROUP,... COMMAND.
    """
    if sys.argv[1] == "--enter":
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        groups = [int(number) for number in sys.argv[3].split(",") if number]
        try:
            code = enter(int(sys.argv[2]), groups, sys.argv[4:])
        except OSError as error:
            sys.exit(f"the server cannot be entered: {error.strerror or error}")
        if code < 0:
            with contextlib.suppress(OSError):  # as of SIGKILL
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code
    if sys.argv[1] == "--try-users":
        try:
            try_users(int(sys.argv[2]), Path(sys.argv[3]))
        except OSError as error:
            sys.exit(error.strerror or str(error))
        return 0
    path = Path(sys.argv[1])
    config = json.loads(path.read_text())
    group = Path(config["cgroup"]) / "keeper"
    (group / "cgroup.procs").write_text("0")
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl PR_SET_CHILD_SUBREAPER")
    # A closed terminal or an interrupted verb must not end the VDU.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return Keeper(path.parent, config).run()


if __name__ == "__main__":
    sys.exit(main())
