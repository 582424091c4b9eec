"""SSH edge: this unit's key, the login to the VDU, and the round trips.

It replaces the parts of charms.osm's SSHProxy that OSM relies on. The private key stays in a 0600
file of this unit. Host keys are pinned. Every wait has a timeout. A command returns its exit code
and both outputs.
"""

import base64
import errno
import hashlib
import logging
import os
import secrets
import socket
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence

import attr

from vpnaas.base import fields
from vpnaas.base.errors import StorageError, UnreachableError, VduError
from vpnaas.vdu.file_cache import FileCache
from vpnaas.vdu.steps import Results, Step, program

logger = logging.getLogger(__name__)

PORT = 22
CONNECT_SECONDS = 10
#: Limit of the key exchange, and again of the login. An emulated VM needs seconds.
LOGIN_SECONDS = 30
#: Allowed algorithms of a login, best first; paramiko and the server must both know one of each.
#: OpenSSH 7.6 (Ubuntu 18.04) and newer do. Limits: paramiko before 3.5 has no AES-GCM. paramiko
#: before 3.4, as used on Python 3.6, has no strict key exchange. Without it an attacker on the path
#: can drop the first messages unnoticed (Terrapin, CVE-2023-48795) with chacha20-poly1305, or with
#: CBC under encrypt-then-MAC. So both are left out here. With CTR the message after the gap
#: decrypts to noise, and the connection ends.
ALGORITHMS = {
    "kex": (
        "curve25519-sha256",
        "curve25519-sha256@libssh.org",
        "ecdh-sha2-nistp521",
        "ecdh-sha2-nistp384",
        "ecdh-sha2-nistp256",
        "diffie-hellman-group16-sha512",
        "diffie-hellman-group-exchange-sha256",
        "diffie-hellman-group14-sha256",
    ),
    "key_types": (
        "ssh-ed25519",
        "ecdsa-sha2-nistp521",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp256",
        "rsa-sha2-512",
        "rsa-sha2-256",
    ),
    "ciphers": (
        "aes256-gcm@openssh.com",
        "aes128-gcm@openssh.com",
        "aes256-ctr",
        "aes192-ctr",
        "aes128-ctr",
    ),
    "digests": (
        "hmac-sha2-512-etm@openssh.com",
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512",
        "hmac-sha2-256",
    ),
}
OUTPUT_LIMIT = 16 << 20
SPARE = "\n" * 9 + "'''exit' 93 #'''\n"
"""Lines before a program: for what reads an answer when a shell starts; then a text of Python, with
which a shell that reads the program in its place ends at once."""


@attr.frozen
class Login:
    """How to get in."""

    host: str  # Address of the VDU.
    user: str  # Login user.
    password: str  # "" if keys are used.
    key_file: str  # Private key of this unit.


@attr.frozen
class CommandResult:
    """What a command on the VDU did."""

    code: int
    out: str
    err: str


def fingerprint(key: str) -> str:
    """Return the OpenSSH SHA256 fingerprint of "type base64"."""
    digest = hashlib.sha256(base64.b64decode(key.split(" ")[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def ensure_key(path: str) -> str:
    """Make an Ed25519 key pair at `path` if it is missing; return the public key."""
    if not os.path.exists(path):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.generate()
        text = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        public = private.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        # The public half first: so the pair is complete once the private file is there.
        replace_file(path + ".pub", public + b"\n")
        replace_file(path, text)
    with open(path + ".pub", encoding="ascii") as stream:
        return stream.read().strip()


_UNWRITABLE = {
    errno.ENOSPC: "has no room left",
    errno.EDQUOT: "has no room left",
    errno.EROFS: "is read-only",
}


def replace_file(path: str, data: bytes) -> None:
    """Write a file of the charm with mode 0600: readers see the former or the new one.

    Raises:
        StorageError: The folder has no room, or cannot be written.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = os.open(path + ".tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.replace(path + ".tmp", path)
        except OSError:
            os.unlink(path + ".tmp")  # A part of a file takes room, too.
            raise
    except OSError as error:
        how = _UNWRITABLE.get(error.errno or 0, "cannot be written")
        raise StorageError("the folder {} of the charm {}".format(folder, how))


def _cached_files(path: str) -> FileCache:
    try:
        with open(path, encoding="utf-8") as stream:
            return FileCache.from_json(stream.read())
    except (OSError, ValueError):
        return FileCache()


class Vdu:
    """A login to the VDU that is opened when first needed.

    Args:
        login: How to get in.
        recall_file: File cache of this VDU, "" for none.
        pinned: "type base64" of the host key to insist on, "" to accept the first.
        fingerprint: SHA256 fingerprint of the host key to insist on instead, "" for none.
    """

    def __init__(
        self, login: Login, recall_file: str = "", pinned: str = "", fingerprint: str = ""
    ) -> None:
        self._login, self._recall_file = login, recall_file
        self._pinned, self._fingerprint = pinned, fingerprint
        self._cache: Optional[FileCache] = None
        self._client = None  # type: Any
        self.connect_seconds = CONNECT_SECONDS  # Time that the VDU has to accept the connection.
        self.round_trips = 0  # Requests sent so far; a reconcile needs at most three.
        self.host_key = ""  # "type base64" of the key the VDU showed, "" before the login.

    def __enter__(self) -> "Vdu":
        """Return the login, not opened yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the login, and store the file cache for the next one."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._cache is not None and self._cache.changed and self._recall_file:
            try:
                replace_file(self._recall_file, self._cache.to_json().encode())
            except StorageError as error:  # The next login then sends more, and nothing else.
                logger.warning("%s", error)

    def execute(self, steps: Sequence[Step], exclusive: bool = True) -> Results:
        """Send steps in one round trip and return what the agent reported.

        Raises:
            UnreachableError: No login.
            VduError: No agent ran (python3 or sudo is missing), or its answer is not understood.
        """
        limit = 30 + sum(int(step.body.get("timeout", 1)) for step in steps)
        python = "/usr/bin/python3 -I -"
        # sudo drops the variable, from which the steps learn where this login comes from.
        sudo = '/usr/bin/sudo -n /usr/bin/env "SSH_CONNECTION=$SSH_CONNECTION" '
        command = python if self._login.user == "root" else sudo + python
        if self._cache is None:
            self._cache = _cached_files(self._recall_file)
        mark = secrets.token_hex(16)
        text = SPARE + program(steps, exclusive, self._cache, mark)
        result = self.command(command, text, limit)
        try:
            return Results.from_json(result.out, steps, self._cache, mark)
        except VduError:
            self.require_shell()
            if result.code == 0:
                raise
        lines = [line for line in (result.err or result.out).splitlines() if line.strip()]
        raise VduError(
            "the VDU did not run the agent (exit code {}): {}".format(
                result.code, lines[-1][:200] if lines else "no message"
            )
        )

    def require_shell(self) -> None:
        """Raise VduError if the login shell does not run what it is told, or reads its input.

        Its exit code does not show it: it is that of what ended the shell.
        """
        mark, sent = secrets.token_hex(16), secrets.token_hex(16)
        result = self.command("echo {}; cat".format(mark), SPARE + sent, 20)
        if sent in result.out:
            return
        said = " ".join((result.out or result.err).split())[:200]
        does, such = "its shell runs no command and says {}", "exit or exec"
        if mark in result.out:
            does, such = "its shell reads what is meant for the command", "cat or read"
        what = "{} lets {} in, but {}; see what .bashrc and the like do without a terminal, such as"
        what += " {}"
        does = does.format(fields.shown(said) if said else "nothing")
        raise VduError(what.format(self._login.host, self._login.user, does, such))

    def command(self, command: str, stdin: str = "", seconds: int = 60) -> CommandResult:
        """Run one command line in the login shell; it is passed unchanged.

        Raises:
            UnreachableError: No login.
            VduError: The command did not end in time, or the connection broke.
        """
        import paramiko

        client = self._connect()
        self.round_trips += 1
        try:
            transport = client.get_transport()
            channel = _session(transport, seconds)
            channel.settimeout(seconds)
            with _closing(transport, seconds):
                channel.exec_command(command)
                refused = _sent(channel, stdin.encode())
            # Read both at once: a full stderr window would otherwise stall stdout.
            out, err = _drain(channel, seconds)
            # recv_exit_status() itself would wait for ever.
            if not channel.status_event.wait(seconds):
                raise socket.timeout()
            code = channel.recv_exit_status()
            if refused is not None and code < 0:
                raise refused
            channel.close()
            return CommandResult(code, out, err)
        except socket.timeout:
            raise VduError("the command on the VDU did not end within {} s".format(seconds))
        except paramiko.ChannelException:
            raise VduError("sshd of the VDU opens no session; see MaxSessions in its sshd_config")
        except (paramiko.SSHException, OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or error or "closed"
            raise VduError("the connection to the VDU broke: {}".format(why))

    def _connect(self) -> Any:
        if self._client is not None:
            return self._client
        wanted = self._pinned.split(" ")[0]
        if self._fingerprint and self._fingerprint != (wanted and fingerprint(self._pinned)):
            wanted = ""
        # sshd shows one of its host keys: the one of the first type that both ends have.
        names = sorted(ALGORITHMS["key_types"], key=lambda name: _key_type(name) != wanted)
        wrong: List[str] = []
        while names:
            try:
                self._client = self._logged_in(names)
                return self._client
            except _WrongKeyError as error:
                wrong.append(error.key)
                names = [name for name in names if _key_type(name) != error.key.split(" ")[0]]
            except UnreachableError:
                if not wrong:
                    raise
                break
        shown = fields.few([fingerprint(key) for key in wrong])
        if self._fingerprint:
            what = "{} shows host key {} where {} is required"
            raise UnreachableError(what.format(self._login.host, shown, self._fingerprint))
        raise UnreachableError(
            "{} shows host key {}, not the pinned {}; if it was changed run trust-host-key".format(
                self._login.host, shown, fingerprint(self._pinned)
            )
        )

    def _logged_in(self, key_types: Sequence[str]) -> Any:
        """Return a client that is logged in, by the unit's key or else by the password.

        Raises:
            _WrongKeyError: The VDU shows another host key.
            UnreachableError: All other failures.
        """
        import paramiko

        login, key = self._login, None
        if os.path.exists(login.key_file):
            try:
                key = paramiko.Ed25519Key.from_private_key_file(login.key_file)
            except (paramiko.SSHException, OSError, ValueError) as error:
                raise UnreachableError("this unit's SSH key cannot be read: {}".format(error))
        client, sentence = self._attempt(key_types, key)
        if client is None and key is not None and login.password:
            # With few MaxAuthTries sshd ends the connection after the key that it refused.
            client, again = self._attempt(key_types, None)
            sentence = again or sentence
        if client is None:
            raise UnreachableError(sentence)
        return client

    def _attempt(self, key_types: Sequence[str], key: Any) -> "tuple[Any, str]":
        """Return a client that is logged in, or None and why not; fail if no login was tried."""
        import paramiko

        login = self._login
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_policy(self._seen))

        def transport(sock: Any, **options: Any) -> Any:
            return _transport(sock, dict(ALGORITHMS, key_types=tuple(key_types)), **options)

        try:
            client.connect(
                login.host,
                username=login.user,
                password=login.password or None,
                pkey=key,
                sock=socket.create_connection((login.host, PORT), self.connect_seconds),
                timeout=LOGIN_SECONDS,
                banner_timeout=LOGIN_SECONDS + CONNECT_SECONDS,  # the key exchange ends first
                auth_timeout=LOGIN_SECONDS,
                allow_agent=False,
                look_for_keys=False,
                transport_factory=transport,
            )
        except _WrongKeyError:
            client.close()
            raise
        # paramiko raises here what failed in its own thread, such as a ValueError of a bad key.
        except Exception as error:
            over = client.get_transport()
            sentence = _login_failure(login, over, error)
            client.close()
            if over is None or not over.initial_kex_done:
                raise UnreachableError(sentence)
            return None, sentence
        return client, ""

    def _seen(self, key: str) -> None:
        required = self._fingerprint or (self._pinned and fingerprint(self._pinned))
        if required and fingerprint(key) != required:
            raise _WrongKeyError(key)
        self.host_key = key


class _WrongKeyError(UnreachableError):
    """The VDU shows another host key than it must."""

    def __init__(self, key: str) -> None:
        super().__init__("another host key")
        self.key = key


def _key_type(algorithm: str) -> str:
    """Return the type of the host keys that an algorithm of ALGORITHMS signs with."""
    return "ssh-rsa" if algorithm.startswith("rsa-") else algorithm


def _transport(sock: Any, algorithms: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """Return paramiko's end of a connection, with these algorithms only."""
    import paramiko

    transport = paramiko.Transport(sock, **options)
    security = transport.get_security_options()
    for kind, names in algorithms.items():
        setattr(security, kind, tuple(n for n in names if n in getattr(security, kind)))
    return transport


def _login_failure(login: Login, transport: Any, error: Exception) -> str:
    """Return why a login failed; paramiko often says only "No existing session"."""
    import paramiko

    if transport is not None and transport.is_active() and not transport.initial_kex_done:
        return "{} did not finish the SSH key exchange within {} s".format(
            login.host, LOGIN_SECONDS
        )
    if isinstance(error, paramiko.AuthenticationException):
        if "timeout" in str(error).lower():
            return "{} did not answer the login of {} within {} s".format(
                login.host, login.user, LOGIN_SECONDS
            )
        # sshd sends what pam_nologin(8) prints, and ends the connection, whatever the key.
        banner = None if transport.is_active() else transport.auth_handler.banner
        if banner is not None:
            said = fields.shown(" ".join(banner.decode("utf-8", "replace").split())[:200])
            what = "{} ends the login of {} and says {}; is there a file /etc/nologin or "
            what += "/run/nologin, or is this unit's SSH key not injected?"
            return what.format(login.host, login.user, said)
        return "{} refuses the login of {}; is this unit's SSH key injected?".format(
            login.host, login.user
        )
    if "ncompatible" in str(error):
        return "{} offers no SSH algorithm that this charm accepts: {}".format(login.host, error)
    reason = getattr(error, "strerror", None) or str(error) or "the connection ended"
    return "cannot reach {}: {}".format(login.host, reason)


def _session(transport: Any, seconds: float) -> Any:
    """Return a new session.

    sshd answers only when PAM has opened it; a busy VDU needs time for that. Where MaxSessions is
    1, sshd needs a moment after the session before.
    """
    import paramiko

    for pause in (0.05, 0.2, 1):
        try:
            return transport.open_session(timeout=seconds)
        except paramiko.ChannelException:
            time.sleep(pause)
    return transport.open_session(timeout=seconds)


@contextmanager
def _closing(transport: Any, seconds: float) -> Iterator[None]:
    """Close the connection if the block does not end in time, and raise socket.timeout.

    paramiko waits for ever for the reply to a request, and for room to send; both end so.
    """
    late = threading.Event()

    def close() -> None:
        late.set()
        transport.close()

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if late.is_set():
            raise socket.timeout()


def _sent(channel: Any, data: bytes) -> Optional[OSError]:
    """Send all input; return the error if the other end takes no more.

    A command may end without reading it. Then its exit code follows.
    """
    try:
        channel.sendall(data)
        channel.shutdown_write()
    except socket.timeout:
        raise
    except OSError as error:
        return error
    return None


def _policy(seen: Callable[[str], None]) -> Any:
    import paramiko

    class Policy(paramiko.MissingHostKeyPolicy):
        """Our own known-hosts check; paramiko's store stays empty, so paramiko always calls it."""

        def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
            """Check the host key of the VDU, before any credential is sent."""
            seen("{} {}".format(key.get_name(), key.get_base64()))

    return Policy()


def _drain(channel: Any, seconds: int) -> "tuple[str, str]":
    import select

    out, err = [], []
    size = 0
    deadline = time.monotonic() + seconds
    while True:
        if time.monotonic() > deadline:
            raise socket.timeout()
        select.select([channel], [], [], 1.0)
        moved = False
        while channel.recv_ready():
            out.append(channel.recv(65536))
            size += len(out[-1])
            moved = True
        while channel.recv_stderr_ready():
            err.append(channel.recv_stderr(65536))
            size += len(err[-1])
            moved = True
        if size > OUTPUT_LIMIT:
            raise OSError("more than {} bytes of output".format(OUTPUT_LIMIT))
        if not moved and (channel.eof_received or channel.closed):
            if not channel.recv_ready() and not channel.recv_stderr_ready():
                break
    return (
        b"".join(out).decode("utf-8", "replace"),
        b"".join(err).decode("utf-8", "replace"),
    )


def address_of(hostname: str) -> Optional[str]:
    """Return the first address of OSM's "floating;fixed" form; None if it is empty."""
    return hostname.split(";")[0].strip() or None
