"""Units of systemd on the VDU, with the files that they consist of."""

from string import Template
from typing import Any, Callable, List, Mapping, Optional, Tuple

import attr

from vpnaas.base.errors import InputError
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import FOREIGN, Results, Step, disable, enable, read, remove, run, write

MARK = "# Written by osm-vpnaas"
HEAD = MARK + "; changes are overwritten by the next reconcile.\n"
"""First line of a file, where `#` begins a comment."""


def require_ours(path: str, text: Optional[str], unit: str) -> None:
    """Raise InputError if somebody else wrote the file at `path`, which `unit` reads."""
    if text == FOREIGN:
        raise InputError(
            path,
            "somebody else wrote this file of the VDU",
            "none there; stop {} and move the file away".format(unit),
        )


def foreign_interface(name: str) -> InputError:
    """Return the refusal of an interface of somebody else that has a name of ours."""
    what = "somebody else made this interface of the VDU"
    return InputError(name, what, "none of that name; delete or rename it")


class _File(Template):
    """A file with `$names` for values; a name may have dots."""

    idpattern = r"[a-z][_a-z0-9]*(?:\.[a-z][_a-z0-9]*)*"


def filled(
    template: str,
    package: str,
    show: Callable[[str, Any], str] = lambda name, value: str(value),
    **values: Any,
) -> str:
    """Return a file of a package, such as a unit, with `values` in place of its `$names`.

    `$ends.n2.ip` is the attribute `ip` of the item `n2` of the value `ends`. `show` makes the text
    of a name and its value.
    """
    file = _File(source(template, package))
    found = [match.group("named", "braced") for match in file.pattern.finditer(file.template)]
    names = {named or braced for named, braced in found if named or braced}
    return file.substitute({name: show(name, _value(values, name)) for name in names})


def _value(value: Any, name: str) -> Any:
    for part in name.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


@attr.frozen
class Pending:
    """The mark of one service on the VDU: new files are not in force yet.

    A later reconcile compares files. If a step between the write of a file and the command that
    puts it into force fails, the files are already equal. So the mark is set before them and
    removed after the command. It is in /run, because a boot puts all files into force.
    """

    name: str  # Start of the ids of its steps, and part of the name of its file.

    @property
    def _file(self) -> str:
        return "/run/osm-vpnaas-pending-" + self.name

    def observe(self) -> Step:
        return run(self.name + "/pending", "true", only_if=self._file)

    def left(self, results: Results) -> bool:
        """Tell whether an earlier reconcile left the mark."""
        return results.exit_code(self.name + "/pending") is not None

    def begin(self) -> Step:
        return write(self.name + "/begin", self._file, "")

    def end(self) -> Step:
        return remove(self.name + "/end", self._file)


FOLDER = "/etc/systemd/system/"


@attr.frozen
class Units(Pending):
    """Units that are enabled, and all their files."""

    units: Tuple[str, ...]  # Their names. The first one runs; systemd starts the others at boot.
    paths: Tuple[str, ...]  # Unit files, programs and data.

    def look(self, wanted: bool = True) -> List[Step]:
        """Return the steps that read what is there; of what nobody wants, only the first file."""
        if not wanted:
            return [read(self.name + self.paths[0], self.paths[0])]
        return [
            self.observe(),
            *(read(self.name + path, path, cacheable=True) for path in self.paths),
            run(self.name + "/active", "systemctl", "is-active", *self.units, any_exit=True),
            run(self.name + "/enabled", "systemctl", "is-enabled", *self.units, any_exit=True),
        ]

    def steps_to(
        self, files: Optional[Mapping[str, Tuple[str, int]]], results: Results
    ) -> List[Step]:
        """Return the steps that put files (text and mode) into force; none if they already are.

        With None, they take away what is there.
        """
        if files is None:
            present = any(results.text(self.name + path) is not None for path in self.paths)
            return self._absent() if present else []
        changed = [path for path in self.paths if results.text(self.name + path) != files[path][0]]
        steps = [write(self.name + "/put" + path, path, *files[path]) for path in changed]
        # A reload reads all units of the VDU; systemd reads a new one when it starts it.
        known = [path for path in changed if results.text(self.name + path) is not None]
        if self.left(results) or any(path.startswith(FOLDER) for path in known):
            steps.append(run(self.name + "/reload", "systemctl", "daemon-reload", timeout=90))
        if results.output(self.name + "/enabled").split() != ["enabled"] * len(self.units):
            steps.append(enable(self.name + "/enable", *self.units))
        if steps or results.output(self.name + "/active").split()[:1] != ["active"]:
            restart = ("systemctl", "restart", self.units[0])
            steps.append(run(self.name + "/restart", *restart, timeout=90))
        return [self.begin(), *steps, self.end()] if steps else []

    def _absent(self) -> List[Step]:
        off = disable(self.name + "/off", *self.units, timeout=90)
        return [off, *(remove(self.name + "/no" + path, path) for path in self.paths)]
