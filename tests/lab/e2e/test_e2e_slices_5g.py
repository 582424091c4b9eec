"""Slices of one 5G network, joined one after another.

A UE and a device are in several of them. Two of the slices have an access VNF beside their UPF, for
a device outside of 3GPP access.

Cast: amf, smf, upf, gnb, ue, access (`embb_5g_access_nst`, `urllc_5g_access_nst`, `mmtc_5g_nst`);
    device, a namespace with WireGuard.

Seen:
- the UE by radio and the device are in the same two slices;
- each session has the addresses of its own slice;
- slices leave while the UE has traffic in the first.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from e2e_device import MARKERS, PORT, SERVER, Slices
from e2e_support import ACCESS_5G, InBackground, Lab, Service, Vnf, plain, wait
from e2e_ue import DEVICE, LONG
from e2e_wire import Capture, wireguard_only
from support.filters import NEIGHBOURS
from vpnaas.base.links import REFERENCE_POINTS

from lab.lcm.slice_operations import link_id
from lab.records.store import NSIS, VIMS
from lab.vim.account import Vim
from lab.vim.model import Network, NetworkSpec
from operate.slices import Joiner, join_slices

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(2400),
    pytest.mark.schedule(order=-10),
]

N6 = "10.254.2.30"
"""Of the UPF of each slice: their data networks have the same addresses."""
FILES = {"embb": "embb_5g_access", "urllc": "urllc_5g_access", "mmtc": "mmtc_5g"}
SNSSAIS = {"embb": "1-000001", "urllc": "2-000002", "mmtc": "3-000003"}
DNNS = {"urllc": "factory", "mmtc": "sensors"}
POOLS = {"embb": "10.46.", "urllc": "10.47.", "mmtc": "10.48."}
"""How the addresses of a slice's UEs begin."""
RADIO = {"embb": DEVICE, "urllc": f"{DEVICE}p2", "mmtc": f"{DEVICE}p3"}
"""The UE's network device in each slice."""
RADIO_MARKERS = {"embb": b"radio-embb-12345", "urllc": b"radio-urllc-6789"}


@dataclass(frozen=True)
class Joined:
    """The network with the slices that are in it."""

    lab: Lab
    vim: Vim
    hotspot: Network
    joiner: Joiner

    @property
    def ue(self) -> Vnf:
        return Service(self.lab, "embb.shared")["ue"]

    def make(self, slice: str) -> None:
        """Make a slice and join it with the network."""
        name = FILES[slice]
        text = (self.lab.dist / "params" / f"{name}.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(text)
        if slice in MARKERS:
            outside = {"name": "outside", "vim-network-name": self.hotspot.name}
            document["netslice-vld"] = [outside]
        file = self.lab.home / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        names = ("--nsi_name", slice, "--nst_name", f"{name}_nst")
        words = ("--vim_account", "lab", "--config_file", str(file), "--wait")
        self.lab.done("nsi-create", *names, *words)
        join_slices(self.joiner, [slice], timeout=600, pause=1)

    def network(self, slice: str, link: str) -> str:
        """Return the id of the network of a slice's link."""
        tag = link_id(self.lab.engine.store.resolve(NSIS, slice)["_id"], link)
        (found,) = [one.id for one in self.vim.networks() if one.tag == tag]
        return found

    def pings(self, slice: str, count: int = 3) -> int:
        """Return how many echo requests through the UE's session in a slice were answered."""
        marked = ("-p", RADIO_MARKERS[slice].hex()) if slice in RADIO_MARKERS else ()
        words = ("ping", "-n", "-c", str(count), "-i", "0.2", "-W", "2", "-I", RADIO[slice])
        shown = self.ue.run(*words, *marked, "-s", "64", N6, timeout=count + 60)
        return shown.stdout.count("bytes from")


@pytest.fixture(scope="module")
def joined(lab: Lab) -> Iterator[Joined]:
    """Two slices; the UE has a session in each."""
    lab.onboard(*ACCESS_5G)
    vim = lab.backends.local_vim(str(lab.engine.store.resolve(VIMS, "lab")["_id"]))
    hotspot = vim.create_network(NetworkSpec("hotspot", "192.168.60.0/24", dhcp=False), "hotspot")
    made = Joined(lab, vim, hotspot, Joiner(lab.client(), print))
    for slice in MARKERS:
        made.make(slice)
    wait(made.ue.ready, "the UE is ready", LONG)
    made.ue.action("establish-session", slice=SNSSAIS["urllc"], dnn=DNNS["urllc"])
    yield made
    lab.done("nsi-delete", "embb", "--wait")
    vim.delete_network(hotspot.id)


def test_a_ue_by_radio_and_a_device_are_in_the_same_two_slices(
    joined: Joined, tmp_path: Path
) -> None:
    services = {slice: Service(joined.lab, f"{slice}.access") for slice in MARKERS}
    ue = joined.ue

    def answered(slice: str) -> bool:
        words = ("ping", "-n", "-q", "-c", "1", "-W", "2", "-I", RADIO[slice])
        marked = ("-p", RADIO_MARKERS[slice].hex(), "-s", "64")
        return ue.run(*words, *marked, SERVER).returncode == 0

    wires = {f"n6 of {slice}": joined.network(slice, "n6") for slice in MARKERS}
    wires |= {"n3": joined.network("embb", "n3"), "hotspot": joined.hotspot.id}
    captures = {name: Capture(tmp_path / f"{name}.pcap") for name in wires}
    with ExitStack() as stack:
        servers = {
            slice: stack.enter_context(plain(service, (wires[f"n6 of {slice}"], SERVER)))
            for slice, service in services.items()
        }
        address = (joined.hotspot.id, "192.168.60.9")
        device = stack.enter_context(plain(services["embb"], address))
        both = Slices(services, servers, device)
        for name, wire in wires.items():
            stack.enter_context(joined.vim.capture(wire, captures[name].path))
        for slice in MARKERS:
            both.enrol(slice, f"phone-{slice}")
            assert both.pings(slice), slice
            wait(lambda slice=slice: answered(slice), f"the UE reaches {slice}", LONG)
    for slice in MARKERS:
        wire = captures[f"n6 of {slice}"]
        for markers in (MARKERS, RADIO_MARKERS):
            assert {other for other, one in markers.items() if wire.holds(one)} == {slice}
        # The UPF and the access VNF stand for UE and device, and nobody else is there.
        ends = {"upf": N6, "access": "10.254.2.250"}
        assert all(wire.count(f"icmp and src host {one}") >= 1 for one in ends.values())
        known = " or ".join(f"host {one}" for one in ends.values())
        others = f"icmp and not (host {SERVER} and ({known}))"
        assert wire.count(others) == 0, wire.sample(others)
    n3 = wireguard_only(REFERENCE_POINTS["n3"].listen_port)
    for name, allowed in (("n3", n3), ("hotspot", f"udp port {PORT}")):
        wire = captures[name]
        assert wire.count(allowed) >= 4, name
        beside = f"not {NEIGHBOURS} and not ({allowed}) and not udp port 67"
        assert wire.count(beside) == 0, wire.sample(beside)
        assert not any(wire.holds(one) for one in (*MARKERS.values(), *RADIO_MARKERS.values()))


def test_each_session_is_its_slices_own(joined: Joined) -> None:
    """SMF and UPF are the slice's, and the address is of its pool."""
    joined.make("mmtc")
    ue = joined.ue
    ue.action("establish-session", slice=SNSSAIS["mmtc"], dnn=DNNS["mmtc"])
    for slice in RADIO:
        wait(lambda slice=slice: joined.pings(slice, 1) == 1, f"{slice} reaches N6", LONG)
    sessions = ue.action("show-sessions")["sessions"]
    for (slice, pool), session in zip(POOLS.items(), sessions, strict=True):
        assert (session["slice"], session["address"][: len(pool)]) == (SNSSAIS[slice], pool)
        service = Service(joined.lab, f"{slice}.slice")
        assert list(service["smf"].action("show-connected")["sessions"]) == [SNSSAIS[slice]]
        service["upf"].out("systemctl", "stop", "upf.service")
        passing = {one: 0 if one == slice else 3 for one in RADIO}
        assert {one: joined.pings(one) for one in RADIO} == passing
        service["upf"].out("systemctl", "start", "upf.service")
        wait(lambda slice=slice: joined.pings(slice, 1) == 1, f"{slice} is back", LONG)


def test_slices_leave_while_the_ue_has_traffic_in_the_first(joined: Joined) -> None:
    ue = joined.ue
    for slice in DNNS:
        leaving = InBackground(lambda slice=slice: joined.lab.done("nsi-delete", slice, "--wait"))
        while not leaving.ended:
            assert joined.pings("embb", 10) >= 9
        leaving.result()
        joined.joiner.drop(slice)
        ue.action("release-session", slice=SNSSAIS[slice])
        wait(ue.ready, "the UE is ready without a session", LONG)
    amf = Service(joined.lab, "embb.shared")["amf"]
    function = amf.action("show-status")["network-function"]  # Told with all links only.
    assert function["added"]["sbi"] == ["embb-slice-smf"]
    assert joined.pings("embb") == 3
