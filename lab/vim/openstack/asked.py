"""Notes of what the APIs were asked for: it may come after the process that asked was killed."""

import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openstack.exceptions import HttpException

from lab.vim.openstack.access import API_SECONDS


@contextmanager
def asking(notes: Path, mark: str) -> Iterator[str]:
    """Give what marks one thing; a note has it until an API has made or refused the thing."""
    own = f"{mark}{secrets.token_hex(6)}"
    notes.mkdir(exist_ok=True)
    note = notes / own.rpartition(":")[2]
    note.write_text(own)
    try:
        yield own
    except HttpException:
        note.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)


def may_come(notes: Path, mark: str, there: Collection[str]) -> bool:
    """Say whether something may come yet, besides what is ``there``, each by what marks it."""
    coming = False
    for note in notes.glob("*"):
        with suppress(FileNotFoundError):
            own, age = note.read_text(), abs(time.time() - note.stat().st_mtime)
            if own.startswith(mark):
                done = age > API_SECONDS or any(text.startswith(own) for text in there)
                if done:
                    note.unlink()
                coming = coming or not done
    return coming
