"""The steps from the observed to the wanted state of IPsec on a VDU."""

from ipaddress import ip_interface, ip_network
from typing import List, Optional, Sequence, Set, Tuple

from vpnaas.base import fields
from vpnaas.base.links import IPSEC, RECORD, ipsec_interface
from vpnaas.peers.peer import Peer, recording
from vpnaas.peers.same_address import RULE, is_same, no_rules
from vpnaas.tunnels.ipsec import enrolment, names
from vpnaas.tunnels.ipsec.configuration import (
    Configuration,
    Made,
    connections,
    render,
    render_keep,
    render_shared,
    render_up,
    routes_of,
)
from vpnaas.tunnels.ipsec.daemon import ASKER_UNIT, KEEPER_UNIT, MARK, UNIT, daemon_conf, dropin
from vpnaas.tunnels.ipsec.observed import Sa, State
from vpnaas.tunnels.preshared import PRESHARED
from vpnaas.vdu import facts
from vpnaas.vdu.facts import Interface
from vpnaas.vdu.programs import source
from vpnaas.vdu.programs.charon import is_ours
from vpnaas.vdu.steps import Step, disable, enable, remove, run, write


def steps_to(configuration: Configuration, state: State, made: Optional[Made] = None) -> List[Step]:
    """Return the steps from the observed to the wanted state; none where they agree."""
    link, up = configuration.link, names.UP.format(configuration.link)
    made = connections(configuration, state) if made is None else made
    conf = render(configuration, state, made)
    texts = {
        names.DAEMON_FILE: (
            daemon_conf(state.plane, configuration.same_address, configuration.asks),
            0o644,
        ),
        names.DROPIN_FILE: (dropin(configuration, state.plane), 0o644),
        names.UNIT_FILE: (UNIT, 0o644),
        names.KEEPER_FILE: (KEEPER_UNIT, 0o644),
        names.PROGRAM_FILE: (source("ipsec.py"), 0o755),
        names.ASKER_FILE: (ASKER_UNIT, 0o644),
        names.ASKER_PROGRAM_FILE: (source("revocation.py"), 0o755),
        names.CONF.format(link): (conf, 0o600),
        up: (render_up(configuration, state.plane), 0o644),
        names.KEEP.format(link): (render_keep(configuration, state, made), 0o600),
    }
    if configuration.shared or state.files.get(names.SHARED.format(link)) is not None:
        texts[names.SHARED.format(link)] = (render_shared(configuration, made), 0o600)
    if configuration.params.ipsec.same_address:
        texts[names.DOWN.format(link)] = (no_rules(names.interface_id(link)), 0o644)
    changed = {path for path, (text, _) in texts.items() if state.files.get(path) != text}
    writes = {
        path: write(
            "{}/apply{}".format(link, path), path, *texts[path], before=state.files.get(path)
        )
        for path in sorted(changed)
    }
    # The next reconcile takes these two files as the truth. They are written last, so they are true
    # after a failure. A new interface has its file first, see `up_file`.
    late = (names.DAEMON_FILE, up) if state.files.get(up) else (names.DAEMON_FILE,)
    put = {path: [writes.pop(path)] for path in late if path in writes}
    steps = list(writes.values())
    if changed & {names.UNIT_FILE, names.KEEPER_FILE, names.DROPIN_FILE, names.ASKER_FILE}:
        steps.append(run(link + "/apply/reload", "systemctl", "daemon-reload", timeout=90))
    steps += configuration.certificates
    steps += _secrets(configuration, state)
    keeping = {names.KEEPER_FILE, names.PROGRAM_FILE, names.ASKER_FILE, names.ASKER_PROGRAM_FILE}
    if not state.enabled or changed & (keeping | {names.UNIT_FILE}):
        units = (names.DAEMON, names.KEEPER, names.ASKER, names.UNIT.format(link))
        steps.append(enable(link + "/apply/enable", *units))
    steps += _interface_changes(configuration, state, put.get(up, []))
    settings = put.get(names.DAEMON_FILE, [])
    steps += _daemon_changes(configuration, state, changed, made, conf, settings)
    if changed & keeping or not state.enabled:
        restart = ("systemctl", "restart", names.ASKER, names.KEEPER)
        steps.append(run(link + "/apply/keeper", *restart, timeout=90))
    return steps + recording(link, configuration.peers, state, bool(steps))


def _making(lines: Sequence[str]) -> List[str]:
    """Return the lines of an `ip -batch` file that take effect only with a new interface."""
    return [line for line in lines if not line.startswith(("link set", "route"))]


def _in_own_table(lines: Sequence[str]) -> Set[str]:
    """Return the routes of an `ip -batch` file that are in the link's own table."""
    routes = [line for line in lines if line.startswith("route replace ") and " table " in line]
    return {line.partition("route replace ")[2] for line in routes}


def _complete(state: State, live: Interface, lines: Sequence[str]) -> bool:
    """Tell whether the addresses and rules of an `ip -batch` file are there."""
    words = [line.split() for line in lines]
    own = {ip_interface(each[2]) for each in words if each[:2] == ["address", "add"]}
    rules = {" ".join(each[2:]) for each in words if each[:2] == ["rule", "add"]}
    return own <= set(live.addresses) and rules <= state.rules


def _interface_changes(
    configuration: Configuration, state: State, put: Sequence[Step]
) -> List[Step]:
    """Return the steps to the wanted interface; `put` are those that write its file."""
    link, interface = configuration.link, ipsec_interface(configuration.link)
    live = state.interface
    text = render_up(configuration, state.plane)
    before = (state.files.get(names.UP.format(link)) or "").splitlines()
    same_kind = _making(before) == _making(text.splitlines())
    if live is None or not same_kind or not _complete(state, live, before):
        return [
            *put,
            run(link + "/apply/start", "systemctl", "restart", names.UNIT.format(link), timeout=60),
        ]
    steps: List[Step] = []
    if live.mtu != configuration.mtu or not live.up:
        mtu = str(configuration.mtu)
        steps.append(run(link + "/apply/mtu", "ip", "link", "set", interface, "mtu", mtu, "up"))
    if live.up and configuration.params.inner_address.network not in state.connected:
        steps += facts.reconnect(link, interface, configuration.params.inner_address)
    routes = frozenset(routes_of(configuration))
    steps += facts.reroute(link, interface, routes - state.routes, state.routes - routes)
    now, then = _in_own_table(text.splitlines()), _in_own_table(before)
    gone = {route for route in now if ip_network(route.split()[0]) not in state.own_routes}
    for index, route in enumerate(sorted(gone)):
        words = ["ip", "route", "replace"] + route.split()
        steps.append(run("{}/apply/own-route-{}".format(link, index), *words))
    for index, route in enumerate(sorted(then - now)):
        words = ["ip", "route", "del"] + route.split()
        steps.append(run("{}/apply/own-unroute-{}".format(link, index), *words, any_exit=True))
    return [*steps, *put]


def _daemon_changes(
    configuration: Configuration,
    state: State,
    changed: Set[str],
    made: Made,
    conf: str,
    put: Sequence[Step],
) -> List[Step]:
    """Return the steps to the wanted daemon; `put` are those that write its settings."""
    link = configuration.link
    wanted = {c.name for each in made.values() for c in each}
    mine = {name for name in state.loaded if is_ours(name, link + "_")}
    steps: List[Step] = []
    if not state.running or not state.daemon_plane or names.DAEMON_FILE in changed:
        # One restart is enough for all links of the plan: the unit then loads all files.
        restart = ("systemctl", "restart", names.DAEMON)
        at = link + "/apply/daemon"
        steps += put
        steps.append(
            run(at, *restart, stdout_file=names.RESTARTED, unless=names.RESTARTED, timeout=90)
        )
    if wanted != mine or names.CONF.format(link) in changed or configuration.certificates:
        steps.append(run(link + "/apply/load-creds", *LOAD_CREDS, timeout=60))
        text = conf + (state.files.get(names.CONF.format(link)) or "")
        if "\npools {" in text:
            # charon keeps a pool that is not on file any more until its last address is free.
            pools = ("swanctl", "--load-pools")
            steps.append(run(link + "/apply/load-pools", *pools, any_exit=True, timeout=60))
        # Of all links: swanctl takes away what it knows while it cannot read somebody else's file.
        steps.append(run(link + "/apply/load-conns", *names.PROGRAM, "load", timeout=120))
    if configuration.certificates:
        # charon caches revocation lists of the former certificates.
        flush = ("swanctl", "--flush-certs", "--type", "x509_crl")
        steps.append(run(link + "/apply/flush", *flush, any_exit=True, timeout=60))
    if state.plane == names.USERSPACE:
        tun = state.tun
        if names.DROPIN_FILE in changed or (
            tun is not None and (not tun.up or tun.mtu != configuration.tun_mtu)
        ):
            mtu = ("ip", "link", "set", names.TUN, "mtu", str(configuration.tun_mtu), "up")
            steps.append(run(link + "/apply/tun", *mtu, any_exit=True))
    if state.daemon_plane and state.plane != names.XFRM:
        steps += _daemon_routes(configuration, state)
    old = stale(configuration, state, made)
    for sa in old + [sa for sa in state.sas if sa.lost and sa not in old]:
        steps.append(_terminate("{}/apply/stale-{}".format(link, sa.id), sa))
    return steps


def _daemon_routes(configuration: Configuration, state: State) -> List[Step]:
    """Return the steps that put back rules and routes of charon that somebody removed.

    charon makes them once, and does not look again.
    """
    link, own = configuration.link, configuration.params.inner_address
    steps: List[Step] = []
    if RULE.format(fields.EVERY[own.version], names.TABLE, names.TABLE) not in state.rules:
        marked = state.plane == names.USERSPACE and configuration.same_address
        but: Tuple[str, ...] = ("not", "fwmark", MARK) if marked else ()
        rule = ("pref", str(names.TABLE), "table", str(names.TABLE))
        family = "-{}".format(own.version)
        words = ("ip", family, "rule", "add", *but, *rule)
        steps.append(run(link + "/apply/rule", *words, any_exit=True))
    if state.plane != names.USERSPACE:
        return steps
    for peer in configuration.peers:
        passing = any(sa.up for sa in state.of(link, peer.name)) and not is_same(peer)
        for prefix in peer.prefixes if passing else ():
            if prefix.version == own.version and prefix not in state.tun_routes:
                id = "{}/apply/daemon-route-{}".format(link, prefix)
                words = ("ip", "route", "replace", str(prefix), "dev", names.TUN)
                more = ("table", str(names.TABLE), "proto", "static", "src", str(own.ip))
                steps.append(run(id, *words, *more, any_exit=True))
    return steps


LOAD_CREDS = ("swanctl", "--load-creds", "--noprompt")
CLOSE_SECONDS = 10
"""Seconds to wait for the peer's answer before a tunnel with a successor ends."""


def _close(id: str, link: str, sa: Sa, only_if: str) -> Step:
    """Return the step that ends the CHILD_SAs of a tunnel that has a successor.

    The peer answers only after it has ended its own ones (RFC 7296 section 1.4.1). So none of its
    packets are on the way when ours end. The answer to a deletion of an IKE_SA does not prove this.
    """
    seconds = str(CLOSE_SECONDS)
    words = ("--terminate", "--ike-id", str(sa.id), "--child", link, "--timeout", seconds)
    return run(id, "swanctl", *words, any_exit=True, timeout=30, only_if=only_if)


def _terminate(id: str, sa: Sa, only_if: str = "") -> Step:
    # Without --force this would wait for the peer's answer.
    number = str(sa.id)
    words = ("--terminate", "--ike-id", number, "--force", "--timeout", "1")
    return run(id, "swanctl", *words, any_exit=True, timeout=30, only_if=only_if)


def stale(configuration: Configuration, state: State, made: Made) -> List[Sa]:
    """Return associations of peers, keys or traffic selectors that are not wanted any more.

    One that differs only in our own key stays until its successor is up, so a rotation does not
    interrupt traffic.
    """
    policies = {c.policy for each in made.values() for c in each}
    # We initiate the successors of these, and end these afterwards (`wake`). A manual peer is never
    # among them, as it cannot say that it has installed us.
    replaceable = {
        "{}_{}".format(configuration.link, peer.name)
        for peer in configuration.peers
        if peer.name in configuration.initiates and peer.reached
    }
    return [
        sa
        for sa in state.sas
        if sa.name.rpartition("_")[0] not in policies and sa.end not in replaceable
    ]


def wake(configuration: Configuration, state: State, peer: Peer, made: Made) -> List[Step]:
    """Return the steps that open the tunnel to a peer that has installed us, before a probe.

    Both ends may do so, because either may be the last to learn that both are ready. Only one of
    them keeps the tunnel up.

    Associations under former keys or policies end when their successor is up. If their policy is
    not allowed any more, they end even without a successor.
    """
    if not peer.endpoint:
        return []
    link = configuration.link
    each = made[peer.name]
    ours = [connection.name for connection in each]
    at = "{}/wake/{}".format(link, peer.name)
    mine = state.of(link, peer.name)
    up = any(sa.up and sa.name in ours for sa in mine) and state.daemon_plane
    done = "/run/osm-vpnaas-woken-{}-{}".format(link, peer.name)
    steps: List[Step] = []
    if not up:
        words = ("--initiate", "--ike", ours[0], "--child", link, "--timeout", "5")
        steps += [
            remove(at + "/before", done),
            run(at + "/initiate", "swanctl", *words, stdout_file=done, any_exit=True, timeout=20),
        ]
    policies = {connection.policy for connection in each}
    for sa in mine:
        if sa.name not in ours:
            successor = ""
            if sa.name.rpartition("_")[0] in policies:
                successor = "" if up else done
                steps.append(_close("{}/close-{}".format(at, sa.id), link, sa, successor))
            steps.append(_terminate("{}/end-{}".format(at, sa.id), sa, successor))
    return steps


def _secrets(configuration: Configuration, state: State) -> List[Step]:
    """Return the steps that write preshared keys in swanctl's form, and remove unneeded ones."""
    link = configuration.link
    # WireGuard has the same key in another form.
    before = {peer.name: peer.preshared for peer in state.applied if peer.technology == IPSEC}
    needed = {peer.name for peer in configuration.peers if peer.preshared}
    steps = []
    for name in sorted(name for name, key in before.items() if key and name not in needed):
        id = "{}/apply/no-secret-{}".format(link, name)
        steps.append(remove(id, names.PRESHARED.format(link, name)))
    for peer in configuration.peers:
        if peer.preshared and (before.get(peer.name) != peer.preshared):
            # The pattern accepts a whole key only, because the daemon reads the file as
            # configuration.
            words = ("sed", "-n", r"1s/^\([A-Za-z0-9+\/]\{43\}=\)$/secret = 0s\1/p;1q")
            id = "{}/apply/secret-{}".format(link, peer.name)
            key, secret = PRESHARED.format(link, peer.name), names.PRESHARED.format(link, peer.name)
            steps.append(run(id, *words, stdin_file=key, stdout_file=secret))
    return steps


def restart(configuration: Configuration) -> List[Step]:
    link = configuration.link
    return [
        _drop(link + "/restart/drop", link),
        run(link + "/restart/unit", "systemctl", "restart", names.UNIT.format(link), timeout=60),
    ]


def _drop(id: str, link: str) -> Step:
    return run(id, *names.PROGRAM, "drop", link + "_", any_exit=True, timeout=60)


def absent(link: str) -> List[Step]:
    """Return the steps that take a link down for good; its keys stay, as does an XFRM interface."""
    return enrolment.absent(link) + [
        remove(link + "/unsafe/keep", names.KEEP.format(link)),
        remove(link + "/unsafe/shared", names.SHARED.format(link)),
        remove(link + "/unsafe/file", names.CONF.format(link)),
        run(link + "/unsafe/creds", *LOAD_CREDS, any_exit=True, timeout=60),
        run(link + "/unsafe/conns", "swanctl", "--load-conns", any_exit=True, timeout=60),
        run(link + "/unsafe/others", *names.PROGRAM, "load", any_exit=True, timeout=120),
        _drop(link + "/unsafe/drop", link),
        disable(link + "/unsafe/stop", names.UNIT.format(link)),
        remove(link + "/unsafe/record", RECORD.format(link)),
        remove(link + "/unsafe/up", names.UP.format(link)),
    ]
