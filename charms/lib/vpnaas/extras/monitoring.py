"""The exporter of metrics on the VDU: its files and unit, and whether it runs as configured.

The program is `exporter`. It listens on the VDU's own address on the management interface only.
"""

from typing import Dict, List, Optional

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.monitoring import Monitoring
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.pending import Pending
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, disable, enable, read, remove, run, write
from vpnaas.vdu.steps import directory as make_directory

UNIT = "osm-vpnaas-exporter.service"
PENDING = Pending("monitoring")
UNIT_FILE = "/etc/systemd/system/" + UNIT
FOLDER = "/usr/local/lib/osm-vpnaas/exporter"
PROGRAM_FILE = FOLDER + "/vpnaas/exporter.py"
PARSER_FILE = FOLDER + "/vpnaas/swanctl_raw.py"
LIBRARY = "/usr/lib/python3/dist-packages/prometheus_client"
PACKAGE = "python3-prometheus-client"


def sources() -> Dict[str, str]:
    """Return the files of the program."""
    return {PROGRAM_FILE: source("exporter.py"), PARSER_FILE: source("swanctl_raw.py")}


def unit(address: fields.IPAddress, port: int) -> str:
    """Return the systemd unit; systemd restarts the exporter until the address exists."""
    return """[Unit]
Description=Metrics for Prometheus (osm-vpnaas)
After=network.target

[Service]
Environment=PYTHONPATH={folder}
ExecStart=/usr/bin/python3 -B -m vpnaas.exporter --address {address} --port {port}
Restart=always
RestartSec=2
ProtectSystem=strict
ProtectHome=yes
MemoryMax=256M

[Install]
WantedBy=multi-user.target
""".format(folder=FOLDER, address=address, port=port)


def observe(monitoring: Monitoring) -> List[Step]:
    """Return the steps that look for an exporter, or for the rest of a removed one."""
    if not monitoring.port:
        return [run("monitoring/left", "true", only_if=UNIT_FILE)]
    return [
        run("monitoring/library", "true", only_if=LIBRARY),
        PENDING.observe(),
        read("monitoring/unit", UNIT_FILE),
        read("monitoring" + PROGRAM_FILE, PROGRAM_FILE),
        read("monitoring" + PARSER_FILE, PARSER_FILE),
        run("monitoring/active", "systemctl", "is-active", UNIT, any_exit=True),
        run("monitoring/enabled", "systemctl", "is-enabled", UNIT, any_exit=True),
    ]


def own_address(vdu: VduFacts, management: Optional[fields.IPAddress]) -> fields.IPAddress:
    """Return the VDU's own address on the management interface.

    The address that OSM gave may be a floating one, which is on no interface.

    Raises:
        VpnaasError: The VDU has no such address.
    """
    interface = vdu.underlay("", management)
    own = [address.ip for address in interface.addresses]
    if management in own:
        return own[own.index(management)]
    if not own:
        raise InputError(
            "monitoring: address", "{} has none yet".format(interface.name), "an address to bind to"
        )
    return own[0]


def steps_to(
    monitoring: Monitoring, vdu: VduFacts, management: Optional[fields.IPAddress], results: Results
) -> List[Step]:
    """Return the steps to the wanted exporter; none if it runs as wanted.

    Raises:
        VpnaasError: The exporter cannot run on this VDU.
    """
    if not monitoring.port:
        return absent() if results.exit_code("monitoring/left") is not None else []
    if results.exit_code("monitoring/library") is None:
        raise InputError(
            "monitoring: exporter-port",
            "the VDU has no {}".format(PACKAGE),
            "0, or an image or Day-0 cloud-init that installs it",
        )
    text = unit(own_address(vdu, management), monitoring.port)
    files = {path: t for path, t in sources().items() if results.text("monitoring" + path) != t}
    steps: List[Step] = []
    if files:
        # Programs that do not run as root lie there too, so others must be able to read it.
        steps.append(make_directory("monitoring/lib", FOLDER.rpartition("/")[0], 0o755))
        steps.append(make_directory("monitoring/folder", PROGRAM_FILE.rpartition("/")[0], 0o755))
    for path, program in sorted(files.items()):
        steps.append(write("monitoring/put" + path, path, program))
    if results.text("monitoring/unit") != text or PENDING.left(results):
        steps.append(write("monitoring/put-unit", UNIT_FILE, text))
        steps.append(run("monitoring/reload", "systemctl", "daemon-reload", timeout=90))
    if (results.out("monitoring/enabled") or "").strip() != "enabled":
        steps.append(enable("monitoring/enable", UNIT))
    if steps or (results.out("monitoring/active") or "").strip() != "active":
        steps.append(run("monitoring/restart", "systemctl", "restart", UNIT, timeout=90))
    return [PENDING.begin(), *steps, PENDING.end()] if steps else []


def absent() -> List[Step]:
    """Return the steps that take the exporter away."""
    return [
        disable("monitoring/off", UNIT, timeout=90),
        remove("monitoring/no-unit", UNIT_FILE),
        remove("monitoring/no-program", PROGRAM_FILE),
        remove("monitoring/no-parser", PARSER_FILE),
    ]
