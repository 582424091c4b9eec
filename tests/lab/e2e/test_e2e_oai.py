"""A 4G core secures its own links, and a UE attaches through all five tunnels.

No manual step is needed. The lab's simulators stand for the network functions' images and speak the
real protocols.

Cast: hss, mme, spgwc, spgwu, enb, ue (`epc_ue_ns`); gateway1, gateway2 (`epc_secgw_ha_ns`).

Seen:
- every function is ready after `ns-create`; a capture of each network has no packet in clear;
- a UE reaches the data network and nothing else;
- a wrong key, an unknown subscriber and an eNB of another network are refused;
- without the HSS, or with a slow database, the attach suffers, and all heals afterwards;
- each test leaves the service ready, with the UE attached.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from e2e_support import ActionError, InBackground, Service, Vnf, scan, wait
from e2e_ue import DEVICE, LONG, OP, SGI, K, attached, reaches
from e2e_wire import Capture, captured, wireguard_only
from oai.enb import RADIO_PORT
from support.filters import NEIGHBOURS
from vpnaas.base.links import REFERENCE_POINTS

from experiments.testbed import LINKS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-7, worker="epc")]

FUNCTIONS = ("hss", "mme", "spgwc", "spgwu", "enb", "ue")
SUBSCRIBER = {"imsi": "242881234500000", "msisdn": "24288880000000"}
MARKER = b"a UE's own words"
PORTS = {link: REFERENCE_POINTS[link].listen_port for link in LINKS}
NF = "/etc/osm-vpnaas/nf"
CASSANDRA_DELAY = 0.3
INNER = {"hss": "172.16.6.129", "spgwc": "172.16.1.104"}


@pytest.fixture(scope="module", params=["epc_behind", pytest.param("epc", marks=pytest.mark.long)])
def core(request: pytest.FixtureRequest) -> Service:
    """The core behind gateways, in long runs the one with S1 in tunnels of its own.

    A UE's packets pass all functions, and the states of these are of now.
    """
    made: Service = request.getfixturevalue(request.param)
    attached(made)
    with made.controller() as controlled:
        controlled.update_status()
    return made


class Log:
    """What a network function logs from now on."""

    def __init__(self, vnf: Vnf) -> None:
        self.vnf = vnf
        self.file = f"/var/log/{vnf.index}.log"
        self.start = int(vnf.out("stat", "-c", "%s", self.file))

    def text(self) -> str:
        return self.vnf.out("tail", "-c", f"+{self.start + 1}", self.file)

    def says(self, pattern: str) -> None:
        def there() -> bool:
            return re.search(pattern, self.text()) is not None

        wait(there, f"{self.file} says {pattern}: {self.text()}", LONG)


def restart(vnf: Vnf) -> Log:
    """Restart a network function as its machine would; return what it logs then."""
    log = Log(vnf)
    vnf.out("systemctl", "restart", f"{vnf.index}.service")
    return log


def started(vnf: Vnf) -> str:
    """Return when a network function was started last."""
    shown = ("systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic")
    return vnf.out(*shown, f"{vnf.index}.service")


def message(epc: Service, index: str) -> tuple[str, str]:
    record = epc.record()["lab"]["charms"][epc[index].application]
    return record["status"], record["message"]


@contextmanager
def edited(vnf: Vnf, name: str, old: str, new: str) -> Iterator[None]:
    """Change a file of a network function behind its charm's back."""
    path = f"{NF}/{name}"
    before = vnf.out("cat", path)
    assert old in before
    vnf.out("tee", path, input=before.replace(old, new, 1))
    try:
        yield
    finally:
        vnf.out("tee", path, input=before)


CONNECT = """import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 1, (sys.argv[3], 0)).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except TimeoutError:
    print("silent")
"""


def attempt(vnf: Vnf, address: str, port: int, source: str = "") -> str:
    """Return how a TCP connection from a VDU ends: open, refused or silent."""
    return vnf.out("python3", "-c", CONNECT, address, str(port), source).strip()


def test_every_network_function_is_ready_after_ns_create(core: Service) -> None:
    for name in FUNCTIONS:
        status, text = message(core, name)
        assert (status, text.split(",")[0]) == ("active", f"{name} ready"), name
    assert core["ue"].ready()


@pytest.mark.long
def test_a_ue_attaches_through_all_tunnels_and_nothing_is_in_clear(
    epc: Service, tmp_path: Path
) -> None:
    captures: dict[str, Capture] = {}
    with ExitStack() as stack:
        for link in PORTS:
            context = captured(epc, link, tmp_path / f"{link}.pcap")
            captures[link] = stack.enter_context(context)
        restart(epc["ue"])
        attached(epc)
        assert reaches(epc, "-p", MARKER.hex(), "-s", "64")
    for link, port in PORTS.items():
        assert captures[link].count(wireguard_only(port)) > 1, link
        other = f"not {NEIGHBOURS} and not {wireguard_only(port)}"
        assert captures[link].count(other) == 0, f"{link}: {captures[link].sample(other)}"
        assert not captures[link].holds(MARKER)

    def connected() -> bool:
        shown = epc["mme"].action("show-connected")
        return set(shown.values()) == {1}

    wait(connected, "the MME's table shows the UE", LONG)


def test_the_radio_is_reached_by_the_network_uu_only(core: Service) -> None:
    enb = core["enb"]
    uu = str(enb.server.ip_on(core.network("uu")))
    result = core["ue"].out("ss", "-Htn", "state", "established", "dport", f"= :{RADIO_PORT}")
    assert result.split()[-1] == f"{uu}:{RADIO_PORT}"
    # It listens at all addresses; others in the service and the charms get no answer there.
    assert f"tcp 0.0.0.0:{RADIO_PORT}" in enb.listening()
    assert attempt(core["ue"], uu, RADIO_PORT) == "open"
    assert attempt(core["ue"], enb.management, RADIO_PORT) == "silent"
    mme = core["mme"]
    assert attempt(mme, enb.management, 22) == "open"
    assert attempt(mme, enb.management, RADIO_PORT) == "silent"
    mme.out("ip", "route", "add", f"{uu}/32", "via", enb.management)
    try:
        assert attempt(mme, uu, RADIO_PORT) == "silent"
    finally:
        mme.out("ip", "route", "del", f"{uu}/32")


@pytest.mark.long
def test_rate_and_delay_of_the_ue_end_to_end(epc: Service) -> None:
    server = epc["spgwu"].action("serve-throughput", seconds=300)
    assert server == {"address": SGI, "port": 5201, "seconds": 300}
    for direction in ("upload", "download"):
        given = {"server": server["address"], "duration": 1, "direction": direction}
        answer = epc["ue"].action("measure-throughput", **given)
        assert (answer["interface"], answer["direction"]) == (DEVICE, direction)
        assert answer["mbps"] > 0
    answer = epc["ue"].action("measure-latency", server=SGI, count=5, interval_ms=20)
    assert (answer["sent"], answer["received"]) == (5, 5)
    assert answer["rtt-ms"]["min"] > 0
    # Its packets went through the PDN connection, by the UE's own address.
    shown = epc["ue"].out("ip", "-o", "-4", "address", "show", "dev", DEVICE)
    assert f" {answer['address']}/" in shown
    # Nobody on SGi itself reaches the server.
    rules = epc["spgwu"].out("nft", "list", "table", "ip", "osm_vpnaas_sgi")
    assert "tcp dport 5201 drop" in rules
    with pytest.raises(ActionError, match=f"measurement to {SGI}:5299 failed: "):
        epc["ue"].action("measure-throughput", server=SGI, port=5299, duration=1)


def test_a_ue_reaches_nothing_but_the_data_network(core: Service) -> None:
    ue, spgwu = core["ue"], core["spgwu"]
    own = ue.action("measure-latency", server=SGI, count=1)["address"]
    for address in (SGI, spgwu.management, core["mme"].management):
        assert attempt(ue, address, 22, own) == "silent"


WRONG = {"spgwu": "192.168.248.0/24", "spgwc": "172.16.0.0/16"}
"""Pools that a link of the VDU has."""


@pytest.mark.long
def test_a_pool_that_the_vdu_has_is_refused_and_the_ue_stays(epc: Service) -> None:
    spgwu = epc["spgwu"]
    before = started(spgwu)
    with pytest.raises(ActionError, match=r"ue-pool: 192.168.248.0/24 overlaps .* of link s1u; "):
        spgwu.action("configure-sgi", ue_pool=WRONG["spgwu"])
    assert (started(spgwu), reaches(epc)) == (before, True)
    assert message(epc, "spgwu")[0] == "active"


@pytest.mark.long
def test_another_pool_is_taken_after_a_wrong_one(epc: Service) -> None:
    """One end takes the wrong pool, which is free there; no check waits for another for ever."""
    for index, pool in WRONG.items():
        other = "spgwc" if index == "spgwu" else "spgwu"
        assert epc[other].action("configure-sgi", ue_pool=pool)["state"] == "failed"
        with pytest.raises(ActionError, match="overlaps"):
            epc[index].action("configure-sgi", ue_pool=pool)
        assert reaches(epc)
    for pool in ("10.46.0.0/16", "10.45.0.0/16"):
        for index in WRONG:
            epc[index].action("configure-sgi", ue_pool=pool)
        attached(epc)
        own = epc["ue"].action("measure-latency", server=SGI, count=1)["address"]
        assert own.startswith(pool[:6])
    with epc.controller() as controlled:
        controlled.update_status()
    assert {message(epc, index)[0] for index in (*WRONG, "ue")} == {"active"}


@pytest.mark.long
def test_an_unknown_subscriber_and_a_wrong_key_are_refused(epc: Service) -> None:
    hss, ue = epc["hss"], epc["ue"]
    hss.action("remove-subscriber", imsi=SUBSCRIBER["imsi"])
    # OAI's HSS answers DIAMETER_AUTHENTICATION_DATA_UNAVAILABLE, for which there is one cause.
    restart(ue).says(r"Network failure \(EMM cause 17\)")
    answer = ue.action("health")
    assert (answer["state"], DEVICE in answer["reason"]) == ("starting", True), answer
    assert message(epc, "ue")[1].startswith("ue starting (the UE is not attached")
    assert not reaches(epc, "-c", "1")
    with pytest.raises(ActionError, match="the UE is not attached: oaitun_ue1 has no address"):
        ue.action("measure-latency", server=SGI)

    hss.action("add-subscriber", **SUBSCRIBER, subscriber_key="0" * 32)
    answer = Log(epc["mme"])
    restart(ue).says(r"Illegal UE \(EMM cause 3\)")
    answer.says("MAC failure")
    assert ue.action("health")["state"] == "starting"

    hss.action("remove-subscriber", imsi=SUBSCRIBER["imsi"])
    hss.action("add-subscriber", **SUBSCRIBER)
    assert ue.action("restart-nf")["state"] == "ready"
    attached(epc)
    assert message(epc, "ue") == ("active", "ue ready")


@pytest.mark.long
def test_an_enb_of_another_network_is_refused_and_its_charm_does_not_start_one(
    epc: Service,
) -> None:
    enb = epc["enb"]
    with edited(enb, "enb.conf", "mcc = 242;", "mcc = 208;"):
        restart(enb).says(r"refuses S1 Setup: unknown-PLMN")
    # The charm would not have it so: it tells the operator, and leaves what runs.
    assert enb.action("restart-nf")["state"] == "ready"
    parameters = enb.action("show-config")["parameters"]
    del parameters["log-level"]  # of set-log-level
    before = started(enb)
    try:
        answer = enb.action("configure-nf", **{**parameters, "mnc": "99"})
        assert answer["state"] == "failed"
        sentence = r"s1c: network \(MCC and MNC\) of \S*mme\S* is 24288; allowed: 24299, as here"
        assert re.search(sentence, answer["reason"]), answer
        assert message(epc, "enb")[0] == "blocked"
        assert started(enb) == before
    finally:
        answer = enb.action("configure-nf", **parameters)
    assert answer["state"] == "ready"
    assert started(enb) == before
    attached(epc)
    assert message(epc, "enb")[0] == "active"


@pytest.mark.long
def test_an_enb_is_ready_at_any_log_level_and_the_user_plane_logs_as_told(epc: Service) -> None:
    enb, spgwu = epc["enb"], epc["spgwu"]
    assert "PFCP association" in spgwu.out("cat", "/var/log/spgwu.log")
    for vnf, level in ((enb, "error"), (spgwu, "error")):
        log = Log(vnf)
        assert vnf.action("set-log-level", log_level=level)["state"] == "ready", level
        assert "PFCP association" not in log.text()
    for vnf in (spgwu, enb):
        assert vnf.action("set-log-level", log_level="info")["state"] == "ready"
    attached(epc)


def test_nobody_but_root_reads_a_key_of_a_subscriber_or_the_operator(core: Service) -> None:
    hss = core["hss"]
    assert OP in hss.out("cat", "/var/log/hss.log"), "the HSS prints keys, as OAI's does"
    # A file of an earlier version of the charm, which systemd made readable.
    hss.out("chmod", "0644", "/var/log/hss.log")
    hss.out("systemctl", "restart", "hss.service")
    wait(hss.ready, "the HSS is ready", LONG)
    for name in ("hss", "ue"):
        vnf = core[name]
        # As a user sees it: files and folders that others may read and enter.
        words = ("find", "/etc", "/var", "/run", "/tmp", "/opt", "/home", "-xdev", "-type", "f")
        found = vnf.run("runuser", "-u", "nobody", "--", *words, "-readable", "-print0").stdout
        readable = "\n".join(path for path in found.split("\0") if path)
        seen = vnf.run("xargs", "-d", "\n", "grep", "-lisE", f"{OP}|{K}|KASME +:", input=readable)
        assert seen.stdout == "", name
    wait(core["mme"].ready, "S6a is open again", LONG)
    attached(core)


THEIRS = """systemd-run --quiet --collect --unit theirs podman run --rm --name ue --network host \\
  --log-driver none docker.io/library/redis:6.0.5 redis-server --bind 127.0.0.1 --port 6999"""
EARLIER = """sed -i s/osm-vpnaas-ue/ue/ /etc/systemd/system/ue.service
systemctl daemon-reload; systemctl restart ue.service"""


def containers(vnf: Vnf) -> set[str]:
    """Return the names of the containers that run."""
    found = vnf.out("find", "/run/osm-lab-containers", "-name", "*.json", "-printf", "%f ")
    return {name.removesuffix(".json") for name in found.split()}


@pytest.mark.long
def test_a_container_of_somebody_else_stays_and_one_of_an_earlier_version_ends(
    core: Service,
) -> None:
    ue = core["ue"]
    assert containers(ue) == {"osm-vpnaas-ue"}
    ue.out("sh", "-ec", EARLIER)
    wait(lambda: containers(ue) == {"ue"}, "that of the earlier version runs", LONG)
    ue.action("restart-nf")
    wait(ue.ready, "the UE is ready", LONG)
    assert containers(ue) == {"osm-vpnaas-ue"}
    ue.out("sh", "-ec", THEIRS)
    try:
        wait(lambda: "ue" in containers(ue), "their container runs")
        before = ue.out("systemctl", "show", "-p", "MainPID", "theirs.service")
        ue.action("restart-nf")
        wait(ue.ready, "the UE is ready", LONG)
        assert ue.out("systemctl", "show", "-p", "MainPID", "theirs.service") == before
        assert containers(ue) == {"osm-vpnaas-ue", "ue"}
    finally:
        ue.out("systemctl", "stop", "theirs.service")
    attached(core)


@pytest.mark.long
def test_management_by_http_is_out_of_reach(epc: Service) -> None:
    for name, ports in (("spgwc", (9081,)), ("hss", (9080, 9081, 9082))):
        for port in ports:
            assert any(f":{port}" in s for s in epc[name].listening()), (name, port)
            for address in (INNER[name], epc[name].management):
                words = ("timeout", "3", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}")
                assert epc["mme"].run(*words).returncode == 124, (name, address, port)


@pytest.mark.long
def test_without_the_hss_the_attach_is_refused_and_all_heals_when_it_is_back(
    epc: Service,
) -> None:
    hss, mme = epc["hss"], epc["mme"]
    before = started(mme)
    hss.out("systemctl", "stop", "hss.service")
    try:
        restart(epc["ue"]).says(r"Network failure \(EMM cause 17\)")
        assert "no S6a connection to the HSS" in mme.action("health")["reason"]
        assert message(epc, "mme")[1].startswith("mme starting (")
        answer = hss.action("health")
        assert "hss does not run" in answer["reason"], answer
        assert message(epc, "hss")[1].startswith("hss starting (")
    finally:
        answer = hss.action("restart-nf")
    assert answer["state"] == "ready"
    # The MME connects again by itself, and the UE tries again by itself.
    attached(epc)
    wait(mme.ready, "S6a is open again", LONG)
    assert started(mme) == before


@pytest.mark.long
def test_a_slow_database_makes_registrations_late_and_the_measurement_tells(epc: Service) -> None:
    hss = epc["hss"]
    environment = f"{NF}/cassandra.env"
    before = hss.out("cat", environment)
    hss.out("tee", environment, input=f"{before}SIMULATORS_CASSANDRA_DELAY={CASSANDRA_DELAY}\n")
    hss.out("systemctl", "restart", "cassandra.service")
    wait(lambda: any(":9042" in s for s in hss.listening()), "Cassandra listens", LONG)
    sockets = len(epc["mme"].out("cat", "/proc/net/packet").splitlines())
    given = {"duration": 120, "count": 2}
    meter = InBackground(lambda: epc["mme"].action("measure-s6a", **given))

    def listens() -> bool:
        return len(epc["mme"].out("cat", "/proc/net/packet").splitlines()) > sockets

    wait(listens, "the meter listens", LONG)
    restart(epc["ue"])
    result = meter.result()
    for name in ("AIR", "ULR"):
        assert result[name]["results"] == {"2001": 1}, result
        # One statement at least stands behind each answer.
        assert result[name]["min-ms"] >= CASSANDRA_DELAY * 1000
    attached(epc)
    hss.out("tee", environment, input=before)
    hss.out("systemctl", "restart", "cassandra.service")
    assert hss.ready()
    restart(epc["ue"])
    attached(epc)


@pytest.mark.long
def test_a_user_plane_that_restarts_heals_without_the_others(epc: Service) -> None:
    before = [started(epc[name]) for name in ("spgwc", "mme", "enb", "ue")]
    restart(epc["spgwu"])
    attached(epc)
    assert [started(epc[name]) for name in ("spgwc", "mme", "enb", "ue")] == before


def test_no_key_of_a_link_stands_anywhere_but_on_its_vdu(core: Service) -> None:
    core.note_secrets()
    assert len(core.lab.secrets.texts) >= 10  # two ends of five links
    assert scan(core.lab, core.lab.secrets.texts) == []
