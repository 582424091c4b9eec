"""Work that goes on at the same time, in threads."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.errors import LcmError


def for_each(work: Callable[[str], object], items: Iterable[str], at_once: int = 8) -> None:
    """Do the work for every item; raise the first error when all have ended."""
    with ThreadPoolExecutor(at_once) as pool:
        done = [pool.submit(work, item) for item in items]
    for each in done:
        each.result()


def failures(
    works: Sequence[tuple[str, Callable[[], object]]], threads: str
) -> list[tuple[str, LcmError]]:
    """Do all of a list of (name, work); return the names of those that failed, and why.

    Any error but ``LcmError`` is raised when all have ended.

    Args:
        threads: How the names of the threads begin.
    """
    with ThreadPoolExecutor(max(1, len(works)), thread_name_prefix=threads) as pool:
        started = [(name, pool.submit(work)) for name, work in works]
    found = []
    for name, each in started:
        error = each.exception()
        if isinstance(error, LcmError):
            found.append((name, error))
        elif error is not None:
            raise error
    return found
