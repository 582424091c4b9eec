"""Labs of the tests: made, given to a test, removed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_leftovers import lasting_leftovers
from e2e_support import Lab, Secrets
from support import keep

from lab.vim.account import clean
from lab.vim.qemu.images import bake
from lab.vim.store import Home


def open_lab(home: Path, dist: Path, secrets: Secrets, *options: str) -> Iterator[Lab]:
    """Make a lab with one VIM account; afterwards nothing of it may be left.

    `options` are of the verb that makes the account.
    """
    lab = Lab(home, dist, secrets)
    prefix = Home.at(home).prefix
    try:
        lab.done("vim-create", "--name", "lab", *options)
        yield lab
    finally:
        if not keep.kept():
            cleaned = lab.verb("lab", "clean")
            left = lasting_leftovers([str(home), prefix])
            clean(home)  # a lab that failed to clean up must not stay on the machine
    if not keep.kept():
        assert cleaned.returncode == 0, cleaned.stderr
        assert left == []


def open_machines(home: Path, dist: Path, secrets: Secrets, *options: str) -> Iterator[Lab]:
    """Make a lab whose VDUs are virtual machines; an emulated one takes its time."""
    bake(print)
    with pytest.MonkeyPatch.context() as patch:
        if "OSMLAB_TIMEOUT_FACTOR" not in os.environ:
            patch.setenv("OSMLAB_TIMEOUT_FACTOR", "0.3")
        yield from open_lab(home, dist, secrets, "--account_type", "qemu", *options)
