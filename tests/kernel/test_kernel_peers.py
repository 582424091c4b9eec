"""IKE daemons of others at a gateway of ours: libreswan and OpenIKED, with packets on kernel ESP.

The gateway has what the charm's core renders for a manual peer, the cell what somebody would write
by hand (`support.foreign`). What each can do is in docs/reference/peers.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.foreign import (
    BEHIND,
    CELL,
    GATEWAY,
    INNER,
    LINK,
    MME,
    OPENS,
    STRANGER,
    WHACK,
    Profile,
    Site,
    libreswan,
    openiked,
    unpack,
)
from support.guest import GuestMachine

from testbed import flood

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

DAEMONS = {"libreswan": libreswan, "openiked": openiked}
CASES = {
    "libreswan-psk": ("libreswan", Profile("psk", proposal="auto")),
    "libreswan-cert": ("libreswan", Profile("cert-external")),
    "libreswan-pubkey": ("libreswan", Profile("pubkey", "rsa-3072", "3gpp")),
    "openiked-psk": ("openiked", Profile("psk", proposal="3gpp")),
    "openiked-cert": ("openiked", Profile("cert-external", proposal="3gpp")),
    "openiked-pubkey": ("openiked", Profile("pubkey", proposal="3gpp")),
}
PING = f"ping -n -q -c 5 -i 0.2 -W 2 -I {INNER} {MME}"
BACK = f"ping -n -q -c 5 -i 0.2 -W 2 -I {MME} {INNER}"
SAS = "swanctl --list-sas"
VICI = "--uri unix:///run/left.vici"
UP = f"sh -c 'for each in $(seq 180); do {SAS} {VICI} | grep -q INSTALLED && break; sleep 1; done'"
LATER = f"sh -c 'sleep 2; {PING}'"
# A reauthentication closes the tunnel first. Then the gateway and libreswan both open it again.
ONE = f"ping -n -q -c 1 -W 1 -I {INNER} {MME} > /dev/null"
AGAIN = f"sh -c 'sleep 2; for each in $(seq 120); do {ONE} && break; done; {PING}'"
GONE = f"sh -c 'for each in $(seq 300); do {SAS} {VICI} | grep -q . || break; sleep 1; done'"
BEFORE = {
    # Without a route back to them, invented addresses would not come in.
    "left": [f"ip address add {MME}/32 dev lo", f"ip route add default via {CELL}"],
    "right": [
        f"ip address add {INNER}/32 dev lo",
        f"ip route add {BEHIND} via {GATEWAY} src {INNER}",
    ],
}
Step = tuple[str, str, str, bool]


@pytest.fixture(scope="package")
def root(
    guest_machine: GuestMachine, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Bring a daemon's packages onto the machine; return their folder."""
    there: dict[str, Path] = {}

    def bring(daemon: str) -> Path:
        if daemon not in there:
            there[daemon] = unpack(daemon, tmp_path_factory.mktemp(daemon) / "unpacked")
            guest_machine.put(there[daemon])
        return there[daemon]

    return bring


def rekeys(daemon: str) -> list[Step]:
    """Make all keys anew: the gateway does, and the cell where its daemon has a command for it."""
    one = f"$({SAS} {VICI} | sed -n 's/^\\(s1u_[^:]*\\):.*/\\1/p')"
    steps = [
        ("rekey-child", "left", f"swanctl --rekey --child {LINK}", False),
        ("ping-child", "right", LATER, False),
        ("sas-child", "left", SAS, False),
        ("rekey-ike", "left", f"swanctl --rekey --ike {one}", False),
        ("ping-ike", "right", LATER, False),
        ("sas-ike", "left", SAS, False),
    ]
    if daemon == "libreswan":
        steps += [
            ("cell-child", "right", f"{WHACK} --rekey-ipsec --name cell", False),
            ("ping-cell-child", "right", LATER, False),
            ("sas-cell-child", "left", SAS, False),
            ("cell-ike", "right", f"{WHACK} --rekey-ike --name cell", False),
            ("ping-cell-ike", "right", LATER, False),
            ("sas-cell-ike", "left", SAS, False),
        ]
    return [
        *steps,
        ("reauth", "left", f"swanctl --rekey --reauth --ike {one}", False),
        ("ping-reauth", "right", AGAIN, False),
        ("sas-reauth", "left", SAS, False),
    ]


@pytest.fixture(scope="module", params=sorted(CASES))
def shown(
    request: pytest.FixtureRequest,
    guest_machine: GuestMachine,
    tmp_path_factory: pytest.TempPathFactory,
    root: Callable[[str], Path],
) -> dict[str, str]:
    name, profile = CASES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    site = Site(folder, profile, guest_machine)
    cell = DAEMONS[name](site, root(name))
    process = Path(cell.argv[0]).name
    steps: list[Step] = []
    if name == "libreswan" and profile.proposal == "auto":
        (folder / "flood.py").write_text(Path(flood.__file__).read_text())
        command = f"python3 -I {folder}/flood.py 8 20 {GATEWAY} > /dev/null 2>&1 & sleep 4"
        steps.append(("flood", "right", command, True))
    steps += [
        ("open", "right", OPENS[name], False),
        ("up", "left", UP, False),
        ("ping", "right", PING, False),
        ("back", "left", BACK, False),
        ("sas", "left", SAS, False),
        ("states", "left", "ip xfrm state", False),
        *rekeys(name),
        # Without a word, as by a loss of power.
        ("kill", "right", f"kill -STOP $(pidof {process})", False),
        ("dead", "left", GONE, False),
        ("sas-dead", "left", SAS, False),
        ("wake", "right", f"kill -CONT $(pidof {process})", False),
    ]
    found = site.run(BEFORE, steps, other=cell)
    found["log"] = (folder / "left/charon.log").read_text()
    found["case"] = request.param
    found["clear"] = str(site.count("icmp"))
    return found


def answered(text: str) -> int:
    (count,) = re.findall(r"(\d+) received", text)
    return int(count)


def numbers(text: str) -> tuple[set[str], set[str]]:
    """Return the SPIs of IKE and of ESP that are in use."""
    ike = re.findall(r"ESTABLISHED, IKEv2, ([0-9a-f]{16})_i", text)
    return set(ike), set(re.findall(r"INSTALLED,.*\n.*\n +in  ([0-9a-f]{8})", text))


def test_packets_pass_both_ways_and_none_in_clear(shown: dict[str, str]) -> None:
    assert answered(shown["ping"]) == answered(shown["back"]) == 5, shown["log"][-3000:]
    assert "ESTABLISHED" in shown["sas"]
    assert shown["clear"] == "0"


def test_keys_are_made_anew_by_either_end(shown: dict[str, str]) -> None:
    ike, esp = numbers(shown["sas"])
    for what in ("child", "ike", "cell-child", "cell-ike", "reauth"):
        if f"sas-{what}" not in shown:
            continue
        new = numbers(shown[f"sas-{what}"])
        if what.endswith("child"):
            assert new[1] and not new[1] & esp, what
        else:
            assert new[0] and not new[0] & ike, what
        assert answered(shown[f"ping-{what}"]) >= 4, what
        ike, esp = new


def test_a_silent_cell_is_given_up(shown: dict[str, str]) -> None:
    assert "ESTABLISHED" not in shown["sas-dead"]
    assert "giving up after 4 retransmits" in shown["log"]


def test_a_long_message_comes_in_fragments(shown: dict[str, str]) -> None:
    """RFC 7383; certificates do not fit one packet."""
    if not shown["case"].endswith("-cert"):
        pytest.skip("its messages are short")
    assert re.search(r"received fragment #2 of \d", shown["log"])
    assert "reassembled fragmented IKE message" in shown["log"]


def test_a_cell_answers_a_cookie(shown: dict[str, str]) -> None:
    if "flood" not in shown:
        pytest.skip("no flood in this case")
    assert "N(COOKIE)" in shown["log"]
    assert re.search(r"parsed IKE_SA_INIT request 0 \[ N\(COOKIE\)", shown["log"])


@pytest.mark.parametrize(
    "case", ["libreswan-psk", "libreswan-cert", "openiked-psk", "openiked-cert"]
)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"identity": STRANGER}, "AUTH_FAILED"),
        ({"subnet": "10.99.0.0/16"}, "TS_UNACCEPT"),
    ],
    ids=["identity", "prefix"],
)
def test_a_wrong_cell_gets_nothing(
    case: str,
    wrong: dict[str, str],
    reason: str,
    guest_machine: GuestMachine,
    tmp_path: Path,
    root: Callable[[str], Path],
) -> None:
    name, profile = CASES[case]
    site = Site(tmp_path, profile, guest_machine)
    cell = DAEMONS[name](site, root(name), **wrong)
    log = tmp_path / "left/charon.log"
    seen = f"sh -c 'for each in $(seq 180); do grep -q {reason} {log} && break; sleep 1; done'"
    steps = [
        ("open", "right", OPENS[name], False),
        ("seen", "left", seen, False),
        ("ping", "right", PING, False),
    ]
    result = site.run(BEFORE, steps, other=cell)
    assert f"N({reason})" in log.read_text(), log.read_text()[-3000:]
    assert answered(result["ping"]) == 0
    assert site.count("ip proto 50") == 0
