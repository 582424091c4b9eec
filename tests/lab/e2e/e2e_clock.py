"""The clock of one VDU, as its IKE daemon and what its charm asks the time see it (libfaketime).

The kernel of the lab has one clock for all VDUs. Timers run on as ever, as they do where somebody
sets a clock.
"""

from e2e_support import Vnf
from support import clock

SHIFT = "/etc/osm-lab-clock"
DROPIN = "/etc/systemd/system/strongswan.service.d/clock.conf"
PROGRAMS = ("date", "openssl")


class Clock:
    """For the time of a `with` block, a VDU's clock that can be set; the daemon starts anew."""

    def __init__(self, vnf: Vnf) -> None:
        self.vnf = vnf

    def __enter__(self) -> "Clock":
        variables = {
            # A VDU has the packages of the machine.
            "LD_PRELOAD": clock.library(),
            "FAKETIME_TIMESTAMP_FILE": SHIFT,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        self.set("+0")
        for name in PROGRAMS:
            # Before the distribution's own on any PATH.
            self.vnf.out("tee", f"/usr/local/bin/{name}",
                         input=f'#!/bin/sh\nexec env {words} /usr/bin/{name} "$@"\n')  # fmt: skip
            self.vnf.out("chmod", "755", f"/usr/local/bin/{name}")
        self.vnf.out("tee", DROPIN, input=f"[Service]\nEnvironment={words}\n")
        self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        self.vnf.out("rm", "-f", DROPIN, *(f"/usr/local/bin/{name}" for name in PROGRAMS))
        self.restart()

    def set(self, shift: str) -> None:
        """Set it ahead ("+40d") or back ("-2d") of the machine's."""
        self.vnf.out("tee", SHIFT, input=f"{shift}\n")

    def restart(self) -> None:
        """Start the daemon anew, as a boot does."""
        self.vnf.out("systemctl", "daemon-reload")
        self.vnf.out("systemctl", "restart", "strongswan")
