"""Loading YAML: one type of error, and limits for size and depth."""

import copy
import datetime
import functools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from builder.errors import BuildError

MAX_CHARACTERS = 2 << 20
"""Limit of a text, which takes seconds to read. The largest real descriptors have a hundredth."""
MAX_NODES = 200_000
"""Nodes of a document with its aliases expanded; the largest real descriptors have a hundredth."""
MAX_DEPTH = 64
MAX_DIGITS = 1000  # Characters of an integer. Python refuses to print one of more than 4300 digits.
INTEGER = "tag:yaml.org,2002:int"
MERGE = "tag:yaml.org,2002:merge"
KINDS = {datetime.date: "date", datetime.datetime: "time", bytes: "binary data", set: "set"}
"""What YAML has and JSON has not."""

Loader = Callable[[str], yaml.SafeLoader]
FASTEST: Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader, ten times faster, where PyYAML has it."""
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, which writes the same.


class DocumentError(ValueError):
    """A text is not usable YAML; `str()` gives the reason in one line."""


def read(path: Path, loader: Loader = FASTEST) -> dict[str, Any]:
    """Read a file that people write: a mapping in which no key stands twice."""
    try:
        document = _parsed(path.read_bytes(), loader)
    except OSError as error:
        raise BuildError(f"{path}: {error.strerror}") from None
    except DocumentError as error:
        raise BuildError(f"{path}: not YAML: {error}") from None
    if not isinstance(document, dict):
        raise BuildError(f"{path}: must be a mapping")
    # Callers change the result; the original stays in the cache.
    return copy.deepcopy(document)


@functools.lru_cache(maxsize=64)
def _parsed(text: bytes, loader: Loader) -> Any:
    """Return the content of a file; cached, because charms share most of their files."""
    return load(text, loader, unique=True)


def day_1_2(vnfd: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entries of `day1-2` in all flavours of a VNFD: of the VNF and of VDUs."""
    for _, entry, _ in walk(vnfd, f"{EVERY_DAY12}[]"):
        yield entry


def environments(vnfd: Mapping[str, Any], key: str) -> Iterator[str]:
    """Yield what execution environments of a VNFD have at a key, such as `juju/charm`."""
    for _, value, _ in walk(vnfd, f"{EVERY_DAY12}[]/execution-environment-list[]/{key}?"):
        yield str(value)


def charm_of(entry: Mapping[str, Any], primitive: Mapping[str, Any]) -> str:
    """Return the charm that a primitive of a `day1-2` entry runs on, "" for none.

    It is that of the environment to which the primitive refers, else of the first with a charm.
    """
    reference = primitive.get("execution-environment-ref")
    for _, name, (environment,) in walk(entry, "execution-environment-list[]/juju/charm?"):
        if reference in (None, environment["id"]):
            return str(name)
    return ""


def dump(document: Any) -> str:
    """Return YAML in the style of all files of dist/."""
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=100, allow_unicode=True)
    return text


def load(text: str | bytes, loader: Loader = FASTEST, unique: bool = False) -> Any:
    """Load one YAML document.

    Args:
        unique: Whether a key that stands twice in a mapping is an error.

    Raises:
        DocumentError: Not UTF-8, not YAML, or too large or deep.
    """
    if len(text) > MAX_CHARACTERS:
        raise DocumentError(f"{len(text)} characters; {MAX_CHARACTERS} are allowed")
    try:
        parser = loader(text.decode("utf-8") if isinstance(text, bytes) else text)
        node = parser.get_single_node()
        if node is None:
            return None
        # Check this before construction, because merge keys (<<) copy the content of their aliases.
        bounded(node)
        for line, name, first in repeated(node) if unique else ():
            raise DocumentError(f"line {line}: {name!r} stands in line {first} already")
        return parser.construct_document(node)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except DocumentError:
        raise
    except UnicodeDecodeError:
        raise DocumentError("it is not UTF-8 text") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, AttributeError) as error:
        # From 6.0.4 PyYAML has a limit of its own.
        if "exceeded maximum nesting depth" in str(error):
            raise DocumentError("nested too deeply") from None
        if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
            line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
            raise DocumentError(f"line {line}, column {column}: {error.problem}") from None
        # PyYAML does not catch Python's own errors when it constructs dates and numbers.
        raise DocumentError(" ".join(str(error).split())[:200] or "it is no YAML") from None


def bounded(document: Any) -> None:
    """Check that a document, of values or of YAML nodes, is small enough to walk over.

    With YAML aliases a document can contain itself, and a few lines can expand to an exponential
    number of nodes.
    """
    left = [(document, 0)]
    seen = 0
    while left:
        node, depth = left.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise DocumentError("nested too deeply, or an alias that contains itself")
        if seen > MAX_NODES:
            raise DocumentError("too large with its aliases expanded")
        if _long(node):
            raise DocumentError(f"an integer of more than {MAX_DIGITS} digits")
        if isinstance(node, dict):
            left += [(item, depth + 1) for pair in node.items() for item in pair]
        elif isinstance(node, (list, tuple, set, frozenset)):
            left += [(item, depth + 1) for item in node]
        elif isinstance(node, yaml.MappingNode):
            left += [(item, depth + 1) for pair in node.value for item in pair]
        elif isinstance(node, yaml.SequenceNode):
            left += [(item, depth + 1) for item in node.value]


def no_json(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, sentence) of each value that JSON, in which clients send it, does not have."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, (str, int, float, type(None))):
                yield place, f"the key {str(key)[:60]!r} cannot be sent; allowed: text, in quotes"
            yield from no_json(item, f"{place}/{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from no_json(item, f"{place}[{index}]")
    elif not isinstance(value, (str, int, float, type(None))):
        kind = KINDS.get(type(value), "value")
        text = f" {str(value)!r}" if isinstance(value, datetime.date) else ""
        yield place, f"the {kind}{text} cannot be sent; allowed: text, in quotes"
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, f"{value} cannot be sent; allowed: a number, or text in quotes"


def _long(node: Any) -> bool:
    """Tell whether a value or YAML node is a very long integer, also a hexadecimal one."""
    if isinstance(node, yaml.ScalarNode):
        return node.tag == INTEGER and len(node.value) > MAX_DIGITS
    return isinstance(node, int) and node.bit_length() > 4 * MAX_DIGITS


def _nodes(root: Any) -> Iterator[Any]:
    """Yield a node and all below it, each once."""
    left, done = [root], set()
    while left:
        node = left.pop()
        if id(node) in done:  # an alias, or an alias inside itself
            continue
        done.add(id(node))
        yield node
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            left += [each for pair in node.value for each in pair]


def misread(root: Any) -> Iterator[tuple[int, str, int]]:
    """Yield (line, text, number) of numbers of base 8 or 60 below a node, which look decimal."""
    for node in _nodes(root):
        if isinstance(node, yaml.ScalarNode) and node.tag == INTEGER:
            if re.fullmatch("[-+]?(?:0[0-9_]+|[0-9_]+(?::[0-9_]+)+)", node.value):
                number = yaml.SafeLoader("").construct_yaml_int(node)
                if ":" in node.value or int(node.value) != number:
                    yield node.start_mark.line + 1, node.value, number


def repeated(root: Any) -> Iterator[tuple[int, str, int]]:
    """Return (line, key, line of the first) of every repeated key below a node."""
    for node in _nodes(root):
        if isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                    continue
                line = key.start_mark.line + 1
                if key.value in lines:
                    yield line, key.value, lines[key.value]
                lines[key.value] = line


NICS = "int-cpd[]/virtual-network-interface-requirement[]"  # Path of the NICs of a VDU.
DAY12 = "df[0]/lcm-operations-configuration/operate-vnf-op-config/day1-2"
"""Path of the day1-2 entries that OSM uses in a VNFD."""
EVERY_DAY12 = DAY12.replace("[0]", "[]")  # The same in all flavours.
Found = tuple[str, Any, tuple[dict[str, Any], ...]]
"""A place, what is there, and the entries of lists on the way, with the entry itself."""


def walk(
    node: Any, path: str, place: str = "", entries: tuple[dict[str, Any], ...] = ()
) -> Iterator[Found]:
    """Yield what is at a path, such as `df[]/vnf-profile[]`; a missing key or null ends it.

    `[]` goes through a list, `[0]` takes its first entry, as OSM does with `df`, and `[-KEY]` the
    entries without a key. With `?` after a key its value may not be empty.
    """
    head, _, rest = path.partition("/")
    name, bracket, which = head.partition("[")
    key = name.removesuffix("?")
    value = node.get(key)
    if value is None or (key != name and not value):
        return
    for index, item in enumerate(value if bracket else [value]):
        if (which == "0]" and index) or (which[:1] == "-" and which[1:-1] in item):
            continue
        spot = f"{place}/{key}[{index}]" if bracket else f"{place}/{key}"
        way = (*entries, item) if bracket and isinstance(item, dict) else entries
        if rest:
            yield from walk(item, rest, spot, way)
        else:
            yield spot, item, way


def placeholder(value: Any) -> str:
    """Return NAME of <NAME>, which LCM replaces by an instantiation parameter; "" for all else."""
    whole = isinstance(value, str) and value.startswith("<") and value.endswith(">")
    return str(value)[1:-1] if whole else ""


def initial_values(vnfd: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the values of parameters of initial primitives, of the VNF and of its VDUs."""
    yield from walk(vnfd, f"{DAY12}[]/initial-config-primitive[]/parameter[]/value")


def profiles_of(nsd: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the vnf-profile of each member of a service, by its member-vnf-index."""
    return {str(each["id"]): each for _, each, _ in walk(nsd, "df[0]/vnf-profile[]")}


def ip_profile(link_profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ip-profile that LCM makes of an NSD's virtual-link-profile."""
    layer3 = (link_profile.get("virtual-link-protocol-data") or {}).get("l3-protocol-data") or {}
    names = {"cidr": "subnet-address", "gateway-ip": "gateway-address"}
    found = {new: layer3[old] for old, new in names.items() if layer3.get(old) is not None}
    if layer3.get("dhcp-enabled") is not None:
        found["dhcp-params"] = {"enabled": layer3["dhcp-enabled"]}
    return found


def links_of(nsd: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield (member, connection, link) for each member of a service on each of its links."""
    for _, point, (_, profile, _) in walk(nsd, "df[0]/vnf-profile[]/virtual-link-connectivity[]"):
        yield str(profile["id"]), point, str(point["virtual-link-profile-id"])


def nics_at(vnfd: Any, points: Collection[object]) -> list[tuple[str, str]]:
    """Return (VDU, name) of the NICs behind external connection points."""
    ends = [end for _, end, (point,) in walk(vnfd, "ext-cpd[]/int-cpd?") if point["id"] in points]
    return [
        (vdu["id"], str(nic["name"]))
        for _, nic, (vdu, cpd, _) in walk(vnfd, f"vdu[]/{NICS}")
        if {"vdu-id": vdu["id"], "cpd": cpd["id"]} in ends
    ]
