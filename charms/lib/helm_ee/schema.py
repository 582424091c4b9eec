"""Check of a primitive's parameters against actions.yaml, as Juju checks those of an action."""

import json
from typing import Any, Callable, Dict, Mapping

import fastjsonschema
import yaml
from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError, VpnaasError

MAX_PARAMS = 1 << 18
MAX_VALUES = 10000
"""Values of a request, each counted as often as an alias repeats it."""
_DATE = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Takes what looks like a date for the text that it is: Juju and JSON have no dates."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class Actions:
    """The actions of a charm."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._check: Dict[str, Callable[[Any], Any]] = {}
        for name, action in declared.items():
            schema = {
                "type": "object",
                "properties": action.get("params") or {},
                "required": list(action.get("required") or ()),
                "additionalProperties": False,
            }
            self._check[name] = fastjsonschema.compile(schema)

    def parameters(self, name: str, given: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the parameters with defaults for those that are not given."""
        if name not in self._check:
            what = "there is no primitive {}".format(fields.shown(name))
            raise InputError("primitive", what, ", ".join(sorted(self._check)))
        try:
            return dict(self._check[name](dict(given)))
        except fastjsonschema.JsonSchemaValueException as error:
            _, _, what = error.message.partition(" ")
            key = ".".join(error.path[1:])
            if key:
                raise VpnaasError("{}: {}: {}".format(name, key, what))
            raise VpnaasError("{}: {}".format(name, error.message.replace("data ", "it ", 1)))


def mapping(text: str) -> Dict[str, Any]:
    """Read the parameters of a request, which LCM writes as YAML."""
    if len(text) > MAX_PARAMS:
        raise InputError("params", "they are too long", "{} characters".format(MAX_PARAMS))
    try:
        document = yaml.load(text, _Loader) if text.strip() else {}  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, *MALFORMED):
        raise InputError("params", "they are not YAML", "a mapping of names to values")
    if not _is_json(document):
        raise InputError("params", "a value is of a kind that JSON has not", "JSON's kinds")
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise InputError("params", "they are no mapping", "a mapping of names to values")
    return document


def _is_json(document: Any) -> bool:
    """Tell whether JSON can express a document, which aliases do not make large."""
    left, seen = [document], 0
    while left:
        value = left.pop()
        seen += 1
        if seen > MAX_VALUES:
            return False
        if isinstance(value, (list, dict)):
            left += value.values() if isinstance(value, dict) else value
    try:
        json.dumps(document, allow_nan=False)
    except MALFORMED:
        return False
    return True
