"""Parameters of the exporter of metrics."""

from typing import Any, Dict, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError

PORT = 9815
"""Default TCP port of a gateway's exporter."""


@attr.frozen
class Monitoring:
    """Parameters of the exporter (the `configure-monitoring` primitive).

    Attributes:
        port: TCP port it listens on, 0 for no exporter.
    """

    port: int

    @classmethod
    def parse(cls, params: Mapping[str, Any], where: str = "configure-monitoring") -> "Monitoring":
        """Read the parameters of the action; absent ones take its defaults."""
        at = where + ": exporter-port"
        port = fields.integer(at, params.get("exporter-port", PORT), 0, 65535)
        if 0 < port < 1024:
            raise InputError(at, "{} is a port of the system".format(port), "0 or 1024 to 65535")
        return cls(port)

    def to_params(self) -> Dict[str, Any]:
        """Return the action parameters that `parse` turns into this object."""
        return {"exporter-port": self.port}


OFF = Monitoring(0)


def effective(asked: Optional[Monitoring], gateway: bool) -> Monitoring:
    """Return the requested settings; the default is an exporter on gateways only."""
    if asked is not None:
        return asked
    return Monitoring(PORT) if gateway else OFF
