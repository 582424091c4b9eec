"""The way into an OpenStack: what an account says of it, the log-in, and sentences of refusals."""

import contextlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import keystoneauth1.exceptions as keystone
import openstack
import requests
from openstack.exceptions import HttpException, SDKException
from pydantic import BaseModel, ConfigDict

from lab.errors import VimError

#: The version of Nova's API that RO asks for.
_NOVA = "2.60"

#: Seconds that an API may take for an answer.
API_SECONDS = 120


class Settings(BaseModel):
    """OSM's configuration of an OpenStack account; RO's other keys have no effect here."""

    model_config = ConfigDict(extra="ignore")
    management_network_name: str = "mgmtnet"
    user_domain_id: str | None = None
    user_domain_name: str | None = None
    project_domain_id: str | None = None
    project_domain_name: str | None = None
    region_name: str | None = None
    #: Do not verify certificates, or verify them with a file of authorities.
    insecure: bool = False
    ca_cert: str | None = None
    use_internal_endpoint: bool = False
    #: Names or ids; of ports with port security.
    security_groups: str | list[str] = []
    #: Management ports get a floating address: of the only external network, or of the one named.
    use_floating_ip: bool | str = False
    #: Take the nearest flavor that has enough, before one is made.
    use_existing_flavors: bool = False
    availability_zone: str | list[str] | None = None
    keypair: str | None = None
    no_port_security_extension: bool = False
    disable_network_port_security: bool = False


class Access(BaseModel):
    """The record of an account; its file is for its owner only, as it has the password."""

    model_config = ConfigDict(extra="forbid")
    #: Part of what marks all that the account makes.
    id: str
    name: str
    url: str
    user: str
    password: str
    tenant: str
    config: Settings


def answers(url: str) -> bool:
    """Say whether anything answers HTTP at the address."""
    try:
        requests.get(url, timeout=5)
    except requests.exceptions.SSLError:
        return True
    except requests.RequestException:
        return False
    return True


@lru_cache(maxsize=64)
def _connection(text: str) -> Any:
    access = Access.model_validate_json(text)
    config = access.config
    domains = {}
    for whose in ("user", "project"):
        name = getattr(config, f"{whose}_domain_name")
        known = getattr(config, f"{whose}_domain_id") or (None if name else "default")
        domains[f"{whose}_domain_name"], domains[f"{whose}_domain_id"] = name, known
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        app_name="osm-lab",
        api_timeout=API_SECONDS,
        compute_default_microversion=_NOVA,
        region_name=config.region_name,
        interface="internal" if config.use_internal_endpoint else "public",
        verify=not config.insecure,
        cacert=config.ca_cert,
        auth={
            "auth_url": access.url,
            "username": access.user,
            "password": access.password,
            "project_name": access.tenant,
            **{key: value for key, value in domains.items() if value},
        },
    )


def connection(access: Access) -> Any:
    """Return the connection of an account; it logs in, and again when its token has expired."""
    return _connection(access.model_dump_json())


@contextlib.contextmanager
def refusals(access: Access) -> Iterator[None]:
    """Make one sentence of whatever the OpenStack refuses or fails to answer."""
    try:
        yield
    except (SDKException, keystone.ClientException) as error:
        raise VimError(f"OpenStack '{access.name}' {_said(access, error)}") from None


def _said(access: Access, error: Exception) -> str:
    if isinstance(error, keystone.Unauthorized):
        return f"refuses the password of user '{access.user}' in project '{access.tenant}'."
    if isinstance(error, keystone.SSLError):
        return f"has a certificate at {access.url} that is not trusted: set ca_cert, or insecure."
    text = " ".join(str(getattr(error, "details", None) or error).split())
    if isinstance(error, keystone.ConnectFailure | keystone.ConnectTimeout):
        place = re.search(r"https?://[^\s:]+(:\d+)?[^\s:]*", text)
        return f"does not answer at {place[0] if place else access.url}."
    if isinstance(error, keystone.DiscoveryFailure | keystone.MissingAuthPlugin):
        return f"is no Keystone of version 3 at {access.url}."
    if text.lower().startswith(("<!doctype", "<html")):
        return f"answers with a page of HTML, as no API does; log-in was at {access.url}."
    if without := re.match(r"The (\S+) service for \S+ exists but does not have any", text):
        return f"does not answer for its {without[1]} service."
    if unexpected := re.search(r"Unexpected API Error.*<class '(.+)'>", text):
        return f"fails: an API has the error {unexpected[1]}, its log says why."
    if isinstance(error, HttpException) and (error.status_code or 0) >= 500:
        return f"fails: {_ended(text)}"
    return f"refuses: {_ended(text)}"


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
