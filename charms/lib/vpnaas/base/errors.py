"""Errors that carry one sentence a person can act on.

Any function of the charm library may raise VpnaasError or InputError.
"""

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors of a reader whose document does not have the expected form. A hostile VDU or peer may send
any JSON: other types, missing or extra parts, 1e999, ten thousand brackets."""


class VpnaasError(Exception):
    """Base of every error this library raises on purpose; `str()` is one clear sentence."""


class InputError(VpnaasError):
    """A value from an operator or from a peer is not allowed.

    Args:
        where: What was being read, such as "configure: inner-address" or "offer of hss: mtu".
        what: What is wrong with the value, with the value itself cut to a printable size.
        allowed: What would have been accepted.
    """

    def __init__(self, where: str, what: str, allowed: str) -> None:
        super().__init__("{}: {}; allowed: {}".format(where, what, allowed))


class UnreachableError(VpnaasError):
    """The VDU cannot be logged in to (network, authentication or host key)."""


class VduError(VpnaasError):
    """The VDU was reached and a step failed there."""


class StorageError(VpnaasError):
    """A file of the charm cannot be written, on the machine where the charm runs."""


class NotReadyError(VpnaasError):
    """Juju gives no access to our own data in this hook; a later one, or the leader's, has it."""
