"""What goes wrong in a simulator, in sentences."""


class EpcError(Exception):
    """A network function cannot carry out a request; the text says why."""


class ProtocolError(EpcError):
    """A peer sent something that its protocol does not allow."""


class PeerTimeoutError(EpcError):
    """A peer did not answer in time."""
