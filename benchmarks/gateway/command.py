"""`./run bench gateway`: cost of a gateway's tunnels per packet, compared with plain forwarding."""

import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.gateway import measure, render
from benchmarks.report import Report, command
from experiments.on_the_lab import environment
from experiments.schedule import Planned
from testbed.backends import missing
from testbed.route import hidden_threads

ROOT = Path(__file__).resolve().parents[2]
SEED = 1


@command("gateway", missing=lambda: missing() or hidden_threads())
def main(report: Report) -> None:
    """Measure plain forwarding, WireGuard and IPsec in turn, with many loads."""
    profile = measure.STANDARD
    backends, without = measure.backends(profile)
    document = report.document
    document |= {"seed": SEED, "environment": environment(ROOT), "left-out": without}

    def tell(step: Planned, count: int) -> None:
        if step.order % 10 == 0:
            report.say(f"run {step.order + 1} of {count}, round {step.repetition + 1}")

    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        report.say("bringing tunnels up")
        with measure.Bench(profile, backends, Path(folder)) as bench:
            document["backends"] = {backend.name: backend.kind() for backend in backends}
            runs = bench.runs(SEED, tell)
    document["runs"] = [asdict(run) for run in runs]
    page, table = render.write(document, runs, report.write())
    render.show(runs, report)
    for name, why in without.items():
        report.say(f"left out: {name}: {why}")
    report.say(f"report: {page}\nfigures: {table}")
