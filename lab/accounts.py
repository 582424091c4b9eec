"""VIM accounts: a record and the networks behind it, made and removed together."""

from collections.abc import Callable, Mapping
from typing import Any

from lab.errors import ConflictError
from lab.nbi.engine import Engine
from lab.records.ids import admin, new_id
from lab.records.operations import discard
from lab.records.store import NSRS, VIMS, VNFRS, Document


def create(
    engine: Engine,
    name: str,
    vim_type: str,
    config: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
    password: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> Document:
    """Make a VIM account with its management network; return its record.

    ``vim_type`` is a type of the lab or one of a cloud, see :mod:`lab.vim.connector`. ``more`` are
    other fields of OSM's record: ``vim_url``, ``vim_user`` and ``vim_tenant_name`` are for an
    OpenStack, as is ``password``, which the record does not have. ``tell`` is called with a line
    for each step that takes minutes, and for what the user should know. Nothing is kept of an
    account that cannot be made.
    """
    from lab.vim.connector import create as create_vim

    more = more or {}
    document = {
        **more,
        "_id": new_id(),
        "name": name,
        "vim_type": vim_type,
        "config": dict(config),
        "_admin": {**admin(), "operationalState": "ENABLED"},
    }
    store = engine.store
    with store.lock(VIMS):
        if any(v["name"] == name for v in store.all(VIMS)):
            raise ConflictError(f"name '{name}' already exists for vim_accounts")
        store.put(VIMS, document)
    try:
        user, tenant, url = (
            str(more.get(key) or "") for key in ("vim_user", "vim_tenant_name", "vim_url")
        )
        login = {"user": user, "tenant": tenant, "password": password}
        said = create_vim(store.home, name, vim_type, config, url, login, tell)
        if said:
            with store.edit(VIMS, document["_id"]) as known:
                known["_admin"]["detailed-status"] = said
    except BaseException:
        store.delete(VIMS, document["_id"])
        raise
    return document


def delete(engine: Engine, name_or_id: str, force: bool = False) -> None:
    """Delete a VIM account: first all it made, then its record, so that one can try again."""
    from lab.vim.account import Vim
    from lab.vim.connector import connect, is_openstack

    store = engine.store
    if discard(store, VIMS, name_or_id):
        return
    document = store.resolve(VIMS, name_or_id)
    if not force:
        for vnfr in store.all(VNFRS):
            if vnfr["vim-account-id"] == document["_id"]:
                nsr = store.readable(NSRS, vnfr["nsr-id-ref"]) or {}
                raise ConflictError(
                    f"vim account '{document['name']}' is in use by ns '{nsr.get('name')}'"
                )
    name = document["name"]
    if name in Vim.names(store.home) or is_openstack(store.home, name):
        connect(store.home, name).destroy()
    store.delete(VIMS, document["_id"])
