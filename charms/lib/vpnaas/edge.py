"""The entry point of a charm: Juju starts it for each event, Kubernetes once."""

import gc
import os
import sys
import typing
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Optional, Sequence, Tuple, cast

import attr


class _Unused(MetaPathFinder):
    """Loads what ops imports and we never use, when it is first used.

    The client of Pebble takes a tenth of the time of a hook, for HTTP, TLS and mail. A proxy charm
    has no containers. The debugger takes a thirtieth.
    """

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        found = PathFinder.find_spec(name, path) if name in ("ops.pebble", "pdb") else None
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def _frozen(cls: type) -> type:
    """Make a class as `attr.frozen` does, but without new code for each class.

    Compiling that code takes a seventh of the time of a hook.
    """
    made: Any = attr.define(cls, frozen=True, repr=False, eq=False)
    compared = tuple(field.name for field in attr.fields(made) if field.eq)
    shown = tuple(field.name for field in attr.fields(made) if field.repr)

    def values(self: Any) -> Tuple[Any, ...]:
        return tuple([getattr(self, name) for name in compared])

    def equal(self: Any, other: object) -> bool:
        return other.__class__ is made and values(self) == values(other)

    def text(self: Any) -> str:
        return "{}({})".format(
            made.__name__, ", ".join("{}={!r}".format(n, getattr(self, n)) for n in shown)
        )

    made.__eq__, made.__hash__ = equal, lambda self: hash((made, values(self)))
    if "__repr__" not in vars(made):
        made.__repr__ = text
    return cast(type, made)


def _spare_annotations() -> None:
    """Keep `typing` of Python 3.6 from making a class of each annotation.

    That takes a sixth of the time of a hook, and nobody reads these classes.
    """
    made = vars(typing)
    generic = made["GenericMeta"].__getitem__

    def itself(cls: Any, params: Any) -> Any:
        return generic(cls, params) if cls is typing.Generic else cls

    for name in ("GenericMeta", "TupleMeta", "CallableMeta", "_ClassVar"):
        made[name].__getitem__ = itself
    for name in ("_Union", "_Optional"):
        made[name].__getitem__ = lambda cls, params: Any


def _named(where: str) -> Any:
    """Return what a module has under a name ("module.NAME")."""
    module, _, name = where.rpartition(".")
    return getattr(import_module(module), name)


def kind_of(name: str, *groups: str) -> Any:
    """Return a kind of charm with more groups of actions, each named as "module.NAME"."""
    kind = _named(name)
    return attr.evolve(kind, groups=(*kind.groups, *map(_named, groups)))


def main(name: str, *groups: str) -> None:
    """Run a charm of `kind_of` in the execution environment that started this process."""
    served = "VPNAAS_RELEASE" in os.environ
    if not served:
        # This process handles one event and ends, so its garbage does not matter. Collection takes
        # a tenth of its time, most of it while Python loads the modules.
        gc.disable()
        sys.meta_path.insert(0, _Unused())
        if sys.version_info < (3, 7):
            _spare_annotations()
        setattr(attr, "frozen", _frozen)  # noqa: B010 - mypy takes it for a constant
    kind = kind_of(name, *groups)
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
