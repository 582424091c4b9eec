"""A mark on the VDU that new files are not in force yet.

A later reconcile compares files. If a step between the write of a file and the command that puts it
into force fails, the files are already equal. So the mark is set before them and removed after the
command. It is in /run, because a boot puts all files into force.
"""

import attr

from vpnaas.vdu.steps import Results, Step, remove, run, write


@attr.frozen
class Pending:
    """The mark of one service."""

    name: str  # Start of the ids of its steps, and part of the name of its file.

    @property
    def _file(self) -> str:
        return "/run/osm-vpnaas-pending-" + self.name

    def observe(self) -> Step:
        """Return the step that looks for the mark."""
        return run(self.name + "/pending", "true", only_if=self._file)

    def left(self, results: Results) -> bool:
        """Tell whether an earlier reconcile left the mark."""
        return results.exit_code(self.name + "/pending") is not None

    def begin(self) -> Step:
        """Return the step that sets the mark."""
        return write(self.name + "/begin", self._file, "")

    def end(self) -> Step:
        """Return the step that removes the mark."""
        return remove(self.name + "/end", self._file)
