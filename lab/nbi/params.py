"""Instantiation parameters: the request osmclient makes of a file, and NBI's checks of it."""

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from builder.documents import DocumentError, load, no_json
from lab.errors import NbiError
from lab.records.store import NSDS, NSTS, VIMS, Store


@dataclass(frozen=True)
class InstanceRequest:
    """A user's request to create a service or a slice."""

    name: str  # of the service or the slice.
    descriptor: str  # name or id of its NSD or its template.
    vim_account: str  # name or id.
    config: Mapping[str, Any]  # instantiation parameters, as the user wrote them.
    ssh_keys: list[str] = field(default_factory=list)  # public keys for the VDUs.
    description: str = ""  # free text.
    timeout: int | None = None  # seconds that the deployment may take.


NAME = "^[^,;()'\"]+$"  # NBI's pattern of names (validation.py: name_schema).
NAME_LENGTH = 255
PRIVATE = "PRIVATE KEY-----"  # What the first line of every private key ends with.


def load_mapping(text: str, what: str) -> dict[str, Any]:
    """Parse YAML (or JSON) that must be a mapping; empty text is an empty mapping."""
    try:
        value = load(text)
    except DocumentError as error:
        raise NbiError(f"{what} is no valid YAML: {error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NbiError(f"{what} must be a mapping (key: value)")
    return as_json(value, what)


def as_json(document: dict[str, Any], what: str) -> dict[str, Any]:
    """Return a document as osmclient sends it and records keep it: in JSON, with text as keys."""
    for place, sentence in no_json(document):
        raise NbiError(f"{what}: {place}: {sentence}" if place else f"{what}: {sentence}")
    result: dict[str, Any] = json.loads(json.dumps(document))
    return result


def read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise NbiError(f"{what} '{path}' cannot be read: {reason}") from None


def yaml_options(text: str, path: Path | None, option: str = "--config") -> dict[str, Any]:
    """Return the mapping given by an option, or by the option that names a file."""
    if text and path is not None:
        raise NbiError(f"{option} option is incompatible with {option}_file")
    if path is not None:
        return load_mapping(read_text(path, f"{option}_file"), str(path))
    return load_mapping(text, option)


def public_keys(files: str) -> list[str]:
    """Return the keys in the files of ``--ssh_keys``, names separated by commas."""
    keys = []
    for name in filter(None, files.split(",")):
        text = read_text(Path(name), "--ssh_keys file")
        if PRIVATE in text:
            raise NbiError(f"--ssh_keys file '{name}' is a private key; allowed: its .pub file")
        lines = [line.strip() for line in text.splitlines()]
        keys += [line for line in lines if line and not line.startswith("#")]
    return keys


def _request(
    asked: InstanceRequest, kind: str, config: Mapping[str, Any], store: Store
) -> dict[str, Any]:
    """Return what the requests for a service (``kind`` ns) and a slice (nsi) have alike."""
    name = asked.name
    if not re.fullmatch(NAME, name) or len(name) > NAME_LENGTH:
        raise NbiError(
            f"Format error at '{kind}Name' '{name}'; allowed: 1 to {NAME_LENGTH} characters "
            "without , ; ( ) ' and \"",
            HTTPStatus.UNPROCESSABLE_ENTITY,
        )
    request: dict[str, Any] = copy.deepcopy(dict(config))
    request[f"{kind}Name"] = name
    request["vimAccountId"] = _vim(store, asked.vim_account)
    if asked.description:
        request[f"{kind}Description"] = asked.description
    if asked.timeout is not None:
        request[f"timeout_{kind}_deploy"] = asked.timeout
    if asked.ssh_keys:
        request["ssh_keys"] = asked.ssh_keys
    return request


def _vim(store: Store, name_or_id: str) -> str:
    return str(store.resolve(VIMS, name_or_id)["_id"])


def _resolve_networks(link: dict[str, Any], store: Store) -> None:
    """Turn names of VIM accounts into ids, as keys of a link's ``vim-network-name``."""
    names = link.get("vim-network-name")
    if isinstance(names, dict):
        link["vim-network-name"] = {_vim(store, str(k)): v for k, v in names.items()}


def _resolve_members(service: dict[str, Any], store: Store) -> None:
    """Turn names of VIM accounts into ids, in the ``vnf`` of a service's parameters."""
    for vnf in _mappings(service, "vnf"):
        if "vim_account" in vnf:
            vnf["vimAccountId"] = _vim(store, str(vnf.pop("vim_account")))


def client_params(asked: InstanceRequest, store: Store) -> dict[str, Any]:
    """Return the request osmclient sends for a service.

    ``vim_account`` becomes ``vimAccountId`` and names become ids, in ``vnf`` and in the
    dictionaries of ``vim-network-name``; ``wim_account`` becomes ``wimAccountId``.
    """
    nsd = store.resolve(NSDS, asked.descriptor)["_id"]
    request = _request(asked, "ns", asked.config, store)
    request["nsdId"] = nsd
    if "wim_account" in request:
        request["wimAccountId"] = request.pop("wim_account")
    _resolve_members(request, store)
    for vld in _mappings(request, "vld"):
        _resolve_networks(vld, store)
        if "wim_account" in vld:
            vld["wimAccountId"] = vld.pop("wim_account")
    for entry in _mappings(request, "additionalParamsForVnf"):
        if "member-vnf-index" not in entry:
            raise NbiError(
                "Error at --config 'additionalParamsForVnf' items must contain 'member-vnf-index'"
            )
    return request


def slice_params(asked: InstanceRequest, store: Store) -> dict[str, Any]:
    """Return the request osmclient sends for a slice.

    Of the configuration it has only ``netslice-subnet``, ``netslice-vld``,
    ``additionalParamsForNsi`` and ``timeout_nsi_deploy``. VIM names become ids in ``vnf`` of the
    services and in the dictionaries of ``vim-network-name``.
    """
    sent = ("netslice-subnet", "netslice-vld", "additionalParamsForNsi", "timeout_nsi_deploy")
    config = {key: asked.config[key] for key in sent if key in asked.config}
    nst = store.resolve(NSTS, asked.descriptor)["_id"]
    request = _request(asked, "nsi", config, store)
    request["nstId"] = nst
    subnets = _mappings(request, "netslice-subnet")
    links = [link for subnet in subnets for link in _mappings(subnet, "vld")]
    for link in [*_mappings(request, "netslice-vld"), *links]:
        _resolve_networks(link, store)
    for subnet in subnets:
        _resolve_members(subnet, store)
    return request


def _mappings(request: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    entries = request.get(section)
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise NbiError(f"Error at --config '{section}' must be a list of mappings")
    return entries
