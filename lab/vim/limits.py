"""A kernel limit that a handful of VDUs exhausts: inotify instances, counted per user.

A systemd takes about ten and each wireguard-go one, all of them root's; the usual limit is 128
(inotify(7), /proc/sys/fs/inotify/max_user_instances). Past it, interfaces fail to come up with
misleading errors. The lab raises it while it has VIM accounts and puts it back afterwards.
"""

from __future__ import annotations

from pathlib import Path

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
WANTED = 4096
_NOTE = "inotify-limit-before"


def raise_limit(home: Path) -> None:
    """Raise the limit where it is lower than a full lab needs, and note what it was."""
    now = int(LIMIT.read_text(encoding="ascii"))
    if now < WANTED:
        (home / _NOTE).write_text(str(now), encoding="ascii")
        LIMIT.write_text(str(WANTED), encoding="ascii")


def restore_limit(home: Path) -> None:
    """Put the limit back, unless this lab never raised it or somebody has changed it since."""
    note = home / _NOTE
    if note.is_file():
        if int(LIMIT.read_text(encoding="ascii")) == WANTED:
            LIMIT.write_text(note.read_text(encoding="ascii"), encoding="ascii")
        note.unlink()
