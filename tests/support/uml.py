"""A Linux kernel of its own for a test: User-mode Linux, which has what the machine's may lack.

The guest boots in about two seconds from Debian's package user-mode-linux, as a process of the
test, with ESP (AES-GCM, extended sequence numbers), SCTP, netem, veth and TUN as modules. Its root
is the machine's own, read-only; only the test's folder can be written, and what the test's program
prints comes back. There is one CPU and no hardware cryptography, and no network but what the
program makes inside: figures measured in it mean nothing outside.

    done = run(tmp_path, "import subprocess; subprocess.run(['modprobe', 'sctp'], check=True)")
    assert done.code == 0, done.output
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

KERNEL = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")
REGISTERS = re.compile(r"put_fp_registers|fatal_sigsegv|PTRACE_SETREGSET")

_INIT = '''#!{python} -I
"""First process of the guest: make a minimal system, run the program, power off."""
import ctypes
import os
import subprocess
import sys

os.environ.update(PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, options=""):
    if libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()):
        raise OSError(ctypes.get_errno(), kind + " on " + target)


try:
    mount("none", {folder!r}, "hostfs", {folder!r})
    sys.stdout = open({folder!r} + "/output", "w", buffering=1)
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(1, 2)
    # The kernel has mounted /dev itself.
    for target, kind in (("/proc", "proc"), ("/sys", "sysfs"), ("/run", "tmpfs")):
        mount("none", target, kind)
    os.makedirs("/run/netns")
    # The kernel's own calls for modules go to a loader that knows where they are.
    with open("/proc/sys/kernel/modprobe", "w") as stream:
        stream.write({folder!r} + "/bin/modprobe")
    os.environ["PATH"] = {folder!r} + "/bin:" + os.environ["PATH"]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    code = subprocess.run([{python!r}, "-I", {folder!r} + "/program"], cwd={folder!r}).returncode
except BaseException as error:
    print(type(error).__name__, error)
    code = 126
with open({folder!r} + "/code", "w") as stream:
    stream.write(str(code))
os.sync()
libc.reboot(0x4321FEDC)  # LINUX_REBOOT_CMD_POWER_OFF
'''


@dataclass(frozen=True)
class Done:
    """What became of a program in a guest.

    Attributes:
        code: Exit code; 126 where the guest itself failed.
        output: Standard output and error.
    """

    code: int
    output: str


def missing() -> str:
    """Return what this machine lacks for guests, "" where nothing."""
    if not shutil.which(KERNEL) or not MODULES.is_dir():
        return "needs the package user-mode-linux"
    return ""


@functools.cache
def cannot_boot() -> str:
    """Return why a guest cannot boot on this processor, "" where it can.

    User-mode Linux of Debian 12 writes back 2,696 bytes of a process's register state. The state
    is larger on processors with AMX; the kernel refuses, and the guest dies in put_fp_registers.
    Any other way to die is a fault of ours, which the tests themselves must show.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(Path(folder), "", timeout=60.0)
        except AssertionError as error:
            if REGISTERS.search(str(error)):
                return "User-mode Linux cannot hold this processor's registers (put_fp_registers)"
    return ""


def run(folder: Path, program: str, memory: int = 256, timeout: float = 240.0) -> Done:
    """Boot a guest, run a Python program in it as root, and power it off.

    Args:
        folder: A directory of the test's own; `program` finds its files there and may write there.
        program: Python source, run with the machine's Python in that directory.
        memory: MiB.
        timeout: Seconds for everything.

    Raises:
        AssertionError: The guest did not end in time, or not as it should; the kernel's last words
            are in it.
    """
    (folder / "bin").mkdir(exist_ok=True)
    modules = folder / "modules/lib"
    modules.mkdir(parents=True, exist_ok=True)
    if not (modules / "modules").exists():
        (modules / "modules").symlink_to(MODULES)
    python = sys.executable if Path(sys.executable).is_relative_to("/usr") else "/usr/bin/python3"
    files = {
        "init": _INIT.format(python=python, folder=str(folder)),
        "program": program,
        "bin/modprobe": f'#!/bin/sh\nexec /sbin/modprobe -d {folder}/modules "$@"\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    for name in ("output", "code"):
        (folder / name).unlink(missing_ok=True)
    words = [
        KERNEL, f"mem={memory}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"init={folder}/init", f"uml_dir={folder}/", "con=null", "con0=null,fd:1", "panic=-1",
    ]  # fmt: skip
    console = folder / "console"
    with console.open("wb") as stream:
        guest = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )
        try:
            guest.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if guest.poll() is None:
                subprocess.run(["pkill", "-KILL", "-s", str(guest.pid)], check=False)
                guest.wait()
    output = folder / "output"
    printed = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
    code = folder / "code"
    if not code.exists():
        last = console.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
        raise AssertionError("the guest did not end well:\n" + "\n".join([printed, *last]))
    return Done(int(code.read_text(encoding="utf-8")), printed)
