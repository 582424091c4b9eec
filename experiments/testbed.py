"""Two slices side by side on the lab, and what experiments do to them.

Life-cycle steps are verbs of osm-lab in processes of their own, as an operator's; traffic and
observation use the VDUs' consoles and the wires of the VIM, which no network service knows of.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from experiments import setups
from experiments.progress import ticking
from experiments.setups import Service
from experiments.slices import Wanted
from lab.vim import Vim
from operate.client import Client

VNFS = ("hss", "mme", "spgwc", "spgwu", "enb")


@dataclass(frozen=True)
class Link:
    """A link: its name, which is its network's, the VNF that starts traffic, the far end.

    Attributes:
        endpoints: its name in the charm of a VNF, where that is another.
        prefix: its name in the parameters of an instantiation, where that is another.
    """

    name: str
    title: str
    near: str
    far: str
    endpoints: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    def endpoint(self, vnf: str) -> str:
        """Return what the charm of a VNF calls it."""
        return self.endpoints.get(vnf, self.name)


LINKS = {
    link.name: link
    for link in (
        Link("s6a", "S6a", "mme", "hss"),
        Link("s11", "S11", "mme", "spgwc"),
        Link("sxab", "SXab", "spgwu", "spgwc"),
        Link("s1c", "S1-C", "enb", "mme"),
        Link("s1u", "S1-U", "enb", "spgwu"),
    )
}
PAIR_LINKS = {
    "data": Link(
        *("data", "VPN", "client", "server"),
        {"client": "vpn-client", "server": "vpn-server"},
        prefix="vpn",
    )
}
"""Of `vpn_basic_ns`, two VNFs."""


@dataclass(frozen=True)
class Addresses:
    """A slice's addresses in and under its tunnels, by VNF and link.

    Attributes:
        inner: in a tunnel.
        own: on the interface under it.
        outer: where the other end reaches that, a floating address if there is one.
    """

    inner: Mapping[tuple[str, str], str]
    own: Mapping[tuple[str, str], str]
    outer: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Addresses:
        """Read an instantiation parameter file."""
        inner = {
            (item["member-vnf-index"], key.removesuffix("_inner_address")): value.split("/")[0]
            for item in document["additionalParamsForVnf"]
            for key, value in item["additionalParams"].items()
            if key.endswith("_inner_address")
        }
        own = {
            (point["member-vnf-index-ref"], vld["name"]): point["ip-address"]
            for vld in document["vld"]
            for point in vld.get("vnfd-connection-point-ref", ())
            if "ip-address" in point
        }
        floating = {
            (item["member-vnf-index"], key.removesuffix("_gateway")): value
            for item in document["additionalParamsForVnf"]
            for key, value in item["additionalParams"].items()
            if key.endswith("_gateway") and value != "auto"
        }
        return cls(inner, own, own | floating)


@dataclass(frozen=True)
class Vnf:
    """A VNF of a slice and its VDU's console."""

    slice: str
    service: str
    name: str
    server: str
    management: str
    application: str
    vim: Vim = field(repr=False)

    def run(
        self, *argv: str, text: str | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the console as root, whatever it exits with."""
        return self.vim.console(self.server, argv, input=text, timeout=timeout)

    def out(self, *argv: str, text: str | None = None, timeout: float = 120.0) -> str:
        """Run a command that must work; return what it printed.

        Raises:
            click.ClickException: it failed.
        """
        done = self.run(*argv, text=text, timeout=timeout)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise click.ClickException(f"{self}: {argv[0]} failed: {reason[-1]}")
        return done.stdout

    def python(self, program: str, request: object, timeout: float = 120.0) -> Any:
        """Run a Python program that reads JSON and prints JSON.

        Raises:
            click.ClickException: it failed.
        """
        told = self.out("python3", "-I", "-c", program, text=json.dumps(request), timeout=timeout)
        return json.loads(told)

    def __str__(self) -> str:
        """Return slice and VNF."""
        return f"{self.slice}/{self.name}"


@dataclass(frozen=True)
class Slice:
    """A slice: one network service with its own links.

    Attributes:
        parameters: What its service was instantiated with.
        links: Links between its VNFs; the first carries subscriber data.
    """

    name: str
    ns_id: str
    addresses: Addresses
    vnfs: Mapping[str, Vnf]
    vim: Vim = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    links: Mapping[str, Link] = field(default_factory=lambda: LINKS, repr=False)

    def __getitem__(self, name: str) -> Vnf:
        """Return a VNF."""
        return self.vnfs[name]

    def inner(self, vnf: str, link: str) -> str:
        """Return a VNF's address inside a link's tunnel."""
        return self.addresses.inner[vnf, self.links[link].prefix or link]

    def target(self, link: str, path: str) -> str:
        """Return the far end's address of a link, for traffic inside or outside the tunnel."""
        far = self.links[link].far
        return self.inner(far, link) if path == "tunnel" else self.addresses.outer[far, link]

    def listening(self, link: str, path: str) -> str:
        """Return the address at which the far end of a link listens for that traffic."""
        far = self.links[link].far
        return self.inner(far, link) if path == "tunnel" else self.addresses.own[far, link]

    @property
    def signalling(self) -> str:
        """The link that tells of subscribers."""
        return next(iter(self.links))

    def network(self, link: str) -> str:
        """Return the id of the network under a link."""
        return next(
            network.id
            for network in self.vim.networks()
            if network.tag == self.ns_id and network.name.rpartition(".")[2] == link
        )


class InBackground:
    """A function in a thread; `result` gives its value or raises its error.

    Attributes:
        patience: Seconds that `result` waits by default.
    """

    patience = 300.0

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
    def ended(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for its end.

        Raises:
            click.ClickException: it does not end.
        """
        timeout = self.patience if timeout is None else timeout
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise click.ClickException(f"background work did not end within {timeout:.0f} s")
        if self._error is not None:
            raise self._error
        return self._value


def dashed(params: Mapping[str, object]) -> dict[str, object]:
    """Return parameters of a primitive by their names, which have dashes."""
    return {key.replace("_", "-"): value for key, value in params.items()}


class Testbed:
    """A separate lab with the slices of an experiment."""

    __test__ = False  # Its name is the trade's word, not pytest's.

    def __init__(self, home: Path, dist: Path, console: Console, machines: bool = False) -> None:
        """Use a lab directory that has nothing yet.

        Args:
            home: of the lab.
            dist: with the packages.
            console: for progress.
            machines: whether VDUs are virtual machines; emulated ones take their time.
        """
        self.home = home
        self.dist = dist
        self.console = console
        self.machines = machines
        #: Seconds that a service may take.
        self.patience = 900.0 if machines else 300.0
        # Charms that look at their VDUs would take processor time from a measurement.
        environment = {"OSMLAB_UPDATE_STATUS_INTERVAL": "0"}
        if machines:
            environment["OSMLAB_TIMEOUT_FACTOR"] = "0.5"
        self.client = Client(
            (sys.executable, "-m", "lab.cli", "--home", str(home)),
            timeout=600.0 if machines else 180.0,
            pause=0.3,
            environment=environment,
        )
        #: The two whose isolation is shown.
        self.slices: dict[str, Slice] = {}
        #: Services that are measured beside them, see `experiments.setups`.
        self.others: dict[str, Slice] = {}
        #: Whether the charms enforce the 5QIs of the slices at this moment.
        self.shaped = False

    def found(self, name: str) -> Slice:
        """Return a slice, or a service beside them, by name.

        Raises:
            click.ClickException: there is none.
        """
        everything = {**self.slices, **self.others}
        if name not in everything:
            raise click.ClickException(f"{name} is not up; there are {', '.join(everything)}")
        return everything[name]

    # -- verbs ---------------------------------------------------------------------------------

    def verb(self, *words: str, show: bool = False) -> str:
        """Run a verb of osm-lab; return the JSON it printed.

        Raises:
            click.ClickException: it failed.
        """
        if show:
            self.console.print(f"[bold]$ osm-lab {shlex.join(words)}[/bold]", highlight=False)
        return replace(self.client, command=(*self.client.command, "--json")).verb(*words)

    def start_action(self, where: Vnf, primitive: str, **params: object) -> str:
        """Start a day-2 primitive; return the operation."""
        return self.client.start(where.service, where.name, primitive, dashed(params))

    def action(self, where: Vnf, primitive: str, **params: object) -> dict[str, Any]:
        """Run a day-2 primitive and return its result.

        Raises:
            click.ClickException: it failed.
        """
        return self.client.action(where.service, where.name, primitive, dashed(params))

    def configure(self, name: str, link: str, technology: str) -> None:
        """Set what secures a link of a slice, at both of its ends at once."""
        found = self.found(name)
        point = found.links[link]
        network, operations = found.network(link), []
        for end in (point.near, point.far):
            port = next(
                p for p in found.vim.server(found[end].server).ports if p.network_id == network
            )
            operations.append(
                self.start_action(
                    found[end],
                    "configure",
                    link=point.endpoint(end),
                    technology=technology,
                    inner_address=f"{found.inner(end, link)}/24",
                    underlay_interface=port.interface,
                )
            )
        for operation in operations:
            record = self.client.wait(operation)
            if record["operationState"] != "COMPLETED":
                raise click.ClickException(f"configure {link}: {record.get('errorMessage')}")
        until = time.monotonic() + 60
        words = ("ping", "-n", "-q", "-c", "1", "-w", "2", found.target(link, "tunnel"))
        while found[point.near].run(*words).returncode:
            if time.monotonic() > until:
                raise click.ClickException(f"{name}: {link} does not come up with {technology}")

    # -- slices --------------------------------------------------------------------------------

    def prepare(self, packages: Sequence[Path], vims: Mapping[str, Path] | None = None) -> None:
        """Make VIM accounts and onboard packages, which begin with those of VNFs.

        Args:
            packages: in their order.
            vims: accounts with a configuration, beside the plain one.
        """
        type_of = ("--account_type", "qemu") if self.machines else ()
        self.verb("vim-create", "--name", "lab", *type_of, show=True)
        for name, file in (vims or {}).items():
            self.verb("vim-create", "--name", name, "--config_file", str(file), show=True)
        for package in packages:
            words = package.name.removesuffix(".tar.gz").split("_")
            kind = next(word for word in words if word in ("vnf", "ns", "nst"))
            verb = {"vnf": "vnfpkg-create", "ns": "nspkg-create", "nst": "nst-create"}[kind]
            self.verb(verb, str(package))

    def deploy(self, wanted: Sequence[Wanted | Service]) -> None:
        """Instantiate slices and services side by side, and wait until all their charms are idle.

        Args:
            wanted: slices and services; each may take `patience`, as they share the processors.

        Raises:
            click.ClickException: one failed, or it takes too long.
        """
        for one in wanted:
            file = self.home / f"{one.name}.yaml"
            file.write_text(one.text, encoding="utf-8")
            self.verb(*one.verb(file), show=True)
        patience = self.patience * len(wanted)
        until = time.monotonic() + patience
        waiting = list(wanted)
        names = [one.service for one in waiting]
        with ticking(self.console, lambda: "; ".join(map(self._stage, names))):
            self._wait(waiting, until, patience)
        self.shaped = any(isinstance(one, Wanted) for one in wanted)

    def _stage(self, service: str) -> str:
        """Say how far a service has come."""
        record = json.loads(self.verb("ns-show", service))
        if (record.get("lab") or {}).get("seconds-vms-ready-to-charms-idle") is not None:
            return f"{service}: ready"
        vdus = [
            vdu for vnf in json.loads(self.verb("vnf-list", "--ns", service)) for vdu in vnf["vdur"]
        ]
        up = sum(vdu["status"] == "ACTIVE" for vdu in vdus)
        if up < len(vdus):
            return f"{service}: {up} of {len(vdus)} VDUs are up"
        return f"{service}: the charms bring up the links"

    def _wait(self, waiting: list[Wanted | Service], until: float, patience: float) -> None:
        """Wait for services in turn; take each as a slice or as one of the others."""
        while waiting:
            one = waiting[0]
            service = one.service
            record = json.loads(self.verb("ns-show", service))
            if record["nsState"] == "BROKEN":
                raise click.ClickException(f"{service} is BROKEN: {record.get('errorDetail')}")
            seconds = (record.get("lab") or {}).get("seconds-vms-ready-to-charms-idle")
            if seconds is not None:
                links = PAIR_LINKS if one.name == setups.PAIR else LINKS
                made = self.read(one.name, one.parameters, service, links)
                where = self.slices if isinstance(one, Wanted) or one.alone else self.others
                where[one.name] = made
                self.console.print(
                    f"{service}: all tunnels were up {seconds:.1f} s after the VMs were ready"
                )
                waiting.pop(0)
            elif time.monotonic() > until:
                raise click.ClickException(f"{service} is not up after {patience:.0f} s")
            else:
                time.sleep(1)

    def adopt(
        self,
        name: str,
        document: Mapping[str, Any],
        service: str = "",
        links: Mapping[str, Link] = LINKS,
    ) -> Slice:
        """Take a running service as one of the slices; arguments as of `read`."""
        self.slices[name] = self.read(name, document, service, links)
        return self.slices[name]

    def read(
        self,
        name: str,
        document: Mapping[str, Any],
        service: str = "",
        links: Mapping[str, Link] = LINKS,
    ) -> Slice:
        """Return a running service as a slice.

        Args:
            name: of the slice.
            document: parameters of the service.
            service: its name where it differs.
            links: of the service.
        """
        service = service or name
        record = json.loads(self.verb("ns-show", service))
        accounts = {row["_id"]: row["name"] for row in json.loads(self.verb("vim-list"))}
        applications = {
            vca["member-vnf-index"]: vca["application"]
            for vca in record["_admin"]["deployed"]["VCA"]
        }
        vnfs = {}
        for row in json.loads(self.verb("vnf-list", "--ns", service)):
            index = row["member-vnf-index-ref"]
            vim = Vim.open(self.home, accounts[row["vim-account-id"]])
            server = vim.server(row["vdur"][0]["vim-id"])
            management = server.ip_on(vim.management_network().id) or ""
            vnfs[index] = Vnf(name, service, index, server.id, management, applications[index], vim)
        first = next(iter(vnfs.values())).vim
        return Slice(name, record["_id"], Addresses.of(document), vnfs, first, document, links)

    def clean(self) -> None:
        """Remove everything the lab made."""
        self.verb("lab", "clean")
        with contextlib.suppress(OSError):
            for file in (*self.home.glob("*.yaml"), *self.home.glob("*.tar.gz")):
                file.unlink()
            self.home.rmdir()

    # -- observation ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def captured(self, folder: Path) -> Iterator[dict[tuple[str, str], Path]]:
        """Capture every link's underlay of every slice while the block runs."""
        files = {}
        with contextlib.ExitStack() as stack:
            for name, found in self.slices.items():
                for link in found.links:
                    file = folder / f"{name}-{link}.pcap"
                    stack.enter_context(found.vim.capture(found.network(link), file))
                    files[name, link] = file
            yield files

    def all_vnfs(self) -> list[Vnf]:
        """Return the VNFs of all slices."""
        return [vnf for found in self.slices.values() for vnf in found.vnfs.values()]
