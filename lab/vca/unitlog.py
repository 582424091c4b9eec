"""Log files, one per unit and one per model, rotating by size."""

import contextlib
import logging
import logging.handlers
import time
from pathlib import Path

MAX_BYTES = 2 * 1024 * 1024
BACKUPS = 2
_WORDS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEVELS = {**{word: getattr(logging, word) for word in _WORDS}, "TRACE": logging.DEBUG}


class _File(logging.handlers.RotatingFileHandler):
    """Loses lines on a full disk, and nothing else."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore that a line was not written: the unit goes on."""

    def close(self) -> None:
        """Close the file, also if its last lines cannot be written."""
        with contextlib.suppress(OSError):
            super().close()


def open_log(path: Path, name: str) -> logging.Logger:
    """Return a logger that writes to `path` only: lines of UTC time, level, source and text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # This does not use logging.getLogger: two models in one process may have units of one name.
    logger = logging.Logger(name)
    handler = _File(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", delay=True)
    line = "%(asctime)s %(levelname)s %(source)s %(message)s"
    formatter = logging.Formatter(line, "%Y-%m-%d %H:%M:%S", defaults={"source": name})
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    return logger


def close_log(logger: logging.Logger) -> None:
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def level_of(word: str) -> int | None:
    """Return the logging level of a Juju level word, or None."""
    return _LEVELS.get(word.upper())
