"""The lab from outside: verbs as separate processes, with a charm of a few lines of shell."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.lcm_fakes import day12_of, nsd, vnfd
from support.restarted import machine_restarts
from support.verbs import shown
from support.waiting import PATIENCE

from lab.procs import ProcessRef
from lab.records.store import OPS, Store

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

DISPATCH = """#!/bin/sh
# A proxy charm without a framework: keys, login, and one action that works on the VDU.
set -eu
login() {
    ssh -i key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \\
        -o LogLevel=ERROR "$(config-get ssh-username)@$(config-get ssh-hostname)" "$@"
}
case "$JUJU_DISPATCH_PATH" in
    actions/generate-ssh-key) [ -f key ] || ssh-keygen -q -t ed25519 -N '' -f key ;;
    actions/get-ssh-public-key) action-set pubkey="$(cat key.pub)" ;;
    actions/verify-ssh-credentials) login true || action-fail "no login" ;;
    actions/configure)
        # A service that says so takes its time, for tests that come in between.
        case "$(action-get inner-address)" in 198.51.100.*) sleep 60 ;; esac
        login "echo $(action-get inner-address) > configured" && action-set output=done ;;
    actions/touch) login "touch $(action-get file)" && action-set output="touched" ;;
    actions/break) action-set output="it broke"; action-fail "lost text" ;;
    actions/sleep) sleep "$(action-get seconds)"; action-set output=slept ;;
    hooks/start) status-set active started ;;
    hooks/server-relation-joined|hooks/client-relation-joined) status-set active related ;;
esac
"""


def write_package(folder: Path, kind: str, descriptor: dict[str, Any]) -> Path:
    package = folder / f"{descriptor['id']}_pkg"
    package.mkdir(parents=True)
    if kind == "nsd":
        document: dict[str, Any] = {"nsd": {"nsd": [descriptor]}}
    else:
        document = {"vnfd": descriptor}
        charm = package / "charms" / "demo"
        charm.mkdir(parents=True)
        (charm / "dispatch").write_text(DISPATCH)
        (charm / "dispatch").chmod(0o755)
        text: dict[str, Any] = {"type": "string", "default": ""}
        one = {"params": {"file": {"type": "string"}}}
        files = {
            "metadata.yaml": {
                "name": "demo",
                "summary": "demo",
                "description": "demo",
                "series": ["bionic", "focal", "jammy"],
                "provides": {"server": {"interface": "vpnaas-link"}},
                "requires": {"client": {"interface": "vpnaas-link"}},
                "peers": {"proxypeer": {"interface": "proxypeer"}},
            },
            "config.yaml": {
                "options": {f"ssh-{n}": text for n in ("hostname", "username", "password")}
            },
            "actions.yaml": {
                "generate-ssh-key": {},
                "get-ssh-public-key": {},
                "verify-ssh-credentials": {},
                "configure": {"params": {"inner-address": {"type": "string"}}},
                "touch": {"params": {**one["params"], "times": {"type": "integer"}}},
                "break": {},
                "sleep": {"params": {"seconds": {"type": "integer"}}},
            },
        }
        for name, content in files.items():
            (charm / name).write_text(yaml.safe_dump(content))
        init = package / "cloud_init"
        init.mkdir()
        (init / "cloud_init.txt").write_text(
            "#cloud-config\nwrite_files:\n- path: /etc/day0\n  content: '{{ inner }}'\n"
        )
    (package / f"demo_{kind}.yaml").write_text(yaml.safe_dump(document))
    return package


class Verbs:
    """Runs ``osm-lab`` as an operator would."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lab.cli", "--home", str(self.home), *words]

    def run(self, *words: str, code: int = 0, timeout: float = 200) -> Any:
        done = subprocess.run(
            self.argv(*words),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *words: str) -> Any:
        return shown(self.home, *words)

    def refused(self, *words: str, code: int = 1) -> str:
        done = self.run(*words, code=code)
        (line,) = done.stderr.strip().splitlines()[-1:]
        assert line.startswith("ERROR: ")
        assert "Traceback" not in done.stderr
        return str(line.removeprefix("ERROR: "))


def params(subnet: str) -> str:
    """Return instantiation parameters with inner addresses of a /24."""
    return yaml.safe_dump(
        {
            "additionalParamsForVnf": [
                {"member-vnf-index": i, "additionalParams": {"inner": f"{subnet}.{i}/24"}}
                for i in ("1", "2")
            ]
        }
    )


PARAMS = params("172.16.0")
SLOW = params("198.51.100")
"""Of a service whose Day-1 primitives take a minute, so that it can be met half-made."""


def leftovers(home: Path) -> list[str]:
    """Everything on the machine that belongs to the lab in ``home``."""
    found = []
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if str(home) in line]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(home) in command and int(entry.name) != os.getpid():
            found.append(f"process {command}")
    return found


@pytest.fixture(scope="module")
def verbs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verbs]:
    """A lab with a VIM account and the demo packages."""
    folder = tmp_path_factory.mktemp("lcm")
    verbs = Verbs(folder / "home")
    descriptor = vnfd()
    entry = day12_of(descriptor)[0]
    del entry["terminate-config-primitive"]
    entry["config-primitive"] += [
        {"name": "break", "execution-environment-ref": "vpn-ee"},
        {
            "name": "sleep",
            "execution-environment-ref": "vpn-ee",
            "parameter": [{"name": "seconds", "data-type": "INTEGER", "default-value": "1"}],
        },
    ]
    (flavour,) = descriptor["df"]
    delta = {"id": "one", "vdu-delta": [{"id": "box", "number-of-instances": 1}]}
    aspect = {"id": "boxes", "name": "boxes", "aspect-delta-details": {"deltas": [delta]}}
    flavour["scaling-aspect"] = [aspect]
    try:
        verbs.run("vim-create", "--name", "north")
        verbs.run("vnfpkg-create", str(write_package(folder, "vnfd", descriptor)))
        verbs.run("nspkg-create", str(write_package(folder, "nsd", nsd())))
        yield verbs
    finally:
        verbs.run("lab", "clean")
    assert leftovers(verbs.home) == []
    assert not any((verbs.home / part).exists() for part in ("nbi", "lcm", "vca", "vims"))


BARE = ("ns-create", "--nsd_name", "an_ns", "--vim_account", "north")
CREATE = (*BARE, "--config", PARAMS)
X = (*BARE, "--ns_name", "x")
ACTION = ("ns-action", "demo", "--vnf_name", "1", "--action_name")


@pytest.fixture(scope="module")
def ns(verbs: Verbs) -> Iterator[str]:
    done = verbs.run(*CREATE, "--ns_name", "demo", "--wait")
    assert "all charms idle" in done.stderr
    yield "demo"
    verbs.run("ns-delete", "demo", "--wait")
    assert verbs.json("ns-list") == []
    assert verbs.json("vim-show", "north")["servers"] == []


def test_service_is_ready(verbs: Verbs, ns: str) -> None:
    record = verbs.json("ns-show", ns)
    assert (record["nsState"], record["operational-status"], record["config-status"]) == (
        "READY",
        "running",
        "configured",
    )
    assert record["lab"]["seconds-vms-ready-to-charms-idle"] > 0
    assert {c["message"] for c in record["lab"]["charms"].values()} == {"related"}


def test_day0_and_day1_reached_the_vdus(verbs: Verbs, ns: str) -> None:
    for index in ("1", "2"):
        day0 = verbs.run("lab", "console", ns, index, "--", "cat", "/etc/day0")
        assert day0.stdout == f"172.16.0.{index}/24"
        day1 = verbs.run("lab", "console", ns, index, "--", "cat", "/home/ubuntu/configured")
        assert day1.stdout.strip() == f"172.16.0.{index}/24"


def shell(words: list[str], typed: bytes) -> tuple[int, bytes]:
    """Run a verb that opens a shell on a terminal; return its exit code and what it showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    said = b""
    while b"# " not in said:  # what is typed before the prompt is thrown away
        said += os.read(terminal, 1000)
    os.write(terminal, typed)
    with contextlib.suppress(OSError):  # its end, as Linux tells it
        while data := os.read(terminal, 1000):
            said += data
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def test_shell_on_a_terminal(verbs: Verbs, ns: str) -> None:
    refused = verbs.refused("lab", "console", ns, "1")
    assert refused == "a shell needs a terminal; give a COMMAND after --"
    typed = b"test -t 0 && echo terminal-$((6 * 7)) && cat /etc/day0; exit 5\n"
    code, said = shell(verbs.argv("lab", "console", ns, "1"), typed)
    assert code == 5
    assert b"terminal-42" in said
    assert b"172.16.0.1/24" in said


def test_logs_of_charms(verbs: Verbs, ns: str) -> None:
    everything = verbs.run("lab", "logs", ns).stdout.splitlines()
    unit = everything[0].partition(": ")[0]
    name = "/".join(unit.rsplit("-", 1))
    one = verbs.run("lab", "logs", ns, name).stdout.splitlines()
    assert one == [line.removeprefix(f"{unit}: ") for line in everything if line.startswith(unit)]
    assert "has no unit 'other/0'; allowed: " in verbs.refused("lab", "logs", ns, "other/0")


def test_a_hook_comes_again(verbs: Verbs, ns: str) -> None:
    application = verbs.run("lab", "logs", ns).stdout.partition(": ")[0]
    unit = "/".join(application.rsplit("-", 1))
    before = verbs.run("lab", "logs", ns, unit).stdout.count("ran config-changed hook")
    assert (
        f"config-changed of {unit}" in verbs.run("lab", "replay", ns, unit, "config-changed").stderr
    )
    assert "--shell needs a terminal" in verbs.refused("lab", "replay", ns, unit, "--shell")
    assert f'no hook "stop" of unit "{unit}" is recorded; allowed: ' in verbs.refused(
        "lab", "replay", ns, unit, "stop"
    )
    typed = b"test -t 0 && echo $JUJU_UNIT_NAME runs $JUJU_HOOK_NAME; exit\n"
    code, said = shell(verbs.argv("lab", "replay", ns, unit, "config-changed", "--shell"), typed)
    assert code == 0
    assert f"{unit} runs config-changed".encode() in said
    after = verbs.run("lab", "logs", ns, unit).stdout.count("ran config-changed hook")
    assert after == before + 2


def test_interfaces_stand_in_position_order(verbs: Verbs, ns: str) -> None:
    record = next(v for v in verbs.json("vnf-list", "--ns", ns) if v["member-vnf-index-ref"] == "1")
    for port in record["vdur"][0]["interfaces"]:
        shown = verbs.run(
            "lab", "console", ns, "1", "--", "ip", "-br", "addr", "show", port["device"]
        ).stdout
        assert f" {port['ip-address']}/" in shown
    assert [p["ns-vld-id"] for p in record["vdur"][0]["interfaces"]] == ["mgmt", "data"]
    assert record["ip-address"] == record["vdur"][0]["interfaces"][0]["ip-address"]


def test_action_from_another_process(verbs: Verbs, ns: str) -> None:
    done = verbs.run(*ACTION, "touch", "--params", "{file: /tmp/hello}", "--wait")
    assert done.stdout == "touched\n"
    verbs.run("lab", "console", ns, "1", "--", "test", "-f", "/tmp/hello")
    operations = verbs.json("ns-op-list", ns)
    shown = verbs.json("ns-op-show", operations[-1]["_id"])
    assert shown["detailed-status"] == {"output": "touched"}


def test_failed_action_says_why_and_exits_with_one(verbs: Verbs, ns: str) -> None:
    text = verbs.refused(*ACTION, "break", "--wait")
    assert text.endswith("failed: break: it broke")
    assert "ee=" not in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((*ACTION, "nope"), "Invalid primitive 'nope'"),
        ((*ACTION, "touch"), "Needed parameter file not provided"),
        ((*ACTION, "touch", "--vnf_name", "7"), "member_vnf_index='7'"),
        ((*CREATE, "--ns_name", "demo"), "already exists"),
        ((*X, "--nsd_name", "nowhere"), "nsd 'nowhere' not found"),
        ((*X, "--vim_account", "south"), "vim account 'south' not found"),
        (X, "<inner>"),
        ((*X, "--config_file", "/nonexistent"), "cannot be read"),
        ((*X, "--config", "surprise: 1"), "surprise"),
        (("ns-show", "nothing"), "ns 'nothing' not found"),
        (("vim-create", "--name", "north"), "already exists"),
        (("vim-delete", "north"), "in use by ns 'demo'"),
        (("vnfd-delete", "a_vnf"), "at least one"),
        (("vnfpkg-create", "/nonexistent.tar.gz"), "does not exist"),
        (("lab", "console", "demo", "9", "--", "true"), "no vnf '9'; allowed: 1, 2"),
        (("lab", "capture", "demo", "nolink", "/dev/null"), "allowed: data, mgmt"),
    ],
)
def test_refusals_are_one_sentence(
    verbs: Verbs, ns: str, words: tuple[str, ...], reason: str
) -> None:
    assert reason in verbs.refused(*words)
    assert [n["name"] for n in verbs.json("ns-list")] == ["demo"]


def test_usage_errors(verbs: Verbs) -> None:
    assert "Missing option" in verbs.refused("ns-create", "--ns_name", "x", code=2)
    assert "No such command" in verbs.refused("ns-destroy", code=2)


def test_reboot_and_update_status(verbs: Verbs, ns: str) -> None:
    verbs.run("lab", "console", ns, "2", "--", "touch", "/var/lib/kept")
    verbs.run("lab", "reboot", ns, "2")
    verbs.run("lab", "console", ns, "2", "--", "test", "-f", "/var/lib/kept")
    verbs.run("lab", "update-status", ns)
    units = verbs.json("lab", "juju-status", ns)
    assert {u["agent"] for u in units} == {"idle"}


def test_capture_sees_the_link(verbs: Verbs, ns: str, tmp_path: Path) -> None:
    path = tmp_path / "data.pcap"
    peer = next(v for v in verbs.json("vnf-list", "--ns", ns) if v["member-vnf-index-ref"] == "2")
    address = peer["vdur"][0]["interfaces"][1]["ip-address"]
    with subprocess.Popen(
        verbs.argv("lab", "capture", ns, "data", str(path)), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "capturing data" in process.stderr.readline()
        verbs.run("lab", "console", ns, "1", "--", "ping", "-c", "2", "-i", "0.2", address)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    shown = subprocess.run(
        ["tcpdump", "-nr", str(path), "icmp"], capture_output=True, text=True, check=True
    ).stdout
    assert f"> {address}: ICMP echo request" in shown


@pytest.mark.long
def test_after_a_restart_of_the_machine_every_view_says_what_to_do(
    verbs: Verbs, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vdus = [vnf["vdur"][0]["vim-id"] for vnf in verbs.json("vnf-list", "--ns", ns)]
    machine_restarts(verbs.home, vdus)
    sentence = f"the machine was restarted: ns-heal {ns} --vnf 1 --vnf 2 makes them anew"
    monkeypatch.setenv("OSMLAB_UPDATE_STATUS_INTERVAL", "300")
    try:
        verbs.run("ns-list")  # Any verb that finds services starts the timer.
        until(lambda: verbs.json("ns-show", ns)["nsState"] == "DEGRADED")
        assert verbs.json("ns-show", ns)["errorDetail"] == sentence
        (row,) = (row for row in verbs.json("ns-list") if row["name"] == ns)
        assert (row["nsState"], row["errorDetail"]) == ("DEGRADED", sentence)
        servers = verbs.json("vim-show", "north")["servers"]
        assert {(each["status"], each["fault"]) for each in servers if each["id"] in vdus} == {
            ("ERROR", "the machine was restarted")
        }
        verbs.run("ns-heal", ns, "--vnf", "1", "--vnf", "2", "--wait")
        until(lambda: verbs.json("ns-show", ns)["nsState"] == "READY")
        assert verbs.json("ns-show", ns)["errorDetail"] is None
    finally:
        process = ProcessRef.saved(verbs.home / "lcm" / "timer.json")
        if process is not None:
            process.end()
    assert verbs.run(*ACTION, "touch", "--params", "{file: /tmp/anew}", "--wait").stdout


@contextlib.contextmanager
def creating(verbs: Verbs, name: str) -> Iterator[int]:
    """Start a slow service and give the process id of the worker that creates it."""
    verbs.run(*CREATE[:-1], SLOW, "--ns_name", name)
    try:
        yield until(lambda: _worker(verbs, name))
    finally:
        if name in [n["name"] for n in verbs.json("ns-list")]:
            verbs.run("ns-delete", name, "--wait")


def _worker(verbs: Verbs, name: str, state: str = "") -> int:
    """Return the worker of a service's first operation, or of the first in a state."""
    known = name in [n["name"] for n in verbs.json("ns-list")]
    operations = verbs.json("ns-op-list", name) if known else []
    found = [o for o in operations if state in ("", o["operationState"])]
    worker = found[0]["lab"].get("worker") if found else None
    return int(worker["pid"]) if worker else 0


def until(found: Callable[[], int], limit: float = PATIENCE) -> int:
    """Return what a function finds once it finds something."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("nothing was found in time")


def _servers(verbs: Verbs, name: str) -> int:
    servers = verbs.json("vim-show", "north")["servers"]
    return len([s for s in servers if s["name"].split("-")[0] == name])


def _units(verbs: Verbs, name: str) -> int:
    record = next(n for n in verbs.json("ns-list") if n["name"] == name)
    if not (verbs.home / "vca" / "models" / record["_id"] / "model.json").exists():
        return 0  # its worker makes it
    return len(verbs.json("lab", "juju-status", name))


@pytest.mark.parametrize("stage", [_worker, _servers, _units])
def test_killed_create_is_deleted_without_a_trace(
    verbs: Verbs, ns: str, stage: Callable[[Verbs, str], int]
) -> None:
    with creating(verbs, "doomed") as worker:
        until(lambda: stage(verbs, "doomed"))
        os.kill(worker, signal.SIGKILL)
        time.sleep(0.1)
        record = next(n for n in verbs.json("ns-list") if n["name"] == "doomed")
        assert record["nsState"] == "BROKEN"
        verbs.run("ns-delete", "doomed", "--wait")
    assert [n["name"] for n in verbs.json("ns-list")] == ["demo"]
    assert _servers(verbs, "doomed") == 0
    assert not [line for line in leftovers(verbs.home) if record["_id"] in line]


@pytest.mark.parametrize("verb", ["create", "action"])
def test_a_verb_that_waits_ends_with_its_worker(verbs: Verbs, ns: str, verb: str) -> None:
    words = {
        "create": [*CREATE[:-1], SLOW, "--ns_name", "doomed", "--wait"],
        "action": [*ACTION, "sleep", "--params", "{seconds: 60}", "--wait"],
    }[verb]
    name = "doomed" if verb == "create" else ns
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(verbs.refused, *words)
        worker = until(lambda: _worker(verbs, name, "PROCESSING"))
        started = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        reason = waiting.result(PATIENCE)
    assert time.monotonic() < started + 50  # what it did would last a minute
    assert reason.endswith("failed: the process running the operation was killed")
    if verb == "create":
        verbs.run("ns-delete", "doomed", "--wait")


@pytest.mark.long
def test_heal_scale_and_delete_end_with_their_worker(verbs: Verbs) -> None:
    """Each says so at once; what they left half-made goes with the service."""

    def working(verb: Future[str]) -> int:
        assert not verb.done(), verb.result()
        # A verb would take longer than the deletion of what is broken.
        running = [o for o in Store(verbs.home).all(OPS) if o["operationState"] == "PROCESSING"]
        return next((int(o["lab"]["worker"]["pid"]) for o in running if "worker" in o["lab"]), 0)

    verbs.run(*CREATE, "--ns_name", "doomed", "--wait")
    for words in (
        ("ns-heal", "doomed", "--vnf", "1", "--vdu", "box", "--wait"),
        ("vnf-scale", "doomed", "2", "--scaling-group", "boxes", "--scale-out", "--wait"),
        ("ns-delete", "doomed", "--wait"),
    ):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(verbs.refused, *words)
            worker = until(partial(working, waiting))
            os.kill(worker, signal.SIGKILL)
            began = time.monotonic()
            reason = waiting.result(PATIENCE)
        assert reason.endswith("failed: the process running the operation was killed"), words
        assert time.monotonic() < began + PATIENCE / 2, words
    verbs.run("ns-delete", "doomed", "--wait")
    assert "doomed" not in str(verbs.json("ns-list"))
    assert _servers(verbs, "doomed") == 0


def test_delete_cancels_a_create_that_runs(verbs: Verbs, ns: str) -> None:
    with creating(verbs, "hasty") as worker:
        verbs.run("ns-delete", "hasty", "--wait")
        status = Path(f"/proc/{worker}/stat")
        assert not status.exists() or "Z" in status.read_text().rpartition(")")[2].split()[0]
    assert [n["name"] for n in verbs.json("ns-list")] == ["demo"]


def test_operations_on_one_service_queue_up(verbs: Verbs, ns: str) -> None:
    first = verbs.json(
        "ns-action", ns, "--action_name", "sleep", "--vnf_name", "1", "--params", "{seconds: 2}"
    )
    done = verbs.run(
        "ns-action",
        ns,
        "--action_name",
        "touch",
        "--vnf_name",
        "2",
        "--params",
        "{file: /tmp/later}",
        "--wait",
    )
    assert done.stdout == "touched\n"
    assert verbs.json("ns-op-show", first["_id"])["operationState"] == "COMPLETED"
