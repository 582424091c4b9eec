"""Two VNFs and one WireGuard tunnel, and all that an operator does with them: measure, rotate keys,
restart, look, and cope with a VDU that cannot be reached.

Cast: server, client (`vpn_basic_ns`).

Seen:
- the link comes up by itself and comes back after a reboot without the charm;
- a TCP stream survives the rotation of keys;
- inner addresses take packets from the tunnel only; SSH is open to management only;
- a VDU that is away or has another host key blocks the charm with a sentence, and is taken back;
- page, tables, pictures and logs show the same service.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from e2e_basic import CLIENT, SERVER, answered
from e2e_leftovers import running_in
from e2e_page import PASSWORD, Keys, browser, served
from e2e_support import (
    PATIENCE,
    ActionError,
    Controlled,
    InBackground,
    Lab,
    Service,
    Vnf,
    scraped,
    wait,
)
from support.juju_operator import remove_relation
from vpnaas.features import guard, repair
from vpnaas.status import LASTING
from vpnaas.vdu import machine

from builder.tree import Tree
from lab.errors import NbiError, VcaError
from lab.lcm import heartbeat
from operate.targets import targets

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-8, worker="basic")]

PACE = ("--bitrate", "2M", "--length", "8K")
"""Of a stream that is to go on, with data in each second; more costs processors only."""
UP = {"server": "vpn-server up", "client": "vpn-client up"}


@pytest.fixture
def untouched(basic: Service) -> Iterator[None]:
    """The tunnel carries traffic before and after."""
    assert basic["client"].pings(SERVER)
    yield
    assert basic["client"].pings(SERVER)


def relation(service: Service) -> tuple[str, str]:
    return (
        f"{service['server'].application}:vpn-server",
        f"{service['client'].application}:vpn-client",
    )


def up_again(controlled: Controlled) -> None:
    """Let the charms look at their VDUs until both call the tunnel up."""
    for _ in range(3):
        controlled.update_status()
        answer = {index: controlled.status(index) for index in UP}
        if all(
            answer[index][0] == "active" and text in answer[index][1] for index, text in UP.items()
        ):
            return
    raise AssertionError(answer)


@contextmanager
def unrelated(service: Service) -> Iterator[Controlled]:
    """Take the relation away; the block adds it again, and where it fails that is done here."""
    with service.controller() as controlled:
        remove_relation(controlled.model, *relation(service))
        try:
            yield controlled
        except BaseException:
            controlled.settle()
            with suppress(VcaError):
                controlled.model.add_relation(*relation(service))
            controlled.settle()
            controlled.update_status()
            raise


def test_a_link_comes_up_without_a_reload_of_systemd(server: Vnf, client: Vnf) -> None:
    """A reload reads all units of the VDU, and needs more time than the rest of a reconcile."""
    for vnf in (server, client):
        said = vnf.run("journalctl", "--boot", "--no-pager", "_PID=1").stdout
        assert "Started" in said
        assert "Reloading" not in said


def test_update_status_comes_by_itself_and_mends_the_vdu(
    basic: Service, server: Vnf, untouched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = "osm-vpnaas-responder-vpn-server.socket"
    listens = ("sh", "-c", "ss -Hltn 'sport = :5199' | grep -q 10.77.0.1%wg-vpn-server")
    assert server.run(*listens).returncode == 0
    server.out("systemctl", "disable", "--now", socket)
    monkeypatch.setenv(heartbeat.VARIABLE, "2")
    heartbeat.ensure(basic.lab.home)
    try:
        wait(lambda: server.run(*listens).returncode == 0, "the responder listens again")
        wait(lambda: server.run("systemctl", "is-enabled", socket).returncode == 0, "is on")
        # There is one process per lab, whoever asks for it.
        (mark,) = basic.lab.home.glob("lcm/timer.json")
        first = mark.read_text()
        heartbeat.ensure(basic.lab.home)
        time.sleep(0.5)
        assert mark.read_text() == first
        # An operation has its turn.
        assert server.status("vpn-server")["state"] == "up"
    finally:
        heartbeat.end(basic.lab.home)
    monkeypatch.setenv(heartbeat.VARIABLE, "soon")
    with pytest.raises(NbiError, match="is 'soon', it must be seconds, or 0 for never"):
        heartbeat.ensure(basic.lab.home)


# -- whose disk, whose host key, whose greeting --------------------------------------------------


@pytest.mark.long
def test_a_copy_of_a_configured_disk_gets_keys_of_its_own(
    server: Vnf, client: Vnf, untouched: None
) -> None:
    """The note on the disk is that of another server, as on an image made from it."""
    before = client.status("vpn-client")["public-key"]
    note = json.loads(client.out("cat", machine.MARK))
    note["instance"] = "another server"
    client.out("tee", machine.MARK, input=json.dumps(note))
    client.out("touch", "/etc/osm-vpnaas/s6a.nft", "/etc/swanctl/osm-vpnaas-s6a-rel-1.secret")
    # As at a boot, before any charm has looked.
    client.out("systemctl", "start", machine.UNIT)
    assert client.run("ls", "/etc/osm-vpnaas/vpn-client/private.key").returncode
    assert not client.pings(SERVER, tries=5)
    answer = client.action("show-status")
    assert answer["notice"] == machine.NOTICE
    assert answer["charm-version"] == Tree.find().version
    assert "untried" not in answer  # else tried.json of the charm library gets this system
    after = answer["vpn-client"]["public-key"]
    assert after != before
    assert client.run("ls", "/etc/osm-vpnaas/s6a.nft").returncode
    assert client.run("ls", "/etc/swanctl/osm-vpnaas-s6a-rel-1.secret").returncode
    assert client.pings(SERVER, tries=60)
    assert [peer["public-key"] for peer in server.status("vpn-server")["peers"]] == [after]
    assert "notice" not in client.action("show-status")
    assert client.status("vpn-client")["public-key"] == after


def test_an_answer_of_the_vdu_stands_in_what_its_shell_prints(
    client: Vnf, server: Vnf, untouched: None
) -> None:
    greeting = client.out("cat", "/etc/bash.bashrc")
    try:
        client.out("sed", "-i", "1i echo This machine belongs to Example Ltd", "/etc/bash.bashrc")
        assert client.status("vpn-client")["state"] == "up"
        assert client.action("measure-latency", link="vpn-client")["rtt-ms"]
    finally:
        client.out("tee", "/etc/bash.bashrc", input=greeting)


@pytest.mark.long
def test_a_host_key_of_another_type_is_no_other_vdu(client: Vnf, untouched: None) -> None:
    dropin = "/etc/ssh/sshd_config.d/01-hk.conf"
    prints = {
        kind: client.out("ssh-keygen", "-lf", f"/etc/ssh/ssh_host_{kind}_key.pub").split()[1]
        for kind in ("ed25519", "ecdsa")
    }
    client.out("tee", dropin, input="HostKey /etc/ssh/ssh_host_ecdsa_key\n")
    client.out("systemctl", "restart", "ssh")
    client.action("trust-host-key", fingerprint=prints["ecdsa"])
    client.out("rm", dropin)
    client.out("systemctl", "restart", "ssh")
    # sshd has both again, and prefers the other one.
    assert client.status("vpn-client")["state"] == "up"
    assert "ed25519" in client.action("trust-host-key", fingerprint=prints["ed25519"])
    assert "ecdsa" in client.action("trust-host-key", fingerprint=prints["ecdsa"])
    assert "ed25519" in client.action("trust-host-key", fingerprint=prints["ed25519"])
    assert client.status("vpn-client")["state"] == "up"


# -- measuring ---------------------------------------------------------------------------------


@pytest.fixture
def nothing_left(basic: Service) -> Iterator[None]:
    """No iperf3 and no socket of one stays on either VDU after a measurement."""
    before = {vnf.index: vnf.listening() for vnf in basic.vnfs.values()}
    yield
    for vnf in basic.vnfs.values():
        # The far end's server ends by itself, a moment after its only client.
        wait(lambda vnf=vnf: vnf.run("pgrep", "iperf3").returncode == 1, "iperf3 has ended")
        assert vnf.listening() == before[vnf.index]


def test_throughput_of_tunnel_and_underlay(client: Vnf, nothing_left: None) -> None:
    rates = {}
    for path in ("tunnel", "underlay"):
        result = client.action("measure-throughput", link="vpn-client", path=path, duration=1)
        assert (result["path"], result["protocol"]) == (path, "tcp")
        kept = json.loads(client.out("cat", result["kept"]))
        assert kept["intervals"]
        assert kept["end"]["sum_received"]["bits_per_second"] == pytest.approx(
            result["mbps"] * 1e6, rel=0.001
        )
        expected = {"tunnel": SERVER, "underlay": "192.168.100.11"}[path]
        assert kept["start"]["connected"][0]["remote_host"] == expected
        rates[path] = result["mbps"]
    assert 0 < rates["tunnel"] <= rates["underlay"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "present"),
    [
        ({"protocol": "udp", "bitrate_mbps": 10, "size": 1000}, {"jitter-ms", "loss-percent"}),
        ({"direction": "download"}, {"retransmits", "mss"}),
        ({"direction": "bidirectional", "parallel": 2}, {"mbps-reverse"}),
    ],
    ids=["udp", "download", "bidirectional"],
)
def test_kinds_of_throughput(
    client: Vnf, nothing_left: None, options: dict[str, object], present: set[str]
) -> None:
    result = client.action("measure-throughput", link="vpn-client", duration=1, **options)
    assert result["mbps"] > 0
    assert present <= result.keys()
    kept = json.loads(client.out("cat", result["kept"]))
    test = kept["start"]["test_start"]
    direction = options.get("direction", "upload")
    assert (test["protocol"], test["num_streams"]) == (
        str(options.get("protocol", "tcp")).upper(),
        options.get("parallel", 1),
    )
    assert test["reverse"] == int(direction == "download")
    assert ("sum_sent_bidir_reverse" in kept["end"]) == (direction == "bidirectional")
    if "mbps-reverse" in present:
        assert result["mbps-reverse"] > 0
    if options.get("protocol") == "udp":
        assert test["blksize"] == 1000
        assert result["mbps"] == pytest.approx(10, rel=0.2)


@pytest.mark.parametrize("path", ["tunnel", pytest.param("underlay", marks=pytest.mark.long)])
def test_latency_from_the_command_line(lab: Lab, basic: Service, path: str) -> None:
    """A process of its own per verb, as an operator works."""
    params = json.dumps({"link": "vpn-server", "path": path, "count": 5, "interval-ms": 20})
    words = ("ns-action", "basic", "--vnf_name", "server", "--action_name", "measure-latency")
    operation = json.loads(lab.done("--json", *words, "--params", params, "--wait"))
    result = operation["detailed-status"]["output"]
    assert (result["path"], result["sent"]) == (path, 5)
    # A machine that has much else to do may lose some.
    assert result["received"] >= 1
    assert 0 < result["rtt-ms"]["min"] <= result["rtt-ms"]["avg"] <= result["rtt-ms"]["max"]


def test_measuring_a_silent_peer_says_so(client: Vnf, server: Vnf, nothing_left: None) -> None:
    server.out("ip", "link", "set", "ens4", "down")
    try:
        with pytest.raises(ActionError, match="measurement to .* failed: "):
            client.action("measure-throughput", link="vpn-client", duration=1)
        with pytest.raises(ActionError, match="did not answer any of 2 echo requests"):
            client.action("measure-latency", link="vpn-client", count=2)
        sentence = "interface ens4 of the VDU is down"
        wait(lambda: sentence in answered(server)[0].get("reason", ""), sentence, PATIENCE)
    finally:
        server.out("ip", "link", "set", "ens4", "up")
    assert client.pings(SERVER, tries=60)


# -- rotation ----------------------------------------------------------------------------------


def stream(client: Vnf) -> InBackground:
    """Start a TCP stream at 2 Mbit/s that runs until its client is interrupted."""
    words = ("iperf3", "--client", SERVER, "--port", "5301", "--json")
    return InBackground(lambda: client.run(*words, "--time", "600", *PACE, timeout=PATIENCE))


def test_rotation_does_not_break_a_tcp_stream(basic: Service, server: Vnf, client: Vnf) -> None:
    ends = {"server": "vpn-server", "client": "vpn-client"}
    before = {index: basic[index].status(link) for index, link in ends.items()}
    sink = InBackground(
        lambda: server.run(
            "iperf3", "--server", "--one-off", "--bind", SERVER, "--port", "5301", "--json",
            timeout=PATIENCE,
        )
    )  # fmt: skip
    wait(lambda: any(":5301" in s for s in server.listening()), "iperf3 listens")
    source = stream(client)
    try:
        wait(
            lambda: bool(client.run("ss", "-Htn", "dst", SERVER, "dport", "=", "5301").stdout),
            "the stream runs",
        )
        time.sleep(1.5)
        for index, link in ends.items():
            basic[index].action("rotate-keys", link=link)
            basic.note_secrets()
            old = before[index]["public-key"]
            other = basic["client" if index == "server" else "server"]
            interface = "wg-" + ends[other.index]
            new = basic[index].public_key(f"wg-{link}")
            assert new != old
            assert other.peers(interface) == {new}
        assert not source.ended, "the stream ended before the rotation did"
        time.sleep(2)
    finally:
        client.run("pkill", "-INT", "-x", "iperf3")
    sent, received = (json.loads(end.result().stdout) for end in (source, sink))
    # iperf3 3.19 names the signal behind it.
    assert sent["error"].startswith("interrupt - the client has terminated")
    assert len(sent["start"]["connected"]) == 1
    for report in (sent, received):
        seconds = [i["sum"] for i in report["intervals"] if i["sum"]["seconds"] > 0.9]
        assert len(seconds) >= 5
        assert [s["bytes"] for s in seconds if not s["bytes"]] == []
    for index, link in ends.items():
        after = basic[index].status(link)
        assert after["key-generation"] == before[index]["key-generation"] + 1
        assert (after["state"], after["rotation"]) == ("up", "none")


# -- restart -----------------------------------------------------------------------------------


def booted(vnf: Vnf) -> str:
    return vnf.out("systemctl", "show", "--property", "UserspaceTimestampMonotonic")


def hears(server: Vnf, client: Vnf) -> bool:
    """Say whether a datagram of the client gets to a program on the server's inner address."""
    take = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3);"
        f"s.bind(('{SERVER}', 7777)); s.recv(99)"
    )
    listening = InBackground(lambda: server.run("python3", "-c", take))
    wait(lambda: any(f"{SERVER}:7777" in row for row in server.listening()), "it listens")
    give = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
    client.out("python3", "-c", give + f"s.sendto(b'x', ('{SERVER}', 7777))")
    return bool(listening.result().returncode == 0)


def test_inner_addresses_take_what_came_through_the_tunnel_only(server: Vnf, client: Vnf) -> None:
    """In clear over the underlay nothing arrives, until somebody takes the guard away."""
    interface = client.server.ports[1].interface
    way = (f"{SERVER}/32", "via", str(server.server.ports[1].ip), "dev", interface)

    def hears_in_clear() -> bool:
        client.out("ip", "route", "add", *way)
        try:
            return hears(server, client)
        finally:
            client.out("ip", "route", "delete", *way)

    assert hears(server, client)
    assert not hears_in_clear()
    server.out("systemctl", "stop", repair.UNIT)  # it would load the table at once
    server.out("nft", "delete", "table", "inet", guard.TABLE)
    assert hears_in_clear()
    server.status("vpn-server")  # a reconcile: it finds the table gone
    assert not hears_in_clear()
    assert hears(server, client)


def test_ssh_is_open_to_management_and_the_peer_in_the_tunnel_only(
    server: Vnf, client: Vnf
) -> None:
    """Other slices may share the network under a link."""
    program = "import socket, sys; socket.create_connection((sys.argv[1], 22), 1)"

    def opens(address: str) -> bool:
        return client.run("python3", "-c", program, address).returncode == 0

    outer = server.server.ports[1].ip
    assert opens(server.management)
    assert opens(SERVER)
    assert not opens(outer)
    rules = server.out("nft", "-a", "list", "table", "inet", guard.TABLE).splitlines()
    handle = next(line.split()[-1] for line in rules if "tcp dport 22 " in line)
    server.out("systemctl", "stop", repair.UNIT)
    server.out("nft", "delete", "rule", "inet", guard.TABLE, "input", "handle", handle)
    try:
        assert opens(outer)
    finally:
        server.out("systemctl", "start", repair.UNIT)  # as at boot, it loads what is not whole
    wait(lambda: not opens(outer), "SSH on the underlay is closed again")


def test_boot_has_no_ordering_cycle(server: Vnf, client: Vnf) -> None:
    """Systemd breaks a cycle by dropping a job, now this one and now that, be it the tunnel's."""
    assert (server.boot_cycles(), client.boot_cycles()) == ("", "")


def test_link_comes_back_with_the_vdu_and_without_the_charm(
    basic: Service, server: Vnf, client: Vnf, untouched: None
) -> None:
    logged, since, key = basic.hook_log(), booted(client), client.public_key("wg-vpn-client")
    with basic.controller() as controlled:
        basic.vim.reboot(client.server_id)
        basic.vim.wait_active(client.server_id, PATIENCE)
        assert booted(client) != since
        # The end that lost its session asks for a new one with its first packet; the other would
        # notice after 15 s (WireGuard paper, section 6.5).
        assert client.pings(SERVER)
        assert server.pings(CLIENT)
        assert client.public_key("wg-vpn-client") == key
        assert controlled.hooks() == []
        assert basic.hook_log() == logged
        up_again(controlled)
    result = client.action("measure-latency", link="vpn-client", count=3, interval_ms=20)
    assert result["received"] == 3


REDIRECTS = """
for family in 4 6; do for kind in send accept; do
    grep -H . /proc/sys/net/ipv$family/conf/*/${kind}_redirects
done; done 2>/dev/null
"""


def test_whoever_flushes_the_rules_by_systemd_brings_the_guard_back(client: Vnf) -> None:
    """Debian's and Ubuntu's /etc/nftables.conf begins with `flush ruleset`."""
    guard = ("nft", "list", "table", "inet", "osm_vpnaas_guard")
    assert client.out(*guard)
    try:
        for verb in ("restart", "reload", "restart"):
            client.out("systemctl", verb, "nftables.service")
            assert client.run(*guard).returncode == 0, verb
    finally:
        client.out("systemctl", "stop", "nftables.service")
        client.out("nft", "-f", "/etc/osm-vpnaas/guard.nft")


def test_no_interface_sends_or_takes_redirects(server: Vnf, client: Vnf) -> None:
    """Of its own the kernel asks each interface: those of the boot, and the tunnel made since."""
    for vnf, link in ((server, "vpn-server"), (client, "vpn-client")):
        rows = [row.rpartition(":") for row in vnf.run("sh", "-c", REDIRECTS).stdout.splitlines()]
        values = {name.removeprefix("/proc/sys/net/"): value for name, _, value in rows}
        for interface in ("ens3", "ens4", f"wg-{link}", "default"):
            assert f"ipv4/conf/{interface}/send_redirects" in values
        assert {name: value for name, value in values.items() if value != "0"} == {}


@pytest.mark.long
def test_metrics_are_scraped_over_management_and_only_where_asked_for(
    basic: Service, server: Vnf, client: Vnf, untouched: None
) -> None:
    def answers(address: str) -> bool:
        probe = "import socket, sys; socket.create_connection((sys.argv[1], 9815), 5)"
        return client.run("python3", "-c", probe, address).returncode == 0

    assert not answers(server.management)
    assert server.action("configure-monitoring") == {"exporter-port": 9815, "log-server": "none"}
    try:
        basic.wait(lambda: answers(server.management), "the exporter listens")
        assert not answers("10.77.0.1")
        osm = basic.lab.client()
        (target,) = targets(osm, [f"{basic.name}/{server.index}"], 9815, turn_on=True)
        assert target["targets"] == [f"{server.management}:9815"]
        record = basic.lab.engine.vnf(basic.name, server.index)
        assert target["labels"]["ns_id"] == record["nsr-id-ref"]
        assert target["labels"]["vdu_id"] == record["vdur"][0]["vdu-id-ref"]
        before = scraped(client, server)
        result = ("vpn-server", client.application, "wireguard")
        assert before[("vpnaas_peer_up", *result)] == 1
        assert before[("vpnaas_handshake_age_seconds", *result[:2])] >= 0
        assert (
            client.run("ping", "-q", "-c", "5", "-i", "0.2", "-s", "1000", SERVER).returncode == 0
        )
        time.sleep(1.1)  # A scrape takes what was seen in the last second.
        after = scraped(client, server)
        for way in ("received", "sent"):
            name = (f"vpnaas_{way}_bytes_total", *result)
            assert 5000 <= after[name] - before[name] < 20000
    finally:
        server.action("configure-monitoring", exporter_port=0)
    assert not answers(server.management)
    assert server.run("systemctl", "cat", "osm-vpnaas-exporter").returncode != 0
    with pytest.raises(ActionError, match="1024 to 65535"):
        server.action("configure-monitoring", exporter_port=22)


@pytest.mark.long
def test_the_journal_goes_to_a_syslog_server_that_comes_late(
    basic: Service, server: Vnf, client: Vnf, untouched: None
) -> None:
    receiver = (
        "import socket, sys\n"
        "server = socket.create_server((sys.argv[1], 6010))\n"
        "link, heard = server.accept()[0], b''\n"
        "while b'a word of the VDU' not in heard: heard += link.recv(65536)\n"
        "print(heard.decode())\n"
    )
    where = f"{client.management}:6010"
    server.action("configure-monitoring", exporter_port=0, log_server=where)
    try:
        server.run("logger", "--tag", "trial", "--priority", "auth.warning", "a word of the VDU")
        heard = client.run("timeout", "50", "python3", "-c", receiver, client.management)
        assert re.search(r"<36>1 \S+Z \S+ trial \d+ - - a word of the VDU", heard.stdout)
    finally:
        server.action("configure-monitoring", exporter_port=0, log_server="none")
    assert server.run("systemctl", "cat", "osm-vpnaas-logs").returncode != 0


# -- faults ------------------------------------------------------------------------------------


def test_unreachable_vdu_blocks_and_is_tried_again(
    basic: Service, server: Vnf, client: Vnf, untouched: None
) -> None:
    with unrelated(basic) as controlled:
        controlled.settle()
        assert server.peers("wg-vpn-server") == set()
        # As where the NSD has no relation: the charms never learn of each other.
        workload, text = controlled.status("client")
        assert workload == "active"
        assert text.startswith("vpn-client waiting (no peer is related")
        client.out("systemctl", "stop", "ssh.service")
        try:
            controlled.model.add_relation(*relation(basic))
            controlled.settle()
            state, message = controlled.status("client")
            assert state == "blocked"
            address = client.server.ip_on(basic.vim.management_network().id)
            assert message.startswith(f"cannot reach {address}: ")
            assert len(message.splitlines()) == 1
            assert not server.pings(CLIENT, tries=5)
        finally:
            client.out("systemctl", "start", "ssh.service")
        # The hooks are over; what brings the tunnel back is update-status.
        up_again(controlled)


@pytest.mark.long
def test_an_end_that_is_up_again_wakes_the_other(
    basic: Service, server: Vnf, client: Vnf, untouched: None
) -> None:
    drop = "add table inet cut; add chain inet cut in { type filter hook prerouting priority -9; }"
    with basic.controller() as controlled:
        server.out("nft", f"{drop}; add rule inet cut in iifname ens4 drop")
        try:
            controlled.update_status()
            wait(lambda: [controlled.status(end)[0] for end in UP] == ["blocked"] * 2, "both red")
            time.sleep(LASTING)
            assert [controlled.status(end)[0] for end in UP] == ["blocked"] * 2
        finally:
            server.out("nft", "delete", "table", "inet", "cut")
        assert client.pings(SERVER, tries=60)
        assert controlled.status("client")[0] == "blocked", "its own look is minutes away"
        controlled.model.run_action(server.application, "show-status", {"link": "vpn-server"})
        controlled.settle()
        assert all(text in controlled.status(end)[1] for end, text in UP.items())


@pytest.mark.long
def test_killed_hook_runs_again(basic: Service, server: Vnf, client: Vnf, untouched: None) -> None:
    with unrelated(basic) as controlled:
        folder = controlled.model.paths.charm(server.unit)
        pid = 0
        until = time.monotonic() + 30
        while not pid and time.monotonic() < until:
            pid = running_in(folder)
        assert pid, "no hook of the server's charm was seen"
        os.kill(pid, signal.SIGKILL)
        controlled.settle()
        result = [(e.kind, e.name) for e in controlled.events if e.unit == server.unit]
        failed = [name for kind, name in result if kind == "hook-failed"]
        assert len(failed) == 1
        assert result.index(("hook-retried", failed[0])) > result.index(("hook-failed", failed[0]))
        assert f"ran {failed[0]} hook" in controlled.model.log_path(server.unit).read_text()
        assert server.peers("wg-vpn-server") == client.peers("wg-vpn-client") == set()
        controlled.model.add_relation(*relation(basic))
        controlled.settle()
        up_again(controlled)


def test_changed_host_key_must_be_trusted(basic: Service, client: Vnf, untouched: None) -> None:
    client.out("sh", "-c", "rm /etc/ssh/ssh_host_* && ssh-keygen -q -A")
    client.out("systemctl", "restart", "ssh.service")
    with basic.controller() as controlled:
        controlled.update_status()
        state, message = controlled.status("client")
    assert state == "blocked"
    assert message.endswith("if it was changed run trust-host-key")
    shown = client.out("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    assert shown in message
    with pytest.raises(ActionError, match="where SHA256:A{43} is required"):
        client.action("trust-host-key", fingerprint="SHA256:" + "A" * 43)
    assert client.action("trust-host-key", fingerprint=shown).startswith("pinned ")
    with basic.controller() as controlled:
        up_again(controlled)


@pytest.mark.long
def test_the_page_shows_a_service_and_presses_its_primitives(basic: Service) -> None:
    with served(basic.lab) as url, browser(url) as seen:
        seen.open("/service/basic")
        seen.login("wrong")
        seen.text("Invalid username/password")
        seen.login(PASSWORD)
        seen.click("//*[text()='basic']")
        seen.text("vpn-server up")
        seen.choose("VNF", "basic/client")
        seen.text("vpn-client up")
        seen.choose("Primitive", "show-status")
        seen.click("//button[contains(., 'Run show-status')]")
        seen.find("//*[contains(text(), 'last-handshake-s')]")
        seen.choose("Primitive", "set-certificate")
        seen.find("//textarea[@aria-label='certificate']")  # which keeps the lines of PEM
        row = "//tr[td[contains(., 'client show-status')]]"
        seen.find(f"{row}//button").send_keys(Keys.ENTER)
        seen.text("10.77.0.2/24")
        seen.find("//body").send_keys(Keys.ESCAPE)
        seen.click(row)
        seen.text("10.77.0.2/24")
        assert seen.severe() == []
        # A token that ended shows nothing any more.
        seen.driver.delete_all_cookies()
        seen.open("/service/basic")
        seen.find("//input[@type='password']")
    with served(basic.lab) as url, browser(url, 390, 844) as phone:
        phone.open("/")
        phone.login(PASSWORD)
        phone.click("//*[text()='basic']")
        phone.text("vpn-server up")
        wide = "return document.documentElement.scrollWidth - window.innerWidth"
        assert phone.driver.execute_script(wide) <= 0


def test_one_operation_is_shown_through_all_logs(lab: Lab, basic: Service) -> None:
    first = min(lab.engine.operations("basic"), key=lambda operation: operation["startTime"])
    shown = lab.done("lab", "trace", first["_id"]).splitlines()
    sources = {line.split()[1].rstrip(":") for line in shown}
    assert "lcm" in sources
    assert len({source for source in sources if source.endswith("-0")}) == 2  # both VNFs
    times = [line.split()[0] for line in shown]
    assert times == sorted(times)


def test_all_links_are_one_table(basic: Service) -> None:
    operations = len(basic.lab.engine.operations("basic"))
    (link,) = json.loads(basic.lab.done("--json", "links", "basic"))
    ends = {"client:vpn-client", "server:vpn-server"}
    assert set(link["ends"].split(" - ")) == ends
    assert (link["state"], link["technology"]) == ("up", "wireguard")
    assert set(link["inner"].split(" - ")) == {"10.77.0.2", "10.77.0.1"}
    assert sorted(link["outer"].split(" - ")) == ["192.168.100.11:51820", "192.168.100.12:51820"]
    assert {link["since"], link["key_age"], link["handshake"]}.isdisjoint({"", None})
    (again,) = json.loads(basic.lab.done("--json", "links", "--all"))
    assert again["rate"] is not None
    assert len(basic.lab.engine.operations("basic")) == operations, "looks are no operations"
    for verb in (("ns-list",), ("lab", "graph", "basic"), ("lab", "juju-status", "basic")):
        assert " s ago" in basic.lab.done(*verb), verb
    assert "name a service or a slice, or give --all" in basic.lab.refused("links")


def test_a_picture_of_a_service(basic: Service) -> None:
    result = json.loads(basic.lab.done("--json", "lab", "graph", "basic"))
    (edge,) = result["edges"]
    assert (edge["source"], edge["target"]) == ("basic/server", "basic/client")
    assert (edge["technology"], edge["state"]) == ("wireguard", "up")
    assert "vpn, WireGuard, up ── client" in basic.lab.done("lab", "graph", "basic")
    file = basic.lab.home / "basic.svg"
    basic.lab.done("lab", "graph", "basic", "--svg", str(file))
    assert file.read_text().rstrip().endswith("</svg>")
    assert "ns 'nobody' not found" in basic.lab.refused("lab", "graph", "nobody")
