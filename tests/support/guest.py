"""A kernel for a test: a program in namespaces of its own, here or in a virtual machine.

The machine is one of the lab, made once per run (fixture `guest_machine` of `tests/kernel`). A
program finds its test's folder at the same place there, and what it wrote is here afterwards. In
the machine it has the distribution's Python, Day-0's packages and no network but what it makes.
"""

from __future__ import annotations

import base64
import io
import shlex
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.vim import Vim

#: All that a program starts and makes ends with it.
_ALONE = (
    "unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child",
)  # fmt: skip
_INSIDE = (
    "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up && cd {folder} && "
    "exec {python} -I program"
)


@dataclass(frozen=True)
class Done:
    """What became of a program.

    Attributes:
        code: Exit code.
        output: Standard output and error.
    """

    code: int
    output: str


def _words(folder: Path, python: str) -> Sequence[str]:
    inside = _INSIDE.format(folder=shlex.quote(str(folder)), python=shlex.quote(python))
    return (*_ALONE, "sh", "-c", inside)


def run_here(folder: Path, program: str, timeout: float) -> Done:
    """Run a Python program on this machine's kernel, in its folder."""
    (folder / "program").write_text(program, encoding="utf-8")
    done = subprocess.run(
        _words(folder, "/usr/bin/python3"),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Done(done.returncode, done.stdout + done.stderr)


@dataclass(frozen=True)
class GuestMachine:
    """A virtual machine of the lab, with a kernel of its own."""

    vim: Vim
    server_id: str

    def console(
        self, *argv: str, input: bytes | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it as root."""
        return self.vim.console(self.server_id, argv, input, timeout)

    def out(self, *argv: str, input: bytes | None = None, timeout: float = 120.0) -> str:
        """Run a command that must work; return its output."""
        done = self.console(*argv, input=input, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def put(self, *paths: Path) -> None:
        """Copy files and folders to where they are here."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in paths:
                tar.add(path)
        self.out("tar", "-xzf", "-", "-C", "/", input=packed.getvalue())

    def run(self, folder: Path, program: str, timeout: float) -> Done:
        """Run a Python program in it, in its folder, and bring the folder back."""
        (folder / "program").write_text(program, encoding="utf-8")
        self.put(folder)
        try:
            done = self.console(*_words(folder, "/usr/bin/python3"), timeout=timeout)
            packed = base64.b64decode(
                self.out("sh", "-c", 'tar -czf - -C / "$0" | base64', str(folder).lstrip("/"))
            )
        finally:
            self.console("rm", "-rf", str(folder))
        subprocess.run(["tar", "-xzf", "-", "-C", "/"], input=packed, check=True)
        return Done(done.returncode, done.stdout + done.stderr)
