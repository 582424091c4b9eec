"""Print the packages that a command needs; end with what is wrong with its arguments.

`./run` asks this before it builds. The word `qemu` comes first if VDUs are virtual machines.
"""

import importlib
import sys
from pathlib import Path

import click

PAIR = ["vpn_endpoint_vnf", "vpn_basic_ns"]


def of_experiments(words: list[str]) -> list[str]:
    """Return what a campaign brings up."""
    from experiments import __main__ as program
    from experiments import campaign, fiveg, setups, slices
    from experiments.profiles import PROFILES
    from experiments.testbed import VNFS

    options = program.run.make_context("run", words).params
    profile = PROFILES[options["profile"]]
    program.check(profile, options["url"], options["vim"], options["named"])
    if options["named"] or options["dist"] != Path("dist"):
        return []
    if profile.machines:
        return ["qemu", *PAIR]
    steps = campaign.plan(profile, 1, options["repetitions"])
    steps = campaign.matching(steps, options["only"])
    if profile.fiveg:
        vnfs, templates = fiveg.VNFS, [f"{name}_5g_nst" for name in profile.fiveg]
        return [*(f"{vnf}_vnf" for vnf in vnfs), "5gc_shared_ns", fiveg.NSD, *templates]
    beside = campaign.beside(steps) if profile.slices else [setups.EPC]
    names = [path.name.removesuffix(".tar.gz") for path in setups.packages(Path(), beside)]
    if profile.slices:
        names += [slices.NSD, f"{slices.EMBB}_nst", f"{slices.URLLC}_nst"]
    return [*(f"{vnf}_vnf" for vnf in VNFS), *names]


def of_acceptance(words: list[str]) -> list[str]:
    """Return what the run on an OSM onboards."""
    from operate.acceptance.run import BASIC, SLICE
    from operate.cli import acceptance

    options = acceptance.make_context("acceptance", words).params
    if options["dist"] != Path("dist"):
        return []
    return [name for name, _ in (BASIC if options["smallest"] else BASIC + SLICE)]


def of_bench(words: list[str]) -> list[str]:
    """Return what a benchmark brings up; most take services of several kinds."""
    from benchmarks.__main__ import SUITES, main
    from builder.packages import catalogue
    from builder.tree import Tree

    name = words[0] if words and words[0] in SUITES else ""
    program = importlib.import_module(SUITES[name]).main if name else main
    program.make_context("bench", words[1:] if name else words)
    if name in ("gateway", "hot-standby", "ipsec-scale", "peers", "rotation"):
        return []
    return ["qemu", *PAIR] if name == "machines" else list(catalogue(Tree.find()))


COMMANDS = {"experiments": of_experiments, "acceptance": of_acceptance, "bench": of_bench}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    try:
        print(*COMMANDS[sys.argv[1]](sys.argv[2:]))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
