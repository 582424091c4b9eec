"""``osm-lab links``: the links of services as they are now."""

import dataclasses
import time
from concurrent.futures import Future, ThreadPoolExecutor

import click

from builder.link_table import COLUMNS, SPARE, Link, columns
from builder.link_table import links as table
from lab.cli.context import Lab, pass_lab
from lab.cli.names import SERVICE_OR_SLICE
from lab.cli.watching import watched
from lab.errors import ConflictError, NbiError
from lab.lcm import looking
from lab.lcm.backends import Backends
from lab.records.store import NSIS, NSRS

PATIENCE = 2.0
"""Seconds to wait for an operation to end; then the last look is shown, with its age."""
AT_ONCE = 2  # Services that are asked at the same time.


@click.command("links")
@click.argument("name", type=SERVICE_OR_SLICE, required=False)
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
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = [(ns_id, Future[list[Link]]()) for ns_id in _services(lab, name)]
        looks = [pool.submit(_look, lab, *each) for each in answers]
        # What the charms do after their answers is waited for after this.
        _show(lab, [link for _, answer in answers for link in answer.result()])
    for look in looks:
        look.result()


def _show(lab: Lab, found: list[Link]) -> None:
    if lab.out.as_json:
        fields = {heading: [field] for heading, field in COLUMNS.items()}
        lab.out.rows([dataclasses.asdict(link) for link in found], fields)
        return
    lab.out.table(columns(found), SPARE)


def _services(lab: Lab, name: str | None) -> list[str]:
    if name is None:
        return [str(nsr["_id"]) for nsr in lab.engine.store.all(NSRS)]
    kind, found = lab.engine.store.instance(name)
    if kind == NSIS:
        return [str(entry["nsrId"]) for entry in found["_admin"]["nsrs-detailed-list"]]
    return [str(found["_id"])]


def _look(lab: Lab, ns_id: str, answer: Future[list[Link]]) -> None:
    def told() -> None:
        answer.set_result(table(*looking.looks(lab.home, ns_id), time.time()))

    try:
        looking.look(Backends(lab.home), ns_id, PATIENCE, told)
    except ConflictError as error:
        lab.out.remark(str(error))
        told()
    except Exception as error:
        if answer.done():
            raise
        answer.set_exception(error)
