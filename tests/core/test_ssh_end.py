"""The end of a command on a VDU."""

import contextlib
import socket
import threading
import time
from types import SimpleNamespace

import paramiko
import pytest
from paramiko import SSHException
from vpnaas.base.errors import UnreachableError, VduError
from vpnaas.vdu import ssh
from vpnaas.vdu.ssh import Login, Vdu, ensure_key


class Channel(SimpleNamespace):
    """A command whose output has ended."""

    eof_received, closed = True, False

    def __getattr__(self, name):
        return lambda *_: False

    def recv_exit_status(self):
        assert self.status_event.is_set(), "this would wait for ever"
        return 3


@pytest.mark.parametrize("ended", [True, False])
def test_a_command_without_exit_status_does_not_wait_for_ever(ended):
    vdu = Vdu(Login("192.0.2.1", "ubuntu", "", ""))
    event = threading.Event()
    if ended:
        event.set()
    with socket.socket() as idle:
        channel = Channel(status_event=event, fileno=idle.fileno)
        transport = SimpleNamespace(open_session=lambda timeout: channel)
        vdu._client = SimpleNamespace(get_transport=lambda: transport)
        if ended:
            assert vdu.command("true", seconds=1).code == 3
        else:
            with pytest.raises(VduError, match="did not end within 0.05 s"):
                vdu.command("true", seconds=0.05)


class Silent(Channel):
    """A command that sshd never says anything about; only the end of the connection ends this."""

    def exec_command(self, command):
        assert self.gone.wait(60), "this would wait for ever"
        raise SSHException("Channel closed.")


def test_a_request_without_a_reply_does_not_wait_for_ever():
    vdu = Vdu(Login("192.0.2.1", "ubuntu", "", ""))
    gone, threads = threading.Event(), threading.active_count()
    channel = Silent(gone=gone)
    transport = SimpleNamespace(open_session=lambda timeout: channel, close=gone.set)
    vdu._client = SimpleNamespace(get_transport=lambda: transport)
    begun = time.monotonic()
    with pytest.raises(VduError, match="did not end within 0.2 s"):
        vdu.command("true", seconds=0.2)
    assert time.monotonic() - begun < 30
    assert threading.active_count() == threads


def test_the_limit_of_a_request_costs_a_good_command_nothing():
    vdu = Vdu(Login("192.0.2.1", "ubuntu", "", ""))
    event, threads = threading.Event(), threading.active_count()
    event.set()
    with socket.socket() as idle:
        channel = Channel(status_event=event, fileno=idle.fileno)
        transport = SimpleNamespace(open_session=lambda timeout: channel)
        vdu._client = SimpleNamespace(get_transport=lambda: transport)
        begun = time.monotonic()
        assert vdu.command("true", seconds=3600).code == 3
    assert time.monotonic() - begun < 60
    assert threading.active_count() == threads


class OneTry(paramiko.ServerInterface):
    """An sshd with `MaxAuthTries 1`, which knows a password and no key."""

    banner = None

    def __init__(self, transport):
        self.transport, self.tried = transport, []

    def get_allowed_auths(self, username):
        return "publickey,password"

    def get_banner(self):
        return self.banner, "en-US"

    def check_auth_publickey(self, username, key):
        return self.tries("key", False)

    def check_auth_password(self, username, password):
        return self.tries("password", password == "right")

    def tries(self, how, good):
        self.tried.append(how)
        # paramiko's server ends the connection after ten of them
        self.transport.auth_handler.auth_fail_count = 9
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED


class Closed(OneTry):
    """An sshd of a machine with /etc/nologin, which ends a login that the key opened."""

    banner = "Down for maintenance,\r\nback at noon\n"

    def tries(self, how, good):
        self.transport.close()
        return paramiko.AUTH_FAILED


@contextlib.contextmanager
def served(kind, monkeypatch):
    """Serve logins on the loopback; give the servers of its connections."""
    host_key, servers = paramiko.ECDSAKey.generate(), []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    transport = paramiko.Transport(listener.accept()[0])
                except OSError:
                    return
                transport.add_server_key(host_key)
                servers.append(kind(transport))
                transport.start_server(threading.Event(), servers[-1])

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setattr(ssh, "PORT", listener.getsockname()[1])
        yield servers
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("password", ["right", "wrong"])
def test_a_password_has_a_connection_of_its_own(tmp_path, monkeypatch, password):
    ensure_key(str(tmp_path / "key"))
    vdu = Vdu(Login("127.0.0.1", "root", password, str(tmp_path / "key")))
    with served(OneTry, monkeypatch) as servers, vdu:
        if password == "right":
            vdu._connect()
        else:
            with pytest.raises(UnreachableError, match="refuses the login of root"):
                vdu._connect()
    assert [server.tried for server in servers] == [["key"], ["password"]]


@pytest.mark.parametrize("password", ["", "right"])
def test_a_vdu_that_lets_nobody_in_is_quoted(tmp_path, monkeypatch, password):
    ensure_key(str(tmp_path / "key"))
    said = "ends the login of ubuntu and says 'Down for maintenance, back at noon'; is there a file"
    vdu = Vdu(Login("127.0.0.1", "ubuntu", password, str(tmp_path / "key")))
    with served(Closed, monkeypatch), vdu, pytest.raises(UnreachableError, match=said):
        vdu._connect()
