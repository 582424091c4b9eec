"""The far end of a measurement on a VDU."""

import socket

import pytest
from vpnaas.vdu.programs import responder


class SocketOfPython36(socket.socket):
    """The default of the family is IPv4, also for a file descriptor."""

    def __init__(self, family=socket.AF_INET, kind=socket.SOCK_STREAM, proto=0, fileno=None):
        super().__init__(family, kind, proto, fileno)


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_own_address_of_a_connection_on_every_python(family, address, monkeypatch):
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind((address, 0))
        monkeypatch.setattr(responder.socket, "socket", SocketOfPython36)
        with responder.connection_of(listening.detach()) as connection:
            assert connection.getsockname()[0] == address


@pytest.mark.parametrize(
    ("family", "bound", "asked"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", responder.ALL),
    ],
)
def test_a_server_is_ready_when_it_listens_and_is_not_kept_from_it(family, bound, asked):
    """As iperf3 does, a server sets SO_REUSEADDR; without an address it listens at ::."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((bound, 0))
        port = server.getsockname()[1]
        assert not responder.listens(asked, port)
        server.listen()
        assert responder.listens(asked, port)


def test_the_test_itself_keeps_no_server_from_its_port(monkeypatch):
    plain = socket.socket

    class Probe(plain):
        """A server binds while the test has the port."""

        def bind(self, address):
            super().bind(address)
            with plain() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(address)
                server.listen()

    port = responder.free_port("127.0.0.1")
    monkeypatch.setattr(responder.socket, "socket", Probe)
    assert not responder.listens("127.0.0.1", port)
