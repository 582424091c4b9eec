"""Functions that only the lab has: its own OSM, and access to VDUs and wires from outside.

This is the only module of the experiments that knows the lab. A campaign without it is complete;
its results have a separate section in the report.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import psutil

from builder import documents
from experiments import model
from experiments.testbed import Slice, Vnf
from lab.cli.commands import DEFAULT_HOME
from lab.errors import VimError
from lab.vim.account import Vim
from lab.vim.dataplane import probe
from lab.vim.fabric import enter
from lab.vim.model import Port
from lab.vim.qemu.accelerator import accelerator
from lab.vim.qemu.images import bake
from lab.vim.run import tool
from operate.nbi import Nbi
from operate.osm import VIMS, Osm
from simulators.shared.milenage import opc

LAUNCH = "/usr/lib/osm-lab/launch"
FIRST_IMSI = 100
"""Offset of the first UE from the slice's first subscriber, whose UE may be attached already."""
USER = "admin"
PATIENCE = 240.0  # Seconds that UEs may take to attach.


def environment(root: Path, machines: bool = False) -> dict[str, Any]:
    """Return the environment of the lab, on which its figures depend.

    VDUs that are virtual machines use WireGuard of their own kernel.
    """
    every = model.environment(root)
    if machines:
        how = "KVM" if accelerator().real else "emulated processors (TCG)"
        dataplane = {"backend": "kernel", "version": f"of virtual machines, {how}"}
    else:
        try:
            probed = probe()
        except VimError as error:
            raise click.ClickException(str(error)) from None
        dataplane = {"backend": probed.backend, "version": probed.version}
    return {
        "host": model.host(),
        "dataplane": {**dataplane, "cipher": "ChaCha20-Poly1305"},
        "versions": {
            "iperf3": model.first_line("iperf3", "--version"),
            "tshark": model.first_line("tshark", "--version"),
            **every["versions"],
        },
    }


@dataclass(eq=False)
class Lab:
    """A lab with its server, and access to its VDUs from outside."""

    home: Path  # Its directory.
    osm: Osm  # A session with its server.
    machines: bool = False  # Whether VDUs are virtual machines; emulated ones are slow.
    # What fails in the lab, and is a failure of one run.
    errors: ClassVar[tuple[type[Exception], ...]] = (VimError,)

    def accounts(self, files: Mapping[str, Path]) -> None:
        """Create the VIM account `lab`, and others with a configuration file each."""
        unused = {"vim_url": "http://lab", "vim_user": "lab", "vim_tenant_name": "lab"}
        kind = "qemu" if self.machines else "openstack"
        body = {"vim_type": kind, "vim_password": "lab", **unused}
        self.osm.nbi.post(VIMS, {"name": "lab", **body})
        for name, file in files.items():
            self.osm.nbi.post(VIMS, {"name": name, **body, "config": documents.read(file)})

    def vim(self, vnf: Vnf) -> Vim:
        record = self.osm.nbi.get(f"/nslcm/v1/vnfrs/{vnf.id}")
        account = self.osm.nbi.get(f"{VIMS}/{record['vim-account-id']}")
        return Vim.open(self.home, account["name"])

    def limited(self, vnfs: Iterable[Vnf]) -> bool:
        """Tell whether the lab limits VDUs to the vCPUs of their flavours."""
        return not any(
            note.startswith("vCPUs")
            for vnf in vnfs
            for note in self.vim(vnf).server(vnf.server).notes
        )

    # -- networks ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def captured(
        self, slices: Iterable[Slice], folder: Path
    ) -> Iterator[dict[tuple[str, str], Path]]:
        """Capture the underlay of every link of slices while the block runs, by slice and link."""
        files: dict[tuple[str, str], Path] = {}
        with contextlib.ExitStack() as stack:
            for slice_ in slices:
                vim = self.vim(next(iter(slice_.vnfs.values())))
                for link, point in slice_.links.items():
                    file = folder / f"{len(files)}.pcap"  # names may have a slash
                    port = _port(vim, slice_[point.near], link)
                    stack.enter_context(vim.capture(port.network_id, file))
                    files[slice_.name, link] = file
            yield files

    def ports(self, member: str, slices: Iterable[Slice], link: str) -> list[tuple[Vim, str]]:
        """Return the VIM's end of a member's port below a link, for each slice."""
        made = []
        for slice_ in slices:
            vim = self.vim(slice_[member])
            made.append((vim, _port(vim, slice_[member], link).device))
        return made

    @contextlib.contextmanager
    def bottleneck(self, ports: Sequence[tuple[Vim, str]], mbps: int, ms: int) -> Iterator[None]:
        """Send the VDUs' traffic from some ports of one VIM through one queue while the block runs.

        The ports' ingress is redirected to one intermediate device (ifb). Its egress sends the
        frames to their destinations. The VDUs do not know about it.
        """
        prefix = enter(ports[0][0].fabric)
        tool([*prefix, "ip", "link", "add", "shared0", "type", "ifb"])
        try:
            tool([*prefix, "ip", "link", "set", "shared0", "up"])
            limit = mbps * 1000 // 8 * ms
            words = ("root", "tbf", "rate", f"{mbps}mbit", "burst", "70000", "limit", str(limit))
            tool([*prefix, "tc", "qdisc", "add", "dev", "shared0", *words])
            for _, port in ports:
                tool([*prefix, "tc", "qdisc", "add", "dev", port, "ingress"])
                every = ("parent", "ffff:", "protocol", "all", "u32", "match", "u32", "0", "0")
                away = ("action", "mirred", "egress", "redirect", "dev", "shared0")
                tool([*prefix, "tc", "filter", "add", "dev", port, *every, *away])
            yield
        finally:
            for _, port in ports:
                with contextlib.suppress(Exception):
                    tool([*prefix, "tc", "qdisc", "del", "dev", port, "ingress"])
            tool([*prefix, "ip", "link", "delete", "shared0"])

    # -- charms --------------------------------------------------------------------------------

    def kill_charm(self, application: str) -> None:
        """Kill a working charm, with all processes that it started."""
        folder = str((self.home / "vca").resolve())  # as in /proc
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for pid in _in_folder(folder, application):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.01)
        raise click.ClickException(f"{application}: the charm was never seen at work")

    # -- simulated UEs -------------------------------------------------------------------------

    def imsis(self, slice_: Slice, count: int) -> list[str]:
        """Return the identities of the UEs that `attach` uses."""
        return [_imsi(slice_.values("hss"), n) for n in range(count)]

    def attach(self, slice_: Slice, count: int, rate: float = 0.0) -> dict[str, Any]:
        """Let UEs attach at the eNB of an EPC; return the program's result.

        So many begin per second; at rate 0 one after another, and each detaches at its end. If the
        technology of a link has just changed, the functions may first have to reconnect.
        """
        request = _request(slice_.values("hss"), count, rate)
        return self._load(slice_["enb"], request)

    def register(
        self, core: Mapping[str, Any], slice_: Slice, count: int, rate: float = 0.0
    ) -> dict[str, Any]:
        """Let UEs register at the gNB, each with a PDU session in a slice; as `attach`.

        ``core`` are the parameters of the AMF, ``slice_`` is the slice of the sessions.
        """
        own = slice_.values("smf")
        request = _request(core, count, rate, snssai=own["nf_slice"], dnn=own["nf_dnn"])
        return self._load(slice_["gnb"], request)

    def _load(self, station: Vnf, request: Mapping[str, Any]) -> dict[str, Any]:
        """Let UEs attach at a base station; without a rate, repeat until all of them do."""
        text, vim = json.dumps(request), self.vim(station)
        until = time.monotonic() + PATIENCE
        while True:
            done = vim.console(station.server, (LAUNCH, "load"), input=text, timeout=PATIENCE)
            result: dict[str, Any] = {}
            with contextlib.suppress(ValueError):  # a program that was cut off
                result = json.loads(done.stdout) if done.returncode == 0 else {}
            if result and (request["rate"] or result["attached"] == request["count"]):
                return result
            if time.monotonic() > until:
                said = done.stderr.strip().splitlines() or ["no message"]
                reason = result.get("reasons") or said[-1]
                raise click.ClickException(f"{station}: UEs cannot attach: {reason}")
            time.sleep(1)

    def taps(self, vnf: Vnf) -> int:
        """Return the number of packet sockets (packet(7)) on a VDU."""
        shown = console(self.vim(vnf), vnf.server, str(vnf))("cat", "/proc/net/packet")
        return len(shown.splitlines()) - 1


def console(vim: Vim, server: str, name: str) -> Callable[..., str]:
    """Return a function that runs a command as root on a VDU's console; `name` is for errors."""

    def run(*argv: str, text: str | bytes | None = None, timeout: float = 120.0) -> str:
        done = vim.console(server, list(argv), input=text, timeout=timeout)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise click.ClickException(f"{name}: {argv[0]} failed: {reason[-1]}")
        return str(done.stdout)

    return run


def default_home() -> Path:
    """Return the directory of the lab that `osm-lab` uses."""
    return Path(os.environ.get("OSMLAB_HOME") or DEFAULT_HOME)


@contextlib.contextmanager
def served(home: Path, machines: bool = False) -> Iterator[Lab]:
    """Run the lab's server on a free port of loopback while the block runs."""
    # No update-status hooks, because they take processor time from a measurement.
    environment = {**os.environ, "OSMLAB_UPDATE_STATUS_INTERVAL": "0"}
    if machines:
        bake(print)
        environment.setdefault("OSMLAB_TIMEOUT_FACTOR", "0.5")
    password = os.urandom(12).hex()
    environment["OSMLAB_PASSWORD"] = password
    words = [sys.executable, "-m", "lab.cli", "--home", str(home), "serve", "--port", "0"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True) as server:  # fmt: skip
        try:
            assert server.stdout is not None  # noqa: S101
            ready, _, _ = select.select([server.stdout], [], [], 60)
            said = server.stdout.readline().strip() if ready else "no word within 60 s"
            if not said.startswith("https://"):
                raise click.ClickException(f"the lab's server does not start: {said}")
            url, _, certificate = said.partition(", certificate ")
            nbi = Nbi(url, certificate, pause=0.15)
            nbi.log_in(USER, password, USER)
            yield Lab(home, Osm(nbi, 1800.0), machines)
        finally:
            server.terminate()


def clean(home: Path) -> list[str]:
    """Remove all that the lab created, and its directory if empty; return the errors."""
    words = [sys.executable, "-m", "lab.cli", "--home", str(home), "lab", "clean"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    with contextlib.suppress(OSError):
        home.rmdir()
    said = done.stderr.strip().splitlines() or ["no reason given"]
    return said[-1:] if done.returncode else []


def _port(vim: Vim, vnf: Vnf, link: str) -> Port:
    """Return the port of a VNF's VDU on the network of a link."""
    for record in vnf.osm.members(vnf.service):
        if record["_id"] == vnf.id:
            for position, interface in enumerate(record["vdur"][0]["interfaces"]):
                if interface["ns-vld-id"] == link:
                    return vim.server(vnf.server).ports[position]
    raise click.ClickException(f"{vnf}: no port of its VDU is on the network of {link}")


def _imsi(core: Mapping[str, Any], number: int) -> str:
    first = str(core["nf_first_imsi"])
    return str(int(first) + FIRST_IMSI + number).zfill(len(first))


def _request(core: Mapping[str, Any], count: int, rate: float, **more: Any) -> dict[str, Any]:
    """Return a request of the simulators' program `load`, with the parameters of HSS or AMF."""
    k, op = (str(core[name]) for name in ("nf_subscriber_key", "nf_operator_key"))
    return {
        "enb": "127.0.0.1",
        "first_imsi": _imsi(core, 0),
        "k": k,
        "opc": opc(bytes.fromhex(k), bytes.fromhex(op)).hex(),
        "plmn": f"{core['nf_mcc']}/{core['nf_mnc']}",
        "count": count,
        "rate": rate,
        "hold": rate > 0,
        **more,
    }


def _in_folder(folder: str, application: str) -> list[int]:
    """Return the processes whose working directory is in the folder of an application's charm."""
    places = {process.pid: process.info["cwd"] or "" for process in psutil.process_iter(["cwd"])}
    return [pid for pid, at in places.items() if at.startswith(folder) and application in at]
