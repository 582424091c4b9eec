"""Network namespaces that exist during a `with` block."""

import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from lab.vim import wire
from operate.background import InBackground

TIMEOUT = 60
T = TypeVar("T")


def run(*argv: str, check: bool = True, text: str | None = None) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: It failed; the text has its error output.
    """
    done = subprocess.run(
        argv, input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)[:200]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def wait(
    ready: Callable[[], object], seconds: float, failure: object, pause: float = 0.05
) -> float:
    """Wait until `ready` returns something true; return the seconds that it took.

    Raises:
        RuntimeError: It is not in time; `failure`, or what it returns as a function, is the text.
    """
    started = time.monotonic()
    while not ready():
        if time.monotonic() - started > seconds:
            text = failure() if callable(failure) else failure
            raise RuntimeError(f"{text}, after {seconds:.0f} s")
        time.sleep(pause)
    return time.monotonic() - started


def end(processes: Iterable[subprocess.Popen[bytes]], number: int = signal.SIGTERM) -> None:
    """End processes by a signal; kill those that run on after 20 s."""
    processes = list(processes)
    for process in processes:
        process.send_signal(number)
    for process in processes:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_time(threads: Iterable[Path]) -> float:
    """Return the processor time of threads in seconds, by their folders in /proc."""
    total = 0
    for thread in threads:
        # A thread may have ended. Its nanoseconds here are finer than the ticks of its `stat`.
        with suppress(FileNotFoundError, ProcessLookupError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


class Block:
    """Base of context managers that set something up, and take it down, also if set-up fails."""

    def set_up(self) -> None:
        raise NotImplementedError

    def take_down(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.set_up()
        except BaseException:
            self.take_down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.take_down()


class Namespaces(Block):
    """Named namespaces with a unique prefix, removed at the end of a `with` block."""

    def __init__(self, *names: str) -> None:
        self.prefix = f"gw{uuid.uuid4().hex[:6]}-"
        self.names = names

    def set_up(self) -> None:
        for name in self.names:
            run("ip", "netns", "add", self.prefix + name)
            self.ip(name, "link", "set", "lo", "up")

    def take_down(self) -> None:
        for name in self.names:
            run("ip", "netns", "delete", self.prefix + name, check=False)

    def argv(self, name: str, *argv: str) -> list[str]:
        return ["ip", "netns", "exec", self.prefix + name, *argv]

    def run(self, name: str, *argv: str, check: bool = True, text: str | None = None) -> str:
        return run(*self.argv(name, *argv), check=check, text=text)

    def ip(self, name: str, *argv: str, check: bool = True) -> str:
        return run("ip", "-n", self.prefix + name, *argv, check=check)

    def batch(self, name: str, lines: Sequence[str]) -> None:
        run("ip", "-n", self.prefix + name, "-batch", "-", text="\n".join(lines) + "\n")

    def sysctl(self, name: str, *settings: str) -> None:
        """Set kernel parameters, each as KEY=VALUE."""
        self.run(name, "sysctl", "-q", "-w", *settings)

    def wire(self, left: str, right: str, *, names: tuple[str, str], mtu: int = 1500) -> None:
        """Connect two namespaces with a veth pair; both ends are up."""
        ends = (self.prefix + left, self.prefix + right)
        peer = ("peer", "name", names[1], "netns", ends[1])
        run("ip", "link", "add", names[0], "netns", ends[0], "type", "veth", *peer)
        for name, device in zip((left, right), names, strict=True):
            self.ip(name, "link", "set", device, "mtu", str(mtu), "up")

    def bridge(self, name: str, device: str) -> None:
        self.ip(name, "link", "add", device, "type", "bridge", "forward_delay", "0")
        self.ip(name, "link", "set", device, "up")


def enter(namespace: str) -> None:
    wire.enter(f"/run/netns/{namespace}")


def inside(namespace: str, make: Callable[[], T]) -> T:
    """Run `make` in a network namespace, in a thread of its own; return its result."""

    def body() -> T:
        enter(namespace)
        return make()

    result: T = InBackground(body).result()
    return result
