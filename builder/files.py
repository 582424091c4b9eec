"""Files that are written as a whole or not at all."""

import os
import tempfile
from pathlib import Path


def replace(path: Path, text: str, synced: bool = False, mode: int = 0o600) -> None:
    """Replace a file in one step: readers see the old or the new text, never a part.

    Args:
        path: the file.
        text: its new content.
        synced: write the content to the disk before the rename, to survive a power failure.
        mode: who may read and write it.

    Raises:
        OSError: with the file's path, for example if there is no room left.
    """
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            if synced:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(fresh, path)
    except BaseException as error:
        Path(fresh).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
