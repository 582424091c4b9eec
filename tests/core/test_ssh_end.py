"""The end of a command on a VDU."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest
from paramiko import SSHException
from vpnaas.base.errors import VduError
from vpnaas.vdu.ssh import Login, Vdu


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
