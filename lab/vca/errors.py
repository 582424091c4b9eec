"""Errors of the embedded controller.

The message is one sentence. If clients of Juju read its text (OSM's LCM looks for "not found" and
"already exists"), the message is the same.
"""

from lab.errors import LcmError


class VcaError(LcmError):
    """Any refusal or failure of the embedded controller."""


class NotFoundError(VcaError):
    """A model, application, unit, relation, endpoint or action that does not exist."""


class AlreadyExistsError(VcaError):
    """A name or relation that exists already."""


class InvalidCharmError(VcaError):
    """A charm folder that Juju or libjuju refuses."""


class InvalidValueError(VcaError):
    """An option or action parameter of the wrong name, type or range."""


class ModelBusyError(VcaError):
    """Another process runs the model and did not stop in time."""


class AgentEndedError(VcaError):
    """The agent of a unit ended before its unit did, so nobody goes on with it in this process."""


class WaitTimeoutError(VcaError):
    """The timeout of a wait expired."""
