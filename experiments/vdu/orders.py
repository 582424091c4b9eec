"""Experiments on a VDU: captures, listeners, attempts, streams, loads and faults.

Work that goes on between two actions runs as a transient systemd unit on the VDU. The unit has a
time limit, so it ends even without a stop action. Its program reads a request file and writes a
result file below RUN. The stop action removes both files.
"""

import json
import re
from typing import Any, Dict, List, Mapping, Sequence

import attr
from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError, VpnaasError
from vpnaas.features.measure import measure
from vpnaas.peers.peer import Peer
from vpnaas.vdu import programs
from vpnaas.vdu.steps import Results, Step, ask, directory, read, remove, run, write

Json = Dict[str, Any]

RUN = "/run/osm-vpnaas-experiments"
PORT = 7777  # Default port of listeners and streams.
MOST_ATTEMPTS = 2000
MOST_TEXT = 500000
MOST_PORTS = 70000  # Most TCP attempts of one probe; enough for all ports of one address.
MOST_IDENTITIES = 8
SPARED = ("init", "systemd", "sshd", "python3")
"""Programs that the fault `process` must not kill: the VDU or our login needs them."""
_IDENTITY = re.compile(r"[0-9]{6,16}")
_PROCESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_LABEL = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,99}")
_HEX = re.compile(r"([0-9a-f]{2}){0,1024}")
_FAULT_TABLE = "osm_vpnaas_fault"


def require_allowed(option: str) -> None:
    """Raise VpnaasError unless the charm's option `allow-experiments` says yes."""
    if fields.choice("allow-experiments", option or "no", ("no", "yes")) != "yes":
        raise VpnaasError(
            "experiments are not allowed on this VNF; its instantiation parameter "
            "allow_experiments must be yes"
        )


@attr.frozen
class Unit:
    """A transient systemd unit of an experiment; one of each kind at a time."""

    name: str  # Kind of experiment, such as "capture".
    program: str  # File name of the program it runs.
    package: str = __name__.rpartition(".")[0]  # Where the program lies.

    @property
    def service(self) -> str:
        """Return the unit's name for systemd."""
        return "osm-vpnaas-{}.service".format(self.name)

    def source(self) -> str:
        """Return the text of its program."""
        return programs.source(self.program, self.package)

    def file(self, what: str) -> str:
        """Return the path of its program, request or result."""
        return "{}/{}.{}".format(RUN, self.name, what)

    def start(self, request: Json, properties: Sequence[str] = ("Type=notify",)) -> List[Step]:
        """Return the steps that start it; they first stop one that still runs."""
        request = dict(request, result=self.file("result"))
        words = ["--property={}".format(word) for word in properties]
        words += ["--property=RuntimeMaxSec={}".format(request["seconds"] + 10)]
        words += ["--unit=" + self.service, "--collect", "--quiet"]
        words += ["/usr/bin/python3", "-I", self.file("py"), self.file("request")]
        return [
            run("stop", "systemctl", "stop", self.service, any_exit=True, timeout=30),
            remove("forget", self.file("result")),
            directory("folder", RUN, 0o700),
            write("program", self.file("py"), self.source(), 0o600),
            write("request", self.file("request"), json.dumps(request), 0o600),
            run("start", "systemd-run", *words, timeout=30),
        ]

    def stop(self) -> List[Step]:
        """Return the steps that stop it, read its result and remove its files."""
        return [
            run("active", "systemctl", "is-active", self.service, any_exit=True),
            run("stop", "systemctl", "stop", self.service, any_exit=True, timeout=30),
            read("result", self.file("result")),
        ] + [remove("forget-" + what, self.file(what)) for what in ("py", "request", "result")]

    def result(self, results: Results) -> Json:
        """Return its result with `ran-until-stopped`."""
        text = results.check().text("result")
        if not text:
            raise VpnaasError("no {0} runs here; run start-{0} first".format(self.name))
        document = fields.json_object(self.name, text)
        return dict(document, **{"ran-until-stopped": results.output("active").strip() == "active"})


CAPTURE = Unit("capture", "watch.py")
LISTENER = Unit("listener", "watch.py")
STREAM = Unit("stream", "send.py")
LOAD = Unit("load", "throughput_client.py", programs.__name__)


# Captures


def capture(params: Mapping[str, Any], interfaces: Mapping[str, str]) -> List[Step]:
    """Return the steps of `start-capture`; `interfaces` are the underlays, by link."""
    given = fields.Parameters("start-capture", params)
    request = {
        "watch": "frames",
        "interfaces": dict(interfaces),
        "identities": identities(str(params.get("identities", "none"))),
        "seconds": given.integer("seconds", 60, 1, 3600),
    }
    return CAPTURE.start(request)


def identities(text: str) -> List[str]:
    """Parse subscriber identities, separated by commas."""
    words = [] if text in ("", "none") else [word.strip(" ") for word in text.split(",")]
    allowed = "none, or at most {} of 6 to 16 digits".format(MOST_IDENTITIES)
    where = "start-capture: identities"
    for word in words:
        if not _IDENTITY.fullmatch(word):
            raise InputError(where, "{} is no identity".format(fields.shown(word)), allowed)
    if len(words) > MOST_IDENTITIES:
        raise InputError(where, "{} identities".format(len(words)), allowed)
    return words


# Listeners


def listener(params: Mapping[str, Any], addresses: Sequence[str]) -> List[Step]:
    """Return the steps of `start-listener`; `listening` parses the result of the first two."""
    given = fields.Parameters("start-listener", params)
    if not addresses:
        raise InputError(given.at("link"), "no link has an inner address", "a configured link")
    request = {
        "watch": "arrivals",
        "addresses": list(addresses),
        "port": given.integer("port", PORT, 1024, 65535),
        "budget": given.integer("budget-ms", 10, 1, 10000) / 1e3,
        "seconds": given.integer("seconds", 60, 1, 3600),
    }
    steps = [read("tcp", "/proc/net/tcp"), read("tcp6", "/proc/net/tcp6")]
    return steps + LISTENER.start(request)


def listening(results: Results) -> List[int]:
    """Return the TCP ports that already had a listener (proc(5), state 0A)."""
    ports = set()
    for id in ("tcp", "tcp6"):
        for line in (results.text(id) or "").splitlines()[1:]:
            words = line.split()
            try:
                if len(words) > 3 and words[3] == "0A":
                    ports.add(int(words[1].rpartition(":")[2], 16))
            except MALFORMED:
                raise VpnaasError("/proc/net/{} of the VDU has an unexpected line".format(id))
    return sorted(ports)


# Attempts


def attempts(params: Mapping[str, Any], interface: str) -> Step:
    """Return the step of `probe`; `interface` leads to the next hops: that of management."""
    where = "probe: attempts"
    text = str(params.get("attempts", ""))
    if len(text) > MOST_TEXT:
        allowed = "at most {}".format(MOST_TEXT)
        raise InputError(where, "{} characters".format(len(text)), allowed)
    try:
        listed = json.loads(text)
    except MALFORMED:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise InputError(where, "not a JSON list of objects", '[{"to": "192.0.2.1"}]')
    if not 0 < len(listed) <= MOST_ATTEMPTS:
        allowed = "1 to {}".format(MOST_ATTEMPTS)
        raise InputError(where, "{} attempts".format(len(listed)), allowed)
    parsed = [_attempt("{}[{}]".format(where, number), item) for number, item in enumerate(listed)]
    total = sum(len(item["ports"]) for item in parsed)
    if total > MOST_PORTS:
        raise InputError(where, "{} ports in all".format(total), "at most {}".format(MOST_PORTS))
    patience = fields.integer("probe: patience-ms", params.get("patience-ms", 500), 10, 10000) / 1e3
    request = {"attempts": parsed, "patience": patience, "interface": interface}
    limit = 60 + int(patience * (1 + total // 400))
    return ask("probe", STREAM.source(), request, limit)


_KEYS = ("to", "ports", "datagram", "token", "source", "via", "say", "label")


def _attempt(where: str, item: Mapping[str, Any]) -> Json:
    unknown = sorted(set(item) - set(_KEYS))
    if unknown:
        raise InputError(where, "unknown key {}".format(unknown[0]), ", ".join(_KEYS))
    given = fields.Parameters(where, item)
    at, text = given.at, given.text
    to = given.parsed("to", fields.address)
    attempt = {"to": str(to), "ports": _ports(at("ports"), item.get("ports", []))}  # type: Json
    attempt["datagram"] = given.integer("datagram", 0, 0, 65535)
    for key in ("source", "via"):
        address = given.parsed(key, fields.address) if text(key) else None
        if address is not None and address.version != to.version:
            raise InputError(at(key), "{} and {} are of two versions".format(address, to), "one")
        attempt[key] = str(address) if address is not None else ""
    if attempt["source"] and to.version != 4:
        raise InputError(at("source"), "only IPv4 sources can be forged", "none, with IPv6")
    for key, default in (("token", "probe"), ("label", "probe")):
        attempt[key] = text(key) or default
        if not _LABEL.fullmatch(attempt[key]):
            raise InputError(at(key), fields.shown(attempt[key]), "1 to 100 printable characters")
    attempt["say"] = text("say")
    if not _HEX.fullmatch(attempt["say"]):
        raise InputError(at("say"), "not hexadecimal", "up to 1024 bytes, such as 00ff")
    return attempt


def _ports(where: str, given: Any) -> List[int]:
    """Parse TCP ports: a list of numbers, or "all"."""
    if given == "all":
        return list(range(1, 65536))
    if not isinstance(given, list) or len(given) > 65535:
        raise InputError(where, "not a list of ports", 'such as [22, 80], or "all"')
    return [fields.integer(where, port, 1, 65535) for port in given]


# Streams and loads


def stream(params: Mapping[str, Any], address: str) -> List[Step]:
    """Return the steps of `start-stream` to an address."""
    given = fields.Parameters("start-stream", params)
    request = {
        "address": address,
        "name": fields.name(given.at("name"), given.text("name", "stream")),
        "port": given.integer("port", PORT, 1024, 65535),
        "rate": given.integer("rate", 200, 1, 10000),
        "size": given.integer("size", 100, 64, 9000),
        "senders": given.integer("senders", 1, 1, 500),
        "seconds": given.integer("seconds", 30, 1, 600),
    }
    return STREAM.start(request)


def load(params: Mapping[str, Any], peer: Peer) -> List[Step]:
    """Return the steps of `start-load`."""
    given = fields.Parameters("start-load", params)
    path, seconds = given.choice("path", measure.PATHS), given.integer("seconds", 60, 1, 1500)
    parallel = given.integer("parallel", 1, 1, 128)
    options = ["--time", str(seconds), "--parallel", str(parallel), "--json"]
    request = measure.client_request(peer, given.text("link"), path, seconds, options)
    files = ["StandardInput=file:" + LOAD.file("request")]
    files += ["StandardOutput=file:" + LOAD.file("result"), "KillSignal=SIGINT"]
    return LOAD.start(request, files)


def loaded(report: Json) -> Json:
    """Return whether a load ran until it was stopped, and its rate."""
    try:
        rate = round(float(report["end"]["sum_sent"]["bits_per_second"]) / 1e6, 3)
    except MALFORMED:
        raise VpnaasError("the load failed: {}".format(report.get("error", "no report")))
    return {"mbps": rate, "ran-until-stopped": report["ran-until-stopped"]}


# Faults


def fault(params: Mapping[str, Any], interface: str) -> List[Step]:
    """Return the steps of `inject-fault`.

    `interface` is the link's tunnel, or its underlay for the fault `link`; "" for none.
    """
    given = fields.Parameters("inject-fault", params)
    kinds = ("link", "tunnel", "process", "restart")
    kind = fields.choice(given.at("fault"), given.text("fault"), kinds)
    seconds = given.integer("seconds", 10, 1, 600)
    if kind == "process":
        name = given.text("process", "none")
        if not _PROCESS.fullmatch(name) or name == "none" or name in SPARED:
            allowed = "the name of a program other than " + ", ".join(SPARED)
            raise InputError(given.at("process"), fields.shown(name), allowed)
        return [run("kill", "pkill", "-KILL", "-x", name, any_exit=True)]
    if kind == "restart":
        return [_later("restart", 1, "systemctl", "reboot")]
    if not interface:
        raise InputError(given.at("link"), "this link has no tunnel", "a link with a VPN")
    if kind == "tunnel":
        return [run("delete", "ip", "link", "delete", interface)]
    return [
        run("mend", "nft", "delete", "table", "inet", _FAULT_TABLE, any_exit=True),
        # First the timer that ends the fault: so the link comes back, whatever happens then.
        run("stop", "systemctl", "stop", _LATER + "mend.timer", any_exit=True),
        _later("mend", seconds, "nft", "delete", "table", "inet", _FAULT_TABLE),
        run("cut", "nft", "-f", "-", stdin=_cut(interface)),
    ]


_LATER = "osm-vpnaas-fault-"


def _later(name: str, seconds: int, *argv: str) -> Step:
    unit = "--unit=" + _LATER + name
    when = "--on-active={}s".format(seconds)
    accuracy = "--timer-property=AccuracySec=100ms"
    return run(name + "-later", "systemd-run", unit, "--collect", "--quiet", when, accuracy, *argv)


def _cut(interface: str) -> str:
    chains = (("input", "iifname"), ("forward", "iifname"), ("output", "oifname"))
    rows = [
        "chain {0} {{ type filter hook {0} priority -400; {1} {2} drop; }}".format(
            hook, match, interface
        )
        for hook, match in chains
    ]
    return "table inet {} {{\n {}\n}}\n".format(_FAULT_TABLE, "\n ".join(rows))


def broken(results: Results) -> None:
    """Raise VpnaasError if the fault had no effect."""
    results.check()
    if results.exit_code("kill") == 1:
        raise VpnaasError("no process of that name runs on the VDU")
    if results.exit_code("kill") not in (None, 0):
        raise VpnaasError("the process was not killed: {}".format(results.why("kill")))
