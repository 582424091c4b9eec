"""``osm-lab lab ...``: verbs OSM does not have, for looking into the lab and clearing it away."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import click

from builder.commands import WholeHelp
from builder.link_table import span
from builder.terminal import tell
from lab.cli.context import Lab, pass_lab
from lab.cli.names import ACCOUNT, LINK, OPERATION, SERVICE, SERVICE_OR_SLICE, UNIT, VNF
from lab.cli.watching import lines, watched
from lab.errors import NbiError, VimError, unknown
from lab.lcm import heartbeat, timer
from lab.lcm.backends import Backends
from lab.lcm.timeouts import lab_timeouts
from lab.records import jobs
from lab.records.journal import events
from lab.records.operations import operation_folder
from lab.records.store import COLLECTIONS, NSIOPS, NSRS, OPS, PLACE, VIMS, Document
from lab.vca.model import Model
from lab.vca.python import choose_python
from lab.vca.runtime import Settings
from lab.vim import host, registry, run
from lab.vim.account import Vim, clean
from lab.vim.connector import connect, is_openstack
from lab.vim.dataplane import probe
from lab.vim.qemu.images import bake, export
from lab.vim.store import Home
from lab.vim.strongswan import strongswan


@click.group("lab", cls=WholeHelp)
def lab_group() -> None:
    """Look into the lab; nothing of this exists in OSM."""


@lab_group.command("probe")
@pass_lab
def probe_verb(lab: Lab) -> None:
    """Say what this machine offers: dataplane, tools, Python of the charms."""
    fields: dict[str, Any] = dataclasses.asdict(probe())
    for tool in ("systemd-analyze", "cloud-init", "sshd", "wg", "iperf3", "tcpdump", "nft"):
        fields[tool] = shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") or "missing"
    # Every VDU uses about ten of these, every wireguard-go one. Without a free one a tunnel does
    # not start ("Protocol not supported").
    limit = Path("/proc/sys/fs/inotify/max_user_instances").read_text(encoding="ascii")
    fields["inotify instances"] = int(limit)
    fields["charm python"] = str(choose_python())
    lab.out.fields({k: str(v) if isinstance(v, Path) else v for k, v in fields.items()})


@lab_group.command("list")
@pass_lab
def list_verb(lab: Lab) -> None:
    """List homes of labs with their disk: this one, and all with VIM accounts of this machine."""
    rows = [
        {
            "home": str(home),
            "services": len(list((home / "nbi" / NSRS).glob("*.json"))),
            "VIM accounts": ", ".join([*Vim.names(home), *Home.at(home).openstacks]),
            "MiB": int(run.tool(["du", "-xsm", str(home)]).split()[0]),
            "namespaces": f"{Home.at(home).prefix}-*",
        }
        for home in sorted({lab.home, *host.homes()})
        if home.is_dir()
    ]
    headings = ("home", "services", "VIM accounts", "MiB", "namespaces")
    lab.out.rows(rows, {heading: [heading] for heading in headings})


@lab_group.command("console", context_settings={"ignore_unknown_options": True})
@click.argument("ns", type=SERVICE)
@click.argument("vnf", type=VNF)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--vdu_id", help="VDU; the first one otherwise.")
@click.option("--count", type=click.IntRange(0), default=0, help="Instance of the VDU.")
@click.option("--stdin", "use_stdin", is_flag=True, help="Give COMMAND our standard input.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=600.0,
    show_default=True,
    help="Seconds COMMAND may take.",
)
@pass_lab
def console(
    lab: Lab,
    ns: str,
    vnf: str,
    command: tuple[str, ...],
    vdu_id: str | None,
    count: int,
    use_stdin: bool,
    timeout: float,
) -> None:
    """Run COMMAND as root in a VDU, as on its console; put -- before it.

    Without a COMMAND it is a shell on this terminal.
    """
    vim, server = _server(lab, ns, vnf, vdu_id, count)
    if not command:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise NbiError("a shell needs a terminal; give a COMMAND after --")
        raise SystemExit(vim.terminal(server))
    # Read only on request: a script's standard input may be a pipe that is never closed.
    text = sys.stdin.read() if use_stdin else None
    done = vim.console(server, list(command), input=text, timeout=timeout)
    click.echo(done.stdout, nl=False)
    click.echo(done.stderr, nl=False, err=True)
    raise SystemExit(done.returncode)


@lab_group.command("logs")
@click.argument("ns", type=SERVICE)
@click.argument("unit", type=UNIT, required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow the log, until ^C.")
@pass_lab
def logs(lab: Lab, ns: str, unit: str | None, follow: bool) -> None:
    """Show what the charms of a service log, like ``juju debug-log``; of one UNIT or of all."""
    model = _model(lab, lab.engine.ns(ns))
    units = sorted(model.status().units)
    shown = units if unit is None else [unit.rstrip("*")]
    if not set(shown) <= set(units):
        raise unknown(f"ns '{ns}' has no unit '{unit}'", shown[0], units)
    for name, line in lines(lambda: [model.log_path(u) for u in shown], follow):
        tell(line if len(shown) == 1 else f"{name}: {line}")


@lab_group.command("trace")
@click.argument("operation", type=OPERATION)
@pass_lab
def trace(lab: Lab, operation: str) -> None:
    """Show one OPERATION through all logs, in the order of time.

    Its own events, what its worker wrote, and the log of each unit of the service meanwhile.
    """
    record = lab.engine.operation(operation)
    folder = operation_folder(lab.home, record["_id"])
    entries = [
        (event["time"], "lcm", "{kind} {subject}: {text}".format(**event))
        for event in events(folder / "events.jsonl")
    ]
    running = record["operationState"] == "PROCESSING"
    begin, end = record["startTime"], inf if running else record["statusEnteredTime"]
    controller = Backends(lab.home).controller()
    if record["nsInstanceId"] in controller.models():
        model = controller.model(record["nsInstanceId"])
        logs = [model.log_path(unit) for unit in sorted(model.status().units)]
        at = begin
        for unit, line in lines(lambda: logs, follow=False):
            # A text of several lines has the time of its first.
            stamp = _time_of(line)
            at, text = (at, line) if stamp is None else (stamp, line[_STAMP:].strip())
            entries.append((at, unit, text))
    for at, source, text in sorted(entries, key=lambda entry: entry[0]):
        if int(begin) <= at <= end + 1:
            tell(f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} {source}: {text}")
    worker = folder / "worker.log"
    if worker.is_file() and (said := worker.read_text(encoding="utf-8", errors="replace").strip()):
        tell(f"The worker wrote:\n{said}")


#: Length of the time at the beginning of a line of a unit's log.
_STAMP = len("2000-01-01 00:00:00")


def _time_of(line: str) -> float | None:
    """Return the time at the beginning of a line of a unit's log, None where it has none."""
    try:
        stamp = datetime.strptime(line[:_STAMP], "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return stamp.replace(tzinfo=UTC).timestamp()


@lab_group.command("reboot")
@click.argument("ns", type=SERVICE)
@click.argument("vnf", type=VNF)
@click.option("--vdu_id", help="VDU; the first one otherwise.")
@click.option("--count", type=click.IntRange(0), default=0, help="Instance of the VDU.")
@pass_lab
def reboot(lab: Lab, ns: str, vnf: str, vdu_id: str | None, count: int) -> None:
    """Restart a VDU and wait until it is up."""
    vim, server = _server(lab, ns, vnf, vdu_id, count)
    vim.reboot(server)
    state = vim.wait_active(server, lab_timeouts().vm_ip)
    lab.out.fields({"name": state.name, "status": state.status})


@lab_group.command("capture")
@click.argument("ns", type=SERVICE)
@click.argument("link", type=LINK)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--vim_account", type=ACCOUNT, help="VIM account, where the link is in several.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Stop after this time, else on ^C.")
@pass_lab
def capture(
    lab: Lab, ns: str, link: str, file: Path, vim_account: str | None, seconds: float | None
) -> None:
    """Write what passes on virtual link LINK of a service into a pcap FILE."""
    vim, network = _network(lab, lab.engine.ns(ns), link, vim_account)
    _capture(lab, vim.capture(network, file), f"{link} to {file}", seconds)


@lab_group.command("attach", context_settings={"ignore_unknown_options": True})
@click.argument("ns", type=SERVICE)
@click.argument("link", type=LINK)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--vim_account", type=ACCOUNT, help="VIM account, where the link is in several.")
@pass_lab
def attach(lab: Lab, ns: str, link: str, command: tuple[str, ...], vim_account: str | None) -> None:
    """Open a shell on virtual link LINK of a service, as a host there with a free address.

    The host has an interface eth0, and the files and programs of this machine. strongSwan runs
    there; its swanctl takes connections and keys from below $SWANCTL_DIR. With a COMMAND (put --
    before it) it runs that. The host, its address and that folder are gone when the shell ends.
    """
    vim, network = _network(lab, lab.engine.ns(ns), link, vim_account)
    if not (command or sys.stdin.isatty()):
        raise NbiError("a shell needs a terminal; give a COMMAND after --")
    with vim.host(network) as (words, address), strongswan(words) as variables:
        lab.out.remark(f"{address} on {link} of {ns}")
        environment = {**os.environ, **variables, "PS1": f"{ns} {link} {address} # "}
        if binary := probe().binary:
            environment["WG_QUICK_USERSPACE_IMPLEMENTATION"] = str(binary)
        shell = command or ("bash", "--norc", "-i")
        done = subprocess.run([*words, *shell], env=environment, check=False)
    raise SystemExit(done.returncode)


@lab_group.command("capture-uplink")
@click.argument("vim", type=ACCOUNT)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--seconds", type=click.FloatRange(0.1), help="Stop after this time, else on ^C.")
@pass_lab
def capture_uplink(lab: Lab, vim: str, file: Path, seconds: float | None) -> None:
    """Write what passes between the site of VIM and the others into a pcap FILE."""
    account = Backends(lab.home).local_vim(lab.engine.store.resolve(VIMS, vim)["_id"])
    _capture(lab, account.capture_uplink(file), f"the uplink of {vim} to {file}", seconds)


def _capture(
    lab: Lab, capturing: AbstractContextManager[object], what: str, seconds: float | None
) -> None:
    """Capture until ^C, or for some seconds."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with capturing:
        lab.out.remark(f"capturing {what}")
        stop.wait(seconds)


@lab_group.command("image")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@pass_lab
def image(lab: Lab, file: Path) -> None:
    """Make the image of virtual machines where it is not there, and put it into FILE (qcow2)."""
    made = bake(lab.out.remark)
    export(made, file)
    lab.out.fields({"image": str(file), "packages": len(made.packages)})


@lab_group.command("image-load")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="Name to pull it by, for one image; its own otherwise.")
@pass_lab
def image_load(lab: Lab, source: Path, name: str | None) -> None:
    """Put images of containers into the registry from which virtual machines pull.

    SOURCE is an archive (docker save, podman save, skopeo copy) or a directory (OCI layout,
    skopeo's dir:).
    """
    rows = [dataclasses.asdict(one) for one in registry.load(source, name)]
    lab.out.rows(rows, {"name": ["name"], "digest": ["digest"]})


@lab_group.command("juju-status")
@click.argument("ns", type=SERVICE)
@watched
@pass_lab
def juju_status(lab: Lab, ns: str) -> None:
    """Show applications, units and their status, like ``juju status``."""
    status = _model(lab, lab.engine.ns(ns)).status()
    units = [
        {
            "unit": name + ("*" if unit.leader else ""),
            "workload": unit.workload,
            "agent": unit.agent,
            "message": unit.message or unit.agent_message,
            "looked": f"{span(round(time.time() - unit.since))} ago" if unit.since else "never",
        }
        for name, unit in sorted(status.units.items())
    ]
    lab.out.rows(units, {k: [k] for k in ("unit", "workload", "agent", "message", "looked")})


@lab_group.command("graph")
@click.argument("name", type=SERVICE_OR_SLICE)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the picture to this file instead.",
)
@watched
@pass_lab
def graph(lab: Lab, name: str, svg: Path | None) -> None:
    """Show the VNFs and links of the service or slice NAME with their states."""
    # Drawing libraries take a moment to load; no other verb needs them.
    from lab.graph import draw, model

    drawn = model.find(lab.engine, name)
    if svg is not None:
        svg.write_text(draw.svg(drawn), encoding="utf-8")
        lab.out.remark(f"{drawn.name}: {len(drawn.nodes)} VNFs, {len(drawn.edges)} links in {svg}")
    elif lab.out.as_json:
        lab.out.json(dataclasses.asdict(drawn))
    else:
        lab.out.out.print(draw.text(drawn))


@lab_group.command("show-unit")
@click.argument("ns", type=SERVICE)
@click.argument("unit", type=UNIT)
@pass_lab
def show_unit(lab: Lab, ns: str, unit: str) -> None:
    """Show a unit's relation data, like ``juju show-unit``."""
    lab.out.fields(dict(_model(lab, lab.engine.ns(ns)).show_unit(unit.rstrip("*"))))


@lab_group.command("update-status")
@click.argument("ns", type=SERVICE)
@pass_lab
def update_status(lab: Lab, ns: str) -> None:
    """Fire update-status at every unit now, and let all settle; it comes every five minutes."""
    nsr = lab.engine.ns(ns)
    _model(lab, nsr)
    timer.update_status(Backends(lab.home), nsr["_id"], lab_timeouts().action)


@lab_group.command("replay")
@click.argument("ns", type=SERVICE)
@click.argument("unit", type=UNIT)
@click.argument("event", default="")
@click.option("--shell", is_flag=True, help="Open a shell in place of the charm, as debug-hooks.")
@pass_lab
def replay(lab: Lab, ns: str, unit: str, event: str, shell: bool) -> None:
    """Run a hook of a UNIT again as it last ran, or an action by its number in the unit's log.

    Without an EVENT, such as config-changed, it is the hook that failed, else the last one.
    """
    nsr = lab.engine.ns(ns)
    _model(lab, nsr)
    if shell and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NbiError("--shell needs a terminal; allowed: without it the charm runs")

    def begin(model: Model) -> None:
        name = model.replay(unit.rstrip("*"), event, ("bash", "--norc", "-i") if shell else ())
        lab.out.remark(f"{name} of {unit}{IN_A_SHELL if shell else ''}")

    timeouts = lab_timeouts()
    limit = Settings.hook_timeout if shell else timeouts.settle
    timer.run_charms(Backends(lab.home), nsr["_id"], begin, timeouts.action, limit)


IN_A_SHELL = """
  ./dispatch                         the charm, as often as you like
  JUJU_DEBUG_AT=hook ./dispatch      the charm in pdb, before its handler
  exit, exit 1                       the hook has succeeded; has failed"""

#: Folders of a home. The records are the last: what a killed clean-up leaves is still a lab.
PARTS = ("lcm", "vca", "cluster", "server", "nbi")
#: What a lab without records has: of a VIM account, a package, `serve`, a look at the charms.
MARKS = (
    "vim.lock",
    "nbi/packages",
    "nbi/.packages.lock",
    "server/key.pem",
    "server/lock",
    "vca/models",
)


def _check_home(lab: Lab) -> None:
    """Refuse a directory with folders of these names that no lab made."""
    known = lab.engine.store.exists() or any((lab.home / mark).exists() for mark in MARKS)
    found = [part for part in ("vims", *PARTS) if (lab.home / part).exists()]
    if found and not known:
        raise NbiError(
            f"{lab.home} is no home of a lab, and has {', '.join(found)} of something else; "
            "allowed: a directory that a lab wrote, or one without these"
        )


@lab_group.command("discard")
@click.argument("id")
@pass_lab
def discard_verb(lab: Lab, id: str) -> None:
    """Delete a damaged record of any kind by its ID; lists show which are damaged."""
    if not any(lab.discarded(collection, id) for collection in COLLECTIONS):
        raise NbiError(f"there is no damaged record '{id}'; lists show the id of each")


@lab_group.command("clean")
@pass_lab
def clean_verb(lab: Lab) -> None:
    """Remove everything: services, VIM accounts, packages and records, also after a crash."""
    _check_home(lab)
    engine = lab.engine
    for operation in [*engine.store.all(NSIOPS), *engine.store.all(OPS)]:
        if jobs.alive(operation):
            jobs.kill(operation)
    heartbeat.end(lab.home)
    failures = []
    if (lab.home / "vca").exists():
        controller = Backends(lab.home).controller()
        for name in controller.models():
            try:
                controller.destroy_model(name, force=True)
            except Exception as error:
                failures.append(f"model {name}: {error}")
    if (lab.home / "cluster").exists():
        Backends(lab.home).cluster().stop()
    for account in engine.store.all(VIMS):
        if is_openstack(lab.home, account["name"]):
            try:
                connect(lab.home, account["name"]).destroy()
            except VimError as error:
                failures.append(str(error))
    clean(lab.home)
    for part in PARTS:
        shutil.rmtree(lab.home / part, ignore_errors=True)
    for name in ("version", PLACE):
        (lab.home / name).unlink(missing_ok=True)
    if failures:
        raise NbiError("; ".join(failures))
    lab.out.remark("Clean")


def _model(lab: Lab, nsr: Document) -> Model:
    controller = Backends(lab.home).controller()
    if nsr["_id"] not in controller.models():
        raise NbiError(f"ns '{nsr['name']}' has no charms")
    return controller.model(nsr["_id"])


def _server(lab: Lab, ns: str, vnf: str, vdu_id: str | None, count: int) -> tuple[Vim, str]:
    record = lab.engine.vnf(ns, vnf)
    known = [f"{v['vdu-id-ref']}-{v['count-index']}" for v in record["vdur"]]
    for vdur in record["vdur"]:
        if vdu_id in (None, vdur["vdu-id-ref"]) and vdur["count-index"] == count:
            if vdur["vim-id"] is None:
                raise NbiError(f"vdu {vdur['name']} is not running, it is {vdur['status']}")
            return Backends(lab.home).local_vim(record["vim-account-id"]), str(vdur["vim-id"])
    raise NbiError(f"vnf '{vnf}' of ns '{ns}' has no such vdu, it has {', '.join(known)}")


def _network(lab: Lab, nsr: Document, link: str, vim_account: str | None) -> tuple[Vim, str]:
    """Return the VIM and the network id of a service's link, from a port of a running VDU."""
    backends = Backends(lab.home)
    vim_id = None
    if vim_account is not None:
        vim_id = lab.engine.store.resolve(VIMS, vim_account)["_id"]
    links = set()
    for vnfr in lab.engine.vnfs(nsr["_id"]):
        for vdur in vnfr["vdur"]:
            for position, port in enumerate(vdur["interfaces"]):
                links.add(port["ns-vld-id"])
                if port["ns-vld-id"] != link or vdur["vim-id"] is None:
                    continue
                if vim_id not in (None, vnfr["vim-account-id"]):
                    continue
                vim = backends.local_vim(vnfr["vim-account-id"])
                return vim, vim.server(vdur["vim-id"]).ports[position].network_id
    raise unknown(f"ns '{nsr['name']}' has no running link '{link}'", link, links)
