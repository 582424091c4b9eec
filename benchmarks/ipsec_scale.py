"""`./run bench ipsec-scale`: the cost of an IPsec gateway's control plane by number of tunnels.

Every IKE_SA is real: ECDSA certificates, X25519, a CHILD_SA and a virtual IP each. The peers share
a few charons and run on the same machine as the gateway, so the times are upper bounds for the
gateway. Its own processor time is the figure to compare.
"""

import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.report import Goal, Report, command, counts
from testbed.charon import ESP, IKE, backend, missing
from testbed.netns import wait
from testbed.site import Site

LIMIT = 300.0


def measure(count: int, sample: int = 16) -> dict[str, Any]:
    """Establish `count` tunnels, rekey them, kill all peers and restart them."""
    with (
        tempfile.TemporaryDirectory(prefix="swan-") as folder,
        Site(Path(folder), count) as site,
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
        result.update({"rekey-ike-s": site.rekey("ike", LIMIT), "rekey-ike-cpu-ms": cost()})
        result.update({"rekey-child-s": site.rekey("child", LIMIT), "rekey-child-cpu-ms": cost()})
        result["carried-after-rekey"] = fmean(site.carries(sample))
        site.lose_peers()
        site.start_fields()
        answered = gateway.counters()["ike-auth-out-resp"]
        cost()
        started = time.monotonic()
        site.call()
        wait(
            lambda: gateway.counters()["ike-auth-out-resp"] >= answered + count,
            LIMIT,
            f"not all of {count} peers came back",
            0.02,
        )
        result.update({"back-s": time.monotonic() - started, "back-cpu-ms": cost()})
        result["sas-after"] = gateway.established()
        result["carried-after-return"] = fmean(site.carries(sample))
    return result


def judge(results: list[dict[str, Any]]) -> list[Goal]:
    """Compare the run with most tunnels with the goals, and with the run with fewest."""
    small, large = results[0], results[-1]
    count, back = large["tunnels"], large["sas-after"]
    growth = large["up-cpu-ms"] / small["up-cpu-ms"]
    carried = [r[k] for r in results for k in r if k.startswith("carried")]
    return [
        Goal.below(f"{count} tunnels up", large["up-s"], 60, "s"),
        Goal.below("memory per tunnel", large["memory-kb"], 100, "kB"),
        Goal.below(f"processor time per tunnel, {count} to {small['tunnels']}", growth, 2),
        Goal("IKE_SAs after all peers came back", str(count), str(back), back == count),
        Goal("tunnels tried that carry packets", "all", f"{min(carried):.0%}", min(carried) == 1),
    ]


@command("ipsec-scale", missing=missing)
@counts("--tunnels", "32,250,1000", "Counts of tunnels.")
def main(report: Report, tunnels: list[int]) -> None:
    """Open many tunnels to one IPsec gateway, rekey them, lose and regain all peers."""
    report.document |= {"esp": backend(), "proposals": [IKE, ESP]}
    results = report.document["results"] = []
    for count in tunnels:
        report.say(f"{count} tunnels")
        results.append(measure(count))
    title = f"IPsec gateway ({backend()}); CPU and kB are the gateway's, per tunnel"
    report.results(title, results)
    report.goals(judge(results))
