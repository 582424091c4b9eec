"""What a charm's process does to be quick."""

from __future__ import annotations

import attr
import pytest
from vpnaas import edge


def test_a_frozen_class_of_a_hook_is_what_attrs_would_make() -> None:
    class Point:
        x: int
        key: str = attr.field(default="", repr=False)
        cached: int = attr.field(default=0, eq=False)

    quick, usual = edge._frozen(Point), attr.frozen(Point)
    for made in (quick, usual):
        point = made(1, "secret")
        assert repr(point).endswith("Point(x=1, cached=0)")
        assert point == made(1, "secret", 5)
        assert hash(point) == hash(made(1, "secret", 5))
        assert point != made(1, "other")
        assert point != (1, "secret", 0)
        assert attr.evolve(point, x=2) == made(2, "secret")
        with pytest.raises(attr.exceptions.FrozenInstanceError):
            point.x = 3
    assert quick(1) != usual(1)
