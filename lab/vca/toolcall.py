"""One call of a hook tool: its arguments, its input, and the output of its client.

Options are read as Juju 2.9's gnuflag reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.vca.context import HookContext, ToolError
from lab.vca.toolformat import FORMATS

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


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


Tool = Callable[[HookContext, Request], Answer]
"""A hook tool."""


class Arguments:
    """Options and operands, in any order, as Juju's gnuflag reads them."""

    def __init__(
        self,
        arguments: Sequence[str],
        values: Mapping[str, str] | None = None,
        switches: Mapping[str, str] | None = None,
    ) -> None:
        """Parse; `values` and `switches` map spellings (`-r`, `--relation`) to a key."""
        self._found: dict[str, str] = {}
        self._on: dict[str, bool] = {}
        self.operands: list[str] = []
        values, switches = values or {}, switches or {}
        rest = list(arguments)
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
                if equals and value not in _BOOLEANS:
                    raise UsageError(f'invalid value "{value}" for option {flag}: not a boolean')
                self._on[switches[flag]] = _BOOLEANS[value] if equals else True
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
        """Whether a switch is on."""
        return self._on.get(key, False)

    def take(self, most: int) -> list[str]:
        """Return the operands; raise UsageError if there are more than `most`."""
        if len(self.operands) > most:
            shown = " ".join(f'"{word}"' for word in self.operands[most:])
            raise UsageError(f"unrecognized args: [{shown}]")
        return self.operands


OUTPUT = {"--format": "format", "-o": "output", "--output": "output"}


def show(request: Request, arguments: Arguments, value: object, default: str = "smart") -> Answer:
    """Return a value in the format of --format, or write it to the file of --output."""
    chosen = arguments.get("format") or default
    if chosen not in FORMATS:
        raise UsageError(f'invalid value "{chosen}" for option --format: unknown format "{chosen}"')
    text = FORMATS[chosen](value)
    path = arguments.get("output")
    if path:
        (request.directory / path).write_text(text, encoding="utf-8")
        return Answer()
    return Answer(stdout=text)


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
