"""The exception that the VIM raises for errors of its caller or of the machine."""

from lab.errors import LcmError


class VimError(LcmError):
    """A request that the VIM refuses or that failed; the text is one sentence for the user.

    If OpenStack has a text for the same error, this text is similar, because users of OSM's VIM
    connector will later read that one.
    """
