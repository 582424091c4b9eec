"""The form of a primitive: fields as its charm declares them, and what it changes."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nicegui import run, ui

from lab.errors import LabError
from lab.graph.model import Node
from lab.page.data import Data, default, text, typed
from lab.page.elements import answer_label, confirmed, tell
from lab.page.layout import LAYOUT

GROUPS: Mapping[str, list[str]] = LAYOUT["groups"]
FIELDS: Mapping[str, Mapping[str, list[str]]] = LAYOUT["fields"]
INTERRUPTS: Mapping[str, str] = LAYOUT["interrupts"]
MARK = "\u2014 "  # How the heading of a group in a list begins; nobody can choose it.


def grouped(names: Iterable[str]) -> list[str]:
    """Return primitives in the order of a list, a heading before each group."""
    left, found = set(names), []
    listed = {name for group in GROUPS.values() for name in group}
    for group, members in GROUPS.items():
        present = [name for name in members if name in left] if members else sorted(left - listed)
        found += [f"{MARK}{group}", *present] if present else []
    return found


def interruption(name: str, values: Mapping[str, Any]) -> str:
    """Return what a primitive with these values interrupts, "" for nothing."""
    keys = [name, *(f"{name} {key}={value}" for key, value in values.items())]
    return next((INTERRUPTS[key] for key in keys if key in INTERRUPTS), "")


class Form:
    """The form of a primitive of a VNF."""

    def __init__(
        self,
        data: Data,
        node: Node,
        primitive: Mapping[str, Any],
        in_force: Mapping[str, Mapping[str, Any]],
        allowed: Callable[[], bool],
    ) -> None:
        """Show the form.

        Args:
            primitive: as `Data.primitives` has it.
            in_force: values in force by link; {} where the primitive is not about them.
            allowed: says whether the user is still logged in.
        """
        self.data, self.node, self.name, self.allowed = data, node, primitive["name"], allowed
        self.in_force = {link: dict(values) for link, values in in_force.items()}
        self.parameters = {each["name"]: each for each in primitive.get("parameter") or ()}
        self.inputs: dict[str, Any] = {}
        ui.label(primitive.get("description", "")).classes("text-body2")
        groups = FIELDS.get(self.name, {})
        inside = {name for names in groups.values() for name in names}
        for name in self.parameters:
            if name not in inside:
                self._field(name)
        for title, names in groups.items():
            if present := [name for name in names if name in self.parameters]:
                with ui.expansion(title).classes("w-full"):
                    for name in present:
                        self._field(name)
        if self.in_force and "link" in self.inputs:
            self.inputs["link"].on_value_change(lambda event: self._fill(str(event.value)))
            self.inputs["link"].value = min(self.in_force)
            self._fill(min(self.in_force))
        self.button = ui.button(f"Run {self.name}", on_click=self._press)
        self.answer = answer_label()

    def _field(self, name: str) -> None:
        parameter = self.parameters[name]
        value = default(parameter)
        boolean = parameter.get("data-type") == "BOOLEAN"
        choices = ["true", "false"] if boolean else [str(c) for c in parameter.get("enum", ())]
        if choices:
            first = value if value in choices else choices[0] if len(choices) == 1 else None
            field: Any = ui.select(choices, value=first, label=name)
        elif parameter.get("data-type") == "INTEGER":
            field = ui.input(name, value=value)
        else:  # a certificate has lines, which an input of one line would join
            field = ui.textarea(name, value=value).props("autogrow rows=1")
        said = " ".join(str(parameter.get("description", "")).split())
        if {"minimum", "maximum"} <= parameter.keys():
            said += f" {parameter['minimum']} to {parameter['maximum']}."
        told = ui.label(said.strip()).classes("text-caption q-mb-sm")
        self.inputs[name] = field.classes("w-full").props(f"dense aria-describedby=c{told.id}")

    def _fill(self, link: str) -> None:
        for name, field in self.inputs.items():
            if link in self.in_force and name != "link":
                parameter = self.parameters[name]
                field.value = text(self.in_force[link].get(name, default(parameter)))

    def values(self) -> dict[str, Any]:
        """Return what the form sends; a field that was emptied takes its default."""
        fields = {name: field.value or "" for name, field in self.inputs.items()}
        return {
            name: typed(self.parameters[name], value)
            for name, value in fields.items()
            if value != "" or "default-value" not in self.parameters[name]
        }

    def changes(self, values: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return a row for each parameter that gets another value than the one in force."""
        before = self.in_force.get(str(values.get("link")), {})
        return [
            {"parameter": name, "in force": text(before[name]), "new": text(value)}
            for name, value in values.items()
            if name in before and text(before[name]) != text(value)
        ]

    async def _press(self) -> None:
        if not self.allowed():
            return
        self.button.disable()
        try:
            await self._send(self.values())
        except LabError as error:
            tell(self.answer, str(error), refused=True)
        self.button.enable()

    async def _send(self, values: dict[str, Any]) -> None:
        sentence, link = interruption(self.name, values), str(values.get("link"))
        if sentence:
            changes = self.changes(values)
            told = [sentence]
            if link in self.in_force and not changes:
                told = ["These values are in force. Nothing changes."]
            title = f"{self.name} on {self.node.member}"
            if not await confirmed(title, told, f"Send {self.name}", changes):
                return
        ids = (self.node.service_id, self.node.member)
        result = await run.io_bound(self.data.press, *ids, self.name, values)
        shown = result if isinstance(result, str) else json.dumps(result, indent=1)
        tell(self.answer, shown or "done", refused=False)
        if link in self.in_force:
            self.in_force[link].update(values)
