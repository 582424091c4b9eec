"""One call of a hook tool: its arguments, its input, and the output of its client.

Options are read as Juju 2.9's gnuflag reads them. Formats are smart, yaml and json (juju/cmd
output.go).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from builder.declarations import BOOLEANS
from lab.vca.context import ToolError

OUTPUT = {"--format": "format"}


def _as_go(value: object) -> object:
    """Write whole floats without a fraction, as Go does."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _as_go(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_go(item) for item in value]
    return value


def _yaml(value: object) -> str:
    if value is None:
        return ""
    text = yaml.safe_dump(_as_go(value), default_flow_style=False, allow_unicode=True, width=2**31)
    return text.removesuffix("...\n")


def _json(value: object) -> str:
    return (
        json.dumps(_as_go(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    )


def _smart(value: object) -> str:
    if isinstance(value, bool):
        return f"{value}\n"
    if isinstance(value, str):
        return f"{value}\n" if value else ""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(value) + "\n" if value else ""
    return _yaml(value)


FORMATS: Mapping[str, Callable[[object], str]] = {"smart": _smart, "yaml": _yaml, "json": _json}


class UsageError(Exception):
    """Wrong arguments of a tool; exit code 2."""


class NeedStdinError(Exception):
    """The tool reads standard input, which the client has not sent yet."""


@dataclass(frozen=True)
class Request:
    """One call of a tool."""

    tool: str
    arguments: Sequence[str]
    directory: Path
    stdin: bytes | None = None

    def read(self, path: str) -> bytes:
        """Return a file's content; `-` is standard input."""
        if path == "-":
            if self.stdin is None:
                raise NeedStdinError
            return self.stdin
        try:
            return (self.directory / path).read_bytes()
        except OSError as error:
            raise ToolError(f"open {path}: {(error.strerror or 'failed').lower()}") from None


@dataclass(frozen=True)
class Answer:
    """What the client prints and exits with."""

    code: int = 0
    stdout: str = ""
    stderr: str = ""


def refusal(reason: object, code: int = 1) -> Answer:
    """Return the answer to a call that fails."""
    return Answer(code, stderr=f"ERROR {reason}\n")


class Call:
    """A request's options and operands, in any order, as Juju's gnuflag reads them."""

    def __init__(
        self, request: Request, values: Mapping[str, str], switches: Mapping[str, str]
    ) -> None:
        """Parse; `values` and `switches` map spellings (`-r`, `--relation`) to a key."""
        self.request = request
        self._found: dict[str, str] = {}
        self._on: dict[str, bool] = {}
        self.operands: list[str] = []
        rest = list(request.arguments)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self.operands += rest
                break
            if word == "-" or not word.startswith("-"):
                self.operands.append(word)
                continue
            if word.startswith("--"):
                flag, equals, value = word.partition("=")
            else:
                flag, equals, value = word[:2], "=" if len(word) > 2 else "", word[2:].lstrip("=")
            if flag in switches:
                if equals and value not in BOOLEANS:
                    raise UsageError(f'invalid value "{value}" for option {flag}: not a boolean')
                self._on[switches[flag]] = BOOLEANS[value] if equals else True
            elif flag in values:
                if not equals:
                    if not rest:
                        raise UsageError(f"option needs an argument: {flag}")
                    value = rest.pop(0)
                self._found[values[flag]] = value
            else:
                raise UsageError(f"option provided but not defined: {flag}")

    def get(self, key: str) -> str | None:
        """Return an option's value, or None."""
        return self._found.get(key)

    def on(self, key: str) -> bool:
        return self._on.get(key, False)

    def show(self, value: object, default: str = "smart") -> Answer:
        """Return a value in the format of --format."""
        chosen = self.get("format") or default
        if chosen not in FORMATS:
            unknown = f'unknown format "{chosen}"'
            raise UsageError(f'invalid value "{chosen}" for option --format: {unknown}')
        return Answer(stdout=FORMATS[chosen](value))


def key_values(words: Sequence[str]) -> dict[str, str]:
    """Return operands of the form KEY=VALUE."""
    result: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f'expected "key=value", got "{word}"')
        if key in result:
            raise UsageError(f'key "{key}" specified more than once')
        result[key] = value
    return result


def yaml_map(request: Request, path: str) -> dict[str, str]:
    """Return the content of a YAML file that maps text to text."""
    try:
        # The base loader leaves scalars as they are written: everything is text in a databag.
        content = yaml.load(request.read(path), Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ToolError(f"yaml: {' '.join(str(error).split())}") from None
    if content is None or content == "":
        return {}
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise ToolError("yaml: unmarshal errors: expected a map of text to text")
    return content
