"""Makes an image of a VDU from the distribution's packages, with the packages of Day-0.

The image has the machine's own distribution, cloud-init and a guest agent. BIOS can boot it: GRUB
is in the gap before the partition, which needs no mount and no loop device. A cloud can use it
unchanged, and the lab's virtual machines start from it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from builder import documents
from builder.programs import output
from lab.errors import VimError
from lab.vim.cloudinit import wanted_packages
from lab.vim.qemu.accelerator import EMULATED, accelerator
from lab.vim.run import need

_REPOSITORY = Path(__file__).resolve().parents[3]
DAY0 = _REPOSITORY / "cloud-init"  # Day-0 of the project's packages.

Tell = Callable[[str], None]

_RECIPE = documents.read(Path(__file__).with_suffix(".yaml"))
OWN = _RECIPE["own"]
_SECTOR, _FIRST = 512, 2048
_MIB = 1 << 20


@dataclass(frozen=True)
class Baked:
    """A made image: a directory of the store."""

    directory: Path

    @property
    def disk(self) -> Path:
        """The disk, qcow2."""
        return self.directory / "disk.qcow2"

    @property
    def kernel(self) -> Path:
        """Its kernel, to boot it without a boot loader."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """A small initial RAM disk for the lab; the distribution's is on the disk."""
        return self.directory / "initrd.img"

    @property
    def users(self) -> Path:
        """A directory with a file for each server on it, which has the path of its directory."""
        return self.directory / "users"

    @property
    def packages(self) -> dict[str, str]:
        """Versions by name of the packages in it."""
        return listed_packages(self.directory / "packages.txt")


def listed_packages(path: Path) -> dict[str, str]:
    """Return versions by name from a list beside an image; FileNotFoundError if there is none."""
    versions = {}
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = row.split(None, 1)
        if len(words) == 1:
            raise VimError(f"{path}, line {number}: a name and a version are wanted, not '{row}'.")
        if words:
            # dpkg-query writes some names with their architecture, as in libc6:amd64.
            versions[words[0].partition(":")[0]] = words[1].strip()
    return versions


def day0_packages() -> list[str]:
    """Names of the packages that the project's Day-0 files install, whatever the VDU."""
    names: set[str] = set()
    for path in sorted(DAY0.glob("*.yaml")):
        # All branches of the template at once: an image serves every VDU.
        names.update(wanted_packages(re.sub(r"\{%.*?%\}", "", path.read_text(encoding="utf-8"))))
    return sorted(names)


def release() -> tuple[str, str]:
    """Distribution and code name of the machine, which are the image's."""
    rows = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    fields = dict(row.split("=", 1) for row in rows if "=" in row)
    values = [fields.get(key, "").strip('"') for key in ("ID", "VERSION_CODENAME")]
    if values[0] not in OWN:
        raise VimError(f"An image can be made on {' and '.join(OWN)} only, not on '{values[0]}'.")
    return values[0], values[1]


def packages() -> list[str]:
    """Names of the packages that the image is made of, without what these need."""
    return sorted({*_RECIPE["packages"], *OWN[release()[0]], *day0_packages()})


def _sources(distribution: str) -> list[str]:
    """The lines of the machine's package sources that are the distribution's own."""
    form = "$(ORIGIN)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = run(["apt-get", "indextargets", "--format", form, "Identifier: Packages"])
    rows = {tuple(row.split("|", 1)) for row in listed.splitlines()}
    lines = sorted(line for origin, line in rows if origin.lower() == distribution)
    if not lines:
        raise VimError("apt knows no packages of the distribution: run 'apt-get update' first.")
    return lines


def run(argv: Sequence[str], stdin: str | None = None) -> str:
    """Run a tool that an image needs, and return what it printed."""
    return output(argv, f"The image could not be made: {argv[0]}", VimError, input=stdin)


def check_tools(names: Iterable[str] = tuple(_RECIPE["tools"])) -> None:
    """Check that programs are installed."""
    need({name: _RECIPE["tools"][name] for name in names}, "Virtual machines")


def make(image: Baked, work: Path, tell: Tell) -> None:
    """Make an image, whose directory is not there yet.

    Args:
        image: where it comes to be.
        work: an empty directory for what is needed meanwhile.
        tell: gets a line for each step.
    """
    distribution, suite = release()
    root, raw = work / "root", work / "disk.raw"
    image.directory.mkdir()
    names = packages()
    tell(f"making an image of {distribution} {suite} from its packages, which takes minutes")
    _install(root, suite, names, _sources(distribution), work, tell)
    listed = run([
        "dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show",
        "--showformat=${Package} ${Version}\n",
    ])  # fmt: skip
    (image.directory / "packages.txt").write_text(listed, encoding="utf-8")
    uuid = str(uuid4())
    _configure(root, uuid)
    shutil.copy(_linked(root, "vmlinuz"), image.kernel)
    _small_initrd(root, image.initrd)
    tell("writing the disk")
    _partition(root, raw, uuid)
    tell("booting it once for AppArmor's profiles")
    _boot_once(raw, image, work, _linked(root, "initrd.img"), uuid)
    run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(image.disk)])


def _linked(root: Path, name: str) -> Path:
    """Return the file below a root that a link there leads to."""
    target = os.readlink(root / name)
    return root / target.lstrip("/")


def _small_initrd(root: Path, output: Path) -> None:
    """Make an initial RAM disk that loads three modules and mounts the root file system.

    The distribution's own starts udev with all drivers there are, twice as much work for an
    emulated processor as all else before the system itself starts.
    """
    settings = root / "tmp/initramfs"
    for name, text in _RECIPE["initramfs"].items():
        (settings / name).parent.mkdir(parents=True, exist_ok=True)
        (settings / name).write_text(text, encoding="utf-8")
        (settings / name).chmod(0o755)
    (settings / "hooks").mkdir()
    version = _linked(root, "vmlinuz").name.removeprefix("vmlinuz-")
    make = f"mkinitramfs -d /tmp/initramfs -o /tmp/initrd {version}"
    hooks = "for each in /usr/share/initramfs-tools/hooks/*; do case $each in */klibc-utils|*/kmod)"
    hooks += ' ;; *) mount --bind /tmp/initramfs/nothing "$each" ;; esac; done'
    run(["unshare", "--mount", "chroot", str(root), "sh", "-ec", f"{hooks}; {make}"])
    shutil.move(root / "tmp/initrd", output)
    shutil.rmtree(settings)


def _install(
    root: Path, suite: str, names: Sequence[str], sources: Sequence[str], work: Path, tell: Tell
) -> None:
    # A killed maker leaves neither processes nor mounts on the machine.
    argv = [
        "setpriv", "--pdeathsig", "TERM", "unshare", "--mount",
        "mmdebstrap", "--variant=apt", "--mode=root", f"--include={','.join(names)}",
        "--aptopt=APT::Install-Recommends \"false\"", suite, str(root), "-",
    ]  # fmt: skip
    log = work / "mmdebstrap.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=stream, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, "TMPDIR": str(work), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert process.stdin is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        process.stdin.write("\n".join(sources) + "\n")
        process.stdin.close()
        for line in process.stderr:
            stream.write(line)
            if line.startswith("I: ") and line.rstrip().endswith("..."):
                tell(line[3:].strip().rstrip("."))
        process.wait()
    if process.returncode:
        lines = [x for x in log.read_text(encoding="utf-8").splitlines() if x.startswith("E: ")]
        raise VimError(f"The image could not be made: {(lines or ['mmdebstrap failed'])[0]}")


def _configure(root: Path, uuid: str) -> None:
    """Turn a fresh root into one of a cloud image."""
    files = {
        "etc/fstab": f"UUID={uuid} / ext4 defaults,errors=remount-ro 0 1\n",
        "etc/hostname": "localhost\n",
        "etc/machine-id": "",
        "etc/cloud/cloud.cfg.d/90-osm-vpnaas.cfg": _RECIPE["cloud-cfg"],
        "boot/grub/grub.cfg": _RECIPE["grub-cfg"].format(uuid=uuid),
        "bake": _RECIPE["first-boot"],
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "bake").chmod(0o755)
    for pattern in _RECIPE["leftovers"]:
        for path in root.glob(pattern):
            path.unlink()
    (root / "etc/apt/sources.list").write_text("", encoding="utf-8")
    units = ["--root", str(root)]
    run(["systemctl", *units, "enable", "systemd-networkd.service", "systemd-resolved.service"])
    run(["systemctl", *units, "disable", *_RECIPE["disabled"]])
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.symlink_to("/run/systemd/resolve/stub-resolv.conf")


def _partition(root: Path, raw: Path, uuid: str) -> None:
    """Write a disk with one partition for the root file system, and a boot loader before it."""
    used = int(run(["du", "--summarize", "--block-size=1", str(root)]).split()[0])
    size = -(-int(used * 1.15 + 256 * _MIB) // _MIB)
    with raw.open("wb") as stream:
        stream.truncate((size + 1) * _MIB)
    run(["sfdisk", "--quiet", str(raw)], f"label: dos\nstart={_FIRST}, type=83, bootable\n")
    features = ["-t", "ext4", "-q", "-F", "-U", uuid, "-L", "cloudimg-rootfs"]
    places = ["-E", f"offset={_FIRST * _SECTOR},lazy_itable_init=0", "-d", str(root)]
    run(["mke2fs", *features, *places, str(raw), f"{size}M"])
    words = ["-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", "/core.img"]
    run(["chroot", str(root), "grub-mkimage", *words, *_RECIPE["grub-modules"].split()])
    core = (root / "core.img").read_bytes()
    if len(core) > (_FIRST - 1) * _SECTOR:
        raise VimError("The image could not be made: GRUB does not fit before the partition.")
    # GRUB's own defaults say that the rest of it lies where it is put here, in the next sectors;
    # the last 72 bytes of the first sector are the partition table's.
    with raw.open("r+b") as stream:
        stream.write((root / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:440])
        stream.seek(_SECTOR)
        stream.write(core)


def _boot_once(raw: Path, image: Baked, work: Path, initrd: Path, uuid: str) -> None:
    argv = [
        "qemu-system-x86_64", *accelerator().words, "-m", "512", "-nodefaults", "-display", "none",
        "-no-reboot", "-serial", f"file:{work}/console", "-kernel", str(image.kernel),
        "-initrd", str(initrd),
        "-append", f"root=UUID={uuid} rw console=ttyS0 init=/bake panic=-1 {EMULATED}",
        "-drive", f"if=virtio,format=raw,cache=unsafe,file={raw}",
    ]  # fmt: skip
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=900)
        said = done.stderr.strip()
    except subprocess.TimeoutExpired:
        said = "no end after 15 minutes"
    console = (work / "console").read_text(errors="replace")
    if "osm-vpnaas: baked" not in console:
        last = said or " | ".join(console.strip().splitlines()[-3:])
        raise VimError(f"The image could not be made: it did not boot: {last}")
