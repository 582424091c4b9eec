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
