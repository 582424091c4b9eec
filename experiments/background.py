"""Work in threads."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

T = TypeVar("T")


class InBackground:
    """A function in a thread; `result` gives its value or raises its error."""

    patience = 300.0  # Seconds that `result` waits by default.

    def __init__(self, work: Callable[[], Any]) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._value = work()
        except BaseException as error:
            self._error = error

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for its end; return its value, or raise its error."""
        timeout = self.patience if timeout is None else timeout
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise click.ClickException(f"background work did not end within {timeout:.0f} s")
        if self._error is not None:
            raise self._error
        return self._value


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
