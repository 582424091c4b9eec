"""Access by untrusted Wi-Fi: a UE registers over IKEv2 and has a PDU session in each of two slices.

N3IWF and UE of the lab speak the real protocols; tshark reads the captures.

Cast: amf, smf, upf, smf2, upf2, n3iwf, ue (`5gc_n3iwf_ns`).

Seen:
- NWu has IKE and ESP only, and N3 has the mark of each QoS flow;
- the firewall lets IKE and ESP in and nothing else;
- a UE that vanishes is released and comes back; an unknown one is refused;
- keys are on their own VDUs only.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from e2e_labs import open_lab
from e2e_support import ActionError, Lab, Secrets, Service, Vnf, own_service, wait
from e2e_ue import FIRST_IMSI, LONG, OP, K
from e2e_wire import Capture, captured, ipsec_only, wireguard_only
from support.dist import built
from support.filters import NEIGHBOURS
from vpnaas.base.links import REFERENCE_POINTS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-9)]

PACKAGES = ("amf_vnf", "smf_vnf", "upf_vnf", "n3iwf_vnf", "n3ue_vnf", "5gc_n3iwf_ns")
MEMBERS = ("amf", "smf", "upf", "smf2", "upf2", "n3iwf", "ue")
IMSI = str(FIRST_IMSI)
MARKER = b"a UE's own words"
N6 = {"1-000001": "10.254.2.30", "2-000002": "10.254.2.31"}
QFI = {"1-000001": 6, "2-000002": 1}
"""5QI 80 of the second slice is more than the six bits of a QFI hold."""
UPF = {"1-000001": "upf", "2-000002": "upf2"}
NAME = "n3iwf.5gc.mnc088.mcc242.pub.3gppnetwork.org"
IKE = "(udp port 500 or (ip proto 17 and ip[6:2] & 0x1fff != 0))"
"""On 4500 only behind a NAT, of which there is none; a message with certificates may be two
fragments of IP, the second without ports."""
TLS = "/etc/osm-vpnaas/nf/tls"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, secrets: Secrets) -> Iterator[Lab]:
    dist = built(tmp_path_factory, PACKAGES)
    yield from open_lab(tmp_path_factory.mktemp("wifi"), dist, secrets)


core = own_service(PACKAGES, "wifi", "5gc_n3iwf_ns", "5gc_n3iwf", MEMBERS)


def sessions(service: Service) -> dict[str, dict[str, str]]:
    return {one["slice"]: one for one in service["ue"].action("show-sessions")["sessions"]}


def pings(service: Service, slice: str, count: int = 3) -> int:
    """Return how many echo requests through a slice's PDU session were answered."""
    device = sessions(service)[slice]["interface"]
    if not device:
        return 0
    words = ("ping", "-n", "-c", str(count), "-i", "0.2", "-W", "2", "-I", device)
    shown = service["ue"].run(*words, "-p", MARKER.hex(), "-s", "64", N6[slice], timeout=60)
    return shown.stdout.count("bytes from")


def log(vnf: Vnf, name: str) -> str:
    return vnf.out("cat", f"/var/log/{name}.log")


@contextmanager
def inside(vnf: Vnf, interface: str, file: str) -> Iterator[None]:
    """Capture on an interface of a VDU while the block runs."""
    unit = f"--unit=capture-{interface}"
    words = ("tcpdump", "-U", "--immediate-mode", "-i", interface, "-w", file)
    vnf.out("systemd-run", "--quiet", unit, *words)
    wait(lambda: vnf.run("test", "-s", file).returncode == 0, "tcpdump runs")
    try:
        yield
    finally:
        vnf.run("systemctl", "stop", f"capture-{interface}")


def read(path: Path, *words: str) -> list[str]:
    """Return what tshark shows of a capture."""
    argv = ["tshark", "-r", str(path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def shown(vnf: Vnf, file: str, *words: str) -> list[str]:
    """Return what tshark shows of a capture on a VDU."""
    return vnf.out("tshark", "-r", file, *words, timeout=120).splitlines()


def test_every_network_function_is_ready_after_ns_create(core: Service) -> None:
    found = core.record()["lab"]["charms"]
    assert {found[core[name].application]["status"] for name in MEMBERS} == {"active"}


def test_registration_and_packets_are_ike_and_esp_only_on_nwu(
    core: Service, tmp_path: Path
) -> None:
    links = ("n2", "n3", "n4", "sbi")
    captures: dict[str, Capture] = {}
    file = "/run/n2.pcap"
    with ExitStack() as stack:
        stack.enter_context(inside(core["amf"], "wg-n2", file))
        for link in (*links, "nwu"):
            context = captured(core, link, tmp_path / f"{link}.pcap")
            captures[link] = stack.enter_context(context)
        core["ue"].action("restart-nf")
        for slice in N6:
            wait(lambda slice=slice: pings(core, slice, 1) == 1, f"packets in {slice}", LONG)
            assert pings(core, slice) == 3
    nwu = captures["nwu"]
    assert nwu.count(IKE) >= 2 * 8, "SA_INIT, IKE_AUTH, CREATE_CHILD_SA"
    assert nwu.count("ip proto 50") >= 2 * 8, "NAS over TCP, and packets"
    other = f"not {NEIGHBOURS} and not {IKE} and not {ipsec_only()}"
    assert nwu.count(other) == 0, nwu.sample(other)
    for link, capture in captures.items():
        assert not capture.holds(MARKER), link
        assert not capture.holds(b"internet"), link
    for link in links:
        assert captures[link].count(wireguard_only(REFERENCE_POINTS[link].listen_port)) > 1
    # tshark reads every IKE message, and finds none malformed.
    words = ("-Y", "isakmp", "-T", "fields", "-e", "isakmp.exchangetype")
    assert {int(row) for row in read(nwu.path, *words)} >= {34, 35, 36}
    assert read(nwu.path, "-Y", "_ws.malformed") == []
    assert len(shown(core["amf"], file, "-Y", "ngap")) > 4
    assert shown(core["amf"], file, "-Y", "_ws.malformed") == []


@pytest.mark.long
def test_packets_reach_n3_with_the_mark_of_their_qos_flow(core: Service) -> None:
    for slice, upf in UPF.items():
        file = f"/run/n3-{upf}.pcap"
        with inside(core[upf], "wg-n3", file):
            assert pings(core, slice) == 3
        words = (
            "-Y",
            "gtp.message == 0xff",
            "-T",
            "fields",
            "-e",
            "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
        )
        assert shown(core[upf], file, "-Y", "_ws.malformed") == []
        rows = shown(core[upf], file, *words)
        assert len(rows) >= 6
        assert set(rows) == {str(QFI[slice])}
        own = sessions(core)[slice]["address"]
        inner = shown(core[upf], file, "-Y", "icmp.type == 8", "-T", "fields", "-e", "ip.src")
        assert {row.rpartition(",")[2] for row in inner} == {own}


@pytest.mark.long
def test_who_is_connected_is_told(core: Service) -> None:
    def registered() -> bool:
        states = {u["imsi"]: u["state"] for u in core["amf"].action("show-connected")["ues"]}
        return "REGISTERED" in states.get(IMSI, "")

    wait(registered, "the AMF's table has the UE", LONG)
    (answer,) = core["n3iwf"].action("show-connected")["ues"]
    inner = core["ue"].out("ip", "-4", "-br", "address", "show", "dev", "ipsec-default")
    assert answer["inner-address"].startswith("10.45.0.")
    assert f" {answer['inner-address']}/32" in inner
    own = sessions(core)
    for slice, smf in (("1-000001", "smf"), ("2-000002", "smf2")):
        (answer,) = core[smf].action("show-connected")["sessions"][slice]
        assert (answer["imsi"], answer["address"]) == (IMSI, own[slice]["address"])


@pytest.mark.long
def test_rate_and_delay_through_a_slice(core: Service) -> None:
    server = core["upf"].action("serve-throughput", seconds=300)["address"]
    answer = core["ue"].action("measure-throughput", server=server, duration=1, slice="1-000001")
    assert answer["mbps"] > 0
    words = {"server": N6["2-000002"], "count": 5, "interval_ms": 20, "slice": "2-000002"}
    assert core["ue"].action("measure-latency", **words)["received"] == 5


@pytest.mark.long
def test_the_firewall_lets_ike_and_esp_in_and_nothing_else(core: Service) -> None:
    ue, n3iwf = core["ue"], core["n3iwf"]
    address = n3iwf.action("show-nwu")["address"]
    before = n3iwf.action("show-nwu")["packets"]
    probe = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    for host, port in ((address, 22), (address, 20000), ("10.45.0.1", 22)):
        done = ue.run("python3", "-c", probe, host, str(port))
        assert "timed out" in done.stderr, (host, port, done.stderr)
    assert ue.pings(address)
    after = n3iwf.action("show-nwu")["packets"]
    assert after["dropped"] > before["dropped"]
    assert after["esp"] > before["esp"]
    # The N3IWF is no router between UEs and the rest.
    ue.out("ip", "route", "add", "172.16.20.0/24", "via", address)
    assert not ue.pings("172.16.20.10", tries=3)
    ue.out("ip", "route", "del", "172.16.20.0/24")


@pytest.mark.long
def test_a_ue_that_vanishes_is_released_and_comes_back(core: Service) -> None:
    ue, n3iwf = core["ue"], core["n3iwf"]
    given = n3iwf.action("show-config")["parameters"]
    del given["log-level"]
    short = {**given, "liveness-seconds": 2}
    n3iwf.action("configure-nf", **short)
    wait(lambda: pings(core, "1-000001", 1) == 1, "the UE is back after the restart", LONG)
    # Without power it says nothing.
    ue.out("systemctl", "kill", "--signal=KILL", "n3iwue.service")
    ue.out("systemctl", "stop", "n3iwue.service")
    wait(lambda: n3iwf.action("show-connected")["ues"] == [], "the N3IWF notices", LONG)
    assert "did not answer" in log(n3iwf, "n3iwf")
    ue.out("systemctl", "start", "n3iwue.service")
    wait(lambda: pings(core, "2-000002", 1) == 1, "the UE is back", LONG)
    n3iwf.action("configure-nf", **given)


@pytest.mark.long
def test_an_unknown_subscriber_is_refused(core: Service) -> None:
    ue, amf = core["ue"], core["amf"]
    amf.action("remove-subscriber", imsi=IMSI)
    try:
        assert ue.action("restart-nf")["state"] == "starting"
        assert "Registration rejected: Illegal UE" in log(ue, "n3iwue")
        assert "The UE stops EAP-5G" in log(core["n3iwf"], "n3iwf")
        assert core["n3iwf"].action("show-connected")["ues"] == []
    finally:
        amf.action("add-subscriber", imsi=IMSI)
    assert ue.action("restart-nf")["state"] == "ready"


@pytest.mark.long
def test_another_authority_is_not_trusted(core: Service) -> None:
    ue, n3iwf = core["ue"], core["n3iwf"]
    answer = n3iwf.action("show-nwu")
    assert answer["name"] == NAME
    # Who took the N3IWF's place has another certificate of the same name.
    files = [f"{TLS}/{NAME}.{kind}.pem" for kind in ("key", "cert")]
    for file in files:
        n3iwf.out("cp", file, f"{file}.kept")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9"]
    words += ["-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{NAME}"]
    n3iwf.out(*words, "-keyout", files[0], "-out", files[1])
    n3iwf.out("systemctl", "restart", "n3iwf")
    try:
        assert ue.action("restart-nf")["state"] == "starting"
        assert "The N3IWF's certificate is not trusted" in log(ue, "n3iwue")
        wait(lambda: "The peer says AUTHENTICATION_FAILED" in log(n3iwf, "n3iwf"), "refusal", LONG)
    finally:
        for file in files:
            n3iwf.out("mv", f"{file}.kept", file)
        n3iwf.out("systemctl", "restart", "n3iwf")
    wait(ue.ready, "the UE is back", LONG)


@pytest.mark.long
def test_a_number_that_does_not_fit_changes_nothing(core: Service) -> None:
    given = core["n3iwf"].action("show-config")["parameters"]
    del given["log-level"]
    with pytest.raises(ActionError, match="n3iwf-id : 70000 is greater"):
        core["n3iwf"].action("configure-nf", **{**given, "n3iwf-id": 70000})
    assert pings(core, "1-000001") == 3


@pytest.mark.long
def test_the_operator_s_authority_is_taken_and_the_ue_learns_it(
    core: Service, tmp_path: Path
) -> None:
    n3iwf, ue = core["n3iwf"], core["ue"]
    (tmp_path / "request.pem").write_text(n3iwf.action("show-nwu")["request"])
    begin = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=operator"]
    files = ["-keyout", "key.pem", "-out", "root.pem"]
    sign = ["openssl", "x509", "-req", "-in", "request.pem", "-CA", "root.pem", "-CAkey", "key.pem"]
    sign += ["-days", "9", "-copy_extensions", "copy", "-out", "leaf.pem"]
    for argv in ([*begin, *files], sign):
        subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    root, leaf = ((tmp_path / f"{name}.pem").read_text() for name in ("root", "leaf"))
    with pytest.raises(ActionError, match="it is for another key"):
        n3iwf.action("set-nwu-certificate", certificate=root, ca_certificate=root)
    n3iwf.action("set-nwu-certificate", certificate=leaf, ca_certificate=root)
    assert n3iwf.action("show-nwu")["ca-certificate"] in "".join(root.split())
    trusted = "/etc/osm-vpnaas/nf/n3iwf-ca.pem"
    wait(lambda: ue.out("cat", trusted) == root, "the UE knows the authority", LONG)
    wait(lambda: pings(core, "2-000002", 1) == 1, "the UE is back", LONG)


@pytest.mark.long
def test_keys_are_nowhere_but_on_their_vdus(core: Service) -> None:
    shown = json.dumps(core["ue"].action("show-config"))
    for text in (OP, K):
        assert text not in shown
        assert text not in core["ue"].out("ps", "-eo", "args")
    key = core["n3iwf"].out("cat", f"{TLS}/{NAME}.key.pem")
    assert key not in json.dumps(core["n3iwf"].action("show-config"))
    assert core["n3iwf"].out("stat", "-c", "%a", f"{TLS}/{NAME}.key.pem").strip() == "600"
