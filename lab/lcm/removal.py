"""Removal in OSM's order: terminate primitives, then VCA model and VIMs in parallel."""

import time
from collections.abc import Collection, Iterable, Sequence

from lab.descriptors.environments import Environment
from lab.descriptors.primitives import by_seq, terminate_params
from lab.errors import LcmError
from lab.lcm.backends import Backends
from lab.lcm.work import Work
from lab.records.journal import Journal
from lab.together import failures

STAGE = "Stage 3/3: delete execution environment, resources at VIM and K8s."


def run_terminate_primitives(
    work: Work, ns_id: str, environments: Sequence[Environment], day1_run: Collection[str]
) -> None:
    """Run the terminate primitives of the environments whose application is in ``day1_run``.

    An application that an earlier, incomplete operation removed is left out. Of each application
    whose primitives have all run, the record says that they need not run again. The first failure
    ends it, before anything is deleted.
    """
    deadline = time.monotonic() + work.timeouts.terminate_primitives
    for env in environments:
        n2vc = work.connector(ns_id, env)
        if env.application not in day1_run or not n2vc.deployed():
            continue
        primitives = by_seq(env.terminate)
        for number, primitive in enumerate(primitives, start=1):
            name = str(primitive["name"])
            index = env.member_vnf_index
            more = {"application": env.application, "number": number, "total": len(primitives)}
            work.journal.write("primitive", index, name, **more)
            left = deadline - time.monotonic()
            if left <= 0:
                raise LcmError("Timeout: terminate primitives took too long")
            try:
                n2vc.primitive(name, terminate_params(primitive, index), left)
            except LcmError as error:
                raise LcmError(
                    f"terminate_primitive {name}  for vnf_member_index={index} "
                    f"fails with error {error}"
                ) from None
        work.record_vca(ns_id, env.application, needed_terminate=False)


def delete_resources(
    backends: Backends, ns_id: str, vims: Iterable[str], journal: Journal
) -> list[str]:
    """Destroy the model and everything tagged with the NS in its VIMs, at the same time.

    As in LCM, a VDU may be deleted before or after the last hooks of its charm. Return a sentence
    for each part that failed; the other part, and other VIMs, are still deleted.
    """
    journal.write("stage", "ns", STAGE)

    def delete_at_vims() -> None:
        errors = []
        for vim in vims:
            try:
                backends.vim(vim).delete_tag(ns_id)
            except LcmError as error:
                errors.append(str(error))
        if errors:
            raise LcmError("; ".join(errors))

    def destroy_environments() -> None:
        backends.destroy_model(ns_id)
        backends.destroy_pods(ns_id)

    tasks = [
        ("Terminating all VCA", destroy_environments),
        ("Removing deployment from VIM", delete_at_vims),
    ]
    return [f"{name}: {error}" for name, error in failures(tasks, "terminate")]
