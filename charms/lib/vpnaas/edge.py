"""The way into a charm."""

from typing import Type

from vpnaas import juju
from vpnaas.reconciling import ReconcilingCharm


def main(kind: Type[ReconcilingCharm]) -> None:
    """Run the code of a charm in the execution environment that started this process."""
    juju.run(kind)
