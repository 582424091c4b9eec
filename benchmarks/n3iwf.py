"""`./run bench n3iwf`: throughput of the N3IWF by packet size, with IPsec on NWu and without.

`5gc_n3iwf_ns` runs in its own lab. Its UE sends and receives datagrams of each size through a PDU
session. The main figure is the rate that the N3IWF forwards per second of its own processor time,
because other programs share the machine. Without IPsec, UE and N3IWF run the same programs, with
the same keys and IKE messages. But then an ESP packet is SPI, sequence number and the inner packet:
no cipher, no padding, no integrity check, no replay check.

At the start of each round the UE registers several times, and the AMF's `measure-n2` measures the
duration of registrations and PDU session establishments.
"""

import json
import statistics
from typing import Any

import click

from benchmarks.bench import Bench, Run, dataplane, in_turn
from benchmarks.gateway.summary import published_sizes
from benchmarks.report import Report, command
from operate.background import InBackground
from simulators.wifi import esp
from testbed.netns import wait

PACKAGES = ("amf_vnf", "smf_vnf", "upf_vnf", "n3iwf_vnf", "n3ue_vnf", "5gc_n3iwf_ns")
NS, SLICE = "wifi", "1-000001"
MODES = ("ipsec", "clear")
DIRECTIONS = ("up", "down")
#: Sizes of the UE's IPv4 packets in bytes; the last one is the MTU of its PDU session.
SIZES = (128, 512, 1024, 1376)
LAUNCH = "/usr/lib/osm-lab/launch"
CIPHER = f"AES-CBC-256 with HMAC-SHA2-256-{8 * esp.ICV}"
_CLEAR = """
from simulators.wifi import esp
def seal(self, packet):
    self.packets += 1
    return esp._header.pack(self.spi, self.packets) + packet
def opened(self, octets):
    self.packets += 1
    return octets[8:]
esp.Outbound.seal, esp.Inbound.open = seal, opened
"""
#: Measured procedures. The messages of a registration are in EAP-5G, before there is an IPsec SA.
#: Those of a PDU session are in the signalling SA (TS 23.502 clauses 4.12.2 and 4.12.5).
PROCEDURES = {"registration": "registration", "session": "PDU session establishment"}
_IPV4_UDP = 28
Document = dict[str, Any]
#: Repetitions in each mode, packets per second, and seconds for each size and direction.
ROUNDS, RATE, SECONDS = 3, 1000, 4


class Access:
    """The UE, the N3IWF and the UPF, and the path between them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.ue: Run = bench.console_of(NS, "ue")
        self.n3iwf: Run = bench.console_of(NS, "n3iwf")
        upf = bench.console_of(NS, "upf")
        (n6,) = json.loads(upf("ip", "-j", "-4", "address", "show", "dev", "ens6"))
        self.server = n6["addr_info"][0]["local"]
        # At iperf3's own port, as the UPF lets UEs reach no other one of its VDU.
        # Without --bind it would answer a datagram from the address of the UPF's device.
        upf("iperf3", "--server", "--daemon", "--bind", self.server)
        sessions = bench.action(NS, "ue", "show-sessions")["sessions"]
        self.device = next(one["interface"] for one in sessions if one["slice"] == SLICE)
        #: Consoles of both ends of NWu, by the names of their programs.
        self.ends = {"n3iwf": self.n3iwf, "n3iwue": self.ue}
        self._launch = {name: run("cat", LAUNCH) for name, run in self.ends.items()}

    def take(self, mode: str) -> None:
        """Restart both ends of NWu, with IPsec or without, and wait for the PDU session."""
        for name, run in self.ends.items():
            first, second, rest = self._launch[name].partition("from simulators.")
            text = first + (_CLEAR if mode == "clear" else "") + second + rest
            run("sh", "-c", f"cat >{LAUNCH}", text=text)
        self.n3iwf("systemctl", "restart", "n3iwf")
        self._register(mode)

    def _register(self, mode: str) -> None:
        self.ue("systemctl", "restart", "n3iwue")
        wait(self._reaches, 300, f"{mode}: the UE has no PDU session", 1)

    def procedures(self, mode: str, count: int) -> dict[str, float]:
        """Return the mean time of each procedure in ms, over at least `count` registrations."""
        sessions = len(self.bench.action(NS, "ue", "show-sessions")["sessions"])
        limits = {"duration": 900, "count": count * sessions}
        meter = InBackground(lambda: self.bench.action(NS, "amf", "measure-n2", **limits))
        while not meter.ended:  # The primitive may miss the first registrations.
            self._register(mode)
        answer = meter.result()
        return {name: float(answer[name]["mean-ms"]) for name in PROCEDURES}

    def _reaches(self) -> bool:
        words = f"ping -n -q -c 1 -W 2 -I {self.device} {self.server} >/dev/null && echo y || :"
        return self.ue("sh", "-c", words).strip() == "y"

    def _spent(self) -> float:
        # The whole control group, because the unit's main process is the container engine.
        group = self.n3iwf("systemctl", "show", "-p", "ControlGroup", "--value", "n3iwf").strip()
        return int(self.n3iwf("cat", f"/sys/fs/cgroup{group}/cpu.stat").split()[1]) / 1e6

    def measure(self, size: int, direction: str) -> Document:
        """Send packets of a size; return the arrived rate and the N3IWF's time."""
        payload = size - _IPV4_UDP
        words = ("--client", self.server, "--bind-dev", self.device, "--udp")
        load = ("--length", str(payload), "--bitrate", str(8 * payload * RATE))
        way = ("--reverse",) if direction == "down" else ()
        before = self._spent()
        shown = self.ue("iperf3", *words, *load, *way, "--time", str(SECONDS), "--json")
        spent = self._spent() - before
        report = json.loads(shown)
        if "sum" not in report["end"]:
            raise click.ClickException(f"iperf3, {size} bytes: {report.get('error')}")
        total = report["end"]["sum"]
        arrived = total["packets"] - total["lost_packets"]
        if arrived <= 0:
            raise click.ClickException(f"no packet of {size} bytes arrived")
        return {
            "packets": arrived,
            "lost": total["lost_percent"] / 100,
            "cpu-s": spent,
            "us-a-packet": spent / arrived * 1e6,
            "mbps-a-core": 8 * size * arrived / spent / 1e6,
        }


def curve(samples: Document, mode: str, direction: str) -> dict[int, float]:
    """Return Mbit/s per core by packet size, as medians over the rounds."""
    return {
        size: statistics.median(one["mbps-a-core"] for one in samples[mode][direction][str(size)])
        for size in SIZES
    }


def show(report: Report) -> None:
    name, rates = published_sizes()
    last = SIZES[-1]
    # With one tunnel; the largest published size stands for the largest one here.
    known = {size: rates[1400 if size == last else size][0] for size in SIZES}
    for direction in DIRECTIONS:
        ipsec, clear = (curve(report.document["samples"], mode, direction) for mode in MODES)
        rows = [
            (
                f"{size} (1400)" if size == last else str(size),
                f"{ipsec[size]:.1f}",
                f"{clear[size]:.1f}",
                f"{ipsec[size] / clear[size]:.2f}",
                f"{ipsec[size] / ipsec[1024]:.2f}",
                f"{known[size] / known[1024]:.2f}",
            )
            for size in SIZES
        ]
        headings = ("bytes", "IPsec", "clear", "ratio", "to 1024", name)
        report.table(f"N3IWF, {direction}link, Mbit/s for a core", headings, rows)
    times = []
    for name, title in PROCEDURES.items():
        medians = {
            mode: statistics.median(row[name] for row in report.document["procedures"][mode])
            for mode in MODES
        }
        ratio = medians["ipsec"] / medians["clear"]
        times.append({"procedure": title, "ratio": ratio, **medians})
    report.results("At the AMF, ms, medians of the rounds", times)


@command("n3iwf", file="bench-n3iwf")
@click.option("--registrations", default=5, help="Number in each round.")
def main(report: Report, registrations: int) -> None:
    """Measure the N3IWF by packet size, in turn with IPsec on NWu and without."""
    samples: dict[str, Any] = {
        mode: {way: {str(size): [] for size in SIZES} for way in DIRECTIONS} for mode in MODES
    }
    procedures: dict[str, Any] = {mode: [] for mode in MODES}
    report.document |= {
        "network-functions": "simulators of the lab",
        "nwu": {"backend": "ESP of the simulators, in user space", "cipher": CIPHER},
        "n3": dataplane()["dataplane"],
        "rate": RATE,
        "samples": samples,
        "procedures": procedures,
    }
    with Bench() as bench:
        bench.onboard(*PACKAGES)
        bench.start(NS, "5gc_n3iwf_ns", "5gc_n3iwf", "--wait")
        ready = lambda: bench.action(NS, "ue", "health")["state"] == "ready"  # noqa: E731
        wait(ready, 900, "the UE has no PDU session")
        path = Access(bench)
        for number in range(ROUNDS):
            for mode in in_turn(MODES, number):
                path.take(mode)
                procedures[mode].append(path.procedures(mode, registrations))
                for size in SIZES:
                    for way in DIRECTIONS:
                        samples[mode][way][str(size)].append(path.measure(size, way))
                report.say(f"round {number + 1}/{ROUNDS}: {mode}")
    show(report)
