"""A gateway of a pair on its VDU: from parameters and links to files, units and a state.

`standby` has the files that make a pair work. This module observes the VDU, installs what differs
and reports whether the gateway is active. It needs the links' plans, since it serves their peers.
"""

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError, VduError
from vpnaas.base.links import BUSY_PORT, IPSEC, WIREGUARD
from vpnaas.features.feature import Extra
from vpnaas.features.pair import standby
from vpnaas.features.pair.params import PairParams
from vpnaas.features.pair.standby import Standby
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import facts, nftables, trouble
from vpnaas.vdu.installed import MARK, Pending, require_ours
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, disable, enable, read, remove, run, which, write

KEEPALIVED = "keepalived.service"
WATCH = "osm-vpnaas-gateway-watch.service"
TOOLS = ("keepalived", "nft", "swanctl", "ip", "flock")
AFTER = "after/"
PENDING = Pending("pair")
ACTIVE = "active"
STANDBY = "standby"

FILES: Dict[str, Tuple[int, Callable[[Standby], str]]] = {
    standby.NONE_FILE: (0o644, lambda _: "0\n"),
    standby.WATCH_PROGRAM: (0o755, lambda _: source("gateway_watch.py")),
    standby.TURN_PROGRAM: (0o755, lambda _: source("gateway_turn.sh")),
    standby.WATCH_UNIT: (0o644, standby.watch_unit),
    standby.DAEMON_DROPIN: (0o644, lambda _: standby.DAEMON_TEXT),
    standby.KEEPALIVED_DROPIN: (0o644, lambda _: standby.KEEPALIVED_TEXT),
    standby.AFTER_FLUSH_FILE: (0o644, lambda _: nftables.after_flush_text(standby.FIREWALL_FILE)),
    standby.FIREWALL_FILE: (0o600, standby.firewall),
    standby.KEEPALIVED_FILE: (0o644, standby.keepalived_conf),
}
"""Mode and content of every file."""
MARKS = {standby.KEEPALIVED_FILE: MARK}
"""How ours begins, of those that somebody else may have."""


@attr.frozen
class PairOutcome(Extra):
    """State of the gateway in its pair."""

    state: str  # "active", "standby", or the last state of keepalived ("fault", "stopped").
    problem: str = ""  # Why it does not work as configured, "" if it does.
    details: Mapping[str, Any] = attr.Factory(dict)  # For `show-status`.

    @property
    def bad(self) -> bool:
        return bool(self.problem)

    def summary(self) -> str:
        return "pair: {}".format(self.problem or self.state)

    def shown(self) -> Dict[str, Any]:
        return {"standby": dict(self.details)}


def failed(role: str, problem: str) -> PairOutcome:
    """Return the outcome of parameters that cannot work, or of a VDU that refused."""
    details = {"role": role, "state": "failed", "reason": problem}
    return PairOutcome("failed", problem, details)


def _look(prefix: str) -> List[Step]:
    return [
        run(prefix + "pair/addresses", "ip", "-j", "address", "show"),
        read(prefix + "pair/health", standby.HEALTH_FILE),
        read(prefix + "pair/record", standby.RECORD_FILE),
        trouble.sockets(prefix + "pair/port", BUSY_PORT),
        run(prefix + "pair/active", "systemctl", "is-active", KEEPALIVED, WATCH, any_exit=True),
    ]


def observe() -> List[Step]:
    table = ("nft", "list", "table", "inet", standby.FIREWALL_TABLE)
    steps = [which("pair/tools", TOOLS), read("pair/away", standby.AWAY_FILE)]
    steps += [read("pair" + path, path, mark=MARKS.get(path, "")) for path in FILES]
    steps += [
        run("pair/enabled", "systemctl", "is-enabled", KEEPALIVED, WATCH, any_exit=True),
        run("pair/table", *table, any_exit=True),
        PENDING.observe(),
    ]
    return steps + _look("")


def _own(
    interface: str, results: Results, prefix: str = "", side: str = "trusted"
) -> Tuple[fields.IPInterface, ...]:
    """Return the addresses of the interface of a side ("trusted" or "untrusted")."""
    try:
        for item in json.loads(results.out(prefix + "pair/addresses") or "[]"):
            if item["ifname"] == interface:
                return facts.addresses(item)
    except MALFORMED:
        raise VduError("`ip -j address` printed something unexpected")
    raise InputError(
        "configure-standby: {}-interface".format(side),
        "the VDU has no interface {}".format(interface),
        "an interface of the VDU",
    )


def desired(params: PairParams, links: Mapping[str, LinkPlan], results: Results) -> Standby:
    for link, plan in sorted(links.items()):
        if plan.params.technology == WIREGUARD:
            raise InputError(
                "configure-standby: role",
                "link {} is WireGuard, which allows one peer per prefix".format(link),
                "a pair whose links are IPsec",
            )
    secured = {link: plan for link, plan in links.items() if plan.params.technology == IPSEC}
    own = [
        address.ip
        for address in _own(params.trusted, results)
        if address.ip in params.virtual.network and address.ip != params.virtual.ip
    ]
    if not own:
        raise InputError(
            "configure-standby: virtual-address",
            "{} has no address in {}".format(params.trusted, params.virtual.network),
            "an address of the trusted side's subnet",
        )
    if params.shared:
        _check_shared(
            params.shared.address, secured, _own(params.untrusted, results, "", "untrusted")
        )
    # A manual peer knows only the shared address: it has no tunnel to the standby gateway.
    counted = [
        peer
        for plan in secured.values()
        for peer in plan.peers
        if not (params.shared and peer.is_manual)
    ]
    return Standby(
        params=params,
        own=own[0],
        peers=len(counted) if params.shared else max(1, len(counted)),
        children=tuple(sorted(secured)) or ("none",),
    )


def _check_shared(
    shared: fields.IPInterface, secured: Mapping[str, LinkPlan], own: Sequence[fields.IPInterface]
) -> None:
    """Raise InputError for a shared address that is not a free one of the untrusted side."""
    where = "configure-standby: shared-address"
    subnets = [a.network for a in own if a.network.prefixlen < a.max_prefixlen]
    if shared.network not in subnets:
        raise InputError(
            where,
            "{} is not in the subnet of the untrusted interface".format(shared),
            fields.few([str(subnet) for subnet in subnets]) or "a subnet that the interface has",
        )
    for plan in secured.values():
        for peer in plan.peers:
            if peer.endpoint and peer.endpoint[0] == shared.ip:
                raise InputError(
                    where, "{} is that of {}".format(shared.ip, peer.label), "an unused address"
                )


def require_tools(results: Results) -> None:
    present = results.paths("pair/tools")
    missing = [name for name in TOOLS if not present.get(name)]
    if missing:
        raise InputError(
            "configure-standby: role",
            "the VDU has no {}".format(", ".join(missing)),
            "none, or an image or Day-0 cloud-init with keepalived and nftables",
        )


def steps_to(pair: Standby, results: Results) -> List[Step]:
    """Return the steps from the observed to the wanted state; none if they agree."""
    file = standby.KEEPALIVED_FILE
    require_ours(file, results.text("pair" + file), KEEPALIVED)
    rendered = {path: (render(pair), mode) for path, (mode, render) in FILES.items()}
    changed = {path for path in FILES if results.text("pair" + path) != rendered[path][0]}
    again = PENDING.left(results)
    writes = {path: write("pair/apply" + path, path, *rendered[path]) for path in sorted(changed)}
    # The next reconcile takes these two files as the truth. They are written last, so they are true
    # after a failure.
    late = (standby.FIREWALL_FILE, standby.KEEPALIVED_FILE)
    steps = [step for path, step in writes.items() if path not in late]
    steps += _away_steps(pair.params.away, results)
    if again or any(path.startswith("/etc/systemd/") for path in changed):
        steps.append(run("pair/apply/reload", "systemctl", "daemon-reload", timeout=90))
    enabled = results.output("pair/enabled").split()
    if enabled != ["enabled", "enabled"]:
        steps.append(enable("pair/apply/enable", KEEPALIVED, WATCH))
    alive = (results.output("pair/active").split("\n") + ["", ""])[:2]
    watch = again or bool(changed & {standby.WATCH_UNIT, standby.WATCH_PROGRAM})
    if watch or alive[1].strip() != "active":
        steps.append(run("pair/apply/watch", "systemctl", "restart", WATCH, timeout=90))
    steps += [writes[path] for path in late if path in writes]
    if alive[0].strip() != "active" or standby.KEEPALIVED_DROPIN in changed:
        steps.append(run("pair/apply/vrrp", "systemctl", "restart", KEEPALIVED, timeout=60))
    else:
        firewall = again or standby.FIREWALL_FILE in changed
        if firewall or results.exit_code("pair/table") != 0:
            steps.append(run("pair/apply/firewall", "nft", "-f", standby.FIREWALL_FILE))
        if again or standby.KEEPALIVED_FILE in changed:
            steps.append(run("pair/apply/vrrp", "systemctl", "reload", KEEPALIVED, timeout=60))
    return [PENDING.begin(), *steps, PENDING.end(), *_look(AFTER)] if steps else []


def _away_steps(away: bool, results: Results) -> List[Step]:
    present = results.text("pair/away") is not None
    if away and not present:
        return [
            write("pair/apply/away", standby.AWAY_FILE, "", 0o600),
            # Do not wait for the watch program. In place, as keepalived watches this very file.
            run("pair/apply/nothing", "cp", standby.NONE_FILE, standby.HEALTH_FILE),
        ]
    if present and not away:
        return [remove("pair/apply/back", standby.AWAY_FILE)]
    return []


def left(pair: PairParams) -> List[Step]:
    """Return the steps that wait until the virtual address has left this gateway, 5 s at most."""
    words = ("sh", standby.TURN_PROGRAM, "left", str(pair.virtual.ip))
    return [run("pair/left", *words, any_exit=True, timeout=30)]


def conclude(pair: Standby, results: Results, prefix: str = "") -> PairOutcome:
    """Return the state of the gateway. Pass AFTER as prefix to use the look after the steps."""
    params = pair.params
    holds = any(a.ip == params.virtual.ip for a in _own(params.trusted, results, prefix))
    state, since, takeovers = _record(results.text(prefix + "pair/record"))
    seen = ACTIVE if holds else (STANDBY if state == ACTIVE else state or STANDBY)
    alive = [word.strip() for word in results.output(prefix + "pair/active").split("\n")]
    problem = ""
    if alive[:2] != ["active", "active"]:
        problem = "keepalived or the watch program does not run, see the VDU's journal"
        seen = ACTIVE if holds else "stopped"
    elif seen == "fault":
        problem = "an interface of the gateway has no carrier"
    health = (results.text(prefix + "pair/health") or "0").strip()
    priority = standby.BASE[params.role] + (int(health) if fields.is_count(health) else 0)
    details = {
        "role": params.role,
        "state": seen,
        "reason": problem or _intruder(results, prefix),
        # The time in the record is only valid for the state in the record.
        "since": since if seen == state else 0,
        "takeovers": takeovers,
        "virtual-address": str(params.virtual),
        "other-address": str(params.other),
        "peers": pair.peers,
        "priority": priority,
        "given-up": params.away,
    }
    if params.shared:
        details["shared-address"] = str(params.shared.address)
        details["shared-identity"] = params.shared.identity
    return PairOutcome(seen, problem, details)


def _intruder(results: Results, prefix: str) -> str:
    """Return a remark on another program that has the port of the watch, "" for none."""
    owners = [owner for _, owner in trouble.owners(results, prefix + "pair/port")]
    others = [owner for owner in owners if owner != "python3"]
    what = "UDP port {} of the VDU, where a gateway hears which peers have traffic, is used by {}"
    return (what + ": end it").format(BUSY_PORT, others[0]) if others else ""


def _record(text: Optional[str]) -> Tuple[str, int, int]:
    words = (text or "").split()
    if len(words) != 3 or not all(map(fields.is_count, words[1:])):
        return "", 0, 0
    return words[0], int(words[1]), int(words[2])


def observe_absent() -> List[Step]:
    """Return the step that reads the watch's unit, one of the first files of a pair."""
    return [read("pair/was", standby.WATCH_UNIT)]


def absent() -> List[Step]:
    table = ("nft", "delete", "table", "inet", standby.FIREWALL_TABLE)
    # The exporter shows the record as long as it is there.
    state = (standby.HEALTH_FILE, standby.RECORD_FILE)
    claims = (standby.FIRST_FIFO, standby.FIRST_LOCK)
    paths = (*FILES, standby.AWAY_FILE, *state, *claims)
    # Somebody may have put a file in place of ours.
    theirs = ("systemctl", "enable", "--now", KEEPALIVED)
    return [
        disable("pair/off", KEEPALIVED, WATCH),
        *(remove("pair/no" + path, path, MARKS.get(path, "")) for path in paths),
        run("pair/unload", *table, any_exit=True),
        run("pair/reload", "systemctl", "daemon-reload", any_exit=True, timeout=90),
        run("pair/on", *theirs, only_if=standby.KEEPALIVED_FILE, any_exit=True, timeout=60),
    ]
