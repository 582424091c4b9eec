"""``osm-lab links``: the links of services as they are now."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import click

from builder.link_table import COLUMNS, Link
from builder.link_table import links as table
from lab.cli.context import Lab, pass_lab
from lab.cli.watching import watched
from lab.errors import ConflictError, NbiError
from lab.lcm import looking
from lab.lcm.backends import Backends
from lab.records.store import NSIS, NSRS

PATIENCE = 2.0
"""Seconds to wait for an operation to end; then the last look is shown, with its age."""
AT_ONCE = 2
"""Services that are asked at the same time."""


@click.command("links")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Of all services.")
@watched
@pass_lab
def links(lab: Lab, name: str | None, everything: bool) -> None:
    """Show the links of the service or slice NAME: every end is asked now.

    While an operation goes on, the last look is shown with its age. Rates come with the second look
    (--watch).
    """
    if (name is None) is not everything:
        raise NbiError("name a service or a slice, or give --all")
    found: list[Link] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for rows in pool.map(lambda ns_id: _links(lab, ns_id), _services(lab, name)):
            found += rows
    if lab.out.as_json:
        lab.out.json([dataclasses.asdict(link) for link in found])
        return
    cells = [link.cells() for link in found]
    # A column without a word is no help.
    shown = [heading for heading in COLUMNS if any(row[heading] for row in cells)]
    lab.out.rows(cells, {heading: [heading] for heading in shown or ["link"]})


def _services(lab: Lab, name: str | None) -> list[str]:
    if name is None:
        return [str(nsr["_id"]) for nsr in lab.engine.store.all(NSRS)]
    kind, found = lab.engine.store.instance(name)
    if kind == NSIS:
        return [str(entry["nsrId"]) for entry in found["_admin"]["nsrs-detailed-list"]]
    return [str(found["_id"])]


def _links(lab: Lab, ns_id: str) -> list[Link]:
    try:
        looking.look(Backends(lab.home), ns_id, PATIENCE)
    except ConflictError as error:
        lab.out.remark(str(error))
    answers, before = looking.looks(lab.home, ns_id)
    return table(answers, before, time.time())
