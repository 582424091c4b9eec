"""The main job: an EPC whose five links secure themselves, measured with and without the tunnels.

It does nothing an operator could not do: every step is an `osm-lab` verb in a process of its own,
and is shown. Results go to a table and, complete, to a JSON file.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

SERVICE = "epc_ns"
PARAMETERS = "epc"
VNFS = ("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf")


@dataclass(frozen=True)
class Link:
    """A link of the EPC: its name, the VNF that measures it, the far end, its tunnel's port."""

    name: str
    title: str
    near: str
    far: str
    port: int


LINKS = (
    Link("s6a", "S6a", "mme", "hss", 51821),
    Link("s11", "S11", "mme", "spgwc", 51822),
    Link("sxab", "SXab", "spgwu", "spgwc", 51824),
    Link("s1c", "S1-C", "enb", "mme", 51823),
    Link("s1u", "S1-U", "enb", "spgwu", 51825),
)


class Demo:
    """One run, in a home directory of its own."""

    def __init__(self, home: Path, dist: Path, console: Console) -> None:
        self.home = home
        self.dist = dist
        self.console = console

    def verb(self, *words: str, show: bool = True) -> str:
        """Run a verb of osm-lab with its progress on the terminal; return what it printed."""
        if show:
            self.console.print(f"[bold]$ osm-lab {shlex.join(words)}[/bold]", highlight=False)
        done = subprocess.run(
            [sys.executable, "-m", "lab.cli", "--home", str(self.home), "--json", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if show else subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = (done.stderr or "").strip().splitlines()
            reason = lines[-1] if lines else "see above"
            raise click.ClickException(f"osm-lab {words[0]} failed: {reason}")
        return done.stdout

    def action(self, vnf: str, primitive: str, **params: object) -> dict[str, Any]:
        """Run a day-2 primitive and return its result."""
        text = json.dumps(params)
        words = ("ns-action", "epc", "--vnf_name", vnf, "--action_name", primitive)
        operation = json.loads(self.verb(*words, "--params", text, "--wait", show=False))
        result: dict[str, Any] = json.loads(operation["detailed-status"]["output"])
        return result

    def deploy(self) -> float:
        """Onboard and instantiate; return seconds from VMs ready to the last charm idle."""
        self.verb("vim-create", "--name", "lab")
        for name in VNFS:
            self.verb("vnfpkg-create", str(self.dist / f"{name}.tar.gz"))
        self.verb("nspkg-create", str(self.dist / f"{SERVICE}.tar.gz"))
        parameters = str(self.dist / "params" / f"{PARAMETERS}.yaml")
        names = ("--ns_name", "epc", "--nsd_name", SERVICE, "--vim_account", "lab")
        self.verb("ns-create", *names, "--config_file", parameters, "--wait")
        record = json.loads(self.verb("ns-show", "epc", show=False))
        return float(record["lab"]["seconds-vms-ready-to-charms-idle"])

    @contextmanager
    def capture(self, link: Link, file: Path) -> Iterator[None]:
        """Capture a link's underlay while the block runs."""
        words = [sys.executable, "-m", "lab.cli", "--home", str(self.home)]
        process = subprocess.Popen(
            [*words, "lab", "capture", "epc", link.name, str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if process.stdout is not None:
            process.stdout.readline()  # "capturing ..."
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=20)

    def measure(self, link: Link, seconds: int) -> dict[str, Any]:
        """Measure a link through the tunnel and beside it, and look at what is on the wire."""
        result: dict[str, Any] = {"link": link.name, "near": link.near, "far": link.far}
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, f"{link.name}.pcap")
            with self.capture(link, file):
                result["wire-latency"] = self.action(
                    link.near, "measure-latency", link=link.name, count=50, **{"interval-ms": 20}
                )
            result["wire"] = wire(file, link.port)
        for path in ("tunnel", "underlay"):
            result[f"{path}-throughput"] = self.action(
                link.near, "measure-throughput", link=link.name, path=path, duration=seconds
            )
            result[f"{path}-latency"] = self.action(
                link.near,
                "measure-latency",
                link=link.name,
                path=path,
                count=50,
                **{"interval-ms": 20},
            )
        return result


def wire(file: Path, port: int) -> dict[str, int]:
    """Count the frames of a capture by what they are, with tcpdump's own filters (pcap-filter(7)).

    WireGuard messages start with their type, 1 to 4, and three zero bytes (WireGuard paper,
    section 5.4).
    """
    neighbours = "(arp or icmp6)"
    wireguard = f"(udp port {port} and udp[8:4] & 0xf8ffffff = 0)"
    filters = {
        "wireguard": wireguard,
        "arp-nd": neighbours,
        "other": f"not {neighbours} and not {wireguard}",
    }
    counts = {}
    for name, expression in filters.items():
        done = subprocess.run(
            ["tcpdump", "-nn", "-r", str(file), expression],
            capture_output=True,
            text=True,
            check=True,
        )
        counts[name] = len(done.stdout.splitlines())
    return counts


def table(results: list[dict[str, Any]], title: str) -> Table:
    """Return the readable result."""
    view = Table(title=title, caption="rates in Gbit/s, round trip times in ms")
    view.add_column("link", no_wrap=True)
    view.add_column("path", no_wrap=True)
    for heading in ("tunnel", "no VPN", "ratio", "RTT", "no VPN"):
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("wire: WG/ARP/other", justify="right", no_wrap=True)
    for link, result in zip(LINKS, results, strict=True):
        tunnel, plain = result["tunnel-throughput"]["mbps"], result["underlay-throughput"]["mbps"]
        counts = result["wire"]
        view.add_row(
            link.title,
            f"{link.near} > {link.far}",
            f"{tunnel / 1e3:.2f}",
            f"{plain / 1e3:.2f}",
            f"{tunnel / plain:.2f}" if plain else "-",
            f"{result['tunnel-latency']['rtt-ms']['avg']:.2f}",
            f"{result['underlay-latency']['rtt-ms']['avg']:.2f}",
            f"{counts['wireguard']}/{counts['arp-nd']}/{counts['other']}",
        )
    return view


@click.command()
@click.option("--home", type=click.Path(path_type=Path), help="Lab directory; default a new one.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--seconds", default=3, show_default=True, help="Duration of each iperf3 run.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@click.option("--keep", is_flag=True, help="Leave the service running.")
def main(home: Path | None, dist: Path, seconds: int, out: Path, keep: bool) -> None:
    """Bring up the EPC from its packages and measure every link with and without its tunnel."""
    from lab.ending import clean_up_when_ended
    from lab.vim import probe

    clean_up_when_ended()
    console = Console()
    if not console.is_terminal:  # a log; do not cut the table to 80 columns
        console = Console(width=110)
    place = home or Path(tempfile.mkdtemp(prefix="osm-lab-"))
    demo = Demo(place, dist, console)
    dataplane = probe()
    started = time.time()
    try:
        settled = demo.deploy()
        results = []
        for link in LINKS:
            console.print(f"measuring {link.title} from {link.near} to {link.far} ...")
            results.append(demo.measure(link, seconds))
        secure = all(result["wire"]["other"] == 0 for result in results)
        console.print()
        console.print(table(results, f"EPC over {dataplane.backend} {dataplane.version}"))
        console.print(f"All five tunnels were up {settled:.1f} s after the VMs were ready.")
        verdict = "only WireGuard, ARP and ND" if secure else "[red]clear traffic, see other[/red]"
        console.print(f"On the wire, while every tunnel carried pings: {verdict}.")
        out.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        report = out / f"demo-{stamp}.json"
        document = {
            "started": stamp,
            "dataplane": {
                "backend": dataplane.backend,
                "version": dataplane.version,
                "cipher": "ChaCha20-Poly1305",
            },
            "kernel": platform.release(),
            "iperf3-seconds": seconds,
            "settle-seconds": settled,
            "links": results,
        }
        report.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        console.print(f"Everything measured: {report}")
        if not secure:
            raise click.ClickException("clear traffic was seen on an underlay")
    finally:
        if keep:
            console.print(f"The service runs on: osm-lab --home {place} ns-list")
        else:
            console.print("cleaning up ...")
            demo.verb("lab", "clean", show=False)
            if home is None and not any(place.iterdir()):
                place.rmdir()


if __name__ == "__main__":
    main()
