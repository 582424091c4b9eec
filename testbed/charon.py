"""A charon in a network namespace, driven over vici."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import vici
from vpnaas.features.gateway import gateway_tuning

from lab.certificates import Authority
from lab.vim.dataplane import TUN, kernel_has_esp
from lab.vim.strongswan import plugins
from testbed.netns import Namespaces, end, run_time, wait

START_SECONDS = 30
IKE = "aes256gcm16-prfsha384-curve25519"
ESP = "aes256gcm16"
GATEWAY_ID = "gw.secgw.example"


def connection(
    near: str, own: tuple[str, str], remote: dict[str, Any], child: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a connection for vici, with certificates and the CHILD_SA s1.

    Args:
        near: Own outer address.
        own: Own identity and certificate.
        remote: What is known of the other end.
        child: Settings of the CHILD_SA.
        more: Settings of the connection.
    """
    return {
        "version": "2",
        "local_addrs": [near],
        "proposals": [IKE],
        # With MOBIKE, a charon with many addresses would send all of them in each IKE_AUTH.
        "mobike": "no",
        "local": {"auth": "pubkey", "id": own[0], "certs": [own[1]]},
        "remote": {"auth": "pubkey", **remote},
        "children": {"s1": {"esp_proposals": [ESP], **child}},
        **more,
    }


def missing(*tools: str) -> str:
    """Return what this machine lacks for a charon and some tools, "" if nothing."""
    needed = ("charon-systemd", "swanctl", *tools)
    absent = [tool for tool in needed if not shutil.which(tool, path=_path())]
    if absent:
        return f"needs {', '.join(absent)}"
    return "" if kernel_has_esp() or TUN.exists() else "needs ESP in the kernel or /dev/net/tun"


def backend() -> str:
    """Return the charon plugin that carries ESP on this machine, found by a test."""
    return "kernel-netlink" if kernel_has_esp() else "kernel-libipsec"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"


class Charon:
    """One IKE daemon in a namespace.

    Attributes:
        settings: Settings of its section of strongswan.conf, with dotted names.
        folder: Folder of its configuration, vici socket and log.
    """

    def __init__(
        self,
        spaces: Namespaces,
        namespace: str,
        folder: Path,
        settings: Mapping[str, gateway_tuning.Value] | None = None,
    ) -> None:
        self.spaces, self.namespace = spaces, namespace
        self.folder = folder / namespace
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "vici"
        self.log = self.folder / "log"
        self.settings: dict[str, gateway_tuning.Value] = {
            "load": plugins(kernel_has_esp()),
            "port": 500,
            "port_nat_t": 4500,
            "plugins.vici.socket": f"unix://{self.socket}",
            "journal.default": -1,
            f"filelog.{self.namespace}.path": str(self.log),
            f"filelog.{self.namespace}.default": 1,
            f"filelog.{self.namespace}.time_format": "%H:%M:%S",
            f"filelog.{self.namespace}.flush_line": "yes",
            **(settings or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._session: Any = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> "Charon":
        conf = self.folder / "strongswan.conf"
        conf.write_text(gateway_tuning.render(self.settings, "charon-systemd"), encoding="utf-8")
        self.socket.unlink(missing_ok=True)
        self._session = None
        environment = {**os.environ, "STRONGSWAN_CONF": str(conf), "PATH": _path()}
        # `ip netns exec` becomes charon (execve), so the pid is charon's.
        self.process = subprocess.Popen(
            self.spaces.argv(self.namespace, "charon-systemd"),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "stderr").open("ab"),
        )
        failure = f"charon in {self.namespace} did not start, see {self.folder}"
        wait(self._answers, START_SECONDS, failure)
        return self

    def _answers(self) -> bool:
        try:
            self.vici.version()
        except OSError:
            self._session = None
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"charon in {self.namespace} ended, see {self.folder}") from None
            return False
        return True

    @property
    def vici(self) -> Any:
        """A vici session that stays open."""
        if self._session is None:
            self._session = self.connect()
        return self._session

    def connect(self) -> Any:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(120)
        connection.connect(str(self.socket))
        return vici.Session(connection)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            end([self.process], number)
        self.process = None
        self._session = None

    def trust(self, authority: Authority) -> None:
        self.vici.load_cert({"type": "X509", "flag": "CA", "data": authority.certificate})

    def load_key(self, key: str) -> None:
        self.vici.load_key({"type": "any", "data": key})

    def identify(self, authority: Authority, identity: str) -> str:
        """Trust an authority, and load a new certificate of it and its key; return the former."""
        self.trust(authority)
        certificate, key = authority.issue(identity, [identity])
        self.vici.load_cert({"type": "X509", "flag": "NONE", "data": certificate})
        self.load_key(key)
        return certificate

    def established(self) -> int:
        """Return how many IKE_SAs are past half-open."""
        counts = self.vici.stats()["ikesas"]
        return int(counts["total"]) - int(counts["half-open"])

    def wait_for(self, count: int, seconds: float) -> float:
        """Wait until `count` IKE_SAs are up; return the duration in seconds."""
        return wait(
            lambda: self.established() >= count,
            seconds,
            lambda: f"{self.established()} of {count} IKE_SAs are up",
            0.02,
        )

    def initiate(self, names: Iterable[str], child: str = "s1", timeout: str = "-1") -> None:
        """Initiate connections; with a timeout in ms wait for the outcome of each."""
        session = self.connect()
        for name in names:
            for _ in session.initiate({"child": child, "ike": name, "timeout": timeout}):
                pass

    def sas(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (connection, IKE_SA) of all IKE_SAs, in the form of `list-sas`."""
        return [(name, sa) for item in self.connect().list_sas() for name, sa in item.items()]

    def children(self) -> list[dict[str, Any]]:
        """Return the CHILD_SAs of all IKE_SAs, in the form of `list-sas`."""
        return [child for _, sa in self.sas() for child in sa["child-sas"].values()]

    def counters(self) -> dict[str, int]:
        answer = self.vici.get_counters()
        return {name: int(value) for name, value in answer["counters"][""].items()}

    def rss_kb(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss) >> 10

    def cpu_seconds(self) -> float:
        return run_time(Path(f"/proc/{self.pid}/task").iterdir())
