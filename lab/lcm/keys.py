"""RO's key pair, and the injection of a charm's public key into a VM.

User data gives RO's public key to the image's default user. RO logs in and appends the charm's
public key to the authorized keys of the user named in ssh-access. The lab does it with OpenSSH's
client from the network namespace in which the charms run.
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from builder.programs import output
from lab.errors import LcmError

_LOGIN_SECONDS = 10
_OPTIONS = (
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    f"ConnectTimeout={_LOGIN_SECONDS}",
)


class OpenSshInjector:
    """Key injection with ssh and ssh-keygen."""

    def __init__(self, prefix: Callable[[], Sequence[str]]) -> None:
        """Run ssh behind the argument vector ``prefix()``, which enters a network namespace."""
        self._prefix = prefix

    def make_key(self, path: Path) -> str:
        """Make RO's RSA key pair at ``path`` if there is none; return the public key."""
        public = path.with_name(path.name + ".pub")
        if not public.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            words = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-C", "ro", "-N"]
            _run([*words, "", "-f", str(path)], None, "ssh-keygen")
        return public.read_text(encoding="ascii").strip()

    def inject(self, address: str, user: str, private_key: Path, public_key: str) -> None:
        """Append ``public_key`` to the authorized keys of ``user``, once."""
        if "\n" in public_key.strip():
            raise LcmError("the charm's public key is not one line")
        # The key goes to standard input, so that the shell cannot run any part of it. Blank lines
        # before it are for a shell that reads an answer when it starts.
        script = (
            "umask 077 && mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys && "
            'while IFS= read -r key && [ -z "$key" ]; do :; done && [ "$key" ] && '
            '{ grep -qxF -- "$key" ~/.ssh/authorized_keys || '
            "printf '%s\\n' \"$key\" >> ~/.ssh/authorized_keys; } && echo appended"
        )
        command = [
            *self._prefix(),
            # If the worker is killed, its SSH login ends too.
            "setpriv",
            "--pdeathsig",
            "KILL",
            "ssh",
            "-i",
            private_key.name,  # Without its folder, in which ssh would replace %i and others.
            "-F",
            "none",
            *(word for option in _OPTIONS for word in ("-o", option)),
            f"{user}@{address}",
            f"sh -c {shlex.quote(script)}",
        ]
        text = "\n" * 9 + public_key.strip() + "\n"
        said = _run(command, text, "ssh", private_key.parent)
        if "appended" not in said:
            # RO goes by the exit code, and then the charm cannot log in.
            raise LcmError(f"ssh: the shell of {user} runs no command; see its .bashrc")


def _run(argv: Sequence[str], text: str | None, what: str, folder: Path | None = None) -> str:
    return output(argv, what, LcmError, input=text, cwd=folder, timeout=3 * _LOGIN_SECONDS)
