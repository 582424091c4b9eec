"""Which machine made the keys and records on a VDU: those of another one serve nobody.

An image made from a configured VDU has them, and so has a disk that moved to another machine.
"""

from typing import Dict, List, Optional, Tuple

from vpnaas.vdu.installed import filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, program, run

MARK = "/etc/osm-vpnaas/machine"
"""File with the identities of the machine that made the rest."""
IDENTITIES = {
    # cloud-init asks the cloud for it at every boot.
    "instance": "/var/lib/cloud/data/instance-id",
    # A virtual machine's own UUID.
    "board": "/sys/class/dmi/id/product_uuid",
    "machine-id": "/etc/machine-id",
}
WEAK = "machine-id"
"""An image may have it, and `cloud-init clean` may renew it."""
LEFT = (
    "/etc/osm-vpnaas/*/",
    "/etc/swanctl/osm-vpnaas-*",
    "/etc/swanctl/private/osm-vpnaas-*",
    "/var/lib/osm-vpnaas/*",
)
KEPT = ("vendor",)
"""What the operator puts into /etc/osm-vpnaas."""
UNIT = "osm-vpnaas-machine.service"
_UNIT_FILE = "/etc/systemd/system/" + UNIT
_COMPARE, _FORGET = "/usr/local/lib/osm-vpnaas/machine", "/usr/local/lib/osm-vpnaas/forget"
_UNIT = filled("machine.service", __package__, compare=_COMPARE, forget=_FORGET)
"""Compares at boot, when cloud-init has asked the cloud who this is, before any tunnel starts.

cloud-init-network.service is cloud-init.service since cloud-init 24.3.
"""
NOTICE = "the VDU's disk was another machine's, so its keys, identities and records were made anew"


def observe() -> Step:
    """Return the step that notes the machine, or compares it; it comes before keys are made."""
    body = {"do": "machine", "path": MARK, "identities": IDENTITIES, "weak": WEAK}
    return Step("machine", dict(body, left=list(LEFT), kept=list(KEPT)))


def at_boot() -> Dict[str, Tuple[str, int]]:
    """Return the files by which a copy of the disk serves nobody from boot on: text and mode."""
    return {
        _UNIT_FILE: (_UNIT, 0o644),
        _COMPARE: (program([observe()], exclusive=False), 0o644),
        _FORGET: (source("forget.py"), 0o644),
    }


def identity(results: Results) -> Optional[str]:
    """Return the identity of the machine that made all that charms left, None for another one."""
    return results.text("machine")


def foreign(results: Results) -> bool:
    """Tell whether another machine made what charms have left."""
    return "machine" in results and identity(results) is None


def forget(all_data: bool) -> List[Step]:
    """Return the step that takes down and removes what charms have left.

    The rows of subscribers and the mark stay unless `all_data` is given.
    """
    words = ("python3", "-I", "-c", source("forget.py"), "all" if all_data else "secrets")
    return [run("forget", *words, timeout=120)]
