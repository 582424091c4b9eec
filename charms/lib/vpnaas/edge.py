"""The entry point of a charm: Juju starts it for each event, Kubernetes once."""

import gc
import os
from importlib import import_module


def main(module: str, name: str) -> None:
    """Run a class of charm code in the execution environment that started this process."""
    served = "VPNAAS_RELEASE" in os.environ
    if not served:
        # This process handles one event and ends, so its garbage does not matter. Collection takes
        # a tenth of its time, most of it while Python loads the modules.
        gc.disable()
    kind = getattr(import_module(module), name)
    if served:
        from helm_ee import server  # A Juju unit lacks the modules it needs.

        server.run(kind)
    else:
        from vpnaas import juju  # A pod does not have ops.

        juju.run(kind)
