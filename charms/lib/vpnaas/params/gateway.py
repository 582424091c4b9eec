"""Parameters of a security gateway, and of the exporter of metrics."""

from typing import Any, Dict, Mapping, Optional

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError

MIN_TUNNELS = 1
MAX_TUNNELS = 100000


@attr.frozen
class SharedAddress:
    """The one address and identity that manual peers have of a gateway pair."""

    address: fields.IPInterface  # Address on the untrusted side that the active gateway has.
    identity: str  # IKE identity that both gateways have for manual peers.


@attr.frozen
class GatewayParams:
    """Parameters of a gateway (the `configure-gateway` primitive)."""

    tunnels: int = 1000  # Peers that may be up at the same time.
    peers_per_address: int = 32  # Peers that may come from one outer address, as behind one NAT.
    firewall: bool = True  # Whether the firewall is on.

    @classmethod
    def parse(cls, params: Mapping[str, Any], where: str = "configure-gateway") -> "GatewayParams":
        """Read the parameters of the action; absent ones take its defaults."""
        given = fields.Parameters(where, params)
        return cls(
            given.integer("tunnels", 1000, MIN_TUNNELS, MAX_TUNNELS),
            given.integer("peers-per-address", 32, MIN_TUNNELS, MAX_TUNNELS),
            given.boolean("firewall", True),
        )

    def to_params(self) -> Dict[str, Any]:
        """Return the action parameters that `parse` turns into this object."""
        return {key.replace("_", "-"): value for key, value in attr.asdict(self).items()}


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
