"""Parameters of the exporter of metrics."""

from typing import Any, Mapping, Optional

from vpnaas.base import fields
from vpnaas.base.errors import InputError

PORT = 9815
"""Default TCP port of a gateway's exporter."""


def exporter_port(params: Mapping[str, Any]) -> int:
    """Return the TCP port that `configure-monitoring` asks for, 0 for no exporter."""
    given = fields.Parameters("configure-monitoring", params)
    port = given.integer("exporter-port", PORT, 0, 65535)
    if 0 < port < 1024:
        what = "{} is a port of the system".format(port)
        raise InputError(given.at("exporter-port"), what, "0 or 1024 to 65535")
    return port


def effective(asked: Optional[int], gateway: bool) -> int:
    """Return the port in force; the default is an exporter on gateways only."""
    if asked is not None:
        return asked
    return PORT if gateway else 0
