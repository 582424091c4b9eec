"""An EPC of processes in network namespaces, by the files that the charms write, without VPN."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from oai import provision
from support.functions import rendered
from support.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
PREFIXES = ("/openair-hss/etc", "/magma-mme/etc")

#: Reference points: two ends, each a namespace, an interface and an address.
LINKS = {
    "s6a": (("hss", "wg-s6a", "172.16.6.129"), ("mme", "wg-s6a", "172.16.6.2")),
    "s11": (("mme", "wg-s11", "172.16.1.102"), ("spgwc", "wg-s11", "172.16.1.104")),
    "sxab": (("spgwc", "wg-sxab", "172.30.55.101"), ("spgwu", "wg-sxab", "172.30.55.102")),
    "s1c": (("mme", "wg-s1c", "192.168.247.102"), ("enb", "wg-s1c", "192.168.247.10")),
    "s1u": (("spgwu", "wg-s1u", "192.168.248.159"), ("enb", "wg-s1u", "192.168.248.10")),
    "uu": (("enb", "uu", "192.168.77.10"), ("ue", "uu", "192.168.77.20")),
    "sgi": (("spgwu", "ens6", "10.132.12.201"), ("pdn", "sgi", "10.132.12.1")),
}
NAMES = ("hss", "mme", "spgwc", "spgwu", "enb", "ue", "pdn")
PROGRAMS = {
    "cassandra": ("hss", []),
    "hss": ("hss", ["-j", "hss_rel14.json"]),
    "mme": ("mme", ["-c", "mme.conf"]),
    "spgwc": ("spgwc", ["-c", "spgw_c.json", "-o"]),
    "spgwu": ("spgwu", ["-c", "spgw_u.conf", "-o"]),
    "enb": ("enb", ["-O", "enb.conf", "--rfsim"]),
    "ue": ("ue", ["--rfsim"]),
}


class Town:
    links = LINKS
    names: Sequence[str] = NAMES
    programs = PROGRAMS
    #: Network functions whose rendered files there are.
    rendered: Sequence[str] = ("hss", "mme", "spgwc", "spgwu", "enb", "ue")
    #: The program that is the database, and the namespace of the user plane.
    database, user_plane = "cassandra", "spgwu"
    #: The UE's namespace, its device and the first octets of its addresses.
    terminal, device, pool = "ue", "oaitun_ue1", "10.250."

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tag = f"epc{os.getpid()}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def netns(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def run(self, name: str, *words: str, check: bool = True, text: str = "") -> str:
        argv = ["ip", "netns", "exec", self.netns(name), *words]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def build(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "add", self.netns(name)], check=True)
            self.run(name, "ip", "link", "set", "lo", "up")
        for link, ((one, left, a), (two, right, b)) in self.links.items():
            ends = [f"{self.tag}{link}{side}"[-15:] for side in "ab"]
            subprocess.run(
                ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True
            )
            for end, name, interface, address in (
                (ends[0], one, left, a),
                (ends[1], two, right, b),
            ):
                netns = self.netns(name)
                subprocess.run(
                    ["ip", "link", "set", end, "netns", netns, "name", interface], check=True
                )
                self.run(name, "ip", "address", "add", f"{address}/24", "dev", interface)
                self.run(name, "ip", "link", "set", interface, "up")
        self.write()
        self.run(self.user_plane, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.run(self.user_plane, "nft", "-f", str(self.directory / f"{self.user_plane}.nft"))
        self.copy_settings()

    def copy_settings(self) -> None:
        """Write files that an image takes under another name."""
        usim = self.directory / "ue_usim.conf"
        (self.directory / ".ue_usim.conf").write_text(usim.read_text(encoding="utf-8"))

    def write(self) -> None:
        for name in self.rendered:
            for path, text in rendered(name).items():
                if path.startswith("/etc/osm-vpnaas/nf/"):
                    for prefix in PREFIXES:
                        text = text.replace(prefix, str(self.directory))
                    file = Path(path).name.replace("rules.nft", f"{name}.nft")
                    (self.directory / file).write_text(text, encoding="utf-8")

    def start(self, name: str, **environment: str) -> None:
        netns, words = self.programs[name]
        env = {**os.environ, "SIMULATORS_DATA": str(self.directory), "PYTHONPATH": str(ROOT)}
        file = self.directory / f"{name}.env"
        lines = file.read_text(encoding="utf-8").split() if file.exists() else []
        env |= dict(line.split("=", 1) for line in lines) | environment
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self.netns(netns)),
                    *(sys.executable, "-m", "simulators.programs", name, *words),
                ],
                cwd=self.directory,
                env=env,
                stdout=log,
                stderr=log,
            )

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(encoding="utf-8")

    def until(self, what: str, true: Callable[[], object], seconds: float = PATIENCE) -> None:
        def told() -> str:
            return "\n".join([what, *(f"--- {n}\n{self.log(n)[-1500:]}" for n in self.processes)])

        wait_until(true, told, seconds)

    def provision(self, subscribers: int = 20) -> None:
        document = json.loads((self.directory / "provision.json").read_text(encoding="utf-8"))
        document["subscribers"] = subscribers
        text = "\n".join(provision.statements(document))

        def filled() -> bool:
            argv = [sys.executable, "-m", "simulators.programs", "cqlsh", "127.0.0.1"]
            done = subprocess.run(
                ["ip", "netns", "exec", self.netns("hss"), *argv],
                input=text.encode(),
                capture_output=True,
                check=False,
                cwd=ROOT,
            )
            return done.returncode == 0

        self.until("Cassandra answers", filled)

    def bring_up(self) -> None:
        self.start(self.database)
        self.provision()
        for name in self.programs:
            if name != self.database:
                self.start(name)

    def attached(self) -> bool:
        words = ["ip", "-br", "address", "show", "dev", self.device]
        shown = self.run(self.terminal, *words, check=False)
        return self.pool in shown

    def ping(self, server: str, count: int = 3) -> bool:
        words = ["ping", "-c", str(count), "-i", "0.2", "-W", "2", "-I", self.device]
        return ", 0% packet loss" in self.run(self.terminal, *words, server, check=False)

    def address(self) -> str:
        """Return the UE's address."""
        (shown,) = json.loads(self.run(self.terminal, "ip", "-j", "-4", "address", "show", "dev",
                                       self.device))  # fmt: skip
        return str(shown["addr_info"][0]["local"])

    def transfer(self, server: str, *words: str) -> None:
        """Send data by TCP from the UE's address to a server in the first packet data network.

        A busy machine may pass little in a second, so longer transfers may follow.
        """
        assert any(self._passed(server, seconds, *words) > 100_000 for seconds in ("1", "5", "20"))

    def _passed(self, server: str, seconds: str, *words: str) -> int:
        argv = ["ip", "netns", "exec", self.netns("pdn"), "iperf3", "-s", "-1"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
            try:
                self.until("iperf3 listens", lambda: ":5201" in self.run("pdn", "ss", "-Hltn"))
                client = ["iperf3", "-J", "-c", server, "-B", self.address(), "-t", seconds]
                report = json.loads(self.run(self.terminal, *client, *words))
                running.wait(120)
            finally:
                running.kill()
        return int(report["end"]["sum_received"]["bytes"])

    def close(self) -> None:
        for name in list(self.processes):
            self.stop(name)
        for name in self.names:
            subprocess.run(
                ["ip", "netns", "delete", self.netns(name)], capture_output=True, check=False
            )

    @contextlib.contextmanager
    def captured(self, *points: tuple[str, str]) -> Iterator[None]:
        """Write what passes interfaces (namespace, name) into files named by these."""
        captures = [
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", self.netns(name), "tcpdump", "-U", "-s", "1600"),
                    "--immediate-mode",
                    *("-i", interface, "-w", str(self.directory / f"{interface}.pcap")),
                ],
                stderr=subprocess.DEVNULL,
            )
            for name, interface in points
        ]
        try:
            files = self.directory.glob
            self.until("captures", lambda: len(list(files("*.pcap"))) >= len(captures))
            yield
        finally:
            for capture in captures:
                capture.terminate()
                capture.wait()


@contextlib.contextmanager
def town(directory: Path, kind: type[Town] = Town) -> Iterator[Town]:
    made = kind(directory)
    try:
        made.build()
        yield made
    finally:
        made.close()
