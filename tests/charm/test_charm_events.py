"""Hooks that come at any time: first, twice, out of order, without databags or a VDU."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from barejuju import BareJuju, Run, is_sentence, problems, relation_event
from flavours import Flavour, once

from lab.vca.state import HookInfo

pytestmark = pytest.mark.schedule(idle=True, order=5)

NOWHERE = "127.0.0.2"
"""Loopback, where a login fails at once: refused by the kernel, or by this machine's SSH server."""
HOOKS = (
    "install",
    "start",
    "config-changed",
    "leader-elected",
    "leader-settings-changed",
    "upgrade-charm",
    "update-status",
    "stop",
    "remove",
    "post-series-upgrade",
)
KINDS = ("created", "joined", "changed", "departed", "broken")
QUIET = ("install", "start", "stop", "remove", "post-series-upgrade", "-created", "-joined")
"""Ends of hooks in which a charm has nothing to say about its status."""
LOOKS = ("config-changed", "leader-elected", "update-status", "upgrade-charm", "relation-changed")
"""What may leave something for the next run."""
EARLY = ("relation-changed",)
"""The same before OSM has named the VDU."""
INTENT = {
    "version": 1,
    "peers": [],
    "links": [
        {
            "link": "s6a",
            "technology": "wireguard",
            "inner-address": "172.16.6.129/24",
            "underlay-interface": "ens4",
            "gateway": "auto",
            "listen-port": 51821,
            "allowed-prefixes": "none",
            "accept-prefixes": "none",
            "mtu": 0,
            "keepalive": -1,
            "preshared-key": False,
        }
    ],
}


def nothing_known(juju: BareJuju) -> None:
    """Juju listed the relations, yet their databags are out of reach, as during install."""
    juju.relate("proxypeer", 1, "", {}, own=False)
    juju.relate("s6a", 7, "mme/0", {}, own=False)


def leader(juju: BareJuju, **config: str) -> None:
    """A leader with a configured link, a remote, and a VDU that cannot be reached."""
    juju.lead(**{"ssh-hostname": NOWHERE, "ssh-username": "ubuntu", **config})
    juju.relate("proxypeer", 1, "", {"intent": json.dumps(INTENT)})
    juju.relate("s6a", 7, "mme/0", {"vpnaas-version": "1", "vpnaas-public-key": "$(reboot)"})


def events() -> Iterator[HookInfo]:
    yield from (HookInfo(kind=hook) for hook in HOOKS)
    for number, remote in ((1, "hss/1"), (7, "mme/0")):
        for kind in KINDS:
            yield relation_event(kind, number, remote)


def first_and_again(
    flavour: Flavour, home: Path, situation: Callable[[BareJuju], None]
) -> list[str]:
    """Run each event as the first one of a fresh unit, then repeat it; say what went wrong."""

    quiet = QUIET if situation is leader else QUIET + EARLY

    def play(event: HookInfo) -> list[str]:
        name = f"{event.kind}-{event.relation_id}"
        juju = BareJuju(flavour.charm("hss"), home / name, flavour.python)
        situation(juju)
        found = []
        seen = []
        for turn in range(2 if situation is leader and event.kind in LOOKS else 1):
            run = juju.dispatch(event)
            found += [f"{name} ({turn + 1}): {problem}" for problem in problems(run)]
            seen.append(tuple(run.statuses[-1:]))
            if not event.kind.endswith(quiet) and not run.statuses and turn == 0:
                found.append(f"{name}: no status was set")
        if len({status for status in seen if status}) > 1:
            found.append(f"{name}: the status changed on repetition: {seen}")
        return found

    with ThreadPoolExecutor(2) as pool:
        return [problem for some in pool.map(play, events()) for problem in some]


@pytest.mark.parametrize(
    "situation",
    [pytest.param(nothing_known, marks=pytest.mark.long), leader],
    ids=lambda s: s.__name__,
)
def test_any_event_may_come_first_and_again(
    flavour: Flavour, tmp_path: Path, situation: Callable[[BareJuju], None]
) -> None:
    assert first_and_again(flavour, tmp_path, situation) == []


def test_the_vendored_files_serve_every_python_they_are_for(
    vendored_on: Flavour, tmp_path: Path
) -> None:
    """ops, PyYAML and, for the login that fails, paramiko and cryptography's compiled parts."""
    juju = BareJuju(vendored_on.charm("hss"), tmp_path / "hss", vendored_on.python)
    leader(juju)
    run = juju.dispatch("config-changed")
    assert problems(run) == []
    ((status, message),) = run.statuses
    assert status == "blocked"
    assert message.startswith((f"cannot reach {NOWHERE}: ", f"{NOWHERE} refuses the login"))
    key = juju.act("get-ssh-public-key")
    assert problems(key) == []
    assert "ssh-ed25519 " in str(key.results)


def test_hooks_in_which_nothing_is_new_start_no_python(flavour: Flavour, tmp_path: Path) -> None:
    """Juju tells a leader of its own writes; what another unit wrote is news."""
    juju = BareJuju(flavour.charm("hss"), tmp_path, flavour.python)
    leader(juju)
    for hook in ("install", "start"):
        assert juju.dispatch(hook).calls == []
    written = HookInfo(kind="relation-changed", relation_id=1, remote_app=juju.app)
    assert juju.dispatch(written).calls == ["is-leader"]
    juju.relate("proxypeer", 1, "hss/1", {"intent": json.dumps(INTENT)})
    answer = juju.dispatch(relation_event("changed", 1, "hss/1"))
    assert problems(answer) == []
    assert answer.statuses
    # A process for each line of the log: only what the charm itself has to say.
    assert [call for call in answer.calls if call.startswith("juju-log")] == []


def test_a_hook_stops_in_pdb_before_its_handler(flavour: Flavour, tmp_path: Path) -> None:
    """Here pdb finds no terminal, so it ends, with nothing done."""
    prefix = ("env", "JUJU_DEBUG_AT=hook")
    juju = BareJuju(flavour.charm("hss"), tmp_path, flavour.python, prefix)
    leader(juju)
    run = juju.dispatch("config-changed")
    assert "Starting pdb to debug charm operator" in run.stderr
    assert run.statuses == []


def test_a_unit_that_does_not_lead_hears_of_the_leaders_writes(
    flavour: Flavour, tmp_path: Path
) -> None:
    juju = BareJuju(flavour.charm("hss"), tmp_path, flavour.python)
    juju.relate("proxypeer", 1, "", {"intent": json.dumps(INTENT)})
    answer = juju.dispatch(HookInfo(kind="relation-changed", relation_id=1, remote_app=juju.app))
    assert answer.statuses == [("active", "standby, the leader manages the VDU")]


def changed(flavour: Flavour, home: Path, **config: str) -> Run:
    juju = BareJuju(flavour.charm("hss"), home, flavour.python)
    leader(juju, **config)
    return juju.dispatch("config-changed")


def test_without_a_host_the_charm_is_active_at_once(flavour: Flavour, tmp_path: Path) -> None:
    for number, host in enumerate(("", " ;10.0.0.1")):
        run = changed(flavour, tmp_path / str(number), **{"ssh-hostname": host})
        assert problems(run) == []
        assert run.statuses == [
            ("active", "ready, waiting for OSM to set ssh-hostname and ssh-username")
        ]


@pytest.mark.parametrize(
    "host",
    [
        f"{NOWHERE};10.250.0.9",  # floating;fixed, as OSM's N2VC writes it
        f" {NOWHERE} ",
        "::1",
        "10.0.0.1..",
        "x" * 64 + ".example",
        "-oProxyCommand=reboot",
        "$(reboot)",
        "bücher\u2028.invalid",
    ],
)
def test_a_host_nobody_answers_at_blocks_with_a_sentence(
    flavour: Flavour, tmp_path: Path, host: str
) -> None:
    run = changed(flavour, tmp_path / "hss", **{"ssh-hostname": host, "ssh-password": "hunter2"})
    assert problems(run) == []
    ((status, message),) = run.statuses
    assert status == "blocked"
    assert is_sentence(message), message
    assert host.split(";")[0].strip() in message
    assert run.seconds < 25
    assert "hunter2" not in message + run.log + run.stderr


def test_a_host_key_fingerprint_that_is_none_blocks_with_a_sentence(
    flavour: Flavour, tmp_path: Path
) -> None:
    run = changed(flavour, tmp_path / "hss", **{"ssh-host-key-fingerprint": "MD5:aa:bb"})
    assert problems(run) == []
    ((status, message),) = run.statuses
    assert status == "blocked"
    assert message.startswith("ssh-host-key-fingerprint: ")
    assert "; allowed: " in message


@pytest.mark.parametrize(
    "stored",
    [
        json.dumps({"version": 99}),
        json.dumps({"version": 1, "links": [{"link": "s6a"}], "peers": []}),
        json.dumps({**INTENT, "links": [{**INTENT["links"][0], "link": "s1c"}]}),
        "{",
        "[]",
        "null",
        json.dumps({"version": 1}),
    ],
    ids=["newer", "incomplete", "link-of-another-charm", "cut", "list", "null", "empty"],
)
def test_stored_parameters_that_cannot_be_read_never_fail_a_hook(
    flavour: Flavour, tmp_path: Path, stored: str
) -> None:
    """After a downgrade, or a hand that slipped: the charm must stay operable."""
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python)
    leader(juju)
    juju.relate("proxypeer", 1, "", {"intent": stored})
    run = juju.dispatch("config-changed")
    assert problems(run) == []
    assert run.statuses
    assert is_sentence(run.statuses[-1][1])


@pytest.mark.parametrize("stored", ["{", "[]", '{"s6a": 5}', '{"s6a": "none"}', ""])
def test_given_addresses_that_cannot_be_read_never_fail_a_hook(
    flavour: Flavour, tmp_path: Path, stored: str
) -> None:
    """They count while what the gateway tells cannot be read either."""
    juju = BareJuju(flavour.charm("mme"), tmp_path / "mme", flavour.python)
    leader(juju)
    link = {**INTENT["links"][0], "technology": "ipsec", "inner-address": "pool", "listen-port": 0}
    intent = json.dumps({**INTENT, "links": [link]})
    juju.relate("proxypeer", 1, "", {"intent": intent, "given-addresses": stored})
    run = juju.dispatch("config-changed")
    assert problems(run) == []
    assert is_sentence(run.statuses[-1][1])


def test_a_reply_to_a_relation_that_ends_is_not_waited_for(
    flavour: Flavour, tmp_path: Path
) -> None:
    """Broken before changed, departed of a unit never seen, changed of a relation never joined."""
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python)
    leader(juju)
    for kind, number, remote in (
        ("broken", 7, "mme/0"),
        ("departed", 7, "mme/9"),
        ("changed", 7, "mme/0"),
        ("departed", 7, "mme/0"),
        ("broken", 7, "mme/0"),
        ("changed", 7, "mme/0"),
    ):
        run = juju.dispatch(relation_event(kind, number, remote))
        assert problems(run) == [], (kind, remote)


def test_hooks_in_which_nothing_can_have_changed_start_no_python(
    flavour: Flavour, tmp_path: Path
) -> None:
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python)
    juju.relate("s6a", 7, "mme/0", {})
    for kind in ("created", "joined"):
        run = juju.dispatch(relation_event(kind, 7, "mme/0"))
        assert (run.problem, run.calls) == ("", [])


def test_a_unit_that_leaves_does_nothing_until_stop(flavour: Flavour, tmp_path: Path) -> None:
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python)
    leader(juju)
    departed = relation_event("departed", 7, "mme/0")
    assert juju.dispatch(departed.model_copy(update={"departing_unit": "mme/0"})).calls
    for event in (
        departed.model_copy(update={"departing_unit": juju.name}),
        relation_event("broken", 7, "mme/0"),
        HookInfo(kind="config-changed"),
        HookInfo(kind="remove"),
    ):
        run = juju.dispatch(event)
        assert (run.problem, run.calls) == ("", [])
    run = juju.dispatch("stop")
    assert "links were not taken down" in run.log


def test_before_osm_has_named_the_vdu_relations_start_no_python(
    flavour: Flavour, tmp_path: Path
) -> None:
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python)
    juju.lead()
    juju.relate("s6a", 7, "mme/0", {})
    run = juju.dispatch(relation_event("changed", 7, "mme/0"))
    assert (run.problem, run.calls) == ("", ["config-get ssh-hostname"])
    juju.lead(**{"ssh-hostname": NOWHERE, "ssh-username": "ubuntu"})
    run = juju.dispatch(relation_event("changed", 7, "mme/0"))
    assert problems(run) == []
    assert run.statuses


@once
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="ops 1.5 imports cgi, gone in Python 3.13")
def test_a_hook_loads_what_ops_imports_and_we_never_use_only_to_use_it(flavour: Flavour) -> None:
    charm = flavour.charm("hss")
    code = (
        "import sys; from vpnaas import edge; sys.meta_path.insert(0, edge._Unused())\n"
        "import oai.subscribers, vpnaas.juju\n"
        "print(*(name in sys.modules for name in ('http.client', 'ssl', 'bdb')))\n"
        "import ops.pebble; print(ops.pebble.Client.__name__, 'http.client' in sys.modules)\n"
        "import pdb; print(pdb.Pdb.__name__)"
    )
    done = subprocess.run(
        [flavour.python, "-c", code],
        env={"PYTHONPATH": f"{charm}/lib:{charm}/venv", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False False False\nClient True\nPdb\n", done.stderr


SILENT = """
import socket, sys
server = socket.socket()
server.bind(("127.0.0.1", 22))
server.listen()
print("ready", flush=True)
kept = []
while True:
    kept.append(server.accept())
"""


@pytest.fixture
def silent_machine() -> Iterator[str]:
    """A network namespace with something on port 22 that takes connections and says nothing."""
    name = f"ct-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    server = None
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        server = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-c", SILENT],
            stdout=subprocess.PIPE,
            text=True,
        )
        timer = threading.Timer(20, server.kill)
        timer.start()
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        timer.cancel()
        yield name
    finally:
        if server is not None:
            server.kill()
            server.communicate()
        subprocess.run(["ip", "netns", "delete", name], check=True)


@once
@pytest.mark.lab
@pytest.mark.long
def test_a_machine_that_accepts_and_says_nothing_is_given_up(
    flavour: Flavour, tmp_path: Path, silent_machine: str
) -> None:
    prefix = ("ip", "netns", "exec", silent_machine)
    juju = BareJuju(flavour.charm("hss"), tmp_path / "hss", flavour.python, prefix)
    leader(juju, **{"ssh-hostname": "127.0.0.1"})
    run = juju.dispatch("config-changed")
    assert problems(run) == []
    assert run.statuses[-1][0] == "blocked"
    assert is_sentence(run.statuses[-1][1])
    assert run.seconds < 45  # of which 30 are the limit of a key exchange
