"""The far end of a measurement: a socket-activated launcher of one-shot iperf3 servers.

A charm can log in to its own VDU only, so the client's VDU asks the server's VDU directly: it
connects to RESPONDER_PORT of the peer's inner address and names the path to measure. The answer is
the port of an iperf3 server that serves one test and ends. The socket is bound to the link's
interface, so only an authenticated peer reaches it through a tunnel. Nothing runs between
measurements.
"""

import json
from typing import List, Optional, Tuple

from vpnaas.base import fields
from vpnaas.base.links import RESPONDER_PORT
from vpnaas.params.intent import LinkParams
from vpnaas.vdu import trouble
from vpnaas.vdu.installed import filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, disable, enable, read, remove, run, write

PROGRAM_FILE = "/usr/local/lib/osm-vpnaas/responder"
PROGRAM = source("responder.py")
# Files and units of a link: `SOCKET.format(link)`.
SOCKET = "osm-vpnaas-responder-{}.socket"
_SOCKET_FILE = "/etc/systemd/system/" + SOCKET
# systemd takes no other name for the service of an accepting socket (systemd.socket(5)).
_SERVICE_FILE = "/etc/systemd/system/osm-vpnaas-responder-{}@.service"
_TARGETS = "/etc/osm-vpnaas-responder-{}.json"
SERVICE = filled("responder.service", __package__, program=PROGRAM_FILE)


def _own_files(link: str) -> Tuple[str, str, str]:
    return _TARGETS.format(link), _SERVICE_FILE.format(link), _SOCKET_FILE.format(link)


def _address(params: LinkParams) -> str:
    """Return the inner address as systemd and ss write it before a port."""
    address = params.inner_address.ip
    return "[{}]".format(address) if address.version == 6 else str(address)


def render_socket(params: LinkParams, interface: str, owner: str) -> str:
    """Return the socket unit; it starts and stops with the tunnel's unit, `owner`.

    Without DefaultDependencies=no it would be ordered before sockets.target (systemd.socket(5)),
    and so before `owner`, which it must follow. systemd resolves such a cycle at boot by dropping
    a job, perhaps the tunnel's.
    """
    return filled(
        "responder.socket",
        __package__,
        link=params.link,
        owner=owner,
        listen=_address(params),
        port=RESPONDER_PORT,
        interface=interface,
    )


def render_targets(params: LinkParams, outer: Optional[fields.IPAddress]) -> str:
    """Return which addresses a server may be bound to, by path."""
    inner = str(params.inner_address.ip)
    targets = {"inner": inner, "tunnel": inner, "underlay": str(outer) if outer else ""}
    return json.dumps(targets, sort_keys=True) + "\n"


def observe(link: str) -> List[Step]:
    at = link + "/responder"
    return [
        *(read(at + path, path) for path in (PROGRAM_FILE, *_own_files(link))),
        run(at + "/enabled", "systemctl", "is-enabled", SOCKET.format(link), any_exit=True),
        trouble.listeners(at + "/listening", RESPONDER_PORT),
    ]


def _runs(params: LinkParams, interface: str, results: Results) -> bool:
    """Tell whether the socket listens on the right address and is enabled for the next boot.

    The files alone do not show it: the SSH connection may break after they are written.
    """
    at = params.link + "/responder/"
    if results.exit_code(at + "enabled") != 0:
        return False
    # "LISTEN 0 128 172.16.6.2%wg-s6a:5199 0.0.0.0:*" (ss(8), -Hltnp)
    socket = "{}%{}:{}".format(_address(params), interface, RESPONDER_PORT)
    return socket in results.output(at + "listening").split()


def intruder(params: LinkParams, results: Results) -> Tuple[str, ...]:
    """Return a remark on another program that has the port of measurements."""
    at = params.link + "/responder/listening"
    owner = trouble.holder(results, at, params.inner_address.ip)
    what = "TCP port {} of the VDU, where peers ask for measurements, is used by {}: end it"
    return (what.format(RESPONDER_PORT, owner),) if owner else ()


def steps_to(
    params: LinkParams,
    interface: str,
    owner: str,
    outer: Optional[fields.IPAddress],
    results: Results,
) -> List[Step]:
    """Return the steps that install and start the launcher of one link; none if it runs."""
    link, at = params.link, params.link + "/responder"
    targets, service, socket = _own_files(link)
    files = {
        PROGRAM_FILE: (PROGRAM, 0o755),
        targets: (render_targets(params, outer), 0o644),
        service: (SERVICE, 0o644),
        socket: (render_socket(params, interface, owner), 0o644),
    }
    changed = [path for path in files if results.text(at + path) != files[path][0]]
    steps = [write(at + "/put" + path, path, *files[path]) for path in changed]
    stale = service in changed or socket in changed or not _runs(params, interface, results)
    if stale and not intruder(params, results):
        name = SOCKET.format(link)
        if results.text(at + service) is not None or results.text(at + socket) is not None:
            reload = ("systemctl", "daemon-reload")
            steps.append(run(at + "/reload", *reload, any_exit=True, timeout=90))
        # A failure here is ignored: a VDU whose image lacks iperf3 still gets its tunnel.
        steps += [
            enable(at + "/enable", name, any_exit=True),
            run(at + "/restart", "systemctl", "restart", name, any_exit=True, timeout=90),
        ]
    return steps


def absent(link: str) -> List[Step]:
    at = link + "/responder"
    # The program must not take the targets for those of another link that gets this address.
    return [
        disable(at + "/disable", SOCKET.format(link), timeout=30),
        *(remove(at + "/no" + path, path) for path in _own_files(link)),
    ]
