"""Services made from the built packages, and what tests do to them.

Actions go the way an operator's go: each runs in a worker process of its own. Faults (a relation
removed, an agent killed) come from the test's process, which then runs the model as the
controller. What a VDU is really doing is read on its console.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import keep, waiting
from support.waiting import wait_until as wait
from vpnaas.params.gateway import PORT

from lab.descriptors.naming import network_name
from lab.lcm.backends import Backends
from lab.nbi.engine import Engine
from lab.nbi.views import view
from lab.records import jobs
from lab.records.store import NSDS, NSRS, NSTS, OPS, VNFDS
from lab.vca.events import Event
from lab.vca.model import Model
from lab.vim.account import Vim
from lab.vim.model import PortSpec, Server, ServerSpec
from operate import background
from operate.client import Client

BASIC = ("vpn_endpoint_vnf", "vpn_basic_ns")
SLICES = ("vpn_endpoint_ns", "vpn_basic_nst", "vpn_shared_nst")
ACCESS = ("access_vnf", "access_ns")
SECGW = ("vpn_endpoint_vnf", "secgw_vnf", "cell_vnf", "secgw_ns", "secgw_ha_ns")
SMALL_CELL = (
    *("small_cell_gw_vnf", "nr_cell_vnf", "lte_cell_vnf", "vpn_endpoint_vnf"),
    "small_cell_ns",
)
SITEGW = ("sitegw_vnf", "vpn_endpoint_vnf", "sitegw_ns")
CORE_5G = ("amf_vnf", "smf_vnf", "upf_vnf", "gnb_vnf", "nr_ue_vnf", "5gc_ns", "5gc_ue_ns")
SLICES_5G = (
    *("amf_vnf", "smf_vnf", "upf_vnf", "gnb_vnf", "nr_ue_vnf", "5gc_shared_ns", "5gc_slice_ns"),
    *("embb_5g_nst", "urllc_5g_nst", "mmtc_5g_nst"),
)
ACCESS_5G = (*SLICES_5G, *ACCESS, "embb_5g_access_nst", "urllc_5g_access_nst")
EPC_SECGW = (
    *("hss_vnf", "mme_trusted_vnf", "spgwc_vnf", "spgwu_trusted_vnf", "secgw_vnf"),
    *("enb_backhaul_vnf", "ue_vnf", "epc_secgw_ns", "epc_secgw_ha_ns", "epc_secgw_nst"),
)
SHARED_HSS = (
    *("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf", "hss_ns", "epc_core_ns"),
    *("embb_shared_nst", "urllc_shared_nst"),
)
EPC = (
    *("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf", "ue_vnf"),
    "epc_ue_ns",
)

#: Seconds that anything may take on a machine with other work to do.
PATIENCE = 480.0


class ActionError(AssertionError):
    """An action failed; its text is what the operator reads."""


@dataclass
class Secrets:
    """Every secret the VDUs ever held, as far as tests looked."""

    texts: dict[str, str] = field(default_factory=dict)
    """Secret to where it was found."""

    def add(self, text: str, where: str) -> None:
        if text:
            self.texts.setdefault(text, where)


def allowed(parameters: str) -> str:
    """Return a parameter file that allows experiments on every VNF."""
    return re.sub(r"allow_experiments: .*", 'allow_experiments: "yes"', parameters)


class Lab:
    """One lab directory with its verbs, as separate processes and as calls."""

    def __init__(self, home: Path, dist: Path, secrets: Secrets) -> None:
        self.home = home
        self.dist = dist
        self.secrets = secrets
        self.engine = Engine(home)
        self.backends = Backends(home)

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

    def client(self) -> Client:
        """Return what the programs beside OSM use."""
        return Client((sys.executable, "-m", "lab.cli", "--home", str(self.home)))

    def onboard(self, *packages: str) -> None:
        """Onboard packages of dist/, VNFs first; those that are in stay."""
        for package in packages:
            words = package.split("_")
            kind = NSTS if "nst" in words else NSDS if "ns" in words else VNFDS
            if package not in {row["id"] for row in self.engine.store.all(kind)}:
                self.engine.catalogue.onboard(kind, self.dist / f"{package}.tar.gz")

    def create(
        self, name: str, nsd: str, params: str, experiments: bool = False, vim: str = "lab"
    ) -> Service:
        """Instantiate a service from the command line and wait for it."""
        file = self.dist / "params" / f"{params}.yaml"
        if experiments:
            text = file.read_text(encoding="utf-8")
            file = self.home / f"{name}-experiments.yaml"
            file.write_text(allowed(text), encoding="utf-8")
        words = ("--ns_name", name, "--nsd_name", nsd, "--vim_account", vim)
        self.done("ns-create", *words, "--config_file", str(file), "--wait")
        service = Service(self, name)
        service.note_secrets()
        return service


@dataclass(frozen=True)
class Vdu:
    """A VDU on networks of a service, seen on its console."""

    service: Service
    index: str
    server_id: str

    @property
    def server(self) -> Server:
        """The VDU as the VIM sees it."""
        return self.service.vim.server(self.server_id)

    def run(
        self, *argv: str, input: str | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        return self.service.vim.console(self.server_id, argv, input=input, timeout=timeout)

    def out(self, *argv: str, input: str | None = None, timeout: float = 60.0) -> str:
        done = self.run(*argv, input=input, timeout=timeout)
        assert done.returncode == 0, f"{self.index}: {' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def pings(self, address: str, *options: str, tries: int = 150) -> bool:
        """Say whether an address answers within `tries` echo requests, five a second.

        After an event packets may need seconds, on a busy machine more. The first answer ends it.
        """
        seconds = max(1, tries // 5)
        end = time.monotonic() + seconds
        # A local error, such as a route that has gone, ends ping before its time.
        while True:
            words = ("ping", "-n", "-c", "1", "-i", "0.2", "-w", str(seconds))
            done = self.run(*words, *options, address, timeout=60 + seconds)
            seconds = round(end - time.monotonic())
            if done.returncode == 0 or seconds < 1:
                break
            time.sleep(0.2)
        if done.returncode:
            print(
                f"{self.index}: {' '.join((*words, *options, address))}: {done.stdout}{done.stderr}"
            )
        return done.returncode == 0

    @property
    def management(self) -> str:
        return str(self.server.ip_on(self.service.vim.management_network().id))

    def boot_cycles(self) -> str:
        """Return what systemd says of ordering cycles on the way to its default target."""
        result = self.run("systemd-analyze", "verify", "default.target").stderr
        return "\n".join(line for line in result.splitlines() if "cycle" in line)

    def listening(self) -> set[str]:
        """Return the TCP and UDP sockets that wait for somebody."""
        rows = self.out("ss", "-Hlntu").splitlines()
        return {" ".join((row.split()[0], row.split()[4])) for row in rows}


@dataclass(frozen=True)
class Vnf(Vdu):
    """A VNF of a service: its VDU and its charm's application."""

    application: str

    @property
    def unit(self) -> str:
        """Name of the charm's only unit."""
        return f"{self.application}/0"

    def peers(self, interface: str) -> set[str]:
        return set(self.out("wg", "show", interface, "peers").split())

    def public_key(self, interface: str) -> str:
        return self.out("wg", "show", interface, "public-key").strip()

    def action(self, name: str, /, **params: object) -> Any:
        """Run a day-2 primitive; return its output, parsed where it is JSON.

        Raises:
            ActionError: it failed.
        """
        return self.service.action(self.index, name, **params)

    def status(self, link: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.action("show-status", link=link)[link]
        return shown

    def ready(self) -> bool:
        """Say whether its network function is ready."""
        return bool(self.action("health")["state"] == "ready")


@contextmanager
def outsider(
    service: Service, network: str, address: str, *more: tuple[Service, str, str]
) -> Iterator[Vdu]:
    """Give a plain VDU on networks of services, without a charm, and take it away afterwards."""
    ports = ((service, network, address), *more)
    with plain(service, *((its.network(name), ip) for its, name, ip in ports)) as vdu:
        yield vdu


@contextmanager
def plain(service: Service, *networks: tuple[str, str]) -> Iterator[Vdu]:
    """Give a plain VDU beside a service, with an address on each of these networks of its VIM."""
    ports = (
        PortSpec(service.vim.management_network().id),
        *(PortSpec(network, ip=address) for network, address in networks),
    )
    spec = ServerSpec("outsider", "outsider", "ubuntu22.04", 1, 1024, 1, ports)
    server = service.vim.create_server(spec, f"outsider of {service.name}")
    try:
        service.vim.wait_active(server.id, PATIENCE)
        yield Vdu(service, "outsider", server.id)
    finally:
        service.vim.delete_server(server.id)


class Service:
    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.id = str(lab.engine.ns(name)["_id"])
        self.vim: Vim = lab.backends.local_vim(lab.engine.vnfs(self.id)[0]["vim-account-id"])
        record = self.record()
        deployed = record["_admin"]["deployed"]["VCA"]
        applications = {vca["member-vnf-index"]: vca["application"] for vca in deployed}
        self._vdus = {vca["member-vnf-index"]: vca["vdu_id"] for vca in deployed}
        """VDU of a member's charm, None where the charm is the VNF's."""
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
        return self.vnfs[index]

    def record(self) -> dict[str, Any]:
        store = self.lab.engine.store
        return view(NSRS, store.get(NSRS, self.id), store)

    def network(self, name: str) -> str:
        """Return the id of the service's own network for a virtual link."""
        found = [
            n.id
            for n in self.vim.networks()
            if n.tag == self.id and n.name == network_name(self.name, name)
        ]
        assert len(found) == 1, f"{self.name} has {len(found)} networks {name}"
        return found[0]

    def begin(self, index: str, name: str, /, **params: object) -> str:
        """Begin a day-2 primitive in a worker process; return the id of the operation."""
        given = {key.replace("_", "-"): value for key, value in params.items()}
        body = {"primitive": name, "primitive_params": given, "member_vnf_index": index}
        if (vdu := self._vdus[index]) is not None:
            body["vdu_id"] = vdu
        started = self.lab.engine.ns_run(self.name, "action", body)
        return str(started.operation["_id"])

    def action(self, index: str, name: str, /, **params: object) -> Any:
        """Run a day-2 primitive in a worker process and wait until the charms are idle."""
        op_id = self.begin(index, name, **params)
        until = time.monotonic() + PATIENCE
        while jobs.alive(self.lab.engine.store.get(OPS, op_id)):
            assert time.monotonic() < until, f"{name} of {index} takes too long"
            time.sleep(0.05)
        operation = self.lab.engine.operation(op_id)
        if operation["operationState"] != "COMPLETED":
            raise ActionError(str(operation["errorMessage"]))
        detail = operation["detailed-status"]
        output = detail if isinstance(detail, str) else detail.get("output", "")
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
        for vnf in self.vnfs.values():
            for name, text in secret_files(vnf).items():
                self.lab.secrets.add(text, f"{self.name}/{vnf.index}:{name}")

    def wait(
        self, condition: Callable[[], bool], what: str, seconds: float = waiting.PATIENCE
    ) -> None:
        wait(condition, f"{self.name}: {what}", seconds)


class Controlled:
    """A model this process runs."""

    def __init__(self, service: Service, model: Model) -> None:
        self.service = service
        self.model = model
        self.events: list[Event] = []

    def settle(self) -> None:
        self.model.wait_idle(PATIENCE)

    def update_status(self) -> None:
        """Let every charm look at its VDU, as Juju does every five minutes."""
        self.model.update_status()
        self.settle()

    def status(self, index: str) -> tuple[str, str]:
        unit = self.model.status().units[self.service[index].unit]
        return unit.workload, unit.message

    def hooks(self) -> list[str]:
        """Return the hooks that were started since the model runs here."""
        return [f"{e.unit}:{e.name}" for e in self.events if e.kind == "hook-started"]


GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=120).read().decode())"


def scraped(by: Vdu, vnf: Vdu) -> dict[tuple[str, ...], float]:
    """Scrape a VNF's exporter from another VDU, over the management network.

    Returns:
        Samples by their name and, in the order of the labels' names, the values of the labels.
    """
    from prometheus_client.parser import text_string_to_metric_families

    url = f"http://{vnf.management}:{PORT}/metrics"
    families = text_string_to_metric_families(by.out("python3", "-c", GET, url))
    return {
        (s.name, *(value for _, value in sorted(s.labels.items()))): s.value
        for family in families
        for s in family.samples
    }


def secret_files(vnf: Vnf) -> dict[str, str]:
    """Return the text of every private, staged, wrapping and preshared key on a VDU, by path."""
    names = (
        r"private\.key|next\.key|wrap\.pem|kem\.key|preshared-[^.]+(\.new|\.part)?|next-ike\.pem|osm-vpnaas-.*\.pem"
        r"|ca-key\.pem"
    )
    listed = vnf.run("find", "/etc/osm-vpnaas", "/etc/swanctl/private", "-type", "f",
                     "-regextype", "egrep", "-regex", f".*/({names})")  # fmt: skip
    return {path: vnf.out("cat", path).strip() for path in listed.stdout.split()}


EC_KEY = bytes.fromhex("2a8648ce3d0201")
"""What says that a key is of an elliptic curve (RFC 5480 section 2.1.1)."""


def scan(lab: Lab, needles: Mapping[str, str]) -> list[str]:
    """Return the files of a lab that hold one of the texts; the VDUs' own disks are left out.

    A WireGuard key is looked for as base64, the form of wg(8), and as hexadecimal digits, the form
    of its userspace interface.
    """
    forms = set()
    for text in needles:
        lines = [line for line in text.splitlines() if line and not line.startswith("-----")]
        if lines and EC_KEY in base64.b64decode(lines[0][: len(lines[0]) // 4 * 4]):
            lines = lines[:2]  # What follows is the public key, as certificates have it.
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


class InBackground(background.InBackground):
    """A function in a thread, whose end a test awaits as patiently as anything else."""

    patience = PATIENCE


def associations(vnf: Vdu) -> list[str]:
    """Return the connections that have an established IKE SA.

    One may have two for a while: an end that is slow to answer is called again (RFC 7296 section
    2.8.1 has more such cases).
    """
    listed = vnf.out("swanctl", "--list-sas").splitlines()
    established = (line.split(":")[0] for line in listed if ", ESTABLISHED, IKEv2" in line)
    return list(dict.fromkeys(established))


def unbroken(report: str) -> None:
    """Assert from iperf3's JSON that a stream went on, by one connection.

    A lost key would silence it for longer than two seconds: TCP doubles its timeout (RFC 6298
    section 5.5). A second may be without a segment where the machine has other work.
    """
    shown = json.loads(report)
    assert len(shown["start"]["connected"]) == 1
    sent = [i["sum"]["bytes"] for i in shown["intervals"] if i["sum"]["seconds"] > 0.9]
    assert len(sent) >= 4
    assert all(any(sent[n : n + 3]) for n in range(len(sent) - 2)), sent


def gone(service: Service) -> None:
    """Delete a service a module had for itself, after a look for what it must not have told."""
    if keep.kept():
        return
    service.note_secrets()
    assert scan(service.lab, service.lab.secrets.texts) == []
    service.lab.done("ns-delete", service.name, "--wait")


def own_service(
    packages: Sequence[str], name: str, nsd: str, parameters: str, ready: Sequence[str] = ()
) -> Any:
    """Return a fixture: a service that a module has for itself, deleted after its tests.

    Tests begin when the network functions `ready` are. `update-status`, which sees a slow start,
    does not come here, but who asks sees it too.
    """

    @pytest.fixture(scope="module")
    def service(lab: Lab) -> Iterator[Service]:
        lab.onboard(*packages)
        made = lab.create(name, nsd, parameters)
        for each in ready:
            wait(made[each].ready, f"{each} is ready", 120)
        yield made
        gone(made)

    return service


def argv(lab: Lab, name: str, nst: str, params: str) -> list[str]:
    """Return the command that makes a slice and waits for it."""
    file = str(lab.dist / "params" / f"{params}.yaml")
    words = ["--nsi_name", name, "--nst_name", nst, "--vim_account", "lab", "--config_file", file]
    home = str(lab.home)
    return [sys.executable, "-m", "lab.cli", "--home", home, "nsi-create", *words, "--wait"]


def make_together(lab: Lab, *slices: tuple[str, str, str]) -> None:
    running = [
        subprocess.Popen(argv(lab, *each), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for each in slices
    ]
    for process in running:
        said, _ = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == 0, said.decode()
