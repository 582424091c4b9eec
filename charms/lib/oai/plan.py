"""The reconcile of a network function, as pure functions, after that of its links.

results = vdu(observe_steps(function_state))
plan = make_plan(function_state, results)
after = vdu(plan.steps)            # only if something differs or is not ready
outcome = conclude(function_state, plan, after)
"""

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr
from vpnaas.base import fields, links
from vpnaas.base.errors import MALFORMED, InputError, VduError, VpnaasError
from vpnaas.base.links import IPSEC
from vpnaas.features.feature import Extra
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import facts, nftables, secret_store
from vpnaas.vdu.installed import FOLDER, require_ours
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import (
    FOREIGN,
    Results,
    Step,
    ask,
    disable,
    enable,
    read,
    remove,
    run,
    which,
    write,
)
from vpnaas.vdu.steps import directory as make_directory

from . import addresses, n3iwf, pdn, units
from .images import Registry
from .kinds import FUNCTIONS
from .model import BASE, DATABASE_FILE, LIBRARY, SECRETS_FILE, TLS, Ends, File, Part, Software
from .n3iwf import N3iwf
from .params import NONE, Common, Secrets, masked
from .part import ENDS, disagreements, encode, of

COMMON_NAME_FILE = TLS + "/common-name"
"""Name in the certificate that was made last."""
ENGINES = ("podman", "docker")
RUNNING = ("active", "activating", "reloading")
DEADLINE = 600
"""Seconds a network function may take to become ready before its state is "failed"; images to pull
and a cold Cassandra take minutes."""
MAX_RESTARTS = 5
IDLE_WAIT = 3
"""Seconds to wait for readiness if nothing was changed."""
USER_PLANE = ("s1u", "n3")
"""Links whose ends learn each other's address from the control plane."""
UNGATED = ("s11",)
"""Links whose peer need not be ready before the first start; only its address is needed."""
KEY_BITS = 3072


@attr.frozen
class FunctionState:
    """All a network function's reconcile depends on."""

    kind: str
    params: Common
    ends: Ends  # The links that are configured.
    # Parts of related network functions with their names, per link.
    parts: Mapping[str, Tuple[Tuple[str, Part], ...]] = attr.Factory(dict)
    problems: Tuple[str, ...] = ()  # Sentences about links of ours that it cannot use.
    # Sentences about parts of other network functions that could not be read.
    unread: Tuple[str, ...] = ()
    used: Tuple[addresses.Named, ...] = ()  # What links and related functions use, see `addresses`.
    requested: bool = False  # Whether an action brings `params`, which may then be refused.
    link_units: Tuple[str, ...] = ()  # systemd units that bring the links up.
    # Keys of `configure-nf`; without them those on the VDU are used.
    given: Optional[Secrets] = None
    restart: bool = False  # Whether to restart the containers in any case.
    wait: int = 0  # Seconds to wait for readiness after a change.
    # Names of network functions of other services that the operator added, by link.
    added: Mapping[str, Tuple[str, ...]] = attr.Factory(dict)


@attr.frozen
class Plan:
    """Steps for the VDU, and problems that prevent them."""

    steps: Tuple[Step, ...] = ()
    files: Mapping[str, File] = attr.Factory(dict)
    hidden: Tuple[str, ...] = attr.field(default=(), repr=False)
    problems: Tuple[str, ...] = ()
    # Sentences about other network functions, which do not concern what runs here.
    remarks: Tuple[str, ...] = ()
    waiting: Tuple[str, ...] = ()
    uu: str = ""  # Our address on Uu or NWu.
    authority: str = ""  # Certificate of an N3IWF's authority, base64 of DER.
    note: str = ""  # Further text for the status.


@attr.frozen
class Outcome(Extra):
    """State of the network function."""

    kind: str
    state: str  # "ready", "starting", "waiting" (for another one), "off" (software none), "failed".
    reason: str  # Why, "" if there is nothing to add.
    part: Optional[Part]  # Our part, to publish to related network functions.
    details: Mapping[str, Any]  # For `health`.
    # Configuration files by path, with the keys masked.
    files: Mapping[str, str] = attr.Factory(dict)
    refused: bool = False  # The parameters cannot work on this VDU; what ran before goes on.
    addresses: Mapping[str, str] = attr.Factory(dict)  # Our own by link.
    # Names of network functions of other services, by link.
    added: Mapping[str, Tuple[str, ...]] = attr.Factory(dict)
    uu: str = ""  # Address of a base station on Uu, of an N3IWF on NWu, "" if it has none.
    restarted: bool = False  # Whether this reconcile started containers.

    @property
    def bad(self) -> bool:
        return self.state == "failed"

    @property
    def calm(self) -> bool:
        return self.state in ("ready", "off")

    def shown(self) -> Dict[str, Any]:
        """Return what `show-status` adds: our parts, for network functions of other services."""
        if self.part is None:
            return {}
        functions = {
            link: encode(attr.evolve(self.part, address=address))
            for link, address in sorted(self.addresses.items())
        }
        result = {"state": self.state, "functions": functions, "added": dict(self.added)}
        return {"network-function": result}

    def summary(self) -> str:
        if self.state == "off":
            return ""
        text = "{} {}".format(self.kind, self.state)
        return "{} ({})".format(text, self.reason) if self.reason else text


def unfit(kind: str, link: str, technology: str, address: fields.IPInterface) -> str:
    """Return why a network function cannot use a link, "" if it can."""
    if address.version != 4:
        return "{}: {} is not IPv4, which OAI needs".format(link, address)
    if kind == "n3iwf" and technology == IPSEC:
        form = "{}: ipsec takes the ports 500 and 4500 that the N3IWF needs; allowed: {}"
        return form.format(link, "wireguard, none")
    return ""


def address_interface(kind: str, link: LinkPlan) -> str:
    """Return the interface that has the inner address of a link.

    With IPsec, packets may come in by another one: the underlay, or charon's own. In clear, the
    underlay has an outer address too, which functions with `first_address` would use.
    """
    name = link.params.link
    if link.params.technology == IPSEC:
        return links.ipsec_interface(name)
    if link.params.technology == links.NONE and FUNCTIONS[kind].first_address:
        return links.clear_interface(name, link.interface)
    return link.interface


def build(function_state: FunctionState, keys: Secrets, own: str) -> Software:
    """Return the software of the network function; `own` is its address on Uu or NWu, or ""."""
    return FUNCTIONS[function_state.kind].software(
        function_state.params,
        ends=function_state.ends,
        station=station(function_state),
        keys=keys,
        own=own,
    )


def station(function_state: FunctionState) -> Part:
    """Return the part of a UE's eNB, gNB or N3IWF; without address if there is none yet."""
    _, link = FUNCTIONS[function_state.kind].station
    stations = [part for _, part in function_state.parts.get(link, ()) if part.address]
    if function_state.kind == "n3ue":
        stations = [part for part in stations if part.inner and part.authority]
    return stations[0] if stations else Part("", "", "", False)


def _air(params: Common) -> str:
    """Return the interface of Uu or NWu whose address a network function must know, "" for none."""
    names = ("uu_interface", "nwu_interface", "wifi_interface")
    return "".join(getattr(params, name, "") for name in names)


def needs(kind: str) -> Dict[str, bool]:
    """Return the links a network function needs, and whether it needs the address at the other end.

    A UE has no links; see `Function.station`.
    """
    return {
        link: kind == client and link not in USER_PLANE
        for link, server, client in ENDS
        if kind in (server, client) and link not in ("uu", "nwu")
    }


def lacking(function_state: FunctionState) -> List[str]:
    """Return sentences about what is missing to render the network function."""
    result = []
    name, _ = FUNCTIONS[function_state.kind].station
    if name and not station(function_state).address:
        result.append("waiting for the {}".format(name))
    for link, address in sorted(needs(function_state.kind).items()):
        end = function_state.ends.get(link)
        if end is None:
            result.append("{} is not configured".format(link))
        elif address and not end.peers:
            result.append("waiting for the network function at the other end of {}".format(link))
    return result


def closed_gates(function_state: FunctionState) -> List[str]:
    """Return sentences about network functions that the first start waits for."""
    result = []
    needed = needs(function_state.kind).items()
    gates = [link for link, address in needed if address and link not in UNGATED]
    _, relation = FUNCTIONS[function_state.kind].station
    gates += [relation] if relation else []
    for link in gates:
        parts = function_state.parts.get(link, ())
        if not any(part.ready for _, part in parts):
            names = ", ".join(label for label, _ in parts) or "the other end"
            # We learn nothing of an added one by ourselves.
            again = "; repeat add-function when it is" if link in function_state.added else ""
            result.append("waiting for {} of {} to be ready{}".format(names, link, again))
    return result


def observe_steps(function_state: FunctionState) -> List[Step]:
    steps = [
        which("nf/engine", ENGINES),
        read("nf/secrets", SECRETS_FILE),
        read("nf/common-name", COMMON_NAME_FILE),
        secret_store.observe("nf/store", SECRETS_FILE),
    ]
    names = FUNCTIONS[function_state.kind].names
    for name in names:
        steps.append(read("nf/unit/" + name, units.UNIT_FILE.format(name), mark=units.MARK))
        steps.append(read("nf/started/" + name, "{}/{}.digest".format(units.RUN, name)))
    if function_state.params.software == NONE:
        return steps
    show = ("systemctl", "show", "--property=Id,FragmentPath,ActiveState")
    steps.append(run("nf/units", *show, *map(units.unit, names), any_exit=True))
    air = _air(function_state.params)
    if air:
        steps.append(pdn.address_step(air))
    if isinstance(function_state.params, N3iwf):
        steps += n3iwf.certificate_steps(function_state.params)
    if function_state.kind == "amf":
        steps += database_steps()
    if addresses.has_any(function_state.kind, function_state.params):
        steps += facts.observe()
    if lacking(function_state):
        return steps
    # The paths of files depend neither on keys nor on our address.
    blank = Secrets("0" * 32, "0" * 32, "0" * 32)
    software = build(function_state, blank, "192.0.2.1")
    files = units.all_files(software, ENGINES[0], Registry(), ())
    for index, path in enumerate(sorted(files)):
        steps.append(read("nf/file/{}".format(index), path))
    if software.rules:
        table = units.table(software.rules)
        steps.append(run("nf/table", "nft", "list", *table, any_exit=True))
    return steps


def database_steps() -> List[Step]:
    """Return the steps that make the password of the database once, and read it."""
    make = ("openssl", "rand", "-hex", "-out", DATABASE_FILE, "16")
    return [
        make_directory("nf/database/folder", BASE, 0o700),
        run("nf/database/make", *make, unless=DATABASE_FILE),
        read("nf/database", DATABASE_FILE),
    ]


def make_plan(function_state: FunctionState, results: Results) -> Plan:
    own = _conflict(function_state, results)
    if own and function_state.requested:
        raise own
    if own:
        problems = function_state.problems + (str(own),)
        function_state = attr.evolve(function_state, problems=problems)
    note = "" if function_state.given else secret_store.last_refusal("nf/store", results)
    plan = _plan(function_state, results)
    notes = plan.remarks + ((note,) if note else ())
    return attr.evolve(plan, note="; ".join(notes))


def _conflict(function_state: FunctionState, results: Results) -> Optional[InputError]:
    """Return why addresses among the parameters cannot work here, None if they can."""
    kind, params = function_state.kind, function_state.params
    if params.software == NONE or not addresses.has_any(kind, params):
        return None
    vdu, names = facts.parse(results), FUNCTIONS[kind].names
    try:
        if all(results.text("nf/started/" + name) is None for name in names):
            addresses.check_device(params, vdu)
        inner = station(function_state).inner
        addresses.check(kind, params, vdu, function_state.used, inner)
    except InputError as error:
        return error
    return None


def _plan(function_state: FunctionState, results: Results) -> Plan:
    names = FUNCTIONS[function_state.kind].names
    if function_state.params.software == NONE:
        ours = [name for name in names if results.ours("nf/unit/" + name)]
        return Plan(steps=tuple(removal_steps(ours)) if ours else ())
    path = engine(results)
    for name in names:
        unit_file = units.UNIT_FILE.format(name)
        require_ours(unit_file, results.text("nf/unit/" + name), units.unit(name))
    for shown in results.output("nf/units").split("\n\n"):
        found = dict(line.partition("=")[::2] for line in shown.splitlines())
        runs, file = found.get("ActiveState") in RUNNING, found.get("FragmentPath", "")
        # That of a package would end: ours takes its place.
        if runs and file and not file.startswith(FOLDER):
            require_ours(file, FOREIGN, found.get("Id", ""))
    secrets = function_state.given or Secrets.from_json(results.text("nf/secrets"))
    if FUNCTIONS[function_state.kind].secrets and not secrets:
        missing = "the VDU does not hold the operator's and the subscribers' keys"
        return Plan(problems=(missing + "; run configure-nf again, or fetch-keys",))
    keep = _keep_secrets(function_state, secrets, results)
    waiting, uu, authority = lacking(function_state), "", ""
    air = _air(function_state.params)
    if air:
        uu = pdn.address(results)
        if not uu:
            waiting.append("{} has no IPv4 address yet".format(air))
    if function_state.kind == "n3iwf":
        authority = n3iwf.authority(results)
    if waiting:
        problems = function_state.problems + function_state.unread
        return Plan(tuple(keep), waiting=tuple(waiting), problems=problems)
    secrets = attr.evolve(secrets, database=(results.text("nf/database") or "").strip())
    software = build(function_state, secrets, uu)
    hidden: Tuple[str, ...] = (secrets.operator_key, secrets.subscriber_key, secrets.database)
    if secrets:
        hidden += (secrets.opc,)
    files = units.all_files(
        software, path, function_state.params.registry, function_state.link_units
    )
    running = any(results.text("nf/started/" + c.name) is not None for c in software.containers)
    gates = [] if running else closed_gates(function_state)
    problems, remarks = function_state.problems, function_state.unread
    remarks += tuple(_disagreements(function_state))
    if not all(_is_current(container.name, files, results) for container in software.containers):
        problems, remarks = problems + remarks, ()
    made = Plan(files=files, hidden=hidden, problems=problems, uu=uu, authority=authority)
    if problems or gates:
        # Start and restart nothing: running containers keep their configuration.
        return attr.evolve(made, steps=tuple(keep), waiting=tuple(gates))
    steps = keep + _apply(function_state, software, files, results)
    wait = function_state.wait if steps else min(function_state.wait, IDLE_WAIT)
    steps += _probe(function_state, software, path, wait)
    steps = _kernel(function_state.kind) + steps
    return attr.evolve(made, steps=tuple(steps), remarks=remarks)


def _is_current(container: str, files: Mapping[str, File], results: Results) -> bool:
    """Tell whether a container was started with the configuration that it should have."""
    digest = files[units.DIGEST_FILE.format(container)].text
    return results.text("nf/started/" + container) == digest


def engine(results: Results) -> str:
    program = results.paths("nf/engine")
    for name in ENGINES:
        path = program.get(name)
        if path:
            return path
    raise VpnaasError(
        "the VDU has no container engine; its image or Day-0 cloud-init must install podman"
    )


def _disagreements(function_state: FunctionState) -> List[str]:
    own = of(function_state.kind, function_state.params, False)
    result: List[str] = []
    for link, parts in sorted(function_state.parts.items()):
        for label, part in parts:
            result += disagreements(own, part, link, label)
    return result


def _keep_secrets(function_state: FunctionState, secrets: Secrets, results: Results) -> List[Step]:
    if not function_state.given or results.text("nf/secrets") == secrets.to_json():
        return []
    return [
        make_directory("nf/base", BASE, 0o700),
        write("nf/keep", SECRETS_FILE, secrets.to_json(), 0o600),
        remove("nf/not-of-store", secret_store.state_file(SECRETS_FILE)),
    ]


def _apply(
    function_state: FunctionState, software: Software, files: Mapping[str, File], results: Results
) -> List[Step]:
    observed = {
        path: results.text("nf/file/{}".format(index)) for index, path in enumerate(sorted(files))
    }
    different = [path for path in sorted(files) if observed.get(path) != files[path].text]
    writes = {
        path: write("nf/write/{}".format(index), path, files[path].text, files[path].mode)
        for index, path in enumerate(different)
    }
    own = {units.UNIT_FILE.format(c.name): c.name for c in software.containers}
    stopped = [name for path, name in own.items() if path in writes and observed.get(path)]
    steps = [step for path, step in writes.items() if path not in own]
    if stopped:
        # By their present files, as a new one may give the container another name.
        stop = ("systemctl", "stop", *map(units.unit, stopped))
        steps.append(run("nf/stop", *stop, any_exit=True, timeout=90))
    steps += [step for path, step in writes.items() if path in own]
    # Somebody else may have flushed the rules.
    if software.rules and (units.RULES_FILE in different or results.exit_code("nf/table") != 0):
        steps.append(run("nf/rules", "nft", "-f", units.RULES_FILE))
    if units.AFTER_FLUSH_FILE in different:
        steps.append(nftables.read_additions("nf/read-additions"))
    renewal: List[Step] = []
    if isinstance(function_state.params, N3iwf):
        renewal = n3iwf.renewal_steps(function_state.params, results)
    due = []
    for container in software.containers:
        current = _is_current(container.name, files, results)
        # If a file was edited on the VDU, the container may run with the edited file.
        edited = {file.path for file in units.used_files(container, software.files)}
        edited.add(units.UNIT_FILE.format(container.name))
        if function_state.restart or renewal or not current or edited & set(different):
            due.append(container.name)
    # systemd reads a new unit when it starts it.
    known = {path for path in files if path.startswith("/etc/systemd/") and observed.get(path)}
    if known and (due or known & set(different)):
        steps.append(run("nf/reload", "systemctl", "daemon-reload", timeout=60))
    if due:
        steps += renewal
        if software.common_name and results.text("nf/common-name") != software.common_name:
            steps += _certificate(software.common_name)
        names = [units.unit(name) for name in due]
        steps.append(enable("nf/enable", *names))
        # Starting may take minutes (an image to pull, Cassandra); the probe reports the result.
        restart = ("systemctl", "restart", "--no-block") + tuple(names)
        steps.append(run("nf/restart", *restart, timeout=60))
    return _folders(software) + steps if steps else []


def _folders(software: Software) -> List[Step]:
    folders = {BASE: 0o700, TLS: 0o700, LIBRARY: 0o755}
    if software.rules:
        folders[nftables.ADDITIONS] = 0o755
    for container in software.containers:
        for volume, _ in container.volumes:
            if volume.startswith("/var/"):
                folders[volume] = 0o700  # rows and logs hold keys
    return [
        make_directory("nf/folder/{}".format(index), path, mode)
        for index, (path, mode) in enumerate(sorted(folders.items()))
    ]


def _certificate(common_name: str) -> List[Step]:
    """Return the steps that make a self-signed certificate."""
    name = common_name.split(".")[0]
    certificate, key = "{}/{}.cert.pem".format(TLS, name), "{}/{}.key.pem".format(TLS, name)
    return [
        run(
            "nf/certificate",
            *("openssl", "req", "-x509", "-newkey", "rsa:{}".format(KEY_BITS), "-nodes"),
            *("-keyout", key, "-out", certificate, "-days", "3650"),
            *("-subj", "/CN=" + common_name),
            timeout=120,
        ),
        write("nf/certificate-of", COMMON_NAME_FILE, common_name, 0o600),
    ]


FEATURES = {"xfrm_interface": "XFRM interfaces", "ip_gre": "GRE", "sctp": "SCTP"}


def _kernel(kind: str) -> List[Step]:
    """Return the step that looks at the kernel before the image starts."""
    modules = FUNCTIONS[kind].kernel
    request = {"modules": modules}
    return [ask("nf/kernel", source("kernel.py", "oai"), request, 60)] if modules else []


def _lacks(results: Optional[Results]) -> str:
    """Return what the kernel lacks for the image, as a sentence; "" for nothing."""
    try:
        listed = json.loads(results.output("nf/kernel")) if results is not None else []
        names = [name for name in FEATURES if name in listed]
    except MALFORMED:
        return ""
    if not names:
        return ""
    told = ", ".join("{} (module {})".format(FEATURES[name], name) for name in names)
    return "the VDU's kernel has no {}: the image needs another kernel, or its modules".format(told)


def _probe(function_state: FunctionState, software: Software, path: str, wait: int) -> List[Step]:
    registry = function_state.params.registry
    request = {
        "wait": wait,
        "engine": path,
        "units": [c.name for c in software.containers],
        "images": {c.name: registry.reference(c.name) for c in software.containers},
        "checks": [attr.asdict(check) for check in software.checks],
        # If the other end is not ready, a restart brings nothing.
        "restart": not closed_gates(function_state),
    }
    return [ask("nf/probe", source("probe.py", "oai"), request, wait + 60)]


def removal_steps(containers: Sequence[str]) -> List[Step]:
    """Return the steps that take a network function off a VDU that may not have it.

    Its data stay.
    """
    steps: List[Step] = []
    for name in reversed(containers):
        steps.append(disable("nf/off/" + name, units.unit(name)))
        steps.append(remove("nf/off/started/" + name, "{}/{}.digest".format(units.RUN, name)))
        # Last: a container without a unit of ours is left alone.
        steps.append(remove("nf/off/unit/" + name, units.UNIT_FILE.format(name), units.MARK))
    steps.append(remove("nf/off/after-flush", units.AFTER_FLUSH_FILE))
    steps.append(run("nf/off/reload", "systemctl", "daemon-reload", timeout=60))
    for table in units.TABLES:
        steps.append(run("nf/off/" + table[-1], "nft", "delete", *table, any_exit=True))
    return steps + [remove("nf/off/rules", units.RULES_FILE)]


def failed(kind: str, params: Optional[Common], reason: str) -> Outcome:
    """Return the outcome of a reconcile that failed before it had a plan or a result."""
    part = of(kind, params, False) if params is not None else None
    details = {"state": "failed", "reason": reason}
    return Outcome(kind, "failed", reason, part, details, refused=True)


def conclude(function_state: FunctionState, plan: Plan, results: Optional[Results]) -> Outcome:
    kind, params = function_state.kind, function_state.params
    if params.software == NONE:
        return Outcome(kind, "off", "", None, {"state": "off"}, {})
    seen: Dict[str, Any] = {}
    if results is not None and "nf/probe" in results:
        seen = _answer(results)
    reasons, late, restarts = seen.get("reasons", []), seen.get("late", 0), seen.get("restarts", 0)
    ready = bool(seen) and not reasons
    if plan.problems:
        state, reason = "failed", "; ".join(plan.problems)
    elif plan.waiting:
        state, reason = "waiting", "; ".join(plan.waiting)
    elif ready:
        state, reason = "ready", ""
    else:
        reason = "; ".join(reasons) or "its state was not read"
        state = "starting"
        if late > DEADLINE or restarts >= MAX_RESTARTS:
            state = "failed"
            reason += "; not ready for {} s, {} restarts, see /var/log/{}.log".format(
                late, restarts, FUNCTIONS[kind].names[-1]
            )
    # A function may run without: the lab's simulators do.
    lacks = _lacks(results)
    because = "" if ready else lacks
    reason = "; ".join(text for text in (reason, because, plan.note) if text)
    details = {
        "state": state,
        "reason": reason,
        "restarts": restarts,
        "units": seen.get("units", {}),
        "images": {name: params.registry.reference(name) for name in FUNCTIONS[kind].names},
        "network": "{}-{}".format(params.plmn.mcc, params.plmn.mnc),
    }
    if params.realm:
        details["realm"] = params.realm
    if lacks:
        details["remark"] = lacks
    return Outcome(
        kind=kind,
        state=state,
        reason=reason,
        part=attr.evolve(of(kind, params, ready), authority=plan.authority),
        details=details,
        files={
            path: masked(file.text, plan.hidden)
            for path, file in plan.files.items()
            if path.startswith(BASE) and not path.endswith(".digest")
        },
        addresses={link: end.ip for link, end in function_state.ends.items()},
        added=function_state.added,
        uu=plan.uu,
        restarted=any(step.id == "nf/restart" for step in plan.steps),
    )


def _answer(results: Results) -> Dict[str, Any]:
    """Return reasons, late (seconds), restarts, and the state of each unit."""
    try:
        document = json.loads(results.output("nf/probe"))
        units = document.get("units", {}).items()
        seen = {
            "reasons": [str(reason) for reason in document["reasons"]],
            "late": int(document.get("not-ready-seconds", 0)),
            "restarts": int(document.get("restarts", 0)),
            "units": {name: str(state.get("ActiveState", "")) for name, state in units},
        }
        # Half of a surrogate pair can neither be stored nor shown.
        json.dumps(seen, ensure_ascii=False).encode("utf-8")
        return seen
    except MALFORMED:
        raise VduError("the VDU did not say whether the network function runs")
