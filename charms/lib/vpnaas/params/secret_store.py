"""References to secrets in a store with Vault's API, and tokens that are good for one use.

The charm gets the reference and the wrapping token; the secret goes from the store to the VDU.
"""

import re
from typing import Any, Mapping

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.x509 import Certificate
from vpnaas.params.enrolment import root_of

_SERVER = re.compile(
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
        path, server = given.text("path"), _SERVER.match(given.text("store"))
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
