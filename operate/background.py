"""Work in a thread of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import click


class NotEnded(click.ClickException):
    """The work goes on after the time that a wait for it may take."""


class InBackground:
    """A function in a thread; `result` gives its value or raises its error.

    A thread that is left does not keep the program from its end.
    """

    patience = 300.0  # Seconds that `result` waits by default.

    def __init__(self, work: Callable[[], Any]) -> None:
        self._future: Future[Any] = Future()
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._future.set_result(work())
        except BaseException as error:  # the waiting thread raises it
            self._future.set_exception(error)

    @property
    def ended(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for its end; return its value, or raise its error."""
        timeout = self.patience if timeout is None else timeout
        if not wait([self._future], timeout).done:
            raise NotEnded(f"background work did not end within {timeout:.0f} s")
        return self._future.result()
