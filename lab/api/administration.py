"""The release, tokens, users, Juju controllers and VIM accounts."""

import datetime
from http import HTTPStatus
from pathlib import Path

import lab as package_of_lab
from lab import accounts
from lab.api.calls import Answer, Call, Resources, listed
from lab.api.problems import not_found
from lab.api.tokens import NAME, ROLE_ID, USER_ID
from lab.errors import ConflictError, NbiError
from lab.nbi.requests import check
from lab.nbi.views import PROJECT_ID
from lab.records.ids import admin, new_id
from lab.records.store import VCAS, VIMS, Document
from lab.vim.account import same_config
from lab.vim.connector import is_openstack

VERSION = "19.0.0"  # The release whose interface this is.


def version(resources: Resources, call: Call) -> Answer:
    when = datetime.datetime.fromtimestamp(
        Path(package_of_lab.__file__).stat().st_mtime, datetime.UTC
    )
    return Answer({"version": VERSION, "date": when.date().isoformat()})


def log_in(resources: Resources, call: Call) -> Answer:
    """Log in: answer with a new token."""
    token = resources.tokens.login(check(call.body, "token"), call.client)
    return Answer(token, HTTPStatus.CREATED, f"/osm/admin/v1/tokens/{token['id']}")


def tokens(resources: Resources, call: Call) -> Answer:
    return listed(resources.tokens.all(), call)


def token(resources: Resources, call: Call) -> Answer:
    return Answer(resources.tokens.find(call.key))


def log_out(resources: Resources, call: Call) -> Answer:
    """End a token: the one named, else the one of the request."""
    key = call.path.get("id") or call.token["id"]
    resources.tokens.logout(key)
    return Answer(f"token '{key}' deleted")


def domains(resources: Resources, call: Call) -> Answer:
    """Show the domains of Keystone: none, because the lab has its own users."""
    return Answer({"user_domain_name": None, "project_domain_name": None})


def _administration(table: str, resources: Resources) -> list[Document]:
    """Return the records of users, projects, roles or Juju controllers; none of other tables."""
    when = {"created": resources.started, "modified": resources.started}
    if table == "users":
        role = {"role": ROLE_ID, "role_name": "system_admin"}
        return [
            {
                "_id": USER_ID,
                "username": NAME,
                "projects": [NAME],
                "project_role_mappings": [{"project": PROJECT_ID, "project_name": NAME, **role}],
                "_admin": {**when, "user_status": "always-active"},
            }
        ]
    if table == "projects":
        return [{"_id": PROJECT_ID, "name": NAME, "admin": True, "_admin": when}]
    if table == "roles":
        permissions = {"default": True, "admin": True}
        role = {"_id": ROLE_ID, "name": "system_admin"}
        return [{**role, "permissions": permissions, "_admin": when}]
    if table != VCAS:
        return []
    own = {
        "_id": PROJECT_ID,
        "name": "lab",
        "description": "the controller in the lab",
        "_admin": {**when, "operationalState": "ENABLED", "detailed-status": "Done"},
    }
    store = resources.engine.store
    return [*([own] if resources.vca else []), *store.all(VCAS), *store.damaged(VCAS)]


def administration(table: str, resources: Resources, call: Call) -> Answer:
    """List users, projects, roles or Juju controllers; empty for kinds that a lab lacks."""
    return listed(_administration(table, resources), call)


def administered(table: str, resources: Resources, call: Call) -> Answer:
    """Show a user, project, role or Juju controller, by its id or name."""
    for record in _administration(table, resources):
        if call.key in (record["_id"], record.get("name", NAME)):
            return Answer(record)
    raise not_found(table, call.key)


def _made(place: str, key: str) -> Answer:
    value = {"_id": key, "id": key, "op_id": f"{key}:0"}
    return Answer(value, HTTPStatus.ACCEPTED, f"/osm/admin/v1/{place}/{key}")


def _deleted(call: Call) -> Answer:
    if call.force:
        return Answer(None, HTTPStatus.NO_CONTENT)
    return Answer({"_id": f"{call.key}:1"}, HTTPStatus.ACCEPTED)


def new_vca(resources: Resources, call: Call) -> Answer:
    """Store the record of a Juju controller, without its secret; the lab never calls it."""
    body = check(call.body, "vca")
    store = resources.engine.store
    state = {"operationalState": "ENABLED", "detailed-status": "Done"}
    record = {**_without_secret(body), "_id": new_id(), "_admin": {**admin(), **state}}
    with store.lock(VCAS):
        _check_name(resources, record)
        store.put(VCAS, record)
    return _made("vca", record["_id"])


def _check_name(resources: Resources, record: Document) -> None:
    for known in _administration(VCAS, resources):
        if known["name"] == record["name"] and known["_id"] != record["_id"]:
            raise ConflictError(f"name '{record['name']}' already exists for vca")


def _without_secret(body: Document) -> Document:
    return {key: value for key, value in body.items() if key not in ("secret", "schema_type")}


def edit_vca(resources: Resources, call: Call) -> Answer:
    resources.get(VCAS, call.key)
    body = check(call.body, "vca edit")
    _require_content(body)
    with resources.engine.store.edit(VCAS, call.key) as record:
        record.update(_without_secret(body))
        _check_name(resources, record)
    return Answer({"op_id": f"{call.key}:1"}, HTTPStatus.ACCEPTED)


def delete_vca(resources: Resources, call: Call) -> Answer:
    store = resources.engine.store
    if resources.discarded(VCAS, call.key):
        return _deleted(call)
    resources.get(VCAS, call.key)
    if not call.force and any(vim.get("vca") == call.key for vim in store.all(VIMS)):
        text = "There is at least one VIM account using this vca"
        raise ConflictError(text)
    store.delete(VCAS, call.key)
    return _deleted(call)


def _require_content(body: Document) -> None:
    if not body:
        raise NbiError("Nothing to update. Provide payload and/or query string")


def new_vim(resources: Resources, call: Call) -> Answer:
    """Make a VIM account; its password is for an OpenStack, and no record here has it."""
    body = check(call.body, "vim")
    left_out = ("name", "vim_type", "config", "vim_password", "schema_version", "schema_type")
    more = {key: value for key, value in body.items() if key not in left_out}
    document = accounts.create(
        resources.engine,
        body["name"],
        body["vim_type"],
        body.get("config") or {},
        more,
        body["vim_password"],
    )
    return _made("vim_accounts", document["_id"])


def edit_vim(resources: Resources, call: Call) -> Answer:
    """Change the record of a VIM account; its networks do not change."""
    before = resources.get(VIMS, call.key)
    body = check(call.body, "vim edit")
    _require_content(body)
    for name in ("name", "vim_type"):
        if body.get(name, before[name]) != before[name]:
            raise ConflictError(
                f"the {name} of VIM account '{before['name']}' cannot be changed in a lab; make "
                "another account"
            )
    if "vca" in body and body["vca"] not in [
        known["_id"] for known in _administration(VCAS, resources)
    ]:
        raise not_found(VCAS, body["vca"])
    config = {**(before.get("config") or {}), **(body.get("config") or {})}
    config = {name: value for name, value in config.items() if value is not None}
    if is_openstack(resources.engine.store.home, before["name"]):
        access = {"vim_url", "vim_user", "vim_password", "vim_tenant_name"}
        if access & body.keys() or config != before.get("config"):
            raise ConflictError(
                f"log-in and configuration of VIM account '{before['name']}' are set once in a "
                "lab; delete the account and make it again"
            )
    elif not same_config(before.get("config") or {}, config):
        raise ConflictError(
            f"networks and images of VIM account '{before['name']}' are made once in a lab; "
            "delete the account and make it again"
        )
    change = {name: value for name, value in body.items() if name != "vim_password"}
    with resources.engine.store.edit(VIMS, call.key) as known:
        known.update({**change, "config": config})
    return Answer({"op_id": f"{call.key}:1"}, HTTPStatus.ACCEPTED)


def delete_vim(resources: Resources, call: Call) -> Answer:
    if resources.discarded(VIMS, call.key):
        return _deleted(call)
    resources.get(VIMS, call.key)
    accounts.delete(resources.engine, call.key, call.force)
    return _deleted(call)
