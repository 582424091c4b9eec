"""The entry point of a charm: Juju starts it for each event, Kubernetes once."""

import gc
import os
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Optional, Sequence


class _Pebble(MetaPathFinder):
    """Loads the client of Pebble in ops when it is first used, which is never.

    It takes a tenth of the time of a hook, for HTTP, TLS and mail. A proxy charm has no containers.
    """

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        found = PathFinder.find_spec(name, path) if name == "ops.pebble" else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def main(module: str, name: str) -> None:
    """Run a class of charm code in the execution environment that started this process."""
    served = "VPNAAS_RELEASE" in os.environ
    if not served:
        # This process handles one event and ends, so its garbage does not matter. Collection takes
        # a tenth of its time, most of it while Python loads the modules.
        gc.disable()
        sys.meta_path.insert(0, _Pebble())
    kind = getattr(import_module(module), name)
    if served:
        from helm_ee import server  # A Juju unit lacks the modules it needs.

        server.run(kind)
    else:
        from vpnaas import juju  # A pod does not have ops.

        juju.run(kind)
        sys.stdout.flush()
        sys.stderr.flush()
        # Everything is written. Freeing the memory would take another tenth of the time.
        os._exit(0)
