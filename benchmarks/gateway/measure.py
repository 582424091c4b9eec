"""Cells of the benchmark, and their runs."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.gateway.users import Server
from experiments.machine import busy_processors, disturbance
from experiments.model import Cell, Run
from experiments.schedule import Planned, interleaved
from testbed.backends import Ipsec, Plain, WireGuard
from testbed.generator import Loop, find
from testbed.loads import ASYMMETRIC2, IMIX, IMIX2, SIZES, Load, fixed
from testbed.netns import Block
from testbed.route import Backend, Route

WINDOW = 256  # Maximum number of packets in flight: the ring of a veth has no room for more.
#: Share of packets that may be lost.
LOSS = 0.001
FORWARDING, PINNED, HTTP = "forwarding", "pinned", "http"


@dataclass(frozen=True)
class Profile:
    """The measurements, their number and their duration."""

    loads: Sequence[Load]  # Loads for each backend with one tunnel.
    many: Mapping[int, Sequence[Load]]  # Loads by a larger number of tunnels.
    users: Sequence[int]  # Numbers of simultaneous HTTP users.
    seconds: float  # Duration of each measurement of forwarding.
    warm: float  # Seconds of warm-up before it.
    users_seconds: float  # Duration of each measurement of HTTP.
    rounds: int  # Repetitions.
    cores: Sequence[int] = ()  # Numbers of processors to which the gateway is pinned, with IMIX.


#: Frame sizes of published figures with 1, 2 and 4 tunnels.
FLOW_SIZES = (128, 512, 1024, 1400)
_FLOWS = tuple(fixed(size) for size in FLOW_SIZES)
STANDARD = Profile(
    (*(fixed(size) for size in SIZES), *(fixed(size, 0.0) for size in (64, 512, 1024, 1514)),
     IMIX, IMIX2, ASYMMETRIC2),
    {2: _FLOWS, 4: _FLOWS, 32: (IMIX,), 1000: (IMIX,)}, (32, 256), 1.0, 0.2, 2.0, 3,
    tuple(n for n in (1, 2, 4, 8, 16, 32) if n <= (os.cpu_count() or 1)),
)  # fmt: skip


def backends(profile: Profile) -> tuple[list[Backend], dict[str, str]]:
    """Return the backends to compare, and the reasons for those that are left out."""
    result: list[Backend] = [Plain(), WireGuard(), Ipsec()]
    without = {}
    for count in profile.many:
        if reason := WireGuard.absent(count):
            without[f"wireguard with {count} tunnels"] = reason
        else:
            result.append(WireGuard(count))
        result.append(Ipsec(count))
    return result, without


def cells(profile: Profile, backends: Iterable[Backend]) -> list[Cell]:
    """Return the cells; `place` is the position of a cell in tables."""
    listed: list[tuple[str, dict[str, Any]]] = []
    for backend in backends:
        loads = profile.loads if backend.tunnels == 1 else profile.many[backend.tunnels]
        base = {"backend": backend.name, "tunnels": backend.tunnels}
        for load in loads:
            size = load.shares[0][0] if len(load.shares) == 1 else None
            more = {"load": load.name, "size": size, "down": load.down}
            listed.append((FORWARDING, base | more))
        if backend.tunnels == 1:
            listed += [(PINNED, base | {"load": str(n), "cores": n}) for n in profile.cores]
            listed += [(HTTP, base | {"load": str(n), "users": n}) for n in profile.users]
    return [Cell(name, given | {"place": n}) for n, (name, given) in enumerate(listed)]


class Bench(Block):
    """All backends at once, each on its own wires; they end with the `with` block."""

    def __init__(self, profile: Profile, backends: Sequence[Backend], folder: Path) -> None:
        self.profile, self._found, self._folder = profile, backends, folder
        every = (profile.loads, *profile.many.values())
        self._loads = {load.name: load for loads in every for load in loads}
        self.routes: dict[tuple[str, int], Route] = {}  # By backend and number of tunnels.
        self._servers: dict[str, Server] = {}
        self._windows: dict[str, int] = {}
        self._stack = ExitStack()

    def set_up(self) -> None:
        for backend in self._found:
            route = self._stack.enter_context(Route(backend, self._folder))
            self.routes[backend.name, backend.tunnels] = route
            if self.profile.users and backend.tunnels == 1:
                self._servers[backend.name] = self._stack.enter_context(Server(route))

    def take_down(self) -> None:
        self._stack.close()

    def runs(self, seed: int, tell: Callable[[Planned, int], None]) -> list[Run]:
        steps = list(interleaved(cells(self.profile, self._found), self.profile.rounds, seed))
        made: dict[int, Run] = {}
        again: list[Planned] = []
        for step in chain(list(steps), again):  # `again` grows meanwhile.
            tell(step, len(steps))
            busy = busy_processors(0.1)
            load, started, begin = os.getloadavg()[0], time.time(), time.monotonic()
            result = self.measure(step.cell)
            took = time.monotonic() - begin
            cell = step.cell
            disturbed = disturbance(busy, os.cpu_count() or 1)
            if disturbed and step.order not in made:
                again.append(step)
            key = (cell.experiment, cell.params, cell.key, step.repetition, step.order)
            made[step.order] = Run(*key, started, took, load, result, busy=busy)
        return sorted(made.values(), key=lambda run: run.order)

    def measure(self, cell: Cell) -> dict[str, Any]:
        p = cell.params
        if cell.experiment == HTTP:
            return self._http(p["backend"], p["users"])
        route = self.routes[p["backend"], p["tunnels"]]
        if cell.experiment == PINNED:
            with route.pinned(p["cores"]):
                return self._forwarded(route, IMIX, cell.key)
        return self._forwarded(route, self._loads[p["load"]], cell.key)

    def _forwarded(self, route: Route, load: Load, key: str) -> dict[str, Any]:
        window = self._windows.get(key, WINDOW)
        timing = (self.profile.warm, self.profile.seconds)
        ends = (route.end("field"), route.end("core"))
        with closing(Loop(load, *ends, route.backend.mtu)) as loop:
            outcome = find(loop, window, *timing, route.spent, LOSS)
        self._windows[key] = outcome.window
        bits = outcome.frames * load.mean * 8
        return {
            "kpps": outcome.frames / outcome.seconds / 1e3,
            "gbps": bits / outcome.seconds / 1e9,
            "us-per-frame": outcome.spent * 1e6 / max(outcome.frames, 1),
            "gbps-per-core": bits / max(outcome.spent, 1e-9) / 1e9,
            "loss": outcome.loss,
            "window": outcome.window,
            "valid": outcome.loss < LOSS and outcome.arrived > 0,
        }

    def _http(self, backend: str, users: int) -> dict[str, Any]:
        told, spent = self._servers[backend].ask(users, self.profile.users_seconds)
        bits, seconds = told["bytes"] * 8, told["us"] / 1e6
        errors = ("connect", "read", "write", "status", "timeout")
        return {
            "requests-per-s": told["requests"] / seconds,
            "gbps": bits / seconds / 1e9,
            "gbps-per-core": bits / max(spent, 1e-9) / 1e9,
            "latency-ms": {k: v / 1000 for k, v in told.items() if k.startswith("p")},
            "errors": {reason: told[reason] for reason in errors},
        }
