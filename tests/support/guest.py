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
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.vim.account import Vim

#: Seconds that a program may take, on a machine with other work to do.
PATIENCE = 1500.0
ROOT = Path(__file__).resolve().parents[2]
_OWN_NETWORK = ("unshare", "--mount", "--net")
#: All that a program starts and makes ends with it.
_ALONE = (*_OWN_NETWORK, "--pid", "--fork", "--mount-proc", "--kill-child")
_INSIDE = (
    "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up && cd {folder} && "
    "exec /usr/bin/python3 -I program"
)


#: Packages and modules in use that are not the distribution's. They are lent whole: some import
#: parts of themselves only when these are needed.
_LISTING = """
import sys
from pathlib import Path
names = {name.partition(".")[0] for name in sys.modules}
for root in sys.path:
    if root and not root.startswith("/usr"):  # "" is this folder, which is lent by its path
        for name in names:
            for path in (Path(root, name), *Path(root).glob(name + ".*")):
                if path.exists():
                    print(root, path)
"""
_OWN = (str(ROOT), str(ROOT / "charms/lib"))


def _sent(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out the bytecode of libraries, which is more than the libraries themselves."""
    library = "/site-packages/" in entry.name
    return None if library and "/__pycache__" in entry.name else entry


@dataclass(frozen=True)
class Done:
    """What became of a program.

    Attributes:
        code: Exit code.
        output: Standard output and error.
    """

    code: int
    output: str


def _words(folder: Path, unshare: Sequence[str] = _ALONE) -> Sequence[str]:
    inside = _INSIDE.format(folder=shlex.quote(str(folder)))
    return (*unshare, "sh", "-c", inside)


def run_here(folder: Path, program: str) -> Done:
    """Run a Python program on this machine's kernel, in its folder."""
    (folder / "program").write_text(program, encoding="utf-8")
    done = subprocess.run(
        _words(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
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
        return self.vim.console(self.server_id, argv, input, timeout)

    def out(self, *argv: str, input: bytes | None = None, timeout: float = 120.0) -> str:
        done = self.console(*argv, input=input, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def put(self, *paths: Path) -> None:
        """Copy files and folders to where they are here."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in paths:
                tar.add(path, filter=_sent)
        self.out("tar", "-xzf", "-", "-C", "/", input=packed.getvalue())

    def lend(self, imports: str) -> str:
        """Copy what a program imports; return the lines with which the program is to begin.

        The machine has the distribution's Python, so this one must be that, too.
        """
        if not Path(sys.executable).resolve().is_relative_to("/usr"):
            pytest.skip("the machine has the distribution's Python only")
        begin = f"import sys; sys.path[:0] = {list(_OWN)!r}"
        listed = subprocess.run(
            [sys.executable, "-c", f"{begin}\n{imports}\n{_LISTING}"],
            capture_output=True,
            text=True,
            check=True,
        )
        rows = [line.split() for line in listed.stdout.splitlines()]
        self.put(*sorted({Path(path) for _, path in rows}))
        paths = [*_OWN, *sorted({root for root, _ in rows} - set(_OWN))]
        return f"import sys; sys.path[:0] = {paths!r}\n{imports}\n"

    def run(self, folder: Path, program: str, sees_kernel_threads: bool = False) -> Done:
        """Run a Python program in it, in its folder, and bring the folder back.

        A program that must see the kernel's threads in /proc has to end its own processes.
        """
        unshare = _OWN_NETWORK if sees_kernel_threads else _ALONE
        (folder / "program").write_text(program, encoding="utf-8")
        self.put(folder)
        try:
            done = self.console(*_words(folder, unshare), timeout=PATIENCE)
            packed = base64.b64decode(
                self.out("sh", "-c", 'tar -czf - -C / "$0" | base64', str(folder).lstrip("/"))
            )
        finally:
            self.console("rm", "-rf", str(folder))
        subprocess.run(["tar", "-xzf", "-", "-C", "/"], input=packed, check=True)
        return Done(done.returncode, done.stdout + done.stderr)
