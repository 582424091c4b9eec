"""Bodies of requests: `requests.yaml` has what NBI allows in each."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from builder import documents
from lab.errors import NbiError
from lab.nbi.params import InstanceRequest

UPDATES = {"CHANGE_VNFPKG": "changeVnfPackageData", "OPERATE_VNF": "operateVnfData"}
"""Type of an update -> field with its parameters."""


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of body."""
    bodies: dict[str, Any] = documents.read(Path(__file__).with_suffix(".yaml"))["bodies"]
    found: dict[str, Any] = bodies[kind]
    return found


def check(document: Any, kind: str) -> dict[str, Any]:
    """Return a request's body, checked against the schema of its kind."""
    import jsonschema  # It loads slowly; few verbs need it.

    try:
        jsonschema.Draft202012Validator(schema(kind)).validate(document)
    except jsonschema.ValidationError as error:
        place = "at '" + ":".join(str(part) for part in error.path) + "'" if error.path else ""
        text = f"Format error {place} '{error.message}' "
        raise NbiError(text, HTTPStatus.UNPROCESSABLE_ENTITY) from None
    result: dict[str, Any] = document
    return result


def operation(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked body of an operation, without what the path says: operation, service."""
    checked = check(dict(body), kind)
    return {k: v for k, v in checked.items() if k not in ("lcmOperationType", "nsInstanceId")}


def instance(kind: str, body: Mapping[str, Any]) -> InstanceRequest:
    """Return the request in a checked body for a service (``kind`` ns) or a slice (nsi)."""
    left = check(dict(body), kind) | {}
    for key in ("lcmOperationType", "nsInstanceId", "netsliceInstanceId"):
        left.pop(key, None)
    return InstanceRequest(
        left.pop(f"{kind}Name"),
        left.pop({"ns": "nsdId", "nsi": "nstId"}[kind]),
        left.pop("vimAccountId"),
        ssh_keys=left.pop("ssh_keys", None) or [],
        description=left.pop(f"{kind}Description", None) or "",
        timeout=left.pop(f"timeout_{kind}_deploy", None),
        config=left,
    )
