"""Checks of requests, in NBI's words: `requests.yaml` has what NBI allows in each body."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from builder import documents
from lab.errors import NbiError, unknown

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
    """Return the checked body of an operation, without what the path says."""
    of_path = ("lcmOperationType", "nsInstanceId", "netsliceInstanceId")
    return {k: v for k, v in check(dict(body), kind).items() if k not in of_path}


def check_action(
    primitives: Sequence[Mapping[str, Any]], name: str, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the ``config-primitive`` entry of an action (``NsLcmOpTopic._check_ns_operation``).

    A parameter without a *non-empty* ``default-value`` must be given: NBI does not look at
    ``mandatory``.
    """
    for primitive in primitives:
        if primitive.get("name") != name:
            continue
        parameters = {each["name"]: each for each in primitive.get("parameter") or ()}
        text, extra = "", [key for key in given if key not in parameters]
        for key, parameter in parameters.items():
            if key not in given and not parameter.get("default-value"):
                text = f"Needed parameter {key} not provided for primitive '{name}'"
                break
        if extra:
            also = f"parameter/s '{extra}' not present at vnfd /nsd for primitive '{name}'"
            raise unknown(f"{text}; {also}" if text else also, extra[0], parameters)
        if text:
            raise NbiError(text)
        return primitive
    text = f"Invalid primitive '{name}' is not present at vnfd/nsd"
    raise unknown(text, name, [str(primitive.get("name")) for primitive in primitives])
