"""VIM accounts: a record and the networks behind it, made and removed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lab.errors import ConflictError
from lab.nbi.engine import Engine
from lab.records.store import VIMS, Document


def create(
    engine: Engine,
    name: str,
    vim_type: str,
    config: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Document:
    """Make a VIM account with its management network; return its record.

    VDUs of an account of the type ``qemu`` are virtual machines, of any other type namespaces.
    ``more`` are fields of OSM's record that the lab only stores, such as ``vim_url``; ``tell`` is
    called with a line for each step that takes minutes.

    Raises:
        NbiError: the name is in use.
        VimError: the configuration is wrong, or this machine cannot do it; nothing is kept.
    """
    from lab.vim import Vim

    document = engine.vim_create(name, vim_type, config, more)
    try:
        kind = "qemu" if vim_type == "qemu" else "namespaces"
        Vim.create(engine.store.home, name, config, kind, tell)
    except BaseException:
        engine.store.delete(VIMS, document["_id"])
        raise
    return document


def check_same(account: Document, config: Mapping[str, Any]) -> None:
    """Refuse a configuration that would change the networks or images of an account.

    Raises:
        NbiError: it would change them.
        VimError: it is wrong.
    """
    from lab.vim import same_config

    if not same_config(account.get("config") or {}, config):
        raise ConflictError(
            f"networks and images of VIM account '{account['name']}' are made once in a lab; "
            "delete the account and make it again"
        )


def delete(engine: Engine, name_or_id: str, force: bool = False) -> Document:
    """Delete a VIM account with all it made; return its last record.

    Raises:
        NbiError: unknown, or in use and not ``force``.
    """
    from lab.vim import Vim

    home = engine.store.home

    def destroy(document: Document) -> None:
        if document["name"] in Vim.names(home):
            Vim.open(home, document["name"]).destroy()

    return engine.vim_delete(name_or_id, force, destroy)
