"""Timeouts of OSM, and their shorter values in the lab.

All values are OSM 19's, in seconds, multiplied by one factor. A VDU of the lab boots in seconds, in
a cloud it takes minutes, so the default factor is 0.1. OSMLAB_TIMEOUT_FACTOR changes it (1: OSM's
own timeouts).
"""

import os
from dataclasses import dataclass, fields

from lab.errors import NbiError

DEFAULT_FACTOR = 0.1
VERIFY_TRIES = 20


@dataclass(frozen=True)
class Timeouts:
    """Waiting times in seconds; the defaults are OSM's."""

    ns_deploy: float = 7200.0  # Whole instantiation, unless the request says ``timeout_ns_deploy``.
    charm_ready: float = 3600.0
    """Charm's application becomes active or blocked; after it LCM goes on without an error."""
    relations: float = 3600.0  # All relations of one execution environment are added.
    vm_ip: float = 3600.0  # The VDU has its management address.
    inject_key: float = 600.0  # LCM's wait for the whole key injection.
    inject_interval: float = 30.0  # RO's pause between two logins.
    dependent_vcas: float = 3000.0
    """An environment waits for those below it (VNF for its VDUs, NS for all)."""
    verify_interval: float = 15.0  # Pause between two verify-ssh-credentials, of at most 20.
    primitive: float = 3600.0  # One initial primitive.
    action: float = 1800.0  # One ns-action, unless the request says ``timeout_ns_action``.
    helm_install: float = 300.0  # Helm's own timeout: a release becomes ready.
    helm_initial: float = 600.0  # Until a pod answers for the first time.
    helm_retry: float = 30.0  # Until a pod answers again, after it answered once.
    terminate_primitives: float = 600.0  # All terminate primitives together.
    settle: float = 1200.0
    """Not OSM's: the lab waits this long for the charms to go idle after an operation."""

    def scaled(self, factor: float) -> "Timeouts":
        return Timeouts(**{f.name: getattr(self, f.name) * factor for f in fields(self)})


def lab_timeouts() -> Timeouts:
    """Return OSM's values times the factor from OSMLAB_TIMEOUT_FACTOR (default 0.1)."""
    text = os.environ.get("OSMLAB_TIMEOUT_FACTOR", "")
    try:
        factor = float(text) if text else DEFAULT_FACTOR
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 100:
        raise NbiError(f"OSMLAB_TIMEOUT_FACTOR is '{text}', it must be a number above 0, up to 100")
    return Timeouts().scaled(factor)
