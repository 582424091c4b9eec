"""VDUs that are virtual machines: the disk, QEMU process and observed state of each.

The parts of a server and where they are:

- ``<vim>/servers/<id>/disk``: ``root.qcow2``, a layer over the image, and ``config.img``, the
  configuration drive;
- ``<vim>/servers/<id>/{vm.json, pid, qemu.log, console.log, console.old, qmp.sock, agent.sock}``;
- the control group ``<prefix>/<id>`` with QEMU in it;
- devices ``p<...>`` in the fabric namespace: taps that QEMU has open.

The guest agent shows the state inside, and runs a console's commands.
"""

import base64
import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lab import files
from lab.errors import STOPPED, VimError
from lab.procs import ProcessRef, last_words
from lab.vim import cgroups, cloudinit, fabric, host, registry
from lab.vim.model import ACTIVE, BUILD, ERROR, FIRST_NIC_SLOT, SHUTOFF, Network, Server, ServerSpec
from lab.vim.namespaced import listening
from lab.vim.qemu import configdrive
from lab.vim.qemu.accelerator import EMULATED, accelerator
from lab.vim.qemu.bake import Baked, check_tools, listed_packages
from lab.vim.qemu.images import STORE, bake, baked, use
from lab.vim.qemu.monitor import AGENT, MONITOR, agent, monitor, read_file, understood
from lab.vim.run import ip_batch, tool
from lab.vim.store import Config, Image, ServerRecord, locked, read_json
from lab.vim.vdu import Tell, Vdu, lost

#: Seconds a system has to shut down before its power is cut, as a cloud's soft stop.
SHUTDOWN_TIMEOUT = 60.0
_CONSOLE_GRACE = 60.0  # Seconds in which a guest must say that a command has been ended.
_OVERHEAD = 160  # Memory of QEMU itself, in addition to the guest's, MiB.

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT = [_PATH, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb"]
_RESULT = "/run/cloud-init/result.json"
#: What cloud-init writes on the console: failures of modules before its last message.
_FAILED = re.compile(r"\[WARNING\]: ((?:Running module \S+|Failed to install packages).*)")
_NO_PACKAGE = re.compile(r"E: (?:Unable to locate package|Package) '?([a-z0-9][a-z0-9+.-]*)")
#: Bytes of the console's log. When it has more, it becomes console.old at the next look.
_CONSOLE_LIMIT = 2 << 20
_MIRRORLESS = "the lab has no package mirror, and the image lacks"
_TELLING = re.compile("|".join(each.pattern for each in (cloudinit.FINISHED, _FAILED, _NO_PACKAGE)))
#: networkd waits 12 s for a router advertisement before a link is ready (RFC 4861 section 10). The
#: configuration drive needs no network, so nothing has to wait.
_NO_WAIT = "systemd.mask=systemd-networkd-wait-online.service"
#: PCI slots of all devices except NICs. NICs start at FIRST_NIC_SLOT, as in a cloud.
_DISK, _CHANNEL, _RANDOM, _DRIVE = "0x2", "0x1a", "0x1b", "0x1c"


def _user_image(name: str) -> Path:
    """Path where a user may put a cloud image of this name."""
    return STORE / f"{name}.qcow2"


def _kept(image: Path, disk: Path) -> Path:
    """Give a user's image a second name in a server's directory; return that, if it works.

    Then the image stays as long as the server when the user puts another one in its place.
    """
    base = disk / "base.qcow2"
    try:
        base.hardlink_to(image.resolve())
    except OSError:  # another file system
        return image
    return base


def _look(image: Path) -> list[int] | None:
    """What changes when a file is replaced or written; None without a file."""
    with contextlib.suppress(FileNotFoundError):
        seen = image.stat()
        return [seen.st_ino, seen.st_size, seen.st_mtime_ns]
    return None


def _check_disk(name: str) -> int:
    """Return the size of the disk of a user's image, bytes."""
    file = _user_image(name)
    info = json.loads(tool(["qemu-img", "info", "--output", "json", str(file)]))
    if info["format"] != "qcow2":
        raise VimError(f"{file} is not qcow2: 'qemu-img convert -O qcow2 FILE {file}' makes it so.")
    if "backing-filename" in info:
        raise VimError(f"{file} is a layer over {info['backing-filename']}: flatten it.")
    return int(info["virtual-size"])


def _packages(name: str) -> Mapping[str, str] | None:
    """Versions of the packages in a user's image; None if there is no list beside it."""
    try:
        return listed_packages(_user_image(name).with_suffix(".packages.txt"))
    except FileNotFoundError:
        return None


def _check_packages(spec: ServerSpec, known: Mapping[str, str] | None) -> None:
    if spec.user_data is None or known is None:
        return
    missing = [n for n in cloudinit.wanted_packages(spec.user_data) if n not in known]
    if missing:
        raise VimError(
            "The user-data asks for packages that the image lacks, and the lab has no package "
            f"mirror: {', '.join(missing)}."
        )


def _free_memory(old: Path | None) -> int:
    """Memory that a server may have, MiB, if the one with the directory ``old`` ends before.

    A guest takes its memory little by little, and rarely all. So half of what the running ones of
    all labs may still take is set aside.
    """
    free = int(psutil.virtual_memory().available) >> 20
    for home in host.homes():
        for file in home.glob("vims/*/servers/*/vm.json"):
            plan, used = read_json(file), _used_memory(file.parent)
            if plan is None or used is None:
                continue
            free += used if file.parent == old else -max(0, plan["ram"] + _OVERHEAD - used) // 2
    return max(0, free)


def _used_memory(directory: Path) -> int | None:
    """Memory of a server's QEMU, MiB; None if it does not run."""
    try:
        process = psutil.Process(int((directory / "pid").read_text("ascii")))
        if not process.name().startswith("qemu-system"):
            return None  # another process has its id by now
        return int(process.memory_info().rss) >> 20
    except (OSError, ValueError, psutil.Error):
        return None


@dataclass(frozen=True)
class Machine(Vdu):
    """A server as a virtual machine."""

    poll = 0.5

    @classmethod
    def prepare(cls, config: Config, tell: Tell) -> None:
        if os.uname().machine != "x86_64":
            raise VimError("Virtual machines are made for x86_64 only, which this machine is not.")
        check_tools(("qemu-img", "qemu-system-x86_64", "mke2fs"))
        if config.registry:
            registry.check("docker-registry")
            tell(f"images of containers: {registry.STORE}")
        if not Path("/dev/net/tun").exists():
            raise VimError("This machine has no /dev/net/tun, which virtual machines' NICs need.")
        if not accelerator().real:
            tell("no hardware virtualisation here (KVM): processors are emulated, which is slow")
        for name in config.images:
            if _user_image(name).exists():
                _check_disk(name)
                tell(f"image {name}: {_user_image(name)}")
            else:
                made = bake(tell)
                tell(f"image {name}: {made.disk}")

    @classmethod
    def check_server(cls, spec: ServerSpec, settings: Image, old: Path | None = None) -> None:
        if _user_image(spec.image).exists():
            size = -(-_check_disk(spec.image) >> 30)
            if size > spec.disk_gb:
                raise VimError(
                    f"Image {spec.image} has a disk of {size} GB, and the flavour of server "
                    f"'{spec.name}' has {spec.disk_gb} GB."
                )
            _check_packages(spec, _packages(spec.image))
        else:
            made = baked()
            if not made.disk.exists():
                raise VimError(
                    f"Image {spec.image} is not in {STORE}: './run image' makes it anew, or put "
                    f"a cloud image there as {spec.image}.qcow2."
                )
            _check_packages(spec, made.packages)
        free = _free_memory(old)
        if free < spec.ram_mib + _OVERHEAD:
            raise VimError(
                f"Server '{spec.name}' needs {spec.ram_mib + _OVERHEAD} MiB of memory, and the "
                f"machine has {free} MiB left."
            )

    @property
    def _log(self) -> Path:
        return self.directory / "qemu.log"

    @property
    def _pidfile(self) -> Path:
        return self.directory / "pid"

    @property
    def _begin(self) -> Path:
        """File with the length of the console's log at the start of this boot."""
        return self.directory / "console.begin"

    def _shown(self) -> str:
        """What is on the console since the last boot, as far as it was kept."""
        begin = int(self._begin.read_text(encoding="ascii"))
        try:
            with self.console_log.open("rb") as file:
                file.seek(begin)
                return file.read(2 * _CONSOLE_LIMIT).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _written(self) -> int:
        """Bytes of the console's log."""
        try:
            return self.console_log.stat().st_size
        except FileNotFoundError:
            return 0

    def _limit_console(self) -> None:
        """Move a long log of the console to console.old; QEMU goes on at the start of the log.

        On a full disk the log is lost. What cloud-init said of its result stays: a guest without an
        agent has it only there.
        """
        if self._written() <= _CONSOLE_LIMIT:
            return
        with locked(self.directory / "console.lock"):
            if (size := self._written()) <= _CONSOLE_LIMIT:
                return
            kept = [line for line in self._shown().splitlines() if _TELLING.search(line)]
            with self.console_log.open("r+b") as file:
                file.seek(size - _CONSOLE_LIMIT)
                with contextlib.suppress(OSError):
                    (self.directory / "console.old").write_bytes(file.read(_CONSOLE_LIMIT))
                file.truncate(0)
            self._begin.write_text("0", encoding="ascii")
            with self.console_log.open("a", encoding="utf-8") as file:
                file.writelines(f"{line[:500]}\n" for line in dict.fromkeys(kept[:100]))

    # --- life --------------------------------------------------------------------------------

    def make(
        self, spec: ServerSpec, settings: Image, server: Server, networks: Mapping[str, Network]
    ) -> None:
        user_image = _user_image(spec.image)
        made = None if user_image.exists() else baked()
        disk = self.directory / "disk"
        disk.mkdir(mode=0o700)
        if made is None:
            backing = _kept(user_image, disk)
        else:
            use(made, self.directory)
            backing = made.disk
        words = ["-q", "-f", "qcow2", "-F", "qcow2", "-b", str(backing)]
        tool(["qemu-img", "create", *words, str(disk / "root.qcow2"), f"{spec.disk_gb}G"])
        images = registry.mirror(self.registry) if self.registry else ""
        drive = configdrive.contents(spec, settings.default_user, server, networks, images)
        configdrive.write(disk / "config.img", drive)
        nics = []
        for port in server.ports:
            network = networks[port.network_id]
            row = {"device": port.device, "mac": port.mac, "mtu": network.mtu}
            nics.append({**row, "bridge": network.bridge})
        plan = {
            "name": spec.hostname,
            "ram": spec.ram_mib,
            "vcpus": spec.vcpus,
            "image": None if made is None else str(made.directory),
            "base": [str(backing), _look(backing)] if made is None else None,
            "machine": settings.hw_machine_type,
            "nics": nics,
        }
        files.replace(self.directory / "vm.json", json.dumps(plan, indent=1))

    def power_on(self, record: ServerRecord) -> list[str]:
        plan = read_json(self.directory / "vm.json")
        if plan is None:
            raise VimError("The server was not made completely: delete it.")
        base = plan.get("base")
        if base is not None and _look(Path(base[0])) != base[1]:
            raise VimError(
                f"The image {base[0]} has changed since the server was made: "
                "restore the image, or heal the server."
            )
        (self.group / "vdu").mkdir(parents=True, exist_ok=True)
        self._pidfile.unlink(missing_ok=True)
        if self._begin.exists():
            self._limit_console()
        self._begin.write_text(str(self._written()), encoding="ascii")
        self._taps(plan)
        for name in (MONITOR, AGENT):
            (self.directory / name).unlink(missing_ok=True)
        with self._log.open("ab") as log:
            done = subprocess.run(
                [*cgroups.enter(self.group / "vdu"), *fabric.enter(self.fabric),
                 "qemu-system-x86_64", *self._words(plan)],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
            )  # fmt: skip
        if done.returncode:
            raise VimError(f"The server's QEMU did not start: {last_words(self._log)}.")
        return [] if accelerator().real else ["the processor is emulated: no KVM on this machine"]

    def _taps(self, plan: Mapping[str, Any]) -> None:
        commands = []
        for nic in plan["nics"]:
            device = nic["device"]
            if not fabric.device_exists(self.fabric, device):
                commands.append(f"tuntap add dev {device} mode tap vnet_hdr")
            commands.append(f"link set {device} mtu {nic['mtu']} master {nic['bridge']} up")
        ip_batch(self.fabric, *commands)

    def _words(self, plan: Mapping[str, Any]) -> list[str]:
        words = [
            *accelerator().words, "-name", str(plan["name"]), "-smp", str(plan["vcpus"]),
            "-m", str(plan["ram"]), "-nodefaults", "-display", "none", "-daemonize",
            "-pidfile", str(self._pidfile),
            "-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console",
            "-chardev", f"socket,id=qmp,path={MONITOR},server=on,wait=off",
            "-mon", "chardev=qmp,mode=control",
            "-device", f"virtio-serial-pci,addr={_CHANNEL}",
            "-chardev", f"socket,id=agent,path={AGENT},server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
            "-device", f"virtio-rng-pci,addr={_RANDOM}",
            "-drive", "if=none,id=root,cache=unsafe,discard=unmap,file=disk/root.qcow2",
            "-device", f"virtio-blk-pci,drive=root,addr={_DISK}",
            "-drive", "if=none,id=config,readonly=on,format=raw,file=disk/config.img",
            "-device", f"virtio-blk-pci,drive=config,addr={_DRIVE}",
        ]  # fmt: skip
        ported = plan.get("machine") == "q35"
        if ported:
            words += ["-machine", "q35"]
            # The ports' buses are numbered from 1 on.
            for number in range(1, FIRST_NIC_SLOT + len(plan["nics"])):
                words += ["-device", f"pcie-root-port,id=bus{number},chassis={number}"]
        for index, nic in enumerate(plan["nics"]):
            net = f"tap,id=nic{index},ifname={nic['device']},script=no,downscript=no"
            slot = FIRST_NIC_SLOT + index
            where = f"bus=bus{slot},romfile=" if ported else f"addr={slot:#x},romfile="
            words += ["-netdev", net]
            words += ["-device", f"virtio-net-pci,netdev=nic{index},mac={nic['mac']},{where}"]
        if plan["image"] is not None:
            image = Baked(Path(str(plan["image"])))
            line = f"root=/dev/vda1 ro console=ttyS0 panic=-1 {_NO_WAIT}"
            if not accelerator().real:
                line += f" {EMULATED}"
            words += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", line]
        return words

    def _process(self) -> ProcessRef | None:
        try:
            pid = int(self._pidfile.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        # Another process may have this id by now; in the control group it is QEMU's.
        return ProcessRef.of(pid) if pid in cgroups.pids(self.group) else None

    def power_off(self, timeout: float | None = None) -> None:
        timeout = SHUTDOWN_TIMEOUT if timeout is None else timeout
        process = self._process()
        if process is not None and timeout > 0:
            with contextlib.suppress(VimError):
                monitor(self.directory, "system_powerdown")
                end = time.monotonic() + timeout
                while process.alive() and time.monotonic() < end:
                    time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        cgroups.kill(self.group)
        self._pidfile.unlink(missing_ok=True)

    def reboot(self) -> bool:
        """Shut down; the caller starts it again, as Nova's soft reboot does."""
        self.power_off()
        return False

    # --- observation -------------------------------------------------------------------------

    def on(self) -> bool:
        return self._process() is not None

    def status(self) -> tuple[str, str]:
        if self._process() is None:
            # QEMU removes the file when it ends normally.
            if self._pidfile.exists():
                why = lost(self._pidfile)
                return ERROR, f"QEMU ended unexpectedly ({why}): {last_words(self._log)}"
            return SHUTOFF, ""
        self._limit_console()
        return (ACTIVE if self.cloud_init_result() is not None else BUILD), ""

    def cloud_init_result(self) -> list[str] | None:
        try:
            errors = cloudinit.result_errors(read_file(self.directory, _RESULT) or b"")
        except VimError:
            # A cloud image may have no agent, or one that reads no files; its console shows the
            # result, too.
            shown = self._shown()
            if not cloudinit.FINISHED.search(shown):
                return None
            errors = list(dict.fromkeys(line.strip() for line in _FAILED.findall(shown)))
        if errors and (missing := sorted(set(_NO_PACKAGE.findall(self._shown())))):
            errors.append(f"{_MIRRORLESS} {', '.join(missing)}")
        return errors

    def listens(self, port: int) -> bool:
        try:
            tables = [read_file(self.directory, f"/proc/net/{each}") for each in ("tcp", "tcp6")]
        except VimError:
            return True  # Unknown; cloud-init starts the server before its last message.
        return listening(b"\n".join(filter(None, tables)).decode(errors="replace"), port)

    def console(
        self, argv: Sequence[str], stdin: str | bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        if self._process() is None:
            raise VimError(STOPPED)
        words = ["--signal=KILL", f"{timeout:.3f}", *argv]
        given = {"path": "timeout", "arg": words, "env": _ENVIRONMENT, "capture_output": True}
        if stdin is not None:
            data = stdin.encode() if isinstance(stdin, str) else stdin
            given["input_data"] = base64.b64encode(data).decode()
        late = VimError(f"'{' '.join(argv)}' did not end within {timeout:.0f} s in the server.")
        begun = time.monotonic()
        with understood():
            pid = agent(self.directory, "guest-exec", **given)["pid"]
            pause = 0.02
            while True:
                state = agent(self.directory, "guest-exec-status", pid=pid)
                if state["exited"]:
                    break
                if time.monotonic() - begun > timeout + _CONSOLE_GRACE:
                    raise late
                time.sleep(pause)
                pause = min(pause * 1.5, 0.5)
            texts = [
                base64.b64decode(state.get(key, "")).decode(errors="replace")
                for key in ("out-data", "err-data")
            ]
            code = int(state.get("exitcode", -int(state.get("signal", 0))))
        if time.monotonic() - begun >= timeout and (code in (124, 137) or "exitcode" not in state):
            raise late
        return subprocess.CompletedProcess(list(argv), code, *texts)

    def terminal(self) -> int:
        """Refuse it: the agent in a virtual machine runs commands, and no terminal."""
        raise VimError("A virtual machine has no terminal here; give a COMMAND after --.")
