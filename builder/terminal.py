"""What commands print: text of others without characters that control a terminal, and tables."""

from collections.abc import Iterable, Mapping, Sequence

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

SENTENCE = 24  # Width below which a column of sentences is not shrunk, in characters.


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


def fitted(
    cells: Mapping[str, Sequence[str]],
    width: int,
    spare: Sequence[str] = (),
    styles: Sequence[str] = (),
) -> Table:
    """Return a table that loses no text in a narrow terminal; print it without cropping.

    Args:
        cells: columns by their headings.
        width: of the terminal, in characters.
        spare: headings of columns that go, the first one first, where the terminal is narrow.
        styles: of the rows.
    """
    left = dict(cells)
    widths = {heading: _least(heading, column) for heading, column in left.items()}
    for heading in spare:
        if heading in left and _total(widths) > width:
            del left[heading], widths[heading]
    table = Table()
    for heading, column in left.items():
        least = widths[heading]
        # A heading takes lines where the cells are short. Ids are copied: no line breaks there.
        told = heading if len(heading) <= least else heading.replace(" ", "\n")
        ids = least >= _longest(column)
        table.add_column(told, overflow="fold", no_wrap=ids, min_width=least)
    for number, row in enumerate(zip(*left.values(), strict=True)):
        table.add_row(*map(Text, row), style=styles[number] if styles else None)
    if _total(widths) > width:
        # The terminal wraps whole lines, as it does osmclient's.
        table.width = _total(widths)
    return table


def _least(heading: str, column: Sequence[str]) -> int:
    """Return the least width of a column. Only sentences may be wrapped."""
    width = _longest(column)
    if any(" " in cell for cell in column):
        width = min(width, SENTENCE)
    return max(width, *map(len, heading.split()))


def _longest(column: Sequence[str]) -> int:
    return max((len(line) for cell in column for line in cell.splitlines()), default=0)


def _total(widths: Mapping[str, int]) -> int:
    """Return the width of a table with its lines."""
    return 1 + sum(width + 3 for width in widths.values())
