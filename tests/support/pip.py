"""Libraries from the package index, fetched once for all test processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def fetched(cache: Path, name: str, *words: str) -> Path:
    """Return a folder with what ``pip install`` brings for its words; skip where pip cannot."""
    digest = hashlib.sha256(repr((words, sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    done = subprocess.run(
        [*command, "--target", str(partial), *words], capture_output=True, text=True, check=False
    )
    try:
        if done.returncode:
            pytest.skip(f"{' '.join(words)} cannot be installed: {done.stderr.strip()[-200:]}")
        try:
            partial.rename(folder)
        except OSError:  # another test process was first
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
