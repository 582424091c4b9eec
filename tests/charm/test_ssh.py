"""The login to a VDU: which algorithms it uses with a real sshd, and what it says when it fails.

With both releases of paramiko that count: the one vendored into the charms, on the oldest Python at
hand that a charm runs on, and a current one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.kex_curve25519 import KexCurve25519, c_MSG_KEXECDH_REPLY
from support.ports import free_port
from support.waiting import listens, wait_until
from vpnaas.vdu.ssh import fingerprint

from lab.vca.python import choose_python

pytestmark = pytest.mark.lab

LIBRARY = Path(__file__).resolve().parents[2] / "charms/lib"

#: What sshd of these releases offers by default (sshd_config(5) of each), but for what the sshd
#: that plays them does not have any more.
_KEX = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
_KEX += "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,"
_KEX += "diffie-hellman-group18-sha512,diffie-hellman-group14-sha256"
_CIPHERS = "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,"
_CIPHERS += "aes128-gcm@openssh.com,aes256-gcm@openssh.com"
_MACS = "umac-64-etm@openssh.com,umac-128-etm@openssh.com,hmac-sha2-256-etm@openssh.com,"
_MACS += "hmac-sha2-512-etm@openssh.com,hmac-sha1-etm@openssh.com,umac-64@openssh.com,"
_MACS += "umac-128@openssh.com,hmac-sha2-256,hmac-sha2-512,hmac-sha1"
_OLD_KEYS = "ecdsa-sha2-nistp256,ssh-ed25519,rsa-sha2-512,rsa-sha2-256,ssh-rsa"
_COMMON = {"KexAlgorithms": _KEX, "Ciphers": _CIPHERS, "MACs": _MACS}
SERVERS = {
    "Ubuntu 18.04, OpenSSH 7.6": {
        **_COMMON,
        "KexAlgorithms": f"{_KEX},diffie-hellman-group14-sha1",
        "HostKeyAlgorithms": _OLD_KEYS,
    },
    "Ubuntu 20.04, OpenSSH 8.2": {**_COMMON, "HostKeyAlgorithms": _OLD_KEYS},
    "Ubuntu 22.04, OpenSSH 8.9": {
        **_COMMON,
        "KexAlgorithms": f"sntrup761x25519-sha512@openssh.com,{_KEX}",
    },
    "Debian 12 and Ubuntu 24.04": {},
}
OLD = "aes256-cbc,aes128-cbc,3des-cbc"
REFUSED = {
    "ciphers": {"Ciphers": OLD},
    "digests": {"MACs": "hmac-md5,hmac-sha1,hmac-sha1-96", "Ciphers": "aes128-ctr"},
    "kex": {"KexAlgorithms": "diffie-hellman-group1-sha1,diffie-hellman-group14-sha1"},
}

#: A login and a command, as the charm does it; prints what was agreed on.
PROGRAM = """
import sys
from vpnaas.base.errors import UnreachableError
from vpnaas.vdu import ssh
ssh.PORT, ssh.CONNECT_SECONDS, ssh.LOGIN_SECONDS = int(sys.argv[1]), 1, float(sys.argv[3])
try:
    with ssh.Vdu(ssh.Login("127.0.0.1", "root", "", sys.argv[2])) as vdu:
        assert vdu.command("cat", "text").out == "text"
        transport = vdu._client.get_transport()
        print(vdu.host_key.split()[0], transport.remote_cipher, transport.local_cipher,
              transport.local_mac, sep="\\n")
except UnreachableError as error:
    print(error)
    sys.exit(3)
"""

#: A request to the agent, where a host key is required; prints the key that the VDU showed.
REQUEST = """
import sys
from vpnaas.base.errors import VpnaasError
from vpnaas.vdu import ssh, steps
ssh.PORT = int(sys.argv[1])
try:
    with ssh.Vdu(ssh.Login("127.0.0.1", "root", "", sys.argv[2]), "", *sys.argv[3:]) as vdu:
        print(vdu.execute([steps.run("echo", "echo", "text")], exclusive=False).check().out("echo"))
        print(vdu.host_key)
except VpnaasError as error:
    print(error)
    sys.exit(3)
"""

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


#: Runs a program in a process of its own for each line it reads, of what is imported already.
FORKS = """
import json, os, sys
import paramiko
import vpnaas.vdu.ssh, vpnaas.vdu.steps
for line in sys.stdin:
    program, *sys.argv[1:] = json.loads(line)
    child = os.fork()
    if not child:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(sys.argv[2] + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        exec(program, {"__name__": "__main__"})
        sys.exit()
    print(os.WEXITSTATUS(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module", params=["vendored", "current"])
def login(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, vendored: Path
) -> Iterator[Run]:
    """Log in with one release of paramiko."""
    key = tmp_path_factory.mktemp("login") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    path, python = [str(LIBRARY)], Path(sys.executable)
    if request.param == "vendored":
        path, python = [*path, str(vendored / "hss/venv")], choose_python().path
    with subprocess.Popen(
        [python, "-W", "ignore", "-c", FORKS],
        env={**os.environ, "PYTHONPATH": ":".join(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forks:
        assert forks.stdin and forks.stdout

        def run(port: int, *more: object, program: str = PROGRAM) -> Done:
            words = list(map(str, more or (() if program == REQUEST else (30,))))
            print(json.dumps([program, str(port), str(key), *words]), file=forks.stdin, flush=True)
            code = int(forks.stdout.readline())
            said = [Path(f"{key}{name}").read_text() for name in ("out", "err")]
            return subprocess.CompletedProcess(words, code, *said)

        run.key = key  # type: ignore[attr-defined]
        yield run
        forks.stdin.close()


@pytest.fixture
def sshd(tmp_path: Path, login: Run) -> Iterator[Callable[[dict[str, str]], int]]:
    """Start this machine's sshd with given algorithms on a free port of the loopback."""
    started: list[subprocess.Popen[bytes]] = []

    def start(options: dict[str, str]) -> int:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        port = free_port()
        lines = [f"Port {port}", "ListenAddress 127.0.0.1", "UsePAM no", "LogLevel DEBUG1"]
        lines += ["PermitRootLogin prohibit-password", "StrictModes no", "PidFile none"]
        lines.append(f"AuthorizedKeysFile {login.key}.pub")  # type: ignore[attr-defined]
        lines.append(f"SetEnv HOME={tmp_path}")  # without this machine's .bashrc
        for kind in ("ed25519", "ecdsa"):
            path = tmp_path / f"host_{kind}"
            subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
            lines.append(f"HostKey {path}")
        lines += [f"{name} {value}" for name, value in options.items()]
        (tmp_path / "sshd_config").write_text("\n".join(lines) + "\n")
        words = ["/usr/sbin/sshd", "-D", "-f", str(tmp_path / "sshd_config")]
        words += ["-E", str(tmp_path / "sshd.log")]
        started.append(subprocess.Popen(words))
        log = tmp_path / "sshd.log"
        wait_until(lambda: listens("127.0.0.1", port) or started[-1].poll() is not None, "sshd")
        assert started[-1].poll() is None, log.read_text()
        return port

    yield start
    for process in started:
        process.terminate()
        process.wait(120)


@pytest.mark.parametrize("server", SERVERS)
def test_best_of_what_both_have(
    sshd: Callable[[dict[str, str]], int], login: Run, server: str, tmp_path: Path
) -> None:
    done = login(sshd(SERVERS[server]))
    assert done.returncode == 0, done.stdout + done.stderr
    host_key, *ciphers, digest = done.stdout.split()
    assert host_key == "ssh-ed25519"
    log = (tmp_path / "sshd.log").read_text()
    assert re.search("kex: algorithm: curve25519-sha256", log), log
    assert len(ciphers) == 2
    # AES-GCM since paramiko 3.5, else CTR and a MAC over what is encrypted.
    for cipher in ciphers:
        assert cipher in ("aes256-gcm@openssh.com", "aes256-ctr")
    if "aes256-ctr" in ciphers:
        assert digest == "hmac-sha2-512-etm@openssh.com"


@pytest.mark.parametrize("kind", REFUSED)
def test_old_algorithms_are_refused(
    sshd: Callable[[dict[str, str]], int], login: Run, kind: str
) -> None:
    done = login(sshd(REFUSED[kind]))
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.match(
        r"127.0.0.1 offers no SSH algorithm that this charm accepts: Incompatible ssh", done.stdout
    )


@pytest.mark.parametrize("sends", [b"SSH-2.0-OpenSSH_9.2\r\n", b""])
def test_slow_server_is_called_slow(login: Run, sends: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def accept() -> None:
            held.append(server.accept()[0])
            held[0].sendall(sends)

        thread = threading.Thread(target=accept)
        thread.start()
        done = login(server.getsockname()[1], 1)
        thread.join(120)
        held[0].close()
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.strip() == "127.0.0.1 did not finish the SSH key exchange within 1.0 s"


class SlowSession(paramiko.ServerInterface):
    """A server that lets everybody in, but takes longer for a session than for a connection."""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        threading.Event().wait(4)
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True


def login_to(login: Run, seconds: float, serve: Callable[[paramiko.Transport], None]) -> Done:
    """Log in to a server that lives in this process for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            transport = paramiko.Transport(server.accept()[0])
            transport.add_server_key(paramiko.ECDSAKey.generate())
            serve(transport)

        thread = threading.Thread(target=accept)
        thread.start()
        done = login(server.getsockname()[1], seconds)
        thread.join(120)
    return done


def test_slow_session_after_the_login_is_waited_for(login: Run) -> None:
    def serve(transport: paramiko.Transport) -> None:
        transport.start_server(server=SlowSession())
        channel = transport.accept(30)
        assert channel is not None
        channel.sendall(channel.recv(4))
        channel.send_exit_status(0)
        channel.close()

    # The time for a login is over by then; the command's own is what counts.
    done = login_to(login, 3, serve)
    assert done.returncode == 0, done.stdout + done.stderr


class ZeroKey(KexCurve25519):
    """A key exchange in which the server's public key is zero, which no library accepts."""

    def _parse_kexecdh_init(self, m: paramiko.Message) -> None:
        message = paramiko.Message()
        message.add_byte(c_MSG_KEXECDH_REPLY)
        for text in (self.transport.get_server_key().asbytes(), bytes(32), b""):
            message.add_string(text)
        self.transport._send_message(message)


def test_malformed_key_exchange_is_one_sentence(login: Run) -> None:
    def serve(transport: paramiko.Transport) -> None:
        transport._kex_info = dict.fromkeys(transport._kex_info, ZeroKey)  # type: ignore[misc]
        with contextlib.suppress(paramiko.SSHException, EOFError):
            transport.start_server(server=SlowSession())
        transport.close()

    done = login_to(login, 10, serve)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.startswith("cannot reach 127.0.0.1: ")


def host_keys(folder: Path) -> dict[str, str]:
    """Return "type base64" of each host key of `sshd`, by kind."""
    return {
        kind: " ".join((folder / f"host_{kind}.pub").read_text().split()[:2])
        for kind in ("ed25519", "ecdsa")
    }


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
@pytest.mark.parametrize("by", ["pin", "fingerprint", "fingerprint, the other one pinned"])
def test_any_host_key_of_the_vdu_is_found_whatever_its_type(
    login: Run, sshd: Callable[[dict[str, str]], int], tmp_path: Path, kind: str, by: str
) -> None:
    port = sshd({})
    keys = host_keys(tmp_path)
    other = keys["ecdsa" if kind == "ed25519" else "ed25519"]
    wanted = (keys[kind],) if by == "pin" else ("", fingerprint(keys[kind]))
    if "other" in by:
        wanted = (other, fingerprint(keys[kind]))
    done = login(port, *wanted, program=REQUEST)
    assert (done.returncode, done.stdout) == (0, f"text\n\n{keys[kind]}\n"), done.stdout


@pytest.mark.parametrize("by", ["pin", "fingerprint"])
def test_a_host_key_that_the_vdu_does_not_have_is_refused_before_a_login(
    login: Run, sshd: Callable[[dict[str, str]], int], tmp_path: Path, by: str
) -> None:
    port = sshd({})
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "x"], check=True
    )
    strange = " ".join((tmp_path / "x.pub").read_text().split()[:2])
    wanted = (strange,) if by == "pin" else ("", fingerprint(strange))
    done = login(port, *wanted, program=REQUEST)
    shown = ", ".join(fingerprint(key) for key in host_keys(tmp_path).values())
    reason = f"not the pinned {fingerprint(strange)}; if it was changed run trust-host-key"
    if by != "pin":
        reason = f"where {fingerprint(strange)} is required"
    joint = ", " if by == "pin" else " "
    assert (done.returncode, done.stdout) == (
        3,
        f"127.0.0.1 shows host key {shown}{joint}{reason}\n",
    )
    assert "Accepted" not in (tmp_path / "sshd.log").read_text()


NOISE = {
    "before": "echo This machine belongs to Example Ltd; {}",
    "after": "{}; echo Bye",
    "without an end of line": "printf before; {}; printf after",
    "binary": "head -c 5000 /dev/urandom; {}; head -c 5000 /dev/urandom",
    "huge": "yes Example | head -c 3000000; {}; yes | head -c 3000000",
    "on standard error": "echo Example >&2; {}; echo Bye >&2",
    "with an exit code": "{}; exit 7",
    "that waits for a key": "read -r answer; read -n 1 answer; {}",
    "like an answer": 'echo \'{{"results": {{}}, "failed": null}}\'; {}; echo packed x',
}


@pytest.mark.parametrize("noise", NOISE)
def test_what_a_shell_prints_around_the_answer_is_skipped(
    login: Run, sshd: Callable[[dict[str, str]], int], noise: str
) -> None:
    port = sshd({"ForceCommand": NOISE[noise].format('eval "$SSH_ORIGINAL_COMMAND"')})
    done = login(port, program=REQUEST)
    assert (done.returncode, done.stdout.split()[0]) == (0, "text"), done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo Only for staff", "'Only for staff'"),
        ("true", "nothing"),
        ("exit 3", "nothing"),
        ("echo not available; exit 1", "'not available'"),
        ("exec sh", "nothing"),
        ("exec bash -l", "nothing"),
    ],
)
def test_a_shell_that_runs_no_command_is_named(
    login: Run, sshd: Callable[[dict[str, str]], int], command: str, said: str
) -> None:
    done = login(sshd({"ForceCommand": command}), program=REQUEST)
    sentence = f"127.0.0.1 lets root in, but its shell runs no command and says {said}; see what "
    sentence += ".bashrc and the like do without a terminal, such as exit or exec\n"
    assert (done.returncode, done.stdout) == (3, sentence)


@pytest.mark.parametrize("eaten", ["cat > /dev/null", "head -c 50000 > /dev/null"])
def test_a_shell_that_eats_all_input_is_named(
    login: Run, sshd: Callable[[dict[str, str]], int], eaten: str
) -> None:
    forced = f'{eaten}; eval "$SSH_ORIGINAL_COMMAND"'
    done = login(sshd({"ForceCommand": forced}), program=REQUEST)
    sentence = "127.0.0.1 lets root in, but its shell reads what is meant for the command; see "
    sentence += "what .bashrc and the like do without a terminal, such as cat or read\n"
    assert (done.returncode, done.stdout) == (3, sentence)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("case $SSH_ORIGINAL_COMMAND in *python*) exit;; esac; {}", ", it printed nothing"),
        ("case $SSH_ORIGINAL_COMMAND in *python*) exit 4;; esac; {}", " (exit code 4): no message"),
    ],
)
def test_an_agent_that_did_not_run_is_told(
    login: Run, sshd: Callable[[dict[str, str]], int], command: str, answer: str
) -> None:
    forced = command.format('eval "$SSH_ORIGINAL_COMMAND"')
    done = login(sshd({"ForceCommand": forced}), program=REQUEST)
    assert (done.returncode, done.stdout) == (3, f"the VDU did not run the agent{answer}\n")


def test_one_session_at_a_time_is_enough(login: Run, sshd: Callable[[dict[str, str]], int]) -> None:
    port = sshd({"MaxSessions": "1"})
    again = REQUEST.replace("        print(vdu.host_key)", "        " + "vdu.require_shell();" * 20)
    done = login(port, "", program=again)
    assert (done.returncode, done.stdout) == (0, "text\n\n"), done.stdout + done.stderr


def test_an_sshd_without_sessions_is_named(
    login: Run, sshd: Callable[[dict[str, str]], int]
) -> None:
    done = login(sshd({"MaxSessions": "0"}), program=REQUEST)
    sentence = "sshd of the VDU opens no session; see MaxSessions in its sshd_config"
    assert (done.returncode, done.stdout) == (3, f"{sentence}\n")
