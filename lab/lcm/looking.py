"""A look at the links of services: what every VNF answers to show-status at one moment.

It is no operation of OSM. The last two looks are kept, so that whoever reads one knows its age, and
rates can be told. Who shows links notes that somebody watches; then the lab's timer looks often.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder.link_table import Answer
from lab import files
from lab.descriptors.environments import Environment
from lab.descriptors.service import Service, service, vnfrs_of
from lab.errors import LcmError
from lab.lcm.backends import Backends
from lab.lcm.helmops import HelmOps
from lab.lcm.timeouts import lab_timeouts
from lab.records.operations import ns_folder
from lab.records.store import NSRS
from lab.vca.model import Model

PRIMITIVE = "show-status"
PATIENCE = 60.0  # Seconds for which a VNF may take to answer.
WATCHED = 15.0  # Seconds for which a note that somebody watches is good.
AT_ONCE = 8  # VNFs of a service that are asked at the same time.


def look(
    backends: Backends, ns_id: str, patience: float, told: Callable[[], None] = lambda: None
) -> None:
    """Ask every VNF of a service that has links; record what they say.

    Args:
        patience: Seconds to wait for an operation on the service to end.
        told: Is called once it is recorded. The charms then finish the hooks they have begun, which
            takes seconds: two ends of a dead link make each other look again.

    Raises:
        ConflictError: an operation goes on.
    """
    with files.locked(backends.home / "lcm" / "locks" / ns_id, patience, f"ns {ns_id}"):
        svc = service(backends.store.get(NSRS, ns_id), backends.store)
        asked, answers = list(_with_links(backends, svc)), []
        with ExitStack() as running:
            if any(not env.helm for env in asked) and ns_id in backends.controller().models():
                model = running.enter_context(backends.controller().model(ns_id))
                answers = _ask(backends, [env for env in asked if not env.helm], svc, model)
            answers += _ask(backends, [env for env in asked if env.helm], svc, None)
            last, _ = looks(backends.home, ns_id)
            document = [[asdict(answer) for answer in each] for each in (answers, last)]
            files.replace(_file(backends.home, ns_id), json.dumps(document))
            told()


def looks(home: Path, ns_id: str) -> tuple[list[Answer], list[Answer]]:
    """Return the last look at a service and the one before it; empty without any."""
    try:
        now, before = json.loads(_file(home, ns_id).read_text(encoding="utf-8"))
        return [Answer(**one) for one in now], [Answer(**one) for one in before]
    except (OSError, ValueError, TypeError):
        return [], []


def watch(home: Path) -> None:
    """Note that somebody watches the links of this lab."""
    path = home / "lcm" / "watched"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def watched(home: Path) -> bool:
    try:
        return abs(time.time() - (home / "lcm" / "watched").stat().st_mtime) < WATCHED
    except OSError:
        return False


def _file(home: Path, ns_id: str) -> Path:
    folder = ns_folder(home, ns_id)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "looks.json"


def _with_links(backends: Backends, svc: Service) -> Iterable[Environment]:
    """Yield the environments of members that are there and have the primitive."""
    there = vnfrs_of(backends.store, svc.nsr["_id"])
    for env in svc.environments:
        if env.member_vnf_index in there and any(p["name"] == PRIMITIVE for p in env.config):
            yield env


def _ask(
    backends: Backends, asked: list[Environment], svc: Service, model: Model | None
) -> list[Answer]:
    """Ask charms (`model` runs them in this process), or pods (None)."""

    def one(env: Environment) -> Answer:
        member, problem = str(env.member_vnf_index), ""
        shown: Mapping[str, Any] = {}
        if env.vdu_id is not None and env.count_index:
            member += f"/{env.count_index}"
        try:
            shown = _answer(backends, svc, env, model)
        except LcmError as error:
            problem = str(error)
        return Answer(svc.nsr["name"], member, time.time(), shown, problem)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, asked))


def _answer(
    backends: Backends, svc: Service, env: Environment, model: Model | None
) -> Mapping[str, Any]:
    if model is None:
        ops = HelmOps(backends.cluster(), env, svc.nsr["_id"], lab_timeouts(), "")
        text = ops.primitive(PRIMITIVE, {}, PATIENCE)
    else:
        done = model.run_action(env.application, PRIMITIVE, {}, PATIENCE)
        model.forget_action(done.id)
        text = str(done.results.get("output", ""))
        if done.status != "completed":
            raise LcmError(text or done.message)
    try:
        shown = json.loads(text)
    except ValueError:
        shown = None
    if not isinstance(shown, dict):
        raise LcmError(f"{PRIMITIVE} of vnf '{env.member_vnf_index}' returns no links")
    return shown
