"""`./run bench ipsec-scale`: the cost of an IPsec gateway's control plane by number of tunnels.

Every IKE_SA is real: ECDSA certificates, X25519, a CHILD_SA and a virtual IP each. The peers share
a few charons and run on the same machine as the gateway, so the times are upper bounds for the
gateway. Its own processor time is the figure to compare.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import click
from rich.console import Console

from benchmarks.report import Goal, counts, finish, header, show_results
from benchmarks.swan.charon import backend, missing
from benchmarks.swan.site import ESP, IKE, Site

LIMIT = 300.0


def measure(count: int, processes: int, sample: int = 16) -> dict[str, Any]:
    """Establish `count` tunnels, rekey them, kill all peers and restart them."""
    with (
        tempfile.TemporaryDirectory(prefix="swan-") as folder,
        Site(Path(folder), count, processes) as site,
    ):
        gateway = site.gateway
        memory, spent = gateway.rss_kb(), gateway.cpu_seconds()

        def cost() -> float:
            """Return the gateway's processor time per tunnel since the last call, in ms."""
            nonlocal spent
            before, spent = spent, gateway.cpu_seconds()
            return (spent - before) * 1000 / count

        started = time.monotonic()
        site.call()
        gateway.wait_for(count, LIMIT)
        up = time.monotonic() - started
        result: dict[str, Any] = {
            "tunnels": count,
            "up-s": up,
            "rate-per-s": count / up,
            "up-cpu-ms": cost(),
            "memory-kb": (gateway.rss_kb() - memory) / count,
            "carried": fmean(site.carries(sample)),
        }
        cost()
        result.update({"rekey-ike-s": site.rekey_all(LIMIT), "rekey-ike-cpu-ms": cost()})
        result.update({"rekey-child-s": site.rekey_children(LIMIT), "rekey-child-cpu-ms": cost()})
        result["carried-after-rekey"] = fmean(site.carries(sample))
        site.lose_peers()
        site.start_fields()
        answered = gateway.counters()["ike-auth-out-resp"]
        cost()
        started = time.monotonic()
        site.call()
        while gateway.counters()["ike-auth-out-resp"] < answered + count:
            if time.monotonic() - started > LIMIT:
                raise click.ClickException(f"not all of {count} peers came back in {LIMIT:.0f} s")
            time.sleep(0.02)
        result.update({"back-s": time.monotonic() - started, "back-cpu-ms": cost()})
        result["sas-after"] = gateway.established()
        result["memory-after-kb"] = (gateway.rss_kb() - memory) / count
        result["carried-after-return"] = fmean(site.carries(sample))
        result["settings"] = gateway.settings
    return result


def judge(results: list[dict[str, Any]]) -> list[Goal]:
    """Compare the run with most tunnels with the goals, and with the run with fewest."""
    small, large = results[0], results[-1]
    count = large["tunnels"]
    growth = large["up-cpu-ms"] / small["up-cpu-ms"]
    carried = [r[k] for r in results for k in r if k.startswith("carried")]
    return [
        Goal(f"{count} tunnels up", "< 60 s", f"{large['up-s']:.1f} s", large["up-s"] < 60),
        Goal(
            "memory per tunnel",
            "< 100 kB",
            f"{large['memory-kb']:.0f} kB",
            large["memory-kb"] < 100,
        ),
        Goal(
            f"processor time per tunnel, {count} to {small['tunnels']}",
            "< 2",
            f"{growth:.2f}",
            growth < 2,
        ),
        Goal(
            "IKE_SAs after all peers came back",
            str(count),
            str(large["sas-after"]),
            large["sas-after"] == count,
        ),
        Goal("tunnels tried that carry packets", "all", f"{min(carried):.0%}", min(carried) == 1),
    ]


COLUMNS = (
    ("tunnels", "tunnels", "{:.0f}".format),
    ("up s", "up-s", "{:.2f}".format),
    ("per s", "rate-per-s", "{:.0f}".format),
    ("CPU ms", "up-cpu-ms", "{:.2f}".format),
    ("kB", "memory-kb", "{:.0f}".format),
    ("IKE rekey s", "rekey-ike-s", "{:.2f}".format),
    ("CPU ms", "rekey-ike-cpu-ms", "{:.2f}".format),
    ("child rekey s", "rekey-child-s", "{:.2f}".format),
    ("CPU ms", "rekey-child-cpu-ms", "{:.2f}".format),
    ("all back s", "back-s", "{:.2f}".format),
    ("CPU ms", "back-cpu-ms", "{:.2f}".format),
)


@click.command(name="ipsec-scale")
@click.option(
    "--tunnels",
    callback=counts(),
    default="32,250,1000",
    show_default=True,
    help="Counts of tunnels.",
)
@click.option("--processes", default=2, show_default=True, help="Number of charons for the peers.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(tunnels: list[int], processes: int, out: Path) -> None:
    """Open many tunnels to one IPsec gateway, rekey them, lose and regain all peers."""
    reason = missing()
    if reason:
        raise click.ClickException(f"this machine {reason}")
    console = Console()
    document = header() | {"esp": backend(), "proposals": [IKE, ESP], "processes": processes}
    results = []
    for count in tunnels:
        console.print(f"{count} tunnels", highlight=False)
        results.append(measure(count, processes))
    title = f"IPsec gateway ({backend()}); CPU and kB are the gateway's, per tunnel"
    show_results(title, results, console, COLUMNS)
    finish("ipsec-scale", document, results, judge(results), console, out)
