"""The errors of the lab.

Any function of the lab may raise a LabError: NbiError, LcmError, VimError, ClusterError or
VcaError. Docstrings name other errors, and these where something follows from them.
"""

import difflib
import re
from collections.abc import Iterable
from http import HTTPStatus


class LabError(Exception):
    """A refusal or a failure; the text is one sentence for the user."""


class NbiError(LabError):
    """A request the lab refuses; the text is in NBI's own words where it has any.

    The status is that with which NBI refuses the same request.
    """

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status


SHOWN = 10  # Names that an error lists at most.


def unknown(
    text: str, name: str, known: Iterable[str], status: HTTPStatus = HTTPStatus.BAD_REQUEST
) -> NbiError:
    """Return the error of a wrong name: NBI's text, and the nearest names or those there are."""
    names = sorted(set(known))
    if close := difflib.get_close_matches(name, names):
        hint = "did you mean " + " or ".join(f"'{one}'" for one in close)
    elif names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        hint = f"allowed: {', '.join(names[:SHOWN])}{more}"
    else:
        hint = "there is none"
    return NbiError(f"{text}; {hint}", status)


_IN_EE = re.compile(r"Error executing primitive (\S+) in(?:to)? ee=\S+ ?: (?:failed: (?:\1: )?)?")


def spoken(reason: object) -> str:
    """Return why an operation failed, for people: a primitive by its name, without OSM's ids."""
    return _IN_EE.sub(r"\1: ", str(reason))


class ConflictError(NbiError):
    """A request that conflicts with existing records (HTTP status 409)."""

    def __init__(self, text: str) -> None:
        super().__init__(text, HTTPStatus.CONFLICT)


class LcmError(LabError):
    """A step of an operation failed, here, in the VIM or in the VCA.

    The text is OSM's own where OSM has one.
    """


class VimError(LcmError):
    """A request that the VIM refuses or that failed, by a fault of its caller or of the machine.

    If OpenStack has a text for the same error, this text is similar, because users of OSM's VIM
    connector will later read that one.
    """


class ClusterError(LcmError):
    """A call or a process of the cluster failed."""


STOPPED = "The server is not running, so nothing can be run in it; `lab reboot` starts it."
TIMED_OUT = "Timed out waiting for action to complete"
"""LCM's words for a primitive of a chart that does not end in time."""


class VcaError(LcmError):
    """Any refusal or failure of the embedded controller.

    If clients of Juju read a text (OSM's LCM looks for "not found" and "already exists"), it is the
    same.
    """


class NotFoundError(VcaError):
    """A model, application, unit, relation, endpoint or action that does not exist."""


class ModelBusyError(VcaError):
    """Another process runs the model and did not stop in time."""


class AgentEndedError(VcaError):
    """The agent of a unit ended before its unit did, so nobody goes on with it in this process."""


class WaitTimeoutError(VcaError):
    """The timeout of a wait expired."""
