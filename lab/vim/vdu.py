"""The kinds of VDU that an account may have, behind one interface.

An account has one kind, chosen when it is made. The rest of the lab is the same for both kinds.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import psutil

from lab.errors import VimError
from lab.vim.model import Network, Server, ServerSpec
from lab.vim.store import Config, Image, ServerRecord

Tell = Callable[[str], None]

MOST_READ = 1 << 16  # Bytes of a file of a VDU that the lab reads at most.


def lost(path: Path) -> str:
    """Return why a VDU does not run that nobody stopped; it wrote a file when it was started."""
    again = path.exists() and path.stat().st_mtime < psutil.boot_time()
    return "the machine was restarted" if again else "the process that runs it was killed"


@dataclass(frozen=True)
class Vdu(Protocol):
    """One server on the machine: its disk, its processes, its state as observed.

    Each kind has a class derived from this one, which has what is common to all kinds.
    """

    directory: Path  # its own, with all its files.
    group: Path  # its control group.
    fabric: str  # network namespace with the bridges of its VIM.
    home: Path  # the lab's directory.
    registry: str = ""  # host and port from which it pulls images of containers, or empty.
    # Whether it gets network data. Without it, and without DHCP, NICs have no address.
    metadata: bool = True
    poll: ClassVar[float]  # seconds between two checks while it boots.

    @classmethod
    def prepare(cls, config: Config, tell: Tell) -> None:
        """Check that the machine can run them, and make the images they start from.

        ``tell`` is called with a line for each long step.
        """

    @classmethod
    def check_server(cls, spec: ServerSpec, settings: Image, old: Path | None = None) -> None:
        """Refuse a server that cannot run as this kind on this machine.

        ``old`` is the directory of the server whose place it takes.
        """

    @property
    def console_log(self) -> Path:
        return self.directory / "console.log"

    def make(
        self, spec: ServerSpec, settings: Image, server: Server, networks: Mapping[str, Network]
    ) -> None:
        """Make its disk and write the configuration for its start; it does not run yet."""

    def power_on(self, record: ServerRecord) -> list[str]:
        """Start it; return, while it boots, the limits of its flavour that are not enforced."""

    def power_off(self, timeout: float | None = None) -> None:
        """Shut it down, and cut its power after ``timeout`` seconds (0: at once)."""

    def kill(self) -> None:
        """Cut its power: end every process of it."""

    def reboot(self) -> bool:
        """Restart it; False if it is down or did not shut down: then the caller starts it."""

    def remove(self) -> None:
        """End it and remove what it has outside its directory, except devices."""
        self.kill()

    def on(self) -> bool:
        """True while it runs."""

    def status(self) -> tuple[str, str]:
        """Status as OpenStack names it, and the fault when it is ERROR."""

    def cloud_init_result(self) -> list[str] | None:
        """Errors of cloud-init's four stages in this boot; None while it is not done."""

    def listens(self, port: int) -> bool:
        """True when a TCP server of it listens on the port."""

    def log_tail(self, path: str) -> str:
        """The last lines of a log inside, or empty."""
        # Read inside: a link there must not lead to a file of the machine.
        try:
            return self.console(["tail", "-n", "200", path], None, 10.0).stdout
        except VimError:
            return ""

    def console(
        self, argv: Sequence[str], stdin: str | bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside as root."""

    def terminal(self) -> int:
        """Run a shell inside as root, on this process's terminal; return its exit code."""
