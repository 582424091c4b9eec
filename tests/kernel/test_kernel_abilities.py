"""The kernel on which VDUs stand has what a VPN needs.

The only boot of a virtual machine in the default run: the kernel of the image, without the image.
Its initial RAM disk has this machine's programs and no more.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.waiting import PATIENCE

from lab.vim.qemu import bake
from lab.vim.qemu.accelerator import EMULATED, accelerator

pytestmark = [pytest.mark.lab, pytest.mark.vm]

#: WireGuard, ESP on an XFRM interface with extended sequence numbers, and SCTP.
ABILITIES = {
    "wireguard": "ip link add wg0 type wireguard && wg set wg0 listen-port 51820 && wg show wg0",
    "xfrm": "ip link add xf0 type xfrm if_id 1 && ip link show xf0",
    "esp": (
        "ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 mode tunnel "
        "if_id 1 flag esn replay-window 128 aead 'rfc4106(gcm(aes))' "
        f"0x{'00' * 36} 128 && ip xfrm state"
    ),
    "sctp": "modprobe sctp && cat /proc/net/protocols | grep -w SCTP",
}
PROGRAMS = ("cat", "grep", "ip", "modprobe", "mount", "sh", "wg")
#: Folders of modules that the kernel may ask for: networks and cryptography.
MODULES = ("net", "crypto", "lib", "drivers/net/wireguard", "arch/x86/crypto")
BEGIN, END = "osm-vpnaas begins", "osm-vpnaas ends"
POWER_OFF = "/proc/sysrq-trigger"


def output(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def unpack_kernel(root: Path) -> None:
    """Unpack the kernel that an image gets, with its modules, from the distribution's packages."""
    wanted = bake.OWN[bake.release()[0]][0]
    needed = output("apt-cache", "depends", "--recurse", "--important", wanted)
    # Since Linux 7 Debian has the kernel in linux-binary.
    names = re.findall(r"^linux-(?:image|binary|modules)-\d.*$", needed, re.MULTILINE)
    assert names, f"apt knows no kernel of {wanted}: run 'apt-get update' first"
    archives = root.parent / "archives"
    archives.mkdir()
    # apt fetches as a user of its own, who may not write here.
    command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", *names]
    subprocess.run(command, cwd=archives, capture_output=True, check=True)
    for archive in archives.iterdir():
        output("dpkg-deb", "--extract", str(archive), str(root))
    # Packages of Debian 13 have them below usr only; kmod looks here.
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")


def entry(path: str, mode: int, content: bytes = b"") -> bytes:
    """Return a file in the form of an initial RAM disk (kernel: early-userspace/buffer-format)."""
    name = path.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def initial_disk(modules: Path) -> bytes:
    """Return a disk that runs each of ABILITIES and ends."""
    disk, files = io.BytesIO(), {}
    for name in PROGRAMS:
        place = shutil.which(name, path=f"{os.defpath}:/usr/sbin:/sbin")
        assert place, f"{name} is missing"
        files[f"sbin/{name}"] = Path(place)
        # What a program loads stands in ldd's rows as its whole path.
        for path in re.findall(r"(/\S+) \(0x", output("ldd", place)):
            files[path.lstrip("/")] = Path(path)
    # kmod 34 opens what decompresses modules by its name, so ldd does not know of it.
    for name in ("liblzma.so.5", "libzstd.so.1"):
        for path in Path("/usr/lib").glob(f"*/{name}"):
            files[str(path).lstrip("/")] = path
    for folder in MODULES:
        for path in (modules / "kernel" / folder).rglob("*.ko*"):
            files[f"lib/modules/{path.relative_to(modules.parent)}"] = path
    for path in modules.glob("modules.*"):
        files[f"lib/modules/{path.relative_to(modules.parent)}"] = path
    lines = ["#!/sbin/sh", "export PATH=/sbin"]
    lines += [f"mount -t {kind} {kind} /{kind}" for kind in ("proc", "sysfs")]
    for name, command in ABILITIES.items():
        lines += [f"echo '{BEGIN} {name}'", f"({command}) 2>&1", f'echo "{END} {name} $?"']
    lines += [f"echo o > {POWER_OFF}", "while :; do :; done", ""]
    folders = {str(parent) for path in files for parent in Path(path).parents}
    for folder in sorted(folders - {"."} | {"dev", "proc", "sysfs"}):
        disk.write(entry(folder, 0o40755))
    for path, source in files.items():
        disk.write(entry(path, 0o100755, source.read_bytes()))
    disk.write(entry("init", 0o100755, "\n".join(lines).encode()))
    disk.write(entry("TRAILER!!!", 0))
    return disk.getvalue()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the kernel's console shows."""
    folder = tmp_path_factory.mktemp("kernel")
    root = folder / "root"
    unpack_kernel(root)
    (modules,) = root.glob("lib/modules/*")
    (kernel,) = (*root.glob("boot/vmlinuz-*"), *modules.glob("vmlinuz"))
    output("depmod", "--basedir", str(root), modules.name)
    (folder / "initrd").write_bytes(initial_disk(modules))
    console = folder / "console"
    done = subprocess.run(
        ["qemu-system-x86_64", *accelerator().words, "-m", "512", "-nodefaults", "-display", "none",
         "-no-reboot", "-serial", f"file:{console}", "-kernel", str(kernel),
         "-initrd", str(folder / "initrd"),
         "-append", f"console=ttyS0 panic=-1 quiet {EMULATED}"],
        capture_output=True, text=True, check=False, timeout=5 * PATIENCE,
    )  # fmt: skip
    text = console.read_text(errors="replace").replace("\r", "")
    assert done.returncode == 0, text + done.stderr
    return text


@pytest.mark.parametrize("ability", ABILITIES)
def test_the_kernel_has_what_a_vpn_needs(shown: str, ability: str) -> None:
    _, _, rest = shown.partition(f"{BEGIN} {ability}\n")
    said, _, end = rest.partition(f"{END} {ability} ")
    assert end.startswith("0\n"), rest or shown
    assert said.strip()
