"""Text of others on a terminal: without the characters that control it."""

from collections.abc import Iterable

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


def plain(text: str) -> str:
    """Return a text with "?" for each control character but line feed and tab.

    Descriptors, an OSM and a VDU may say anything. An escape sequence would move the cursor, write
    the clipboard, or answer for the user; a bidirectional override shows another text.
    """
    if text == "\n" or text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)


def tell(text: object, err: bool = False, nl: bool = True) -> None:
    """Print a text, see :func:`plain`, on standard output or standard error."""
    click.echo(plain(str(text)), err=err, nl=nl)


class PlainConsole(Console):
    """A console that writes its own control sequences, but none of what it shows."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object to segments; those without `control` are text."""
        for segment in super().render(renderable, options):
            clean = segment.text if segment.control else plain(segment.text)
            yield segment if clean == segment.text else Segment(clean, segment.style)


def console(width: int) -> PlainConsole:
    """Return the console of a command; in a log file its lines have a width, not 80 columns."""
    result = PlainConsole(highlight=False)
    return result if result.is_terminal else PlainConsole(highlight=False, width=width)
