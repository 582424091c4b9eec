"""``osm-lab``: osmclient's verbs against the lab."""

import io
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from builder.commands import WholeHelp
from builder.errors import of_file
from builder.terminal import tell
from lab import accounts
from lab.cli.context import Lab, pass_lab
from lab.cli.heal_options import heal_words, split
from lab.cli.names import PRIMITIVE, SERVICE, SLICE, VNF, named
from lab.cli.nouns import NOUNS, summary, vnf_record
from lab.cli.options import instantiates, waits
from lab.cli.render import LITERAL
from lab.cli.watching import watched
from lab.errors import LabError, NbiError
from lab.nbi.params import InstanceRequest, load_mapping, yaml_options
from lab.records.store import NSDS, NSIS, NSRS, NSTS, VNFDS, VNFRS, Document

FORMS = "json, yaml, wide (all columns), or a field alone, as _id or vdur.name; after a verb too."
DEFAULT_HOME = "/var/lib/osm-vpnaas-lab"
OTHER_NAMES = {
    **dict.fromkeys(("nfpkg", "vnfd", "nfd"), "vnfpkg"),
    "nsd": "nspkg",
    "netslice-template": "nst",
    "netslice-instance": "nsi",
}
"""osmclient's other names of nouns, which stand before the verb."""


LATER = {
    "lab": "lab.cli.lab_verbs:lab_group",
    "links": "lab.cli.links:links",
    "serve": "lab.cli.serve:serve",
}
"""Verbs whose modules take long to import: they are imported when somebody asks for them."""


class Verbs(WholeHelp):
    """Commands that are known by osmclient's other names too."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LATER and cmd_name not in self.commands:
            self.add_command(pkgutil.resolve_name(LATER[cmd_name]), cmd_name)
            _take_form(self.commands[cmd_name])
        for other, name in OTHER_NAMES.items():
            if cmd_name.startswith(f"{other}-"):
                cmd_name = name + cmd_name.removeprefix(other)
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    # An empty variable is not the current directory, which `lab clean` would empty.
    default=lambda: os.environ.get("OSMLAB_HOME") or DEFAULT_HOME,
    show_default=f"$OSMLAB_HOME or {DEFAULT_HOME}",
    help="Directory with all state of the lab.",
)
@click.option("--json", "form", flag_value="json", help="Print results as JSON.")
@click.option("-o", "form", metavar="FORM", default="", help=FORMS)
@click.version_option(package_name="osm-vpnaas")
@click.pass_context
def cli(context: click.Context, home: Path, form: str) -> None:
    """Run OSM packages on this machine, with osmclient's verbs."""
    context.obj = Lab(home, form or "")


for noun in NOUNS:
    for verb in noun.verbs():
        cli.add_command(verb)


# -- VIM accounts ------------------------------------------------------------------------------


@cli.command("vim-create")
@click.option("--name", required=True, help="Name of the account.")
@click.option(
    "--account_type",
    default="lab",
    show_default=True,
    help="lab: VDUs are namespaces; qemu: virtual machines; openstack: an OpenStack; others: lab.",
)
@click.option("--config", "config_text", default="", help="Configuration as YAML text.")
@click.option("--config_file", type=click.Path(path_type=Path), help="The same from a file.")
@click.option("--auth_url", default="", help="URL of an OpenStack's Keystone, with /v3.")
@click.option("--user", default="", help="User of an OpenStack.")
@click.option("--password", envvar="OS_PASSWORD", default="", help="Password, or $OS_PASSWORD.")
@click.option("--tenant", default="", help="Project of an OpenStack.")
@click.option("--description", hidden=True, expose_value=False)
@click.option("--vca", hidden=True, expose_value=False)
@pass_lab
def vim_create(
    lab: Lab,
    name: str,
    account_type: str,
    config_text: str,
    config_file: Path | None,
    auth_url: str,
    user: str,
    password: str,
    tenant: str,
) -> None:
    """Make a VIM account with its management network, or one of an OpenStack.

    An account of an OpenStack has OSM's configuration. osmclient's --description and --vca are
    accepted and ignored.
    """
    config = yaml_options(config_text, config_file)
    access = {"vim_url": auth_url, "vim_user": user, "vim_tenant_name": tenant}
    more = {key: value for key, value in access.items() if value}
    made = accounts.create(
        lab.engine, name, account_type, config, more, password, tell=lab.out.remark
    )
    lab.out.identity(made)


# -- packages ------------------------------------------------------------------------------------


def _package_verb(noun: str, kind: str, what: str) -> None:
    @cli.command(f"{noun}-create", help=f"Onboard {what}: a tar.gz, zip or directory.")
    @click.argument("filename", type=click.Path(path_type=Path))
    @click.option("--strict", is_flag=True, help="Refuse also what would fail in OSM later.")
    @click.option("--skip-charm-build", is_flag=True, hidden=True, expose_value=False)
    @pass_lab
    def create(lab: Lab, filename: Path, strict: bool) -> None:
        _onboarded(lab, *lab.engine.catalogue.onboard(kind, filename, strict))


_package_verb("vnfpkg", VNFDS, "a VNF package")
_package_verb("nspkg", NSDS, "an NS package")
_package_verb("nst", NSTS, "a slice template")


@cli.command("vnfpkg-update")
@click.argument("name", type=named(VNFDS))
@click.option("--content", type=click.Path(path_type=Path), required=True, help="The new package.")
@click.option("--strict", is_flag=True, help="Refuse also what would fail in OSM later.")
@pass_lab
def vnfpkg_update(lab: Lab, name: str, content: Path, strict: bool) -> None:
    """Replace the content of a VNF package by another revision."""
    _onboarded(lab, *lab.engine.catalogue.update(VNFDS, name, content, strict))


def _onboarded(lab: Lab, document: Document, warnings: list[str]) -> None:
    for warning in warnings:
        lab.out.remark(f"WARNING: {warning}")
    lab.out.identity(document)


# -- network services and slices -----------------------------------------------------------------


@cli.command("ns-create")
@instantiates("ns", "nsd", NSDS)
@click.option("--timeout", type=click.IntRange(1), help="Seconds the deployment may take.")
def ns_create(lab: Lab, request: InstanceRequest, wait: bool) -> None:
    """Instantiate a network service."""
    started = lab.engine.ns_create(request)
    if not wait:
        lab.follow(started, wait)
        lab.out.identity(started.nsr)
        return
    lab.out.remark(f"ns {request.name}: {started.nsr['_id']}")
    try:
        lab.follow(started, wait, request.timeout)
    finally:
        nsr = lab.engine.store.readable(NSRS, started.nsr["_id"])
        if nsr is not None:
            summary(lab, lab.view(NSRS, nsr))


@cli.command("nsi-create")
@instantiates("nsi", "nst", NSTS)
def nsi_create(lab: Lab, request: InstanceRequest, wait: bool) -> None:
    """Instantiate a network slice: its services start side by side."""
    started = lab.slices.create(request)
    lab.follow(started, wait)
    lab.out.identity(started.nsr)


@cli.command("ns-delete")
@click.argument("name", type=SERVICE)
@click.option("--force", is_flag=True, help="Delete what can be deleted, even if a step fails.")
@click.option(
    "--config",
    "config_text",
    default="",
    help="skip_terminate_primitives, timeout_ns_terminate (seconds).",
)
@waits
@click.option("--timeout", type=click.IntRange(1), help="Seconds to wait with --wait.")
@pass_lab
def ns_delete(
    lab: Lab, name: str, force: bool, config_text: str, wait: bool, timeout: int | None
) -> None:
    """Terminate and delete a network service, also one whose creation was killed."""
    if lab.discarded(NSRS, name):
        return
    config = load_mapping(config_text, "--config")
    started = lab.engine.ns_delete(name, force, config)
    lab.follow(started, wait, timeout)
    lab.out.remark("Deleted" if wait else "Deletion in progress")


@cli.command("nsi-delete")
@click.argument("name", type=SLICE)
@click.option("--force", is_flag=True, help="Delete what can be deleted, even if a step fails.")
@waits
@pass_lab
def nsi_delete(lab: Lab, name: str, force: bool, wait: bool) -> None:
    """Terminate and delete a network slice; shared services are deleted with their last slice."""
    if lab.discarded(NSIS, name):
        return
    lab.follow(lab.slices.delete(name, force), wait)
    lab.out.remark("Deleted" if wait else "Deletion in progress")


@cli.command("ns-action")
@click.argument("name", type=SERVICE)
@click.option("--params", "params_text", default="", help="Its parameters, YAML text.")
@click.option("--params_file", type=click.Path(path_type=Path), help="The same from a file.")
@click.option("--vnf_name", type=VNF, help="member-vnf-index of the VNF.")
@click.option("--action_name", type=PRIMITIVE, required=True, help="Name of the day-2 primitive.")
@click.option("--vdu_id", help="VDU, for a primitive of VDU level.")
@click.option("--vdu_count", type=click.IntRange(0), help="Instance of the VDU.")
@click.option("--wait", is_flag=True, help="Wait for the result and print it.")
@click.option("--timeout", type=click.IntRange(1), help="Seconds the action may take.")
@pass_lab
def ns_action(
    lab: Lab,
    name: str,
    action_name: str,
    params_text: str,
    params_file: Path | None,
    vnf_name: str | None,
    vdu_id: str | None,
    vdu_count: int | None,
    wait: bool,
    timeout: int | None,
) -> None:
    """Run a day-2 primitive."""
    params = yaml_options(params_text, params_file, "--params")
    given = {
        "member_vnf_index": vnf_name,
        "vdu_id": vdu_id,
        "vdu_count_index": vdu_count,
        "timeout_ns_action": timeout,
    }
    body: dict[str, Any] = {"primitive": action_name, "primitive_params": params}
    body |= {key: value for key, value in given.items() if value is not None}
    try:
        started = lab.engine.ns_run(name, "action", body)
    except NbiError as error:
        if vnf_name is not None:
            raise
        indexes = sorted(vnf["member-vnf-index-ref"] for vnf in lab.engine.vnfs(name))
        raise NbiError(
            f"{error}; a primitive of a VNF needs --vnf_name: {', '.join(indexes)}"
        ) from None
    # Who only looks gets the answer at once; the charms may look again because of it.
    reads = action_name.startswith("show-") or action_name == "health"
    lab.follow(started, wait, until_idle=not reads)
    if wait:
        lab.out.result(lab.engine.operation(started.operation["_id"]))
    else:
        lab.out.identity(started.operation)


@cli.command("vnf-scale")
@click.argument("ns_name", type=SERVICE)
@click.argument("vnf_name", type=VNF)
@click.option("--scaling-group", required=True, help="Id of the VNFD's scaling-aspect.")
@click.option("--scale-in", is_flag=True, help="Take a step back.")
@click.option("--scale-out", is_flag=True, help="Take a step, the default.")
@waits
@pass_lab
def vnf_scale(
    lab: Lab,
    ns_name: str,
    vnf_name: str,
    scaling_group: str,
    scale_in: bool,
    scale_out: bool,
    wait: bool,
) -> None:
    """Scale a VNF by its member-vnf-index: instances of VDUs come or go."""
    if scale_in and scale_out:
        raise NbiError("--scale-in and --scale-out are both given; allowed: one of them")
    step = {"member-vnf-index": vnf_name, "scaling-group-descriptor": scaling_group}
    direction = "SCALE_IN" if scale_in else "SCALE_OUT"
    data = {"scaleVnfType": direction, "scaleByStepData": step}
    body = {"scaleType": "SCALE_VNF", "scaleVnfData": data}
    lab.finish(lab.engine.ns_run(ns_name, "scale", body), wait)


@cli.command("ns-update")
@click.argument("name", type=SERVICE)
@click.option("--updatetype", required=True, help="CHANGE_VNFPKG or OPERATE_VNF.")
@click.option("--config", "config_text", required=True, help="What is updated, YAML text.")
@click.option("--timeout", type=click.IntRange(1), help="Seconds the update may take.")
@waits
@pass_lab
def ns_update(
    lab: Lab, name: str, updatetype: str, config_text: str, timeout: int | None, wait: bool
) -> None:
    """Update a network service: CHANGE_VNFPKG refreshes charms, OPERATE_VNF.

    osmclient has CHANGE_VNFPKG only; the other types are those of NBI.
    """
    data = load_mapping(config_text, "--config")
    packages = data.get("changeVnfPackageData")
    if isinstance(packages, list):
        # osmclient takes a list and sends its first entry.
        data = {**data, "changeVnfPackageData": packages[0] if packages else None}
    body = {**data, "updateType": updatetype}
    if timeout is not None:
        body["timeout_ns_update"] = timeout
    lab.finish(lab.engine.ns_run(name, "update", body), wait)


_ANY = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}


@cli.command("ns-heal", context_settings=_ANY)
@click.argument("name", type=SERVICE)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@waits
@pass_lab
def ns_heal(lab: Lab, name: str, args: tuple[str, ...], wait: bool) -> None:
    """Recreate VNFs or VDUs of a network service.

    ARGS, for each VNF: --vnf VNF [--cause TEXT] [--run-day1], then for each VDU:
    --vdu VDU [--count-index N] [--run-day1]. VNF is a member-vnf-index or an id.
    """
    targets = []
    for words in split(args):
        record = lab.engine.vnf(name, words[0])
        targets.append({"vnfInstanceId": record["_id"], **heal_words(words[1:])})
    lab.finish(lab.engine.ns_run(name, "heal", {"healVnfData": targets}), wait)


@cli.command("vnf-heal", context_settings=_ANY)
@click.argument("id")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@waits
@pass_lab
def vnf_heal(lab: Lab, id: str, args: tuple[str, ...], wait: bool) -> None:
    """Recreate a VNF or VDUs of it; ID may be written NS/MEMBER-VNF-INDEX.

    ARGS: [--cause TEXT] [--run-day1], then for each VDU: --vdu VDU [--count-index N] [--run-day1].
    """
    record = vnf_record(lab, id)
    target = {"vnfInstanceId": record["_id"], **heal_words(args)}
    body = {"healVnfData": [target]}
    lab.finish(lab.engine.ns_run(record["nsr-id-ref"], "heal", body), wait)


@cli.command("vnf-list")
@click.option("--ns", type=SERVICE, help="Only the VNFs of this service.")
@watched
@pass_lab
def vnf_list(lab: Lab, ns: str | None) -> None:
    """List VNF records."""
    own = None if ns is None else lab.engine.ns(ns)["constituent-vnfr-ref"]
    found = lab.views(VNFRS, lab.engine.vnfs(ns))
    lab.out.rows(
        [line for line in found if own is None or line["_id"] in own],
        {
            "vnf id": ["_id"],
            "ns id": ["nsr-id-ref"],
            "vnf member index": ["member-vnf-index-ref"],
            "vnfd name": ["vnfd-ref"],
            "ip address": ["ip-address"],
        },
        spare=("ns id", "vnfd name"),
    )


def main(argv: list[str] | None = None) -> None:
    """Run the command line; print an error as one line and exit with 1 (wrong usage: 2)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names may have what a terminal has not
    _take_form(cli)
    try:
        cli.main(args=argv, prog_name="osm-lab", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        _complain(error.format_message(), 2 if isinstance(error, click.UsageError) else 1)
    except PermissionError as error:
        _complain(f"{error.filename}: permission denied; the lab needs root")
    except BrokenPipeError:
        # Whoever read has enough, as `head`. Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _complain(of_file(error))
    except LabError as error:
        _complain(str(error))


def _take_form(verb: click.Command) -> None:
    """Let a verb, or those of a group, take --json and -o as its own options too."""

    def choose(context: click.Context, option: click.Parameter, chosen: str | bool | None) -> None:
        if chosen and isinstance(context.obj, Lab) and context.obj.out.form != LITERAL:
            context.obj.out.form = "json" if chosen is True else str(chosen)

    settings: dict[str, Any] = {"expose_value": False, "hidden": True, "callback": choose}
    for below in verb.commands.values() if isinstance(verb, click.Group) else ():
        _take_form(below)
    taken = any("--json" in parameter.opts for parameter in verb.params)
    # The words of `console` are another program's.
    foreign = any(parameter.nargs == -1 for parameter in verb.params)
    if not taken and not foreign:
        verb.params += [
            click.Option(["--json"], is_flag=True, **settings),
            click.Option(["-o", "_form"], metavar="FORM", **settings),
        ]


def _complain(text: str, status: int = 1) -> NoReturn:
    tell(f"ERROR: {' '.join(text.split())}", err=True)
    sys.exit(status)
