"""Work on several things at once."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from operate.background import InBackground

T = TypeVar("T")


def side_by_side(work: Callable[[T], Any], over: Iterable[T], patience: float) -> list[Any]:
    """Run `work` for all items at once, one thread each; return the results in order.

    An error is raised after the others have ended too: what they do would disturb what follows.
    """
    started = [InBackground(lambda item=item: work(item)) for item in over]  # type: ignore[misc]
    results, errors = [], []
    for each in started:
        try:
            results.append(each.result(patience))
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return results
