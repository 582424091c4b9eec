"""An embedded controller that runs real charms as Juju 2.9's unit agents do.

docs/reference/lab-vca.md lists the parts of Juju that it has and lacks.
"""

from lab.vca.controller import Controller
from lab.vca.errors import (
    AgentEndedError,
    AlreadyExistsError,
    InvalidCharmError,
    InvalidValueError,
    ModelBusyError,
    NotFoundError,
    VcaError,
    WaitTimeoutError,
)
from lab.vca.events import Event
from lab.vca.model import Model
from lab.vca.runtime import Settings
from lab.vca.status import ModelStatus, UnitStatus

__all__ = [
    "AgentEndedError",
    "AlreadyExistsError",
    "Controller",
    "Event",
    "InvalidCharmError",
    "InvalidValueError",
    "Model",
    "ModelBusyError",
    "ModelStatus",
    "NotFoundError",
    "Settings",
    "UnitStatus",
    "VcaError",
    "WaitTimeoutError",
]
