"""What the interface does: each function answers one method on one kind of path.

All are plain functions, run in threads; they call the engine that ``osm-lab`` calls.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

import lab as package_of_lab
from lab import accounts
from lab.errors import NbiError
from lab.nbi.engine import Engine
from lab.nbi.slices import Slices
from lab.records.ids import admin, new_id
from lab.records.store import (
    CREATED,
    NSDS,
    NSIOPS,
    NSIS,
    NSRS,
    NSTS,
    OPS,
    VIMS,
    VNFDS,
    VNFRS,
    Document,
)
from lab.server import records, schemas
from lab.server.filters import matching
from lab.server.problems import check, not_found, not_there_yet
from lab.server.tokens import NAME, PROJECT_ID, ROLE_ID, USER_ID, Tokens

VERSION = "19.0.0"
"""The release whose interface this is."""


@dataclass(frozen=True)
class Call:
    """One request, after its token was looked at and its body read."""

    method: str
    path: Mapping[str, str]
    query: list[tuple[str, str]]
    body: dict[str, Any]
    token: Mapping[str, Any]
    file: Path = Path()
    """The package that was uploaded, with a route that takes one."""

    @property
    def key(self) -> str:
        """The id in the path."""
        return self.path["id"]

    @property
    def force(self) -> bool:
        """Whether the query string has FORCE, alone or with any value but `false`."""
        return any(name == "FORCE" and text.lower() != "false" for name, text in self.query)


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    value: Any
    status: HTTPStatus = HTTPStatus.OK
    location: str = ""
    text: str | None = None
    """Plain text instead of a document."""


Handler = Callable[["Resources", Call], Answer]


@dataclass(frozen=True)
class Route:
    """Handler of a path. With ``upload``, the body is a package; ``open`` needs no token."""

    method: str
    path: str
    handler: Handler
    upload: bool = False
    open: bool = False


@dataclass(frozen=True)
class Resources:
    """The engine, and who may use it."""

    engine: Engine
    tokens: Tokens
    vca: bool = True
    """Whether a Juju controller is registered; OSM 18 and 19 come without."""
    started: float = field(default_factory=lambda: admin()["created"])

    @property
    def slices(self) -> Slices:
        """The engine for slices."""
        return Slices(self.engine)

    def get(self, table: str, key: str) -> Document:
        """Return a record by its id.

        Raises:
            NbiError: there is none. Clients must look up names themselves.
        """
        record = self.engine.store.find(table, key) if _is_id(key) else None
        if record is None:
            raise not_found(table, key)
        return record


def _is_id(text: str) -> bool:
    return bool(text) and all(c.isalnum() or c == "-" for c in text)


def _listed(documents: list[Document], call: Call) -> Answer:
    return Answer(matching(documents, call.query))


def _made(call: Call, place: str, key: str, **more: Any) -> Answer:
    return Answer({"id": key, **more}, HTTPStatus.CREATED, f"/osm/{place}/{key}")


# -- version, tokens, users ----------------------------------------------------------------------


def version(resources: Resources, call: Call) -> Answer:
    """Tell the release."""
    when = datetime.datetime.fromtimestamp(
        Path(package_of_lab.__file__).stat().st_mtime, datetime.UTC
    )
    return Answer({"version": VERSION, "date": when.date().isoformat()})


def log_in(resources: Resources, call: Call) -> Answer:
    """Give a token."""
    token = resources.tokens.login(check(call.body, schemas.TOKEN))
    return Answer(token, HTTPStatus.CREATED, f"/osm/admin/v1/tokens/{token['id']}")


def tokens(resources: Resources, call: Call) -> Answer:
    """List the tokens."""
    return _listed(resources.tokens.all(), call)


def token(resources: Resources, call: Call) -> Answer:
    """Show a token."""
    return Answer(resources.tokens.find(call.key))


def log_out(resources: Resources, call: Call) -> Answer:
    """End a token: the one named, else the one of the request."""
    key = call.path.get("id") or call.token["id"]
    resources.tokens.logout(key)
    return Answer(f"token '{key}' deleted")


def _administration(resources: Resources) -> dict[str, Document]:
    when = {"created": resources.started, "modified": resources.started}
    mapping = {"project": PROJECT_ID, "project_name": NAME, "role": ROLE_ID}
    tables: dict[str, Document] = {
        "users": {
            "_id": USER_ID,
            "username": NAME,
            "project_role_mappings": [{**mapping, "role_name": "system_admin"}],
            "_admin": when,
        },
        "projects": {"_id": PROJECT_ID, "name": NAME, "admin": True, "_admin": when},
        "roles": {
            "_id": ROLE_ID,
            "name": "system_admin",
            "permissions": {"default": True, "admin": True},
            "_admin": when,
        },
    }
    if resources.vca:
        tables["vca"] = {
            "_id": PROJECT_ID,
            "name": "lab",
            "description": "the controller in the lab",
            "_admin": {**when, "operationalState": "ENABLED", "detailed-status": "Done"},
        }
    return tables


def administration(table: str, resources: Resources, call: Call) -> Answer:
    """List users, projects, roles or controllers: one each; empty for kinds that a lab lacks."""
    record = _administration(resources).get(table)
    return _listed([] if record is None else [record], call)


def administered(table: str, resources: Resources, call: Call) -> Answer:
    """Show one of these, by its id or name."""
    record = _administration(resources).get(table)
    if record is None or call.key not in (record["_id"], record.get("name", NAME)):
        raise not_found(table, call.key)
    return Answer(record)


def refused(resources: Resources, call: Call) -> Answer:
    """Refuse what OSM has and a lab has not."""
    raise not_there_yet(call.method)


def nothing(resources: Resources, call: Call) -> Answer:
    """List what a lab never has."""
    return Answer([])


# -- VIM accounts --------------------------------------------------------------------------------


def vims(resources: Resources, call: Call) -> Answer:
    """List VIM accounts."""
    return _listed([records.vim(v) for v in resources.engine.store.all(VIMS)], call)


def vim(resources: Resources, call: Call) -> Answer:
    """Show a VIM account."""
    return Answer(records.vim(resources.get(VIMS, call.key)))


def new_vim(resources: Resources, call: Call) -> Answer:
    """Make a VIM account; its credentials are for an OpenStack and not kept."""
    body = check(call.body, schemas.VIM_ACCOUNT)
    left_out = ("name", "vim_type", "config", "vim_password", "schema_version", "schema_type")
    more = {key: value for key, value in body.items() if key not in left_out}
    document = accounts.create(
        resources.engine, body["name"], body["vim_type"], body.get("config") or {}, more
    )
    key = document["_id"]
    value = {"_id": key, "id": key, "op_id": f"{key}:0"}
    return Answer(value, HTTPStatus.ACCEPTED, f"/osm/admin/v1/vim_accounts/{key}")


def delete_vim(resources: Resources, call: Call) -> Answer:
    """Delete a VIM account."""
    resources.get(VIMS, call.key)
    accounts.delete(resources.engine, call.key, call.force)
    if call.force:
        return Answer(None, HTTPStatus.NO_CONTENT)
    return Answer({"_id": f"{call.key}:1"}, HTTPStatus.ACCEPTED)


# -- packages ------------------------------------------------------------------------------------


def _packages(kind: str, resources: Resources, call: Call) -> Answer:
    used = _used(kind, resources)
    store = resources.engine.store
    entries = [records.package(kind, d, d["_id"] in used) for d in store.all(kind)]
    waiting = [d for d in store.all(CREATED) if d["_admin"]["kind"] == kind]
    return _listed(entries + [records.created_package(kind, d) for d in waiting], call)


def _used(kind: str, resources: Resources) -> set[str]:
    store = resources.engine.store
    if kind == VNFDS:
        return {vnfr["vnfd-id"] for vnfr in store.all(VNFRS)}
    if kind == NSDS:
        return {nsr["nsd-id"] for nsr in store.all(NSRS)}
    return {nsi["_admin"]["nst-id"] for nsi in store.all(NSIS)}


def _waiting(kind: str, resources: Resources, key: str) -> Document | None:
    """Return the entry of a package without content."""
    entry = resources.engine.store.find(CREATED, key) if _is_id(key) else None
    return entry if entry is not None and entry["_admin"]["kind"] == kind else None


def _package(kind: str, resources: Resources, call: Call) -> Answer:
    waiting = _waiting(kind, resources, call.key)
    if waiting is not None:
        return Answer(records.created_package(kind, waiting))
    document = resources.get(kind, call.key)
    return Answer(records.package(kind, document, call.key in _used(kind, resources)))


def _onboarded(kind: str, place: str, resources: Resources, call: Call) -> Answer:
    """Take a package in one step."""
    document, _ = resources.engine.catalogue.onboard(kind, call.file)
    return _made(call, place, document["_id"])


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
    return _made(call, place, key, _id=key)


def _upload(kind: str, resources: Resources, call: Call) -> Answer:
    """Take the content of an entry made before, or another revision of a VNF package."""
    if _waiting(kind, resources, call.key) is not None:
        resources.engine.catalogue.onboard(kind, call.file, key=call.key)
        resources.engine.store.delete(CREATED, call.key)
    elif resources.get(kind, call.key) and kind == VNFDS:
        resources.engine.catalogue.update(call.key, call.file)
    else:
        raise NbiError(
            f"package '{call.key}' is onboarded already; the lab takes other revisions of VNF "
            "packages only",
            HTTPStatus.CONFLICT,
        )
    return Answer(None, HTTPStatus.NO_CONTENT)


def _descriptor(kind: str, resources: Resources, call: Call) -> Answer:
    document = resources.get(kind, call.key)
    body: Any = document["descriptor"]
    envelope = {VNFDS: "vnfd", NSDS: "nsd", NSTS: "nst"}[kind]
    if kind == NSDS:
        body = {"nsd": [body]}
    elif kind == NSTS:
        body = [body]
    return Answer(None, text=yaml.safe_dump({envelope: body}, sort_keys=False))


def _delete_package(kind: str, resources: Resources, call: Call) -> Answer:
    if _waiting(kind, resources, call.key) is not None:
        resources.engine.store.delete(CREATED, call.key)
    else:
        resources.get(kind, call.key)
        resources.engine.catalogue.delete(kind, call.key, call.force)
    return Answer(None, HTTPStatus.NO_CONTENT)


def _bound(function: Callable[..., Answer], *first: str) -> Handler:
    return lambda resources, call: function(*first, resources, call)


def _package_routes(kind: str, base: str, topic: str, content: str, descriptor: str) -> list[Route]:
    upload = _bound(_upload, kind)
    routes = [
        Route("POST", f"/{topic}_content", _bound(_onboarded, kind, f"{base}/{topic}"), True),
        Route("POST", f"/{topic}", _bound(_create_package, kind, f"{base}/{topic}")),
    ]
    for path in (f"/{topic}_content", f"/{topic}"):
        routes += [
            Route("GET", path, _bound(_packages, kind)),
            Route("GET", f"{path}/{{id}}", _bound(_package, kind)),
            Route("DELETE", f"{path}/{{id}}", _bound(_delete_package, kind)),
        ]
    return _below(
        f"/{base}",
        *routes,
        Route("PUT", f"/{topic}_content/{{id}}", upload, True),
        Route("PUT", f"/{topic}/{{id}}/{content}", upload, True),
        Route("GET", f"/{topic}/{{id}}/{descriptor}", _bound(_descriptor, kind)),
        Route("PATCH", f"/{topic}/{{id}}", refused),
    )


# -- network services ----------------------------------------------------------------------------


def services(resources: Resources, call: Call) -> Answer:
    """List network services."""
    resources.engine.reap()
    members: dict[str, list[Document]] = {}
    for vnfr in resources.engine.store.all(VNFRS):
        members.setdefault(vnfr["nsr-id-ref"], []).append(vnfr)
    nsrs = resources.engine.store.all(NSRS)
    return _listed([records.ns(n, members.get(n["_id"], ())) for n in nsrs], call)


def service(resources: Resources, call: Call) -> Answer:
    """Show a network service."""
    resources.engine.reap()
    document = resources.get(NSRS, call.key)
    members = [v for v in resources.engine.store.all(VNFRS) if v["nsr-id-ref"] == call.key]
    return Answer(records.ns(document, members))


def new_service(resources: Resources, call: Call) -> Answer:
    """Record a service and instantiate it."""
    body = check(call.body, schemas.NS_INSTANTIATE)
    step = f"getting nsd id='{body['nsdId']}' from database"
    try:
        resources.get(NSDS, body["nsdId"])
    except NbiError as error:
        raise NbiError(f"{error} while '{step}'", error.status) from None
    _known_vim(resources, body["vimAccountId"])
    apart = ("nsName", "nsdId", "nsDescription", "vimAccountId", "ssh_keys", "timeout_ns_deploy")
    started = resources.engine.ns_create(
        body["nsName"],
        body["nsdId"],
        body["vimAccountId"],
        {key: value for key, value in body.items() if key not in apart},
        body.get("ssh_keys") or [],
        body.get("nsDescription") or "",
        body.get("timeout_ns_deploy"),
    )
    key = started.nsr["_id"]
    more = {"nslcmop_id": started.operation["_id"], "nsName": started.nsr["name"]}
    return _made(call, "nslcm/v1/ns_instances_content", key, **more)


def _known_vim(resources: Resources, key: str) -> None:
    if resources.engine.store.find(VIMS, key) is None:
        raise NbiError(f"Invalid vimAccountId='{key}' not present for the project")


def _accepted(started: Any, place: str, key: str, **more: Any) -> Answer:
    op_id = started.operation["_id"]
    return Answer({key: op_id, **more}, HTTPStatus.ACCEPTED, f"/osm/{place}/{op_id}")


def action(resources: Resources, call: Call) -> Answer:
    """Run a day-2 primitive."""
    nsr = resources.get(NSRS, call.key)
    body = check(call.body, schemas.NS_ACTION)
    if "kdu_name" in body:
        text = f"Invalid parameter kdu_name='{body['kdu_name']}' not present at vnfd:kdu:name"
        raise NbiError(text)
    started = resources.engine.ns_action(
        call.key,
        body["primitive"],
        body["primitive_params"],
        body.get("member_vnf_index", body.get("vnf_member_index")),
        body.get("vdu_id"),
        body.get("vdu_count_index"),
        body.get("timeout_ns_action"),
    )
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "id", nsName=nsr["name"])


def heal(resources: Resources, call: Call) -> Answer:
    """Recreate VDUs of a service."""
    nsr = resources.get(NSRS, call.key)
    body = check(call.body, schemas.NS_HEAL)
    started = resources.engine.ns_heal(call.key, body["healVnfData"], body.get("timeout_ns_heal"))
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "id", nsName=nsr["name"])


def scale(resources: Resources, call: Call) -> Answer:
    """Scale a VNF of a service."""
    nsr = resources.get(NSRS, call.key)
    body = check(call.body, schemas.NS_SCALE)
    data = body["scaleVnfData"]
    step = data["scaleByStepData"]
    started = resources.engine.vnf_scale(
        call.key,
        step["member-vnf-index"],
        step["scaling-group-descriptor"],
        data["scaleVnfType"] == "SCALE_IN",
        body.get("timeout_ns_scale"),
    )
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "id", nsName=nsr["name"])


def update(resources: Resources, call: Call) -> Answer:
    """Update a service."""
    nsr = resources.get(NSRS, call.key)
    body = check(call.body, schemas.NS_UPDATE)
    started = resources.engine.ns_update(
        call.key, body["updateType"], body, body.get("timeout_ns_update")
    )
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "id", nsName=nsr["name"])


def terminate(resources: Resources, call: Call) -> Answer:
    """Terminate a service; its records are deleted too, as with ``autoremove``."""
    nsr = resources.get(NSRS, call.key)
    body = check(call.body, schemas.NS_TERMINATE)
    skip = bool(body.get("skip_terminate_primitives"))
    started = resources.engine.ns_delete(call.key, False, skip)
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "id", nsName=nsr["name"])


def delete_service(resources: Resources, call: Call) -> Answer:
    """Terminate a service and delete it; parameters stand in the query string."""
    nsr = resources.get(NSRS, call.key)
    given = {k: yaml.safe_load(v) for k, v in call.query if k in schemas.NS_TERMINATE["properties"]}
    skip = bool(check(given, schemas.NS_TERMINATE).get("skip_terminate_primitives"))
    started = resources.engine.ns_delete(call.key, call.force, skip)
    return _accepted(started, "nslcm/v1/ns_lcm_op_occs", "_id", nsName=nsr["name"])


def delete_services(resources: Resources, call: Call) -> Answer:
    """Terminate several services."""
    keys = call.body.get("ns_ids") or []
    for key in keys:
        resources.get(NSRS, str(key))
    for key in keys:
        resources.engine.ns_delete(str(key))
    return Answer({"ns_ids": keys}, HTTPStatus.ACCEPTED)


def operations(resources: Resources, call: Call) -> Answer:
    """List operations on services."""
    resources.engine.reap()
    store = resources.engine.store
    owners = {n["_id"]: n for n in store.all(NSRS)}
    result = [records.operation(o, store, owners.get(o["nsInstanceId"])) for o in store.all(OPS)]
    return _listed(result, call)


def operation(resources: Resources, call: Call) -> Answer:
    """Show an operation on a service."""
    resources.engine.reap()
    document = resources.get(OPS, call.key)
    store = resources.engine.store
    owner = store.find(NSRS, document["nsInstanceId"])
    return Answer(records.operation(document, store, owner))


def vnfs(resources: Resources, call: Call) -> Answer:
    """List VNFs."""
    return _listed([records.vnf(v) for v in resources.engine.store.all(VNFRS)], call)


def vnf(resources: Resources, call: Call) -> Answer:
    """Show a VNF."""
    return Answer(records.vnf(resources.get(VNFRS, call.key)))


# -- slices --------------------------------------------------------------------------------------


def slices(resources: Resources, call: Call) -> Answer:
    """List slices."""
    return _listed([records.nsi(n) for n in resources.slices.all()], call)


def one_slice(resources: Resources, call: Call) -> Answer:
    """Show a slice."""
    resources.slices.reap()
    return Answer(records.nsi(resources.get(NSIS, call.key)))


def new_slice(resources: Resources, call: Call) -> Answer:
    """Record a slice and instantiate it."""
    body = check(call.body, schemas.NSI_INSTANTIATE)
    resources.get(NSTS, body["nstId"])
    _known_vim(resources, body["vimAccountId"])
    apart = ("nsiName", "nstId", "nsiDescription", "vimAccountId", "ssh_keys", "timeout_nsi_deploy")
    started = resources.slices.create(
        body["nsiName"],
        body["nstId"],
        body["vimAccountId"],
        {key: value for key, value in body.items() if key not in apart},
        body.get("ssh_keys") or [],
        body.get("nsiDescription") or "",
    )
    key = started.nsr["_id"]
    place = "nsilcm/v1/netslice_instances_content"
    return _made(call, place, key, nsilcmop_id=started.operation["_id"])


def delete_slice(resources: Resources, call: Call) -> Answer:
    """Terminate a slice and delete it."""
    resources.get(NSIS, call.key)
    started = resources.slices.delete(call.key, call.force)
    return _accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "_id")


def terminate_slice(resources: Resources, call: Call) -> Answer:
    """Terminate a slice; its records are deleted too."""
    resources.get(NSIS, call.key)
    started = resources.slices.delete(call.key)
    return _accepted(started, "nsilcm/v1/nsi_lcm_op_occs", "id")


def slice_operations(resources: Resources, call: Call) -> Answer:
    """List operations on slices."""
    resources.slices.reap()
    store = resources.engine.store
    return _listed([records.operation(o, store, None) for o in store.all(NSIOPS)], call)


def slice_operation(resources: Resources, call: Call) -> Answer:
    """Show an operation on a slice."""
    resources.slices.reap()
    document = resources.get(NSIOPS, call.key)
    return Answer(records.operation(document, resources.engine.store, None))


# -- paths ---------------------------------------------------------------------------------------


def _below(prefix: str, *routes: Route) -> list[Route]:
    return [Route(r.method, prefix + r.path, r.handler, r.upload, r.open) for r in routes]


def _admin_tables() -> list[Route]:
    routes = []
    for table in (
        "users",
        "projects",
        "roles",
        "vca",
        "wim_accounts",
        "sdns",
        "k8sclusters",
        "k8srepos",
        "osmrepos",
    ):
        path = f"/admin/v1/{table}"
        routes += [
            Route("GET", path, _bound(administration, table)),
            Route("GET", f"{path}/{{id}}", _bound(administered, table)),
            Route("POST", path, refused),
            Route("PATCH", f"{path}/{{id}}", refused),
            Route("DELETE", f"{path}/{{id}}", refused),
        ]
    return routes


ROUTES: list[Route] = [
    Route("GET", "/version", version, open=True),
    *_below(
        "/admin/v1",
        Route("POST", "/tokens", log_in, open=True),
        Route("GET", "/tokens", tokens),
        Route("DELETE", "/tokens", log_out),
        Route("GET", "/tokens/{id}", token),
        Route("DELETE", "/tokens/{id}", log_out),
        Route("GET", "/vim_accounts", vims),
        Route("POST", "/vim_accounts", new_vim),
        Route("GET", "/vim_accounts/{id}", vim),
        Route("DELETE", "/vim_accounts/{id}", delete_vim),
        Route("PATCH", "/vim_accounts/{id}", refused),
    ),
    *_admin_tables(),
    Route("GET", "/pdu/v1/pdu_descriptors", nothing),
    Route("GET", "/nsd/v1/ns_config_template", nothing),
    *_package_routes(VNFDS, "vnfpkgm/v1", "vnf_packages", "package_content", "vnfd"),
    *_package_routes(NSDS, "nsd/v1", "ns_descriptors", "nsd_content", "nsd"),
    *_package_routes(NSTS, "nst/v1", "netslice_templates", "nst_content", "nst"),
    *_below(
        "/nslcm/v1",
        Route("GET", "/ns_instances_content", services),
        Route("POST", "/ns_instances_content", new_service),
        Route("GET", "/ns_instances_content/{id}", service),
        Route("DELETE", "/ns_instances_content/{id}", delete_service),
        Route("GET", "/ns_instances", services),
        Route("POST", "/ns_instances", refused),
        Route("GET", "/ns_instances/{id}", service),
        Route("DELETE", "/ns_instances/{id}", delete_service),
        Route("POST", "/ns_instances/{id}/action", action),
        Route("POST", "/ns_instances/{id}/terminate", terminate),
        Route("POST", "/ns_instances_terminate", delete_services),
        Route("POST", "/ns_instances/{id}/heal", heal),
        Route("POST", "/ns_instances/{id}/scale", scale),
        Route("POST", "/ns_instances/{id}/update", update),
        *(
            Route("POST", f"/ns_instances/{{id}}/{verb}", refused)
            for verb in ("instantiate", "migrate")
        ),
        Route("GET", "/ns_lcm_op_occs", operations),
        Route("GET", "/ns_lcm_op_occs/{id}", operation),
        Route("POST", "/ns_lcm_op_occs/{id}/cancel", refused),
        *(
            route
            for topic in ("vnfrs", "vnf_instances")
            for route in (
                Route("GET", f"/{topic}", vnfs),
                Route("GET", f"/{topic}/{{id}}", vnf),
            )
        ),
    ),
    *_below(
        "/nsilcm/v1",
        Route("GET", "/netslice_instances_content", slices),
        Route("POST", "/netslice_instances_content", new_slice),
        Route("GET", "/netslice_instances_content/{id}", one_slice),
        Route("DELETE", "/netslice_instances_content/{id}", delete_slice),
        Route("GET", "/netslice_instances", slices),
        Route("GET", "/netslice_instances/{id}", one_slice),
        Route("POST", "/netslice_instances/{id}/terminate", terminate_slice),
        Route("GET", "/nsi_lcm_op_occs", slice_operations),
        Route("GET", "/nsi_lcm_op_occs/{id}", slice_operation),
    ),
]
"""Every method and path the interface answers, below ``/osm``."""
