"""Servers that a VDU asks: for certificates (CMPv2, EST), and a store of secrets (Vault's API)."""

import re
from typing import Any

import attr

from vpnaas.base import fields, x509
from vpnaas.base.declared import Declared, optional_field, text_field, value_field
from vpnaas.base.errors import InputError
from vpnaas.base.x509 import Certificate

_SERVER = re.compile(
    r"\A([a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\]):([0-9]{1,5})(/[A-Za-z0-9._/-]*)?\Z"
)
_NAME = re.compile(r"\A(/[A-Za-z0-9.]{1,20}=[A-Za-z0-9 ._@:-]{1,64}){1,8}\Z")
_STORE = re.compile(
    r"\Ahttps://((?:[a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\]):[0-9]{1,5})/?\Z"
)
_TOKEN = re.compile(r"\A[A-Za-z0-9._-]{8,500}\Z")
_PATH = re.compile(r"\A[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*){1,16}\Z")


def _server(where: str, text: str) -> str:
    match = _SERVER.match(text)
    fits = match and 0 < int(match.group(2)) < 65536
    allowed = "host:port, or host:port/path with the path of CMP or the label of EST"
    return fields.matching(fits, where, text, "a server", allowed)


def _recipient(where: str, text: str) -> str:
    allowed = "auto, or a name such as /O=Operator/CN=RA"
    return fields.matching(_NAME.match(text), where, text, "a name", allowed)


def _store(where: str, text: str) -> str:
    match = _STORE.match(text)
    server = match.group(1) if match else ""
    fits = match and 0 < int(server.rpartition(":")[2]) < 65536
    fields.matching(
        fits, where, text, "a store", "https://host:port, such as https://vault.example:8200"
    )
    return server


def _path(where: str, text: str) -> str:
    allowed = "MOUNT/PATH, such as secret/core/epc"
    return fields.matching(_PATH.match(text), where, text, "the path of a secret", allowed)


def _root(where: str, text: Any) -> Certificate:
    if not isinstance(text, str):
        raise InputError(where, "not text", "PEM, or base64 of DER")
    return x509.authority(where, text)


def _token(where: str, text: Any) -> str:
    if not isinstance(text, str) or not _TOKEN.match(text.strip(" ")):
        # Do not show its text: most of it may be a valid token.
        raise InputError(where, "not a wrapping token", "as the store printed it")
    return text.strip(" ")


@attr.frozen
class Enrolment(Declared):
    """A server of CMPv2 or EST, and the root of its own and of the issued certificates."""

    action = "set-enrolment"
    # "host:port" or "host:port/path" of CMP over HTTP (RFC 6712); "host:port" or "host:port/label"
    # of EST (RFC 7030 clause 3.2.2).
    server: str = text_field(_server)
    # Name of the authority to which CMP requests are addressed, "" for openssl's choice.
    recipient: str = optional_field(_recipient, words=fields.AUTO)
    # Certificate of the operator's root authority.
    root: Certificate = value_field(_root, "", lambda root: root.text, key="ca-certificate")


@attr.frozen
class SecretReference(Declared):
    """A secret of a store, and the token with which a VDU reads it once."""

    server: str = text_field(_store, key="store")  # "host:port" of its HTTPS.
    path: str = text_field(_path)  # "MOUNT/PATH" of a secret of the key/value engine, version 2.
    # Wrapping token, good for one use; it is never stored.
    token: str = value_field(_token, "", hidden=True)
    # Certificate of the authority that issued the server's certificate.
    root: Certificate = value_field(_root, "", key="ca-certificate")
