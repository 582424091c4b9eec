"""osmclient's verbs for network slice instances."""

from pathlib import Path

import click

from lab.cli.context import Lab, pass_lab
from lab.cli.names import SLICE, named
from lab.cli.options import instantiation_options, literally
from lab.cli.watching import watched
from lab.graph.states import links_of
from lab.nbi.params import InstanceRequest, public_keys, yaml_options
from lab.records.store import NSIS, NSRS, NSTS, Document


@click.command("nsi-create")
@click.option("--nsi_name", required=True, help="Name of the slice.")
@click.option("--nst_name", type=named(NSTS), required=True, help="Name or id of its template.")
@instantiation_options
@pass_lab
def nsi_create(
    lab: Lab,
    nsi_name: str,
    nst_name: str,
    vim_account: str,
    config_text: str,
    config_file: Path | None,
    ssh_keys: str,
    description: str,
    admin_status: str | None,
    wait: bool,
) -> None:
    """Instantiate a network slice: its services start side by side."""
    config = yaml_options(config_text, config_file)
    keys = public_keys(ssh_keys)
    started = lab.slices.create(
        InstanceRequest(nsi_name, nst_name, vim_account, config, keys, description)
    )
    lab.follow(started, wait)
    lab.out.identity(started.nsr)


@click.command("nsi-list")
@watched
@pass_lab
def nsi_list(lab: Lab) -> None:
    """List network slices."""
    lab.out.rows(
        lab.views(
            NSIS,
            ({**n, "links": links_of(lab.home, *services(lab, n))} for n in lab.slices.all()),
        ),
        {
            "netslice instance name": ["name"],
            "id": ["_id"],
            "links": ["links"],
            "operational status": ["operational-status"],
            "config status": ["config-status"],
            "detailed status": ["detailed-status"],
        },
        spare=("id",),
    )


@click.command("nsi-show")
@click.argument("name", type=SLICE)
@literally
@watched
@pass_lab
def nsi_show(lab: Lab, name: str) -> None:
    """Show a network slice with its services."""
    nsi = lab.view(NSIS, lab.slices.nsi(name))
    template = nsi["network-slice-template"]
    shown = {
        **nsi,
        "SNSSAI-identifier": template.get("SNSSAI-identifier"),
        "quality-of-service": template.get("quality-of-service"),
        "services": [_service(lab, entry) for entry in nsi["_admin"]["nsrs-detailed-list"]],
    }
    states = ("operational-status", "config-status", "detailed-status")
    template_fields = ("SNSSAI-identifier", "quality-of-service")
    lab.out.fields(shown, ("_id", "name", "nst-ref", *states, *template_fields, "services"))


@click.command("nsi-delete")
@click.argument("name", type=SLICE)
@click.option("--force", is_flag=True, help="Delete what can be deleted, even if a step fails.")
@click.option("--wait", is_flag=True, help="Show progress until it is done.")
@pass_lab
def nsi_delete(lab: Lab, name: str, force: bool, wait: bool) -> None:
    """Terminate and delete a network slice; shared services are deleted with their last slice."""
    if lab.discarded(NSIS, name):
        return
    lab.follow(lab.slices.delete(name, force), wait)
    lab.out.remark("Deleted" if wait else "Deletion in progress")


SLICE_VERBS = {
    command: command.name.replace("nsi-", "netslice-instance-", 1)
    for command in (nsi_create, nsi_list, nsi_show, nsi_delete)
    if command.name is not None
}
"""Each verb with osmclient's other name for it."""


def services(lab: Lab, nsi: Document) -> list[Document]:
    """Return the records of a slice's services that are there."""
    found = [
        lab.engine.store.readable(NSRS, e["nsrId"]) for e in nsi["_admin"]["nsrs-detailed-list"]
    ]
    return [nsr for nsr in found if nsr is not None]


def _service(lab: Lab, entry: Document) -> dict[str, object]:
    nsr = lab.engine.store.readable(NSRS, entry["nsrId"]) or {}
    users = [
        nsi["name"]
        for nsi in lab.engine.store.all(NSIS)
        if any(n["nsrId"] == entry["nsrId"] for n in nsi["_admin"]["nsrs-detailed-list"])
    ]
    return {
        "id": entry["nss-id"],
        "ns": nsr.get("name"),
        "state": nsr.get("nsState"),
        "links": links_of(lab.home, nsr) if nsr else None,
        "shared": entry["shared"],
        "slices": ", ".join(users),
    }
