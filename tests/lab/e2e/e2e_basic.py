"""vpn_basic_ns, two VNFs and one tunnel: its links and addresses, and its ends configured anew."""

from __future__ import annotations

from e2e_support import Service, Vnf

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
INNER = {"server": SERVER, "client": CLIENT}
"""Inner address by member."""
LINKS = {"server": "vpn-server", "client": "vpn-client"}


def configure(vnf: Vnf, **options: object) -> None:
    """Configure one end as its parameters have it, but for the options."""
    given = {"inner_address": f"{INNER[vnf.index]}/24", "underlay_interface": "ens4", **options}
    vnf.action("configure", link=LINKS[vnf.index], **given)


def configure_both(service: Service, **options: object) -> None:
    """Configure both ends alike, beginning with the one that answers."""
    for index in LINKS:
        configure(service[index], **options)


def told(service: Service) -> dict[str, dict[str, object]]:
    """Return what show-status says of each end."""
    return {index: service[index].status(link) for index, link in LINKS.items()}


def journal(vnf: Vnf) -> str:
    return vnf.out("journalctl", "-u", "strongswan", "-o", "cat")
