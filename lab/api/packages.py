"""VNF and NS packages and slice templates."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from lab.api import contents
from lab.api.calls import Answer, Call, Resources, Route, below, listed, made, refused
from lab.errors import ConflictError
from lab.nbi import views
from lab.nbi.catalogue import Catalogue
from lab.records.ids import admin, new_id
from lab.records.store import CREATED, Document

Content = Callable[[Catalogue, Document, str], contents.File]


def _packages(kind: str, resources: Resources, call: Call) -> Answer:
    store = resources.engine.store
    used = resources.engine.catalogue.used(kind)
    entries = [views.package(kind, d, d["_id"] in used) for d in store.all(kind)]
    waiting = [d for d in store.all(CREATED) if d["_admin"]["kind"] == kind]
    entries += [views.created_package(kind, d) for d in waiting]
    return listed(entries + store.damaged(kind) + store.damaged(CREATED), call)


def _waiting(kind: str, resources: Resources, key: str) -> Document | None:
    """Return the entry of a package without content."""
    entry = resources.engine.store.readable(CREATED, key)
    return entry if entry is not None and entry["_admin"]["kind"] == kind else None


def _package(kind: str, resources: Resources, call: Call) -> Answer:
    waiting = _waiting(kind, resources, call.key)
    if waiting is not None:
        return Answer(views.created_package(kind, waiting))
    document = resources.get(kind, call.key)
    used = call.key in resources.engine.catalogue.used(kind)
    return Answer(views.package(kind, document, used))


def _onboarded(kind: str, place: str, resources: Resources, call: Call) -> Answer:
    document, _ = resources.engine.catalogue.onboard(kind, call.file)
    return made(place, document["_id"])


def _create_package(kind: str, place: str, resources: Resources, call: Call) -> Answer:
    """Make an entry; its content follows later (SOL005, clauses 5.4.2 and 9.4.2)."""
    key = new_id()
    states = {"onboardingState": "CREATED", "operationalState": "DISABLED"}
    resources.engine.store.put(
        CREATED,
        {
            "_id": key,
            "_admin": {
                **admin(),
                **states,
                "usageState": "NOT_IN_USE",
                "kind": kind,
                "userDefinedData": call.body.get("userDefinedData", call.body),
            },
        },
    )
    return made(place, key, _id=key)


def _upload(kind: str, resources: Resources, call: Call) -> Answer:
    """Onboard the content of an existing entry, or a new revision of a package."""
    if _waiting(kind, resources, call.key) is not None:
        resources.engine.catalogue.onboard(kind, call.file, key=call.key)
        resources.engine.store.delete(CREATED, call.key)
    else:
        resources.get(kind, call.key)
        resources.engine.catalogue.update(kind, call.key, call.file)
    return Answer(None, HTTPStatus.NO_CONTENT)


def _onboarded_package(kind: str, resources: Resources, call: Call) -> Document:
    waiting = _waiting(kind, resources, call.key)
    if waiting is not None:
        raise ConflictError(
            "Cannot get content because this resource is not at 'ONBOARDED' state. "
            f"onboardingState is {waiting['_admin']['onboardingState']}"
        )
    return resources.get(kind, call.key)


def _file(kind: str, content: Content, resources: Resources, call: Call) -> Answer:
    """Send what ``content`` chooses of a package by the Accept header."""
    document = _onboarded_package(kind, resources, call)
    return Answer(None, file=content(resources.engine.catalogue, document, call.accept))


def _artifact(kind: str, resources: Resources, call: Call) -> Answer:
    document = _onboarded_package(kind, resources, call)
    parts = [part for part in call.path.get("path", "").split("/") if part]
    content = contents.artifact(resources.engine.catalogue, document, parts, call.accept)
    return Answer(content) if isinstance(content, list) else Answer(None, file=content)


def _delete_package(kind: str, resources: Resources, call: Call) -> Answer:
    if _waiting(kind, resources, call.key) is not None:
        resources.engine.store.delete(CREATED, call.key)
    elif not resources.discarded(CREATED, call.key):
        if not resources.engine.store.is_damaged(kind, call.key):
            resources.get(kind, call.key)
        resources.engine.catalogue.delete(kind, call.key, call.force)
    return Answer(None, HTTPStatus.NO_CONTENT)


def package_routes(kind: str, base: str, topic: str, content: str, descriptor: str) -> list[Route]:
    upload = partial(_upload, kind)
    routes = [
        Route("POST", f"/{topic}_content", partial(_onboarded, kind, f"{base}/{topic}"), True),
        Route("POST", f"/{topic}", partial(_create_package, kind, f"{base}/{topic}")),
    ]
    for path in (f"/{topic}_content", f"/{topic}"):
        routes += [
            Route("GET", path, partial(_packages, kind)),
            Route("GET", f"{path}/{{id}}", partial(_package, kind)),
            Route("DELETE", f"{path}/{{id}}", partial(_delete_package, kind)),
        ]
    return below(
        f"/{base}",
        *routes,
        Route("PUT", f"/{topic}_content/{{id}}", upload, True),
        Route("PUT", f"/{topic}/{{id}}/{content}", upload, True),
        Route("GET", f"/{topic}/{{id}}/{content}", partial(_file, kind, contents.package)),
        Route("GET", f"/{topic}/{{id}}/{descriptor}", partial(_file, kind, contents.descriptor)),
        Route("GET", f"/{topic}/{{id}}/artifacts", partial(_artifact, kind)),
        Route("GET", f"/{topic}/{{id}}/artifacts/{{path:path}}", partial(_artifact, kind)),
        Route("PATCH", f"/{topic}/{{id}}", refused),
    )
