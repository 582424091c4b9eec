"""A charon in a network namespace, driven over vici."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import vici
from vpnaas.extras import gateway_tuning

from benchmarks.swan.netns import Namespaces
from lab.vim.dataplane import TUN, kernel_has_esp

PLUGINS = (
    "random nonce aesni openssl kdf hmac sha1 sha2 curve25519 kernel-libipsec kernel-netlink pem "
    "pkcs1 pkcs8 pubkey x509 revocation constraints socket-default vici updown counters"
)
START_SECONDS = 30


def missing() -> str:
    """Return what this machine lacks for a charon, "" if nothing."""
    absent = [t for t in ("charon-systemd", "swanctl") if not shutil.which(t, path=_path())]
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
        *,
        name: str = "",
        plugins: str = "",
        log: int = 1,
    ) -> None:
        self.spaces, self.namespace = spaces, namespace
        self.folder = folder / (name or namespace)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "vici"
        self.log = self.folder / "log"
        chosen = plugins or PLUGINS
        if backend() == "kernel-netlink":
            chosen = chosen.replace("kernel-libipsec ", "")
        self.settings: dict[str, gateway_tuning.Value] = {
            "load": chosen,
            "port": 500,
            "port_nat_t": 4500,
            "plugins.vici.socket": f"unix://{self.socket}",
            "journal.default": -1,
            f"filelog.{self.namespace}.path": str(self.log),
            f"filelog.{self.namespace}.default": log,
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

    def start(self) -> Charon:
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
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                self.vici.version()
                return self
            except OSError:
                self._session = None
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise RuntimeError(f"charon in {self.namespace} did not start, see {self.folder}")

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

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the daemon with a signal, and wait."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        self._session = None

    def credentials(self, authority: str, key: str = "", certificate: str = "") -> None:
        self.vici.load_cert({"type": "X509", "flag": "CA", "data": authority})
        if certificate:
            self.vici.load_cert({"type": "X509", "flag": "NONE", "data": certificate})
        if key:
            self.vici.load_key({"type": "any", "data": key})

    def established(self) -> int:
        """Return how many IKE_SAs are past half-open."""
        counts = self.vici.stats()["ikesas"]
        return int(counts["total"]) - int(counts["half-open"])

    def wait_for(self, count: int, seconds: float) -> float:
        """Wait until `count` IKE_SAs are up; return the duration in seconds.

        Raises:
            RuntimeError: They are not up in time.
        """
        started = time.monotonic()
        while (up := self.established()) < count:
            if time.monotonic() - started > seconds:
                raise RuntimeError(f"{up} of {count} IKE_SAs are up after {seconds:.0f} s")
            time.sleep(0.02)
        return time.monotonic() - started

    def sas(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (connection, IKE_SA) of all IKE_SAs, in the form of `list-sas`."""
        return [(name, sa) for item in self.connect().list_sas() for name, sa in item.items()]

    def counters(self) -> dict[str, int]:
        """Return the IKE message counters of the daemon."""
        answer = self.vici.get_counters()
        return {name: int(value) for name, value in answer["counters"][""].items()}

    def rss_kb(self) -> int:
        """Return the daemon's resident memory in kB."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise RuntimeError("no VmRSS")

    def cpu_seconds(self) -> float:
        """Return the daemon's processor time so far, in seconds."""
        # Nanoseconds by thread, because ticks of /proc/PID/stat are too coarse for 32 tunnels.
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
