"""Reading of configuration files: values by keys; errors name file and key."""

import ipaddress
import json
import logging
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import libconf
import yaml

from simulators.errors import EpcError
from simulators.shared.identity import Plmn


def text_of(path: str | Path) -> str:
    """The text of a file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise EpcError(f"{path}: {error.strerror}.") from None


class File:
    """A file's values by keys, or those of a part of it, with errors that name file and key."""

    def __init__(self, path: str | Path, content: Any, place: tuple[str | int, ...] = ()) -> None:
        """Hold ``content``, which lies in the file under the keys ``place``."""
        self.path = path
        self.content = content
        self.place = place

    def get(self, *keys: str | int) -> Any:
        """Return the value of a key; raise EpcError if it is missing."""
        value = self.content
        for key in keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                raise self.wrong(keys, "missing") from None
        return value

    def find(self, *keys: str | int, default: Any = None) -> Any:
        """The value of a key, or a default."""
        try:
            return self.get(*keys)
        except EpcError:
            return default

    def at(self, *keys: str | int) -> "File":
        """Return the part of the file under these keys."""
        return File(self.path, self.get(*keys), (*self.place, *keys))

    def each(self, *keys: str | int) -> "list[File]":
        return [self.at(*keys, number) for number in range(len(self.get(*keys)))]

    def text(self, *keys: str | int, default: str | None = None) -> str:
        """Return a value as text; without a default it must be there."""
        return str(self.get(*keys) if default is None else self.find(*keys, default=default))

    def address(self, *keys: str | int) -> str:
        """Return an IPv4 address without its prefix length."""
        text = self.text(*keys)
        try:
            return str(ipaddress.IPv4Interface(text).ip)
        except ValueError:
            raise self.wrong(keys, f"'{text}' is not an IPv4 address") from None

    def addresses(self, *names: str) -> tuple[str, ...]:
        """Return the addresses of those keys that are there and not empty."""
        return tuple(self.address(name) for name in names if self.find(name))

    def network(self, *keys: str | int) -> ipaddress.IPv4Network:
        """Return an IPv4 network; the file may have an address of it, with the prefix length."""
        text = self.text(*keys)
        try:
            return ipaddress.IPv4Network(text, strict=False)
        except ValueError:
            raise self.wrong(keys, f"'{text}' is no prefix") from None

    def number(self, *keys: str | int, default: int | None = None) -> int:
        """Return a number; the file may have it as number or text."""
        value = self.get(*keys) if default is None else self.find(*keys, default=default)
        try:
            return int(str(value), 0)
        except ValueError:
            raise self.wrong(keys, f"'{value}' is not a number") from None

    def octets(self, *keys: str | int) -> bytes:
        """A key of 16 octets in hexadecimal."""
        text = self.text(*keys)
        if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
            raise self.wrong(keys, "not 32 hexadecimal digits")
        return bytes.fromhex(text)

    def plmn(self, *keys: str | int, mcc: str = "mcc", mnc: str = "mnc") -> Plmn:
        """Return a PLMN; numbers have lost their leading zeros, and ``mnc_length`` has them."""
        size = self.number(*keys, "mnc_length", default=2)
        return Plmn(self.text(*keys, mcc).zfill(3), self.text(*keys, mnc).zfill(size))

    def wrong(self, keys: Iterable[str | int], why: str) -> EpcError:
        """Return the error for a key with a wrong value."""
        return EpcError(f"{self.path}: {'.'.join(map(str, (*self.place, *keys)))}: {why}.")


#: Reader and its error by the suffix of a file; other files have libconfig's format.
_READERS: dict[str, tuple[Callable[[str], Any], type[Exception]]] = {
    ".json": (json.loads, json.JSONDecodeError),
    ".yaml": (yaml.safe_load, yaml.YAMLError),
}


def read(path: str | Path) -> File:
    """Read a JSON, YAML or libconfig file."""
    parse, wrong = _READERS.get(Path(path).suffix, (libconf.loads, libconf.ConfigParseError))
    try:
        return File(path, parse(text_of(path)))
    except wrong as error:
        raise EpcError(f"{path}: {error}.") from None


def level(word: str, default: int = logging.INFO) -> int:
    """Return the number of a log level in any case; ``default`` for a word that is no level."""
    known = logging.getLevelNamesMapping() | {"OFF": logging.CRITICAL + 1, "TRACE": logging.DEBUG}
    return known.get(word.upper(), default)


def interface_address(name: str) -> str:
    """The first IPv4 address of an interface, or the one with this label (ioctl SIOCGIFADDR)."""
    done = subprocess.run(
        ["ip", "-json", "-4", "address", "show", "label", name],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    for one in rows:
        for address in one.get("addr_info", []):
            if address:  # an address with another label is an empty object
                return str(address["local"])
    raise EpcError(f"The interface {name} has no IPv4 address.")


def radio_server(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the server of the radio simulator, from where the image's version expects it.

    Until June 2023 it is the variable RFSIMULATOR, until 2025 the option --rfsimulator.serveraddr,
    later --rfsimulator.[0].serveraddr. If only the image's digest is known, it may be any of them.
    """
    tag = environment.get("SIMULATORS_TAG", "2022.w46")
    week = re.match(r"(\d{4})\.w(\d{2})", tag)
    age = (int(week[1]), int(week[2])) if week else (9999, 0)
    sections = ["rfsimulator" if age < (2025, 1) else "rfsimulator.[0]"]
    if not tag:
        sections = ["rfsimulator", "rfsimulator.[0]"]
    given = dict(pairwise(words))
    for word in given:
        if word.startswith("--rfsimulator") and word[2:].rpartition(".")[0] not in sections:
            raise EpcError(f"unknown option: {word}")
    result = [given[f"--{s}.serveraddr"] for s in sections if f"--{s}.serveraddr" in given]
    if age < (2023, 22) or not tag:
        result.append(environment.get("RFSIMULATOR", ""))
    return next(iter(result), "")


def radio_address(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the IPv4 address of a UE's base station."""
    server = radio_server(words, environment)
    try:
        return str(ipaddress.IPv4Address(server))
    except ValueError:
        raise EpcError(f"The radio simulator's server '{server}' is not an IPv4 address.") from None


def serves_radio(
    words: Sequence[str], environment: Mapping[str, str], what: str, *names: str
) -> None:
    """Check that a base station is the server of the radio simulator."""
    role = radio_server(words, environment)
    if role not in names:
        raise EpcError(f"The radio simulator's server is '{role}', not this {what}.")
