"""Servers that a VDU asks: for certificates (CMPv2, EST), and a store of secrets (Vault's API)."""

import re
from typing import Any, Dict, Mapping

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError
from vpnaas.base.x509 import Certificate

_SERVER = re.compile(
    r"\A([a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\]):([0-9]{1,5})(/[A-Za-z0-9._/-]*)?\Z"
)
_NAME = re.compile(r"\A(/[A-Za-z0-9.]{1,20}=[A-Za-z0-9 ._@:-]{1,64}){1,8}\Z")
AUTO = "auto"


@attr.frozen
class Enrolment:
    """A server of CMPv2 or EST, and the root of its own and of the issued certificates."""

    # "host:port" or "host:port/path" of CMP over HTTP (RFC 6712); "host:port" or "host:port/label"
    # of EST (RFC 7030 clause 3.2.2).
    server: str
    root: Certificate  # Certificate of the operator's root authority.
    # Name of the authority to which CMP requests are addressed, "" for openssl's choice.
    recipient: str = ""

    def to_params(self) -> Dict[str, str]:
        """Return the action parameters that `parse` turns into this object."""
        return {
            "server": self.server,
            "ca-certificate": self.root.text,
            "recipient": self.recipient or AUTO,
        }

    @classmethod
    def parse(cls, params: Mapping[str, Any], where: str = "set-enrolment") -> "Enrolment":
        """Parse the parameters of `set-enrolment`, except the link."""
        given = fields.Parameters(where, params)
        server, recipient = given.text("server"), given.text("recipient", AUTO) or AUTO
        match = _SERVER.match(server)
        if not match or not 0 < int(match.group(2)) < 65536:
            raise InputError(
                where + ": server",
                "{} is not a server".format(fields.shown(server)),
                "host:port, or host:port/path with the path of CMP or the label of EST",
            )
        if recipient != AUTO and not _NAME.match(recipient):
            raise InputError(
                where + ": recipient",
                "{} is not a name".format(fields.shown(recipient)),
                "auto, or a name such as /O=Operator/CN=RA",
            )
        return cls(server, root_of(params, where), "" if recipient == AUTO else recipient)


def root_of(params: Mapping[str, Any], where: str) -> Certificate:
    """Parse `ca-certificate`, the root authority that must have issued a server's certificate."""
    given = params.get("ca-certificate", "")
    if not isinstance(given, str):
        raise InputError(where + ": ca-certificate", "not text", "PEM, or base64 of DER")
    return x509.authority(where + ": ca-certificate", given)


_STORE = re.compile(
    r"\Ahttps://((?:[a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\]):[0-9]{1,5})/?\Z"
)
_TOKEN = re.compile(r"\A[A-Za-z0-9._-]{8,500}\Z")
_PATH = re.compile(r"\A[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*){1,16}\Z")


@attr.frozen
class SecretReference:
    """A secret of a store, and the token with which a VDU reads it once."""

    server: str  # "host:port" of its HTTPS.
    root: Certificate  # Certificate of the authority that issued the server's certificate.
    path: str  # "MOUNT/PATH" of a secret of the key/value engine, version 2.
    token: str = attr.field(repr=False)  # Wrapping token, good for one use; it is never stored.

    @classmethod
    def parse(cls, params: Mapping[str, Any], where: str) -> "SecretReference":
        """Parse the parameters of an action that fetches a secret."""
        given = fields.Parameters(where, params)
        path, server = given.text("path"), _STORE.match(given.text("store"))
        if not server or not 0 < int(server.group(1).rpartition(":")[2]) < 65536:
            raise InputError(
                where + ": store",
                "{} is not a store".format(fields.shown(given.text("store"))),
                "https://host:port, such as https://vault.example:8200",
            )
        if not _PATH.match(path):
            raise InputError(
                where + ": path",
                "{} is not the path of a secret".format(fields.shown(path)),
                "MOUNT/PATH, such as secret/core/epc",
            )
        token = params.get("token", "")
        if not isinstance(token, str) or not _TOKEN.match(token.strip(" ")):
            # Do not show its text: most of it may be a valid token.
            raise InputError(where + ": token", "not a wrapping token", "as the store printed it")
        return cls(server.group(1), root_of(params, where), path, token.strip(" "))
