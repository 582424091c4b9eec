"""Slices side by side on an OSM, and operations of experiments on them, over OSM's own API.

Everything that an experiment does in a VDU is a day-2 primitive of its VNF. Only `Testbed.lab` has
functions beyond OSM's API; it is None without the lab.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from builder import documents
from builder.documents import DAY12
from experiments import setups
from experiments.background import side_by_side
from experiments.progress import ticking
from experiments.slices import Request
from operate.client import OperateError
from operate.nbi import Document
from operate.orders import Order, Undo, order
from operate.osm import (
    NSDS,
    NSTS,
    OPERATIONS,
    SERVICES,
    SLICES,
    VIMS,
    VNFDS,
    Osm,
)

if TYPE_CHECKING:
    from experiments.on_the_lab import Lab

VNFS = ("hss", "mme", "spgwc", "spgwu", "enb")
PATIENCE = 600.0  # Limit in seconds for operations on several services at once.


@dataclass(frozen=True)
class Link:
    """A link: its name (as of its network), the near VNF, which starts traffic, and the far VNF."""

    name: str
    title: str
    near: str
    far: str
    # Its name in the charm of a VNF, if that is different, by VNF.
    endpoints: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""  # its name in instantiation parameters, if that is different.
    # Whether it connects two services, so that `add-peer` joined its ends and not a relation.
    joined: bool = False

    def endpoint(self, vnf: str) -> str:
        """Return its name in the charm of a VNF."""
        return self.endpoints.get(vnf, self.name)


def links_of(service: str) -> dict[str, Link]:
    """Return the links of a kind of services, by name."""
    return {name: Link(name, **entry) for name, entry in _LINKS[service].items()}


_LINKS = documents.read(Path(__file__).with_name("links.yaml"))
LINKS, PAIR_LINKS = links_of("epc"), links_of("pair")


@dataclass(frozen=True)
class Addresses:
    """A slice's addresses in and under its tunnels, by VNF and link."""

    inner: Mapping[tuple[str, str], str]  # address in the tunnel.
    # Address at which the other end reaches the interface below the tunnel.
    outer: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Addresses:
        members = document.get("additionalParamsForVnf", ())

        def given(suffix: str) -> dict[tuple[str, str], str]:
            return {
                (item["member-vnf-index"], key.removesuffix(suffix)): value
                for item in members
                for key, value in item.get("additionalParams", {}).items()
                if key.endswith(suffix)
            }

        inner = {end: value.split("/")[0] for end, value in given("_inner_address").items()}
        own = {
            (point["member-vnf-index-ref"], vld["name"]): point["ip-address"]
            for vld in document.get("vld", ())
            for point in vld.get("vnfd-connection-point-ref", ())
            if "ip-address" in point
        }
        floating = {end: value for end, value in given("_gateway").items() if value != "auto"}
        return cls(inner, own | floating)

    def with_those_of(self, other: Addresses) -> Addresses:
        """Return these addresses and those of a shared service."""
        return Addresses({**other.inner, **self.inner}, {**other.outer, **self.outer})


@dataclass(frozen=True)
class Vnf:
    """A VNF of a slice, and its primitives."""

    slice: str  # Name of the slice.
    service: str  # Id of the network service.
    name: str  # Its member-vnf-index.
    id: str  # Id of its record.
    vdu: str  # Its only VDU.
    server: str  # That VDU's id at the VIM.
    management: str  # Its management address.
    application: str  # Juju application of its charm.
    vnfd: str  # Id of its descriptor.
    osm: Osm = field(repr=False)

    def start(self, primitive: str, /, **params: object) -> str:
        """Start a day-2 primitive; return the operation's id."""
        return self.osm.start(self.service, self.name, primitive, dashed(params))

    def action(self, primitive: str, /, **params: object) -> dict[str, Any]:
        """Run a day-2 primitive; return its JSON output."""
        try:
            return self.osm.action(self.service, self.name, primitive, dashed(params))
        except OperateError as error:
            raise click.ClickException(f"{self}: {primitive}: {error.message}") from None

    def stop(self, what: str) -> dict[str, Any]:
        """Stop a capture, a listener or a stream of the VDU; return its result."""
        answer = self.action(f"stop-{what}")
        if not answer["ran-until-stopped"]:
            raise click.ClickException(f"{self}: the {what} ended before it was stopped")
        return answer

    def run(self, command: str) -> str:
        """Run a command line on the VDU as its login user; return what it printed."""
        started = self.osm.start(self.service, self.name, "run", {"command": command})
        return self.osm.output(started)

    def __str__(self) -> str:
        return f"{self.slice}/{self.name}"


@dataclass(frozen=True)
class Slice:
    """A slice: one network service with its own links."""

    name: str
    ns_id: str  # Id of the service.
    addresses: Addresses
    vnfs: Mapping[str, Vnf]
    # Instantiation parameters of its service.
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Links of its VNFs; the first carries subscriber data.
    links: Mapping[str, Link] = field(default_factory=lambda: LINKS, repr=False)
    ours: bool = True  # Whether the campaign created it; if not, it existed before.
    # VNFs of a service that it shares with other slices, if its links lead there.
    shared: Mapping[str, Vnf] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Vnf:
        """Return one of its own VNFs, or of the shared ones."""
        return self.vnfs[name] if name in self.vnfs else self.shared[name]

    def values(self, vnf: str) -> Mapping[str, Any]:
        """Return the instantiation parameters of one of its own VNFs."""
        members = self.parameters["additionalParamsForVnf"]
        own: Mapping[str, Any] = next(
            m["additionalParams"] for m in members if m["member-vnf-index"] == vnf
        )
        return own

    def inner(self, vnf: str, link: str) -> str:
        """Return a VNF's address inside a link's tunnel."""
        return self.addresses.inner[vnf, self.links[link].prefix or link]

    @property
    def signalling(self) -> str:
        """The link that carries subscriber data."""
        return next(iter(self.links))

    @property
    def user_plane(self) -> str:
        """The link that carries users' packets: S1-U, else the last one."""
        return "s1u" if "s1u" in self.links else list(self.links)[-1]

    def functions_run(self) -> bool:
        """Tell whether network functions run in it."""
        return any(
            member.get("additionalParams", {}).get("nf_software", "none") != "none"
            for member in self.parameters.get("additionalParamsForVnf", ())
        )


def linked(slices: Mapping[str, Slice]) -> Iterator[tuple[Slice, Link]]:
    for slice_ in slices.values():
        for link in slice_.links.values():
            yield slice_, link


def dashed(params: Mapping[str, object]) -> dict[str, object]:
    """Return parameters with dashes in their names, as primitives have them."""
    return {key.replace("_", "-"): value for key, value in params.items()}


@dataclass(eq=False)
class Testbed:
    """An OSM with the slices of an experiment."""

    __test__ = False  # pytest would take the class for a test because of its name.

    osm: Osm  # Session, logged in.
    dist: Path  # Folder of the built packages.
    console: Console  # Gets progress lines.
    vim: str = "lab"  # VIM account for slices and services.
    lab: Lab | None = None  # The lab, if the OSM is the lab's.
    slices: dict[str, Slice] = field(default_factory=dict)  # Those whose isolation is shown.
    # Services besides the slices, see `experiments.setups`.
    others: dict[str, Slice] = field(default_factory=dict)
    # Whether the charms enforce the 5QIs of the slices at this moment; None if unknown.
    shaped: bool | None = False
    _undo: Undo = field(default_factory=Undo)

    @property
    def the_lab(self) -> Lab:
        """The lab, for an experiment that needs it."""
        if self.lab is None:
            raise click.ClickException("only the lab has what this experiment needs")
        return self.lab

    def slice_named(self, name: str) -> Slice:
        """Return a slice, or a service besides the slices, by name."""
        everything = {**self.slices, **self.others}
        if name not in everything:
            raise click.ClickException(f"{name} is not up; there are {', '.join(everything)}")
        return everything[name]

    def all_vnfs(self) -> list[Vnf]:
        return [vnf for slice_ in self.slices.values() for vnf in slice_.vnfs.values()]

    def in_slices(self, work: Callable[[Slice], Any]) -> dict[str, Any]:
        """Run `work` on all slices at once; OSM runs one operation per service at a time."""
        names = list(self.slices)
        results = side_by_side(lambda name: work(self.slices[name]), names, PATIENCE)
        return dict(zip(names, results, strict=True))

    # -- links ---------------------------------------------------------------------------------

    def configure(self, name: str, links: Sequence[str], technology: str) -> None:
        """Set the technology of links of a slice at both ends, and wait until they answer.

        Other parameters stay as at Day-1.
        """
        slice_ = self.slice_named(name)
        for link in links:
            point = slice_.links[link]
            for end in (point.near, point.far):
                given = self._day_1(slice_, slice_[end], point.endpoint(end))
                slice_[end].action("configure", **{**given, "technology": technology})
        until = time.monotonic() + 60
        for link in links:
            while not self.answers(slice_, link):
                if time.monotonic() > until:
                    raise click.ClickException(f"{name}: {link} does not come up with {technology}")

    @contextmanager
    def path(self, name: str, links: Iterable[str], path: str) -> Iterator[None]:
        """Take the tunnels of links away while the block runs, if ``path`` is "underlay".

        The links then have technology `none`, as the VNFs drop what goes outside of a tunnel.
        """
        if path == "tunnel":
            yield
            return
        every = list(links)
        try:
            self.configure(name, every, "none")
            yield
        finally:
            self.configure(name, every, "wireguard")

    def _day_1(self, slice_: Slice, vnf: Vnf, link: str) -> dict[str, object]:
        """Return the Day-1 parameters of a link, as OSM gave them to `configure`."""
        vnfd = self.osm.nbi.get(f"{VNFDS}/{vnf.vnfd}")
        values = slice_.values(vnf.name)
        for _, primitive, _ in documents.walk(vnfd, f"{DAY12}[]/initial-config-primitive[]"):
            if primitive["name"] == "configure":
                given = {each["name"]: _filled(each, values) for each in primitive["parameter"]}
                if given["link"] == link:
                    return given
        raise click.ClickException(f"{vnf}: its descriptor configures no link {link}")

    def answers(self, slice_: Slice, link: str) -> bool:
        """Tell whether the far end of a link answers an echo request through the tunnel."""
        point = slice_.links[link]
        near = slice_[point.near]
        try:
            near.action("measure-latency", link=point.endpoint(near.name), count=1)
        except click.ClickException:
            return False
        return True

    # -- slices --------------------------------------------------------------------------------

    def prepare(self, packages: Sequence[Path]) -> None:
        """Onboard packages, VNF packages first; packages that are already onboarded stay."""
        places = {"vnf": VNFDS, "ns": NSDS, "nst": NSTS}
        name = ""
        with ticking(self.console, lambda: f"onboarding {name}"):
            for package in packages:
                name = package.name.removesuffix(".tar.gz")
                place = places[next(word for word in name.split("_") if word in places)]
                if self.osm.nbi.find(place, id=name) is None:
                    path = f"{place}/{self.osm.onboard(place, package)}"
                    self._undo.add(name, partial(self.osm.nbi.delete, path))

    def refuse_taken(self, requests: Sequence[Request]) -> None:
        """Check that OSM has nothing of these names yet; its API takes a name a second time."""
        names = {one.name for one in requests}
        there = {str(e["name"]) for place in (SLICES, SERVICES) for e in self.osm.nbi.get(place)}
        taken = sorted(name for name in there if name.partition(".")[0] in names)
        if taken:
            raise click.ClickException(
                f"OSM has {', '.join(taken)} already, and the campaign makes its own of that name; "
                "delete what is there, or take another --project"
            )

    def deploy(self, requests: Sequence[Request]) -> None:
        """Instantiate slices and services at once, and wait until all their links are up."""
        orders = [(one, self.instantiate(one)) for one in requests]
        # Seconds that links may take after the end of an instantiation.
        patience = (900.0 if self.lab is not None and self.lab.machines else 300.0) * len(requests)
        made: dict[str, Slice] = {}
        with ticking(self.console, lambda: self.states(orders)):
            for one, order in orders:
                try:
                    self.osm.finished(OPERATIONS[one.place], order.operation)
                except OperateError as error:
                    raise click.ClickException(f"{one.service}: {error.message}") from None
                links = PAIR_LINKS if one.name == setups.PAIR else LINKS
                service = self.service_of(one, order)
                made[one.name] = self.read(one.name, one.parameters, service, links)
            until = time.monotonic() + patience
            side_by_side(lambda name: self.wait_up(made[name], until), list(made), patience + 60)
        for one in requests:
            where = self.slices if one.subnet or one.alone else self.others
            where[one.name] = made[one.name]
        self.shaped = any(one.subnet for one in requests)

    def instantiate(self, one: Request) -> Order:
        vim = self.osm.required(VIMS, name=one.vim or self.vim)["_id"]
        given = self._with_ids(one.document)
        made = order(self.osm, one.place, one.descriptor, one.name, vim, given)
        self._undo.add(one.name, lambda: self.osm.delete(one.place, made.id))
        return made

    def service_of(self, one: Request, order: Order, subnet: str = "") -> str:
        """Return the id of a service of something instantiated, by default of its own one."""
        if not one.subnet:
            return order.id
        parts = self.osm.nbi.get(f"{SLICES}/{order.id}")["_admin"]["nsrs-detailed-list"]
        return next(str(e["nsrId"]) for e in parts if e["nss-id"] == (subnet or one.subnet))

    def _with_ids(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters with ids of VIM accounts in place of names, as osmclient sends them."""
        ids = {account["name"]: account["_id"] for account in self.osm.nbi.get(VIMS)}
        given = copy.deepcopy(dict(document))
        for vnf in given.get("vnf", ()):
            if "vim_account" in vnf:
                vnf["vimAccountId"] = ids[vnf.pop("vim_account")]
        for vld in given.get("vld", ()):
            names = vld.get("vim-network-name")
            if isinstance(names, dict):
                vld["vim-network-name"] = {ids[vim]: name for vim, name in names.items()}
        return given

    def states(self, orders: Sequence[tuple[Request, Order]], subnet: str = "") -> str:
        """Return the states of services that were instantiated, for progress lines."""
        records = [self.osm.service(self.service_of(*order, subnet)) for order in orders]
        return "; ".join(f"{record['name']}: {record.get('nsState')}" for record in records)

    def wait_up(self, made: Slice, until: float) -> None:
        """Wait until all links of a service are up; that is later than the instantiation."""
        for vnf in made.vnfs.values():
            links = made.links.values()
            mine = {link.endpoint(vnf.name) for link in links if vnf.name in (link.near, link.far)}
            while mine:  # A UE has none.
                shown = vnf.action("show-status")
                states = {name: shown[name].get("state") for name in mine}
                down = [f"{n} {s}" for n, s in states.items() if s not in ("up", "clear")]
                if not down:
                    break
                if time.monotonic() > until:
                    raise click.ClickException(f"{vnf}: {', '.join(down)}")
                time.sleep(1)

    def read(
        self,
        name: str,
        document: Mapping[str, Any],
        service: str,
        links: Mapping[str, Link] = LINKS,
    ) -> Slice:
        """Return a running service, which has these instantiation parameters, as a slice."""
        record = self.osm.service(service)
        applications = {
            vca["member-vnf-index"]: vca["application"]
            for vca in record["_admin"]["deployed"]["VCA"]
        }
        vnfs = {
            row["member-vnf-index-ref"]: self._vnf(name, record["_id"], row, applications)
            for row in self.osm.members(record["_id"])
        }
        return Slice(name, record["_id"], Addresses.of(document), vnfs, document, links)

    def _vnf(self, name: str, service: str, row: Document, apps: Mapping[str, str]) -> Vnf:
        index = row["member-vnf-index-ref"]
        if not row.get("vdur"):
            raise click.ClickException(
                f"{name}/{index} has no VDU; the experiments are between VNFs with VDUs"
            )
        vdu = row["vdur"][0]
        return Vnf(
            slice=name,
            service=service,
            name=index,
            id=row["_id"],
            vdu=vdu["vdu-id-ref"],
            server=str(vdu.get("vim-id", "")),
            # "floating;fixed", if the VIM gave both
            management=str(row["ip-address"]).rpartition(";")[2],
            application=apps.get(index, ""),
            vnfd=row["vnfd-id"],
            osm=self.osm,
        )

    def clean(self) -> list[str]:
        """Delete all created objects, the newest first; return the errors."""
        return [error.message for _, error in self._undo.clean()]


_PLACEHOLDER = re.compile(r"<([^<>]+)>")


def _filled(parameter: Mapping[str, Any], values: Mapping[str, Any]) -> object:
    """Return the value of an initial primitive's parameter, with OSM's substitution."""
    value = parameter["value"]
    match = _PLACEHOLDER.fullmatch(str(value))
    given = values[match[1]] if match else value
    kind = parameter.get("data-type")
    if kind == "INTEGER":
        return int(given)
    if kind == "BOOLEAN":
        return str(given).lower() != "false"
    return given
