"""Services made from the built packages, and what tests do to them.

Actions go the way an operator's go: each runs in a worker process of its own. Faults (a relation
removed, an agent killed) come from the test's process, which then runs the model as the
controller. What a VDU is really doing is read on its console.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vpnaas import monitoring

from lab.lcm.backends import RealBackends
from lab.nbi import jobs
from lab.nbi.engine import Engine
from lab.nbi.store import NSRS, OPS
from lab.nbi.validation import BuilderValidator
from lab.vca import Event, Model
from lab.vim import Server, Vim

BASIC = ("vpn_endpoint_vnf", "vpn_basic_ns")
SLICES = ("vpn_endpoint_ns", "vpn_basic_nst", "vpn_shared_nst")
SECGW = ("vpn_endpoint_vnf", "secgw_vnf", "cell_vnf", "secgw_ns", "secgw_ha_ns")
SMALL_CELL = (
    *("small_cell_gw_vnf", "nr_cell_vnf", "lte_cell_vnf", "vpn_endpoint_vnf"),
    "small_cell_ns",
)
SITEGW = ("sitegw_vnf", "vpn_endpoint_vnf", "sitegw_ns")
EPC = (
    *("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf", "ue_vnf"),
    "epc_ue_ns",
)

#: Seconds that anything may take on a machine with other work to do.
PATIENCE = 180.0


class ActionError(AssertionError):
    """An action failed; its text is what the operator reads."""


@dataclass
class Secrets:
    """Every secret the VDUs ever held, as far as tests looked."""

    texts: dict[str, str] = field(default_factory=dict)
    """Secret to where it was found."""

    def add(self, text: str, where: str) -> None:
        """Remember one."""
        if text:
            self.texts.setdefault(text, where)


class Lab:
    """One lab directory with its verbs, as separate processes and as calls."""

    def __init__(self, home: Path, dist: Path, secrets: Secrets) -> None:
        self.home = home
        self.dist = dist
        self.secrets = secrets
        self.engine = Engine(home, BuilderValidator())
        self.backends = RealBackends(home)

    def verb(self, *words: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run one verb of osm-lab and wait for it, whatever it exits with."""
        return subprocess.run(
            [sys.executable, "-m", "lab.cli", "--home", str(self.home), *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )

    def done(self, *words: str) -> str:
        """Run a verb that must work; return what it printed."""
        result = self.verb(*words)
        assert result.returncode == 0, f"osm-lab {' '.join(words)}: {result.stdout}{result.stderr}"
        return result.stdout

    def refused(self, *words: str) -> str:
        """Run a verb that must be refused; return its one sentence."""
        result = self.verb(*words)
        assert result.returncode == 1, f"osm-lab {' '.join(words)}: {result.stdout}{result.stderr}"
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
        assert len(errors) == 1, result.stderr
        assert "Traceback" not in result.stderr
        return errors[0].removeprefix("ERROR: ")

    def onboard(self, *packages: str) -> None:
        """Onboard packages of dist/, VNFs first; those that are in stay."""
        for package in packages:
            kind = {"ns": "nspkg", "nst": "nst"}.get(package.rpartition("_")[2], "vnfpkg")
            known = json.loads(self.done("--json", f"{kind}-list"))
            if package not in {row["id"] for row in known}:
                self.done(f"{kind}-create", str(self.dist / f"{package}.tar.gz"))

    def create(self, name: str, nsd: str, params: str) -> Service:
        """Instantiate a service from the command line and wait for it."""
        file = str(self.dist / "params" / f"{params}.yaml")
        words = ("--ns_name", name, "--nsd_name", nsd, "--vim_account", "lab")
        self.done("ns-create", *words, "--config_file", file, "--wait")
        service = Service(self, name)
        service.note_secrets()
        return service


@dataclass(frozen=True)
class Vnf:
    """A VNF of a service: its VDU's console and its charm's application."""

    service: Service
    index: str
    server_id: str
    application: str

    @property
    def unit(self) -> str:
        """Name of the charm's only unit."""
        return f"{self.application}/0"

    @property
    def server(self) -> Server:
        """The VDU as the VIM sees it."""
        return self.service.vim.server(self.server_id)

    def run(
        self, *argv: str, input: str | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the console as root."""
        return self.service.vim.console(self.server_id, argv, input=input, timeout=timeout)

    def out(self, *argv: str, input: str | None = None, timeout: float = 60.0) -> str:
        """Run a command that must work; return its output."""
        done = self.run(*argv, input=input, timeout=timeout)
        assert done.returncode == 0, f"{self.index}: {' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def pings(self, address: str, *options: str, tries: int = 15) -> bool:
        """Say whether an address answers within `tries` echo requests."""
        words = ("ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", str(max(1, tries // 5)))
        return self.run(*words, *options, address).returncode == 0

    def peers(self, interface: str) -> set[str]:
        """Return the public keys `wg show` lists."""
        return set(self.out("wg", "show", interface, "peers").split())

    def public_key(self, interface: str) -> str:
        """Return the public key the interface uses now."""
        return self.out("wg", "show", interface, "public-key").strip()

    def action(self, name: str, /, **params: object) -> Any:
        """Run a day-2 primitive; return its output, parsed where it is JSON.

        Raises:
            ActionError: it failed.
        """
        return self.service.action(self.index, name, **params)

    def status(self, link: str) -> dict[str, Any]:
        """Return what show-status says of one link."""
        shown: dict[str, Any] = self.action("show-status", link=link)[link]
        return shown

    @property
    def management(self) -> str:
        """The VDU's address on the management network."""
        return str(self.server.ip_on(self.service.vim.management_network().id))

    def boot_cycles(self) -> str:
        """Return what systemd says of ordering cycles on the way to its default target."""
        told = self.run("systemd-analyze", "verify", "default.target").stderr
        return "\n".join(line for line in told.splitlines() if "cycle" in line)

    def listening(self) -> set[str]:
        """Return the TCP and UDP sockets that wait for somebody."""
        rows = self.out("ss", "-Hlntu").splitlines()
        return {" ".join((row.split()[0], row.split()[4])) for row in rows}


class Service:
    """A network service of the lab."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.id = str(lab.engine.ns(name)["_id"])
        self.vim: Vim = lab.backends.vim(lab.engine.vnfs(self.id)[0]["vim-account-id"])
        record = self.record()
        applications = {
            vca["member-vnf-index"]: vca["application"]
            for vca in record["_admin"]["deployed"]["VCA"]
        }
        self.vnfs = {
            vnfr["member-vnf-index-ref"]: Vnf(
                self,
                vnfr["member-vnf-index-ref"],
                vnfr["vdur"][0]["vim-id"],
                applications[vnfr["member-vnf-index-ref"]],
            )
            for vnfr in lab.engine.vnfs(self.id)
        }

    def __getitem__(self, index: str) -> Vnf:
        """Return a member."""
        return self.vnfs[index]

    def record(self) -> dict[str, Any]:
        """Return the NS record."""
        found: dict[str, Any] = self.lab.engine.store.get(NSRS, self.id)
        return found

    def network(self, name: str) -> str:
        """Return the id of the service's own network for a virtual link."""
        found = [
            n.id
            for n in self.vim.networks()
            if n.tag == self.id and n.name.rpartition(".")[2] == name
        ]
        assert len(found) == 1, f"{self.name} has {len(found)} networks {name}"
        return found[0]

    def action(self, index: str, name: str, /, **params: object) -> Any:
        """Run a day-2 primitive in a worker process and wait until the charms are idle."""
        given = {key.replace("_", "-"): value for key, value in params.items()}
        started = self.lab.engine.ns_action(self.name, name, given, index)
        op_id = started.operation["_id"]
        until = time.monotonic() + PATIENCE
        while jobs.alive(self.lab.engine.store.get(OPS, op_id)):
            assert time.monotonic() < until, f"{name} of {index} takes too long"
            time.sleep(0.05)
        operation = self.lab.engine.operation(op_id)
        if operation["operationState"] != "COMPLETED":
            raise ActionError(str(operation["errorMessage"]))
        output = operation["detailed-status"].get("output", "")
        try:
            return json.loads(output)
        except ValueError:
            return output

    @contextmanager
    def controller(self) -> Iterator[Controlled]:
        """Run the model in this process, so that relations and units can be changed."""
        model = self.lab.backends.controller().model(self.id)
        controlled = Controlled(self, model)
        with model:
            unsubscribe = model.subscribe(controlled.events.append)
            try:
                yield controlled
            finally:
                unsubscribe()

    def hook_log(self) -> dict[str, int]:
        """Return how many hooks each unit's log tells of."""
        model = self.lab.backends.controller().model(self.id)
        counts = {}
        for unit in model.status().units:
            text = model.log_path(unit).read_text(encoding="utf-8")
            counts[unit] = len(re.findall(r" ran \S+ hook", text))
        return counts

    def note_secrets(self) -> None:
        """Remember the keys that lie on the VDUs now."""
        for vnf in self.vnfs.values():
            for name, text in secret_files(vnf).items():
                self.lab.secrets.add(text, f"{self.name}/{vnf.index}:{name}")

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        """Wait until something holds."""
        wait(condition, f"{self.name}: {what}", seconds)


class Controlled:
    """A model this process runs."""

    def __init__(self, service: Service, model: Model) -> None:
        self.service = service
        self.model = model
        self.events: list[Event] = []

    def settle(self) -> None:
        """Wait until no charm has anything to do."""
        self.model.wait_idle(PATIENCE)

    def update_status(self) -> None:
        """Let every charm look at its VDU, as Juju does every five minutes."""
        self.model.update_status()
        self.settle()

    def status(self, index: str) -> tuple[str, str]:
        """Return the workload status of a member's charm and its message."""
        unit = self.model.status().units[self.service[index].unit]
        return unit.workload, unit.message

    def hooks(self) -> list[str]:
        """Return the hooks that were started since the model runs here."""
        return [f"{e.unit}:{e.name}" for e in self.events if e.kind == "hook-started"]


GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=30).read().decode())"


def scraped(by: Vnf, vnf: Vnf, port: int = monitoring.PORT) -> dict[tuple[str, ...], float]:
    """Scrape a VNF's exporter from another VDU, over the management network.

    Returns:
        Samples by their name and, in the order of the labels' names, the values of the labels.
    """
    from prometheus_client.parser import text_string_to_metric_families

    url = f"http://{vnf.management}:{port}/metrics"
    families = text_string_to_metric_families(by.out("python3", "-c", GET, url))
    return {
        (s.name, *(value for _, value in sorted(s.labels.items()))): s.value
        for family in families
        for s in family.samples
    }


def secret_files(vnf: Vnf) -> dict[str, str]:
    """Return the text of every private, staged, wrapping and preshared key on a VDU, by path."""
    names = (
        r"private\.key|next\.key|wrap\.pem|preshared-[^.]+(\.new)?|next-ike\.pem|osm-vpnaas-.*\.pem"
        r"|ca-key\.pem"
    )
    listed = vnf.run("find", "/etc/osm-vpnaas", "/etc/swanctl/private", "-type", "f",
                     "-regextype", "egrep", "-regex", f".*/({names})")  # fmt: skip
    return {path: vnf.out("cat", path).strip() for path in listed.stdout.split()}


def scan(lab: Lab, needles: Mapping[str, str]) -> list[str]:
    """Return the files of a lab that hold one of the texts; the VDUs' own disks are left out.

    A WireGuard key is looked for as base64, the form of wg(8), and as hexadecimal digits, the form
    of its userspace interface.
    """
    forms = set()
    for text in needles:
        lines = [line for line in text.splitlines() if line and not line.startswith("-----")]
        forms.update(line.rstrip("=") for line in lines if len(line.rstrip("=")) >= 32)
        if len(lines) == 1:
            forms.add(base64.b64decode(text).hex())
            forms.add(base64.b64decode(text).hex().upper())
    assert forms, "nothing to look for"
    done = subprocess.run(
        ["grep", "-raFlD", "skip", "--exclude-dir=disk", "-f", "-", str(lab.home)],
        input="\n".join(sorted(forms)) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def wait(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait until something holds, and say what did not."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)


# -- what passes on a network ------------------------------------------------------------------


@dataclass(frozen=True)
class Capture:
    """A file of frames; the questions are pcap-filter(7) expressions."""

    path: Path

    def count(self, expression: str) -> int:
        """Return how many frames match."""
        done = subprocess.run(
            ["tcpdump", "-nn", "-r", str(self.path), expression],
            capture_output=True,
            text=True,
            check=True,
        )
        return len(done.stdout.splitlines())

    def sample(self, expression: str) -> str:
        """Return the first frames that match, for a failure's text."""
        done = subprocess.run(
            ["tcpdump", "-nn", "-c", "5", "-r", str(self.path), expression],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def holds(self, marker: bytes) -> bool:
        """Say whether a run of bytes appears anywhere in the file."""
        return marker in self.path.read_bytes()


def wireguard_only(port: int) -> str:
    """Return the filter for WireGuard messages on a port.

    A message starts with its type, 1 to 4, and three zero bytes; the first three types have fixed
    lengths of 148, 92 and 64 bytes (WireGuard paper, section 5.4), to which UDP adds 8.
    """
    kinds = " or ".join(
        (
            "(udp[8:4] = 0x01000000 and udp[4:2] = 156)",
            "(udp[8:4] = 0x02000000 and udp[4:2] = 100)",
            "(udp[8:4] = 0x03000000 and udp[4:2] = 72)",
            "udp[8:4] = 0x04000000",
        )
    )
    return f"(udp src port {port} and udp dst port {port} and ({kinds}))"


def ipsec_only() -> str:
    """Return the filter for IKE on its one port and ESP, in UDP or not (RFC 3948, RFC 4303)."""
    return "((udp src port 4500 and udp dst port 4500) or ip proto 50 or ip6 proto 50)"


#: Address resolution: ARP, and for IPv6 the neighbour discovery of RFC 4861.
NEIGHBOURS = "(arp or icmp6)"


@contextmanager
def captured(service: Service, link: str, path: Path) -> Iterator[Capture]:
    """Capture a link's underlay while the block runs."""
    with service.vim.capture(service.network(link), path):
        yield Capture(path)


class InBackground:
    """A function in a thread; its error comes out of :meth:`result`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._value = work()
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def result(self, timeout: float = PATIENCE) -> Any:
        """Wait for its end; return its value or raise its error."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "background work did not end"
        if self._error is not None:
            raise self._error
        return self._value


# -- what is left on the machine ---------------------------------------------------------------


def leftovers(words: Sequence[str]) -> list[str]:
    """Return the mounts, processes and network namespaces whose names hold one of the words."""
    found = []
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        if any(word in line for word in words):
            found.append(f"mount {line}")
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            group = (entry / "cgroup").read_text(encoding="utf-8")
            state = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state in ("Z", "X"):
            continue  # ended; its parent has not asked for it yet
        if any(word in command or word in group for word in words):
            found.append(f"process {entry.name} {command}")
    for netns in subprocess.run(
        ["ip", "netns", "list"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if any(word in netns for word in words):
            found.append(f"netns {netns}")
    return found


def lasting_leftovers(words: Sequence[str], seconds: float = 5.0) -> list[str]:
    """Return what is left after processes that are ending had a moment to do so."""
    until = time.monotonic() + seconds
    while (found := leftovers(words)) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def own_descendants() -> set[int]:
    """Return the process ids of everything this process started, and what that started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # proc(5): the parent is the second field after the name in brackets.
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def running_in(folder: Path) -> int:
    """Return a process of ours that has a folder as its working directory, 0 where none has."""
    for pid in own_descendants():
        try:
            if Path(os.readlink(f"/proc/{pid}/cwd")) == folder:
                return pid
        except (FileNotFoundError, ProcessLookupError):
            continue
    return 0


def gone(service: Service) -> None:
    """Delete a service a module had for itself, after a look for what it must not have told."""
    service.note_secrets()
    assert scan(service.lab, service.lab.secrets.texts) == []
    service.lab.done("ns-delete", service.name, "--wait")
