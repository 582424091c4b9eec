"""Errors of simulators; their texts are sentences. Any function of a simulator may raise one."""


class EpcError(Exception):
    """A network function cannot carry out a request; the text is the reason."""


class ProtocolError(EpcError):
    """A peer sent something that its protocol does not allow."""


class PeerTimeoutError(EpcError):
    """A peer did not answer in time."""
