"""The kinds of VDU that an account may have, behind one interface.

An account has one kind, chosen when it is made; all else of the lab is the same for both.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.vim.errors import VimError
from lab.vim.model import Network, Server, ServerSpec
from lab.vim.store import Config, Image, ServerRecord

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Where a server is on the machine.

    Attributes:
        directory: its own, with all its files.
        group: its control group.
        fabric: network namespace with the bridges of its VIM.
        home: the lab's directory.
        registry: host and port from which it pulls images of containers, or empty.
    """

    directory: Path
    group: Path
    fabric: str
    home: Path
    registry: str = ""


class Vdu(Protocol):
    """One server on the machine: its disk, its processes, its state as observed.

    A kind derives its own from this one, which has what all kinds do alike.
    """

    #: Seconds between two checks of a booting VDU.
    poll: float

    #: Its own directory, with all its files.
    directory: Path
    #: The one of them that the program that runs it writes what goes wrong to.
    log: str

    @property
    def console_log(self) -> Path:
        """What the system wrote on its console."""
        return self.directory / "console.log"

    def make(
        self, spec: ServerSpec, settings: Image, server: Server, networks: Mapping[str, Network]
    ) -> None:
        """Make its disk and write down what a start needs; it does not run yet.

        Raises:
            VimError: the disk cannot be made.
        """

    def power_on(self, record: ServerRecord) -> list[str]:
        """Start it, and return when it boots: the limits of its flavour that are not enforced.

        Raises:
            VimError: it does not start.
        """

    def power_off(self, timeout: float | None = None) -> None:
        """Shut it down, and cut its power after ``timeout`` seconds (0: at once)."""

    def kill(self) -> None:
        """Cut its power: end every process of it."""

    def reboot(self) -> bool:
        """Have it restart; False when it is down, or does not go down, and must be started."""

    def remove(self) -> None:
        """End it and take away everything of it outside its directory that is not a device."""
        self.kill()

    def on(self) -> bool:
        """True while it runs."""

    def status(self) -> tuple[str, str]:
        """Status as OpenStack names it, and the fault when it is ERROR."""

    def cloud_init_result(self) -> list[str] | None:
        """Errors of cloud-init's four stages in this boot; None while it is not done."""

    def listens(self, port: int) -> bool:
        """True when a TCP server of it listens on the port."""

    def log_tail(self, path: str, lines: int = 5) -> str:
        """The last lines of a log inside in one line, or empty."""
        # Read inside: a link there must not lead to a file of the machine.
        try:
            done = self.console(["tail", "-n", str(lines), path], None, 10.0)
        except VimError:
            return ""
        return " | ".join(done.stdout.strip().splitlines())

    def complaint(self) -> str:
        """The last words of the program that runs it."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.directory / self.log).read_text(errors="replace").splitlines()
            if lines:
                return lines[-1]
        return "no reason known."

    def console(
        self, argv: Sequence[str], stdin: str | bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside as root.

        Raises:
            VimError: it does not run, or the command does not end in ``timeout`` seconds.
        """

    def terminal(self) -> int:
        """Run a shell inside as root, on this process's terminal; return its exit code.

        Raises:
            VimError: it does not run, or its kind has no terminal.
        """


class Kind(Protocol):
    """What servers of an account are."""

    def prepare(self, config: Config, tell: Tell) -> None:
        """Check that the machine can have them, and make the images they start from.

        Args:
            config: of the account.
            tell: gets a line for each step of what takes long.

        Raises:
            VimError: it cannot.
        """

    def check_server(self, spec: ServerSpec, settings: Image) -> None:
        """Refuse a server that cannot be one of this kind here.

        Raises:
            VimError: why.
        """

    def vdu(self, place: Place) -> Vdu:
        """The server at a place."""
