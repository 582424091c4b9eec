"""charon for programs of the VDU: its protocol vici, and the output of `swanctl --raw`.

The protocol is in strongSwan's src/libcharon/plugins/vici/README.md.
"""

import base64
import re
import socket
import struct
from typing import Any, Dict, Iterator, List, Optional, Tuple

SOCKET = "/var/run/charon.vici"
LISTS = (
    "local_addrs",
    "remote_addrs",
    "proposals",
    "esp_proposals",
    "local_ts",
    "remote_ts",
    "pools",
    "vips",
    "pubkeys",
    "certs",
    "cacerts",
    "owners",
)
FILES = ("certs", "cacerts")
"""Settings that are lists, and those that are names of files."""


def named(kind: int, name: str) -> bytes:
    """Return the head of a vici element with a name."""
    return bytes([kind, len(name)]) + name.encode()


def sized(kind: int, value: bytes) -> bytes:
    """Return a vici element with a value."""
    return bytes([kind]) + struct.pack("!H", len(value)) + value


def value_of(key: str, text: str) -> bytes:
    """Return a value in vici's form: files by content, base64 decoded."""
    if key in FILES:
        with open(text, "rb") as stream:
            return stream.read()
    if text.startswith("0s"):
        return base64.b64decode(text[2:])
    return text.encode()


def message(section: Dict[str, Any]) -> bytes:
    """Return a section in vici's form."""
    parts: List[bytes] = []
    for key, value in section.items():
        if isinstance(value, dict):
            parts += [named(1, key), message(value), bytes([2])]
        elif key in LISTS:
            items = [sized(5, value_of(key, item)) for item in value.split(", ")]
            parts += [named(4, key)] + items + [bytes([6])]
        else:
            raw = value if isinstance(value, bytes) else value.encode()
            parts += [named(3, key), struct.pack("!H", len(raw)), raw]
    return b"".join(parts)


def parsed(data: bytes) -> Dict[str, Any]:
    """Parse a message of values and lists; those for us have no sections."""
    result: Dict[str, Any] = {}
    items: List[str] = []
    at = 0
    while at < len(data):
        kind = data[at]
        at += 1
        name = ""
        if kind in (1, 3, 4):
            name = data[at + 1 : at + 1 + data[at]].decode()
            at += 1 + data[at]
        if kind in (3, 5):
            size = struct.unpack("!H", data[at : at + 2])[0]
            value = data[at + 2 : at + 2 + size].decode("utf-8", "replace")
            at += 2 + size
            if kind == 3:
                result[name] = value
            else:
                items.append(value)
        elif kind == 4:
            items = result[name] = []
    return result


class Daemon(socket.socket):
    """A connection to charon."""

    def __init__(self, path: str = SOCKET, seconds: Optional[float] = 60) -> None:
        super().__init__(socket.AF_UNIX)
        self.settimeout(seconds)
        self.connect(path)
        self.answers = self.makefile("rb")

    def tell(self, kind: int, name: str, body: bytes = b"") -> None:
        """Send a packet of a kind: 0 is a command, 3 registers for an event."""
        request = named(kind, name) + body
        self.sendall(struct.pack("!I", len(request)) + request)

    def packet(self) -> bytes:
        """Return the next packet: 1 and an answer, or 7, the name of an event, and its message."""
        size = self.answers.read(4)
        if len(size) < 4:
            raise ConnectionResetError("closed")
        return self.answers.read(struct.unpack("!I", size)[0])

    def ask(self, command: str, body: bytes = b"") -> Dict[str, Any]:
        """Return the answer to a command.

        Raises:
            OSError: The daemon does not know the command, or has ended.
        """
        self.tell(0, command, body)
        answer = self.packet()
        if answer[:1] != bytes([1]):
            raise OSError("no such command: " + command)
        return parsed(answer[1:])


def is_ours(connection: str, prefix: str) -> bool:
    """Tell whether the charm made a connection of `prefix`, LINK_: others use such names, too."""
    form = "[a-z0-9-]+_[0-9a-f]{8}_[0-9a-f]{8}"
    return connection.startswith(prefix) and bool(re.fullmatch(form, connection[len(prefix) :]))


_ASSOCIATION = re.compile(r"list-sa event \{(\S+) \{uniqueid=(\d+) version=\d+ state=(\S+)")


def associations(listed: str) -> Iterator[Tuple[str, str, str, str]]:
    """Yield connection, number, state, and the text of the CHILD_SAs, of each IKE_SA.

    `listed` is what `swanctl --list-sas --raw` prints. A gateway has thousands, so this is no more
    than a regular expression a line.
    """
    for line in listed.splitlines():
        match = _ASSOCIATION.match(line)
        if match:
            connection, number, state = match.groups()
            yield connection, number, state, line.partition("child-sas {")[2]


# An item of a list may end with ports in brackets: `remote-ts=[10.9.0.5/32[tcp/80]]`.
_LIST = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_WORD = re.compile(_LIST + r"|[{}]|[^\s{}=]+=(?:" + _LIST + r"|[^\s{}]*)|[^\s{}=]+")


def events(text: str) -> List[Tuple[str, Dict[str, object]]]:
    """Read `swanctl --raw`: one line per event, sections in braces, key=value, key=[list].

    Values come from our own configuration and from charon; the charm has checked the identities.

    Raises:
        ValueError: The braces do not match.
    """
    result: List[Tuple[str, Dict[str, object]]] = []
    for line in text.splitlines():
        words = line.split(" ", 2)
        if len(words) < 3 or words[1] != "event":
            continue
        root: Dict[str, object] = {}
        stack = [root]
        name = ""
        for word in _WORD.findall(words[2]):
            if word == "{":
                inner: Dict[str, object] = {}
                if name:
                    stack[-1][name] = inner
                    stack.append(inner)
                    name = ""
                else:
                    stack.append(stack[-1])
            elif word == "}":
                if len(stack) < 2:
                    raise ValueError(line[:60])
                stack.pop()
            elif "=" in word:
                key, _, value = word.partition("=")
                stack[-1][key] = value
            else:
                name = word
        for section, body in root.items():
            if isinstance(body, dict):
                result.append((section, body))
    return result
