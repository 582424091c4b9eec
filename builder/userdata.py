"""User data of a VDU, taken apart as cloud-init 22.4 does (user_data.py, handlers/__init__.py)."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from typing import TYPE_CHECKING, Any

from builder.documents import DocumentError, load

if TYPE_CHECKING:
    from jinja2 import Environment

ARCHIVE, CONFIG = "text/cloud-config-archive", "text/cloud-config"
TEMPLATE, HANDLER = "text/jinja2", "text/part-handler"
SCRIPT, BOOTHOOK = "text/x-shellscript", "text/cloud-boothook"
MARK = "## template: jinja"  # First line of a template that cloud-init renders.
FORMATS = {
    "#cloud-config": CONFIG,
    "#!": SCRIPT,
    "#include": "text/x-include-url",
    "#cloud-boothook": BOOTHOOK,
    "#part-handler": HANDLER,
    "#cloud-config-archive": ARCHIVE,
    "#cloud-config-jsonp": "text/cloud-config-jsonp",
    "#include-once": "text/x-include-once-url",
    MARK: TEMPLATE,
}
"""How a text begins, and the type that it then has."""
WHOLE = "text/x-not-multipart"  # The type of user data that is no message.
GUESSED = ("text/plain", WHOLE, SCRIPT)
"""Types in place of which the first line decides, if cloud-init knows it."""
PACKED = {
    f"application/{name}"
    for name in (
        "gzip", "gzip-compressed", "gzipped", "x-compress", "x-compressed", "x-gunzip", "x-gzip",
        "x-gzip-compressed",
    )
}  # fmt: skip
HANDLED = {*FORMATS.values(), *(f"{SCRIPT}-per-{often}" for often in ("boot", "instance", "once"))}
MESSAGE = b"mime-version:"
SEARCHED = 4096
"""Bytes in which cloud-init looks for MIME-Version: without it, a message is no message."""
LARGEST = 1 << 20
"""Bytes of what is unpacked that are read."""


@dataclass(frozen=True)
class Part:
    """What one handler of cloud-init gets."""

    where: str  # Which part of the user data, such as " (part 2)"; "" for the whole.
    kind: str  # Its type.
    text: str
    own: bool = False  # Whether a part before it is a handler, which may take any type.

    def ignored(self) -> str:
        """Return why no handler of cloud-init takes it, "" where one does or nothing is there."""
        if self.kind in HANDLED or self.own or not self.text.strip():
            return ""
        if self.kind in GUESSED:
            first = self.text.lstrip().splitlines()[0][:60]
            return f"begins with {first!r}, not with '#cloud-config' or '#!'"
        return f"has the type {self.kind}, not one such as {CONFIG} or {SCRIPT}"

    def config(self) -> dict[str, Any]:
        """Return the content of a cloud-config.

        Raises:
            DocumentError: It is no YAML, or cloud-init would ignore it for its form.
        """
        try:
            document = load(self.text)
        except DocumentError as error:
            raise DocumentError(f"{error}{self.where}") from None
        if not isinstance(document, dict | None):
            raise DocumentError(f"a cloud-config is a mapping{self.where}")
        return document or {}


def environment() -> "Environment":
    """Return the Jinja2 environment that RO uses (_parse_jinja2 in its ns.py)."""
    # It loads slowly; a lab without VDUs to make does not need it.
    from jinja2 import Environment, StrictUndefined

    return Environment(undefined=StrictUndefined, autoescape=True)


def unzipped(data: bytes) -> bytes:
    """Return the beginning of what a gzip file has in it; zlib.error if it is none."""
    return zlib.decompressobj(wbits=31).decompress(data, LARGEST)


def begins(text: str) -> str:
    """Return the type that the beginning of a text shows, "" if it shows none."""
    first = text.lstrip().lower()
    fitting = [each for each in FORMATS if first.startswith(each)]
    return FORMATS[max(fitting, key=len)] if fitting else ""


def is_message(user_data: str) -> bool:
    """Tell whether cloud-init takes user data for a MIME message."""
    return MESSAGE in user_data[:SEARCHED].encode("utf-8", "replace")[:SEARCHED].lower()


def parts(user_data: str) -> Iterator[Part]:
    """Yield what cloud-init's handlers get: parts of a message, and entries of archives.

    Raises:
        DocumentError: An archive is no YAML or no list.
    """
    own = False
    for where, kind, text in _leaves(user_data):
        if kind in GUESSED:
            kind = begins(text) or kind
        if kind == ARCHIVE:
            yield from _entries(where, text)
        else:
            yield Part(where, kind, text, own)
        own = own or kind == HANDLER


def _leaves(user_data: str) -> Iterator[tuple[str, str, str]]:
    """Yield (place, type, text) of user data itself, or of each part of a message."""
    if not is_message(user_data):
        yield "", WHOLE, user_data
        return
    for number, part in enumerate(message_from_string(user_data).walk(), 1):
        content, kind = part.get_payload(decode=True), part.get_content_type()
        if not isinstance(content, bytes):
            continue
        name = part.get_filename() or f"part {number}"
        if kind in PACKED:
            try:
                content = unzipped(content)
            except zlib.error:
                raise DocumentError(f"{name} is no gzip") from None
            kind = "text/plain"
        yield f" ({name})", kind, content.decode("utf-8", "replace")


def _entries(where: str, archive: str) -> Iterator[Part]:
    """Yield the entries of an archive: texts, or mappings with a text and perhaps a type."""
    listed = load(archive)
    if not isinstance(listed, list):
        raise DocumentError("a cloud-config-archive is a list of parts")
    for number, entry in enumerate(listed, 1):
        entry = entry if isinstance(entry, dict) else {"content": entry}
        text = str(entry.get("content") or "")
        kind = str(entry.get("type") or begins(text) or CONFIG).lower()
        yield Part(f"{where} (entry {number})", kind, text)
