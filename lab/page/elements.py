"""Elements that several pages show: headings, answers, questions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nicegui import ui

from lab.page.layout import LAYOUT

WRAPPED = "whitespace-pre-wrap break-words"


def heading(text: str, level: int) -> ui.label:
    """Show a heading that a screen reader knows as one."""
    label = ui.label(text).classes("text-h6 ellipsis")
    return label.props(f"role=heading aria-level={level}")


def table(title: str, headings: Mapping[str, str], key: str, pagination: int) -> ui.table:
    """Show a table below its title and a filter; a state has the colour of its row."""
    with ui.row().classes("w-full items-center"):
        heading(title, 2)
        words = ui.input("Filter").props("dense clearable")
    shown = ui.table(columns=columns(headings), rows=[], row_key=key, pagination=pagination)
    shown.bind_filter_from(words, "value")
    shown.add_slot("body-cell-state", LAYOUT["cells"]["state"])
    return shown.classes("w-full")


def columns(headings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return columns that can be sorted, by name and heading."""
    common = {"align": "left", "sortable": True}
    return [{"name": n, "label": text, "field": n, **common} for n, text in headings.items()]


def answer_label() -> ui.label:
    """Return an element for what a primitive answers: text that wraps, and is no HTML."""
    # `ui.code` is Markdown, in which a VDU's output could be HTML.
    label = ui.label().classes("w-full max-h-96 overflow-auto font-mono text-xs")
    label.classes(WRAPPED).visible = False
    return label


def tell(answer: ui.label, text: str, refused: bool) -> None:
    """Show an answer or a refusal."""
    answer.text, answer.visible = text, True
    answer.classes("text-negative") if refused else answer.classes(remove="text-negative")


def complain(error: Exception) -> None:
    """Show a refusal until the user closes it: it may be long."""
    ui.notify(
        str(error),
        type="negative",
        close_button="Close",
        multi_line=True,
        timeout=0,
        classes=WRAPPED,
    )


async def confirmed(
    title: str, sentences: Iterable[str], button: str, changes: Sequence[Mapping[str, str]] = ()
) -> bool:
    """Ask before something is done; `changes` are rows with a parameter, its old and new value."""
    with ui.dialog() as dialog, ui.card().classes("max-w-xl"):
        heading(title, 2)
        if changes:
            columns = [
                {"name": key, "label": key, "field": key, "align": "left"} for key in changes[0]
            ]
            rows = [dict(row) for row in changes]
            ui.table(columns=columns, rows=rows).classes("w-full").props("dense wrap-cells flat")
        for sentence in sentences:
            ui.label(sentence)
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat")
            ui.button(button, on_click=lambda: dialog.submit(True))
    answer = await dialog
    dialog.delete()
    return bool(answer)
