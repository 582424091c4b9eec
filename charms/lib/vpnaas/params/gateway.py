"""Parameters of a security gateway, and of the exporter of metrics."""

from typing import Any, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.declared import Declared, number_field, switch_field
from vpnaas.base.errors import InputError

MIN_TUNNELS = 1
MAX_TUNNELS = 100000


@attr.frozen
class SharedAddress:
    """The one address and identity that manual peers have of a gateway pair."""

    address: fields.IPInterface  # Address on the untrusted side that the active gateway has.
    identity: str  # IKE identity that both gateways have for manual peers.


@attr.frozen
class GatewayParams(Declared):
    """Parameters of a gateway (the `configure-gateway` primitive)."""

    action = "configure-gateway"
    # Peers that may be up at the same time.
    tunnels: int = number_field(MIN_TUNNELS, MAX_TUNNELS, 1000)
    # Peers that may come from one outer address, as behind one NAT.
    peers_per_address: int = number_field(MIN_TUNNELS, MAX_TUNNELS, 32)
    firewall: bool = switch_field(True)  # Whether the firewall is on.


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


def log_server(params: Mapping[str, Any], present: str = "") -> str:
    """Return address and port of the syslog server that `configure-monitoring` asks for, or ""."""
    given = fields.Parameters("configure-monitoring", params)
    text = given.text("log-server", "keep")
    if text in ("keep", "none"):
        return present if text == "keep" else ""
    return fields.show_endpoint(*fields.endpoint(given.at("log-server"), text))


def effective(asked: Optional[int], gateway: bool) -> int:
    """Return the port in force; the default is an exporter on gateways only."""
    if asked is not None:
        return asked
    return PORT if gateway else 0
