"""Whether virtual machines run on the processor itself (KVM) or are emulated (TCG)."""

import functools
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

#: Kernel options of an emulated machine: they turn off what is slow there and not needed.
EMULATED = (
    "mitigations=off nopti no5lvl tsc=reliable no_timer_check random.trust_cpu=on "
    "cryptomgr.notests audit=0 rcupdate.rcu_expedited=1"
)
_MACHINE = ("-machine", "pc,usb=off,vmport=off", "-no-user-config")
#: A boot sector: mov dx, 0xf4; mov al, 0x10; out dx, al; hlt. The port ends QEMU with code 0x21.
_SECTOR = bytes.fromhex("baf400b010eef4").ljust(510, b"\0") + b"\x55\xaa"
_EXIT_CODE = 0x10 << 1 | 1


@dataclass(frozen=True)
class Accelerator:
    """How machines run: QEMU's options for it, and whether the processor is real (KVM)."""

    real: bool
    words: tuple[str, ...]


def _boots(words: tuple[str, ...]) -> bool:
    with tempfile.NamedTemporaryFile() as disk:
        disk.write(_SECTOR)
        disk.flush()
        try:
            done = subprocess.run(
                ["qemu-system-x86_64", *words, "-m", "16", "-nodefaults", "-display", "none",
                 "-device", "isa-debug-exit,iobase=0xf4", "-drive", f"format=raw,file={disk.name}"],
                capture_output=True, check=False, timeout=10,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == _EXIT_CODE


@functools.cache
def accelerator() -> Accelerator:
    """Test KVM once per process with a small boot: an open /dev/kvm is no proof that it works."""
    kvm = (*_MACHINE, "-accel", "kvm", "-cpu", "host")
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if re.search(r"^flags\s*:.*\b(vmx|svm)\b", flags, re.MULTILINE) and _boots(kvm):
        return Accelerator(True, kvm)
    emulated = ("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,-svm,-la57")
    return Accelerator(False, (*_MACHINE, *emulated))
