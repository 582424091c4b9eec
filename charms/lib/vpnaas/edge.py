"""The way into a charm: Juju starts it for each event, Kubernetes once."""

import os
from typing import Type

from vpnaas.reconciling import ReconcilingCharm


def main(kind: Type[ReconcilingCharm]) -> None:
    """Run the code of a charm in the execution environment that started this process."""
    if "VPNAAS_RELEASE" in os.environ:
        from helm_ee import server  # A unit of Juju does not have what it needs.

        server.run(kind)
    else:
        from vpnaas import juju  # A pod does not have ops.

        juju.run(kind)
