"""A UE in a Wi-Fi, its N3IWF and a core of two slices, as processes in namespaces.

They are set up by the charms' files. Kernels carry the packets, tshark judges the wires.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from oai import n3iwf
from oai.params import expect, parse
from support.filters import NEIGHBOURS
from town import town
from town_5g import Core, frames

pytestmark = [pytest.mark.lab, pytest.mark.long]

LINKS = {
    "n2": (("amf", "wg-n2", "172.16.20.10"), ("n3iwf", "wg-n2", "172.16.20.40")),
    "n3": (("upf", "wg-n3", "172.16.21.30"), ("n3iwf", "wg-n3", "172.16.21.40")),
    "n3b": (("upf2", "wg-n3", "172.16.31.30"), ("n3iwf", "wg-n3b", "172.16.31.40")),
    "n4": (("smf", "wg-n4", "172.16.22.20"), ("upf", "wg-n4", "172.16.22.30")),
    "n4b": (("smf2", "wg-n4", "172.16.22.20"), ("upf2", "wg-n4", "172.16.22.30")),
    "sbi": (("amf", "wg-sbi", "172.16.23.10"), ("smf", "wg-sbi", "172.16.23.20")),
    "sbib": (("amf", "wg-sbib", "172.16.33.10"), ("smf2", "wg-sbi", "172.16.33.20")),
    "nwu": (("n3iwf", "ens6", "192.168.25.40"), ("n3ue", "ens4", "192.168.25.50")),
    "n6": (("upf", "ens6", "10.132.12.201"), ("pdn", "n6", "10.132.12.1")),
    "n6b": (("upf2", "ens6", "10.132.13.201"), ("pdn2", "n6", "10.132.13.1")),
}
IMSI = "242881234500000"
QFI = {"internet": 6, "factory": 1}
DEVICES = {"internet": "gretun-id-2-6", "factory": "gretun-id-3-1"}
SERVERS = {"internet": "10.132.12.1", "factory": "10.132.13.1"}
GIVEN = {"mcc": "242", "mnc": "88", "tac": 40960, "n3iwf-id": 135, "nwu-interface": "ens6"}
PARAMS = expect(
    n3iwf.N3iwf, parse("n3iwf", {**GIVEN, "slices": "1-000001", "inner-pool": "10.45.0.0/24"})
)
CLEAR = f"not (udp port 500 or ip proto 50 or icmp or {NEIGHBOURS})"
"""ICMP says that a port is closed, while the N3IWF or the UE is stopped. A fragment is refused."""


class Wifi(Core):
    """The namespaces; the second slice has copies of the first one's files."""

    links = LINKS
    names = ("amf", "smf", "upf", "smf2", "upf2", "n3iwf", "n3ue", "pdn", "pdn2")
    programs = {
        **{name: Core.programs[name] for name in ("mysqld", "nrf", "udr", "udm", "ausf", "amf")},
        **{
            name: (name, ["-c", f"{name}.yaml", "-o"])
            for name in ("smf", "upf", "smf2", "upf2")
        },
        "n3iwf": ("n3iwf", ["-c", "config/n3iwfcfg.yaml"]),
        "n3iwue": ("n3ue", []),
    }  # fmt: skip
    rendered = ("amf", "smf", "upf", "n3iwf", "n3ue")
    terminal = "n3ue"

    def program(self, name: str) -> str:
        return name.removesuffix("2")

    def finish(self) -> None:
        super().finish()
        for file in ("smf", "upf"):
            text = (self.directory / f"{file}.yaml").read_text(encoding="utf-8")
            for old, new in (
                *(('"sst": 1', '"sst": 2'), ("000001", "000002"), ("internet", "factory")),
                *(("10.46.", "10.47."), ("172.16.23.20", "172.16.33.20")),
            ):
                text = text.replace(old, new)
            (self.directory / f"{file}2.yaml").write_text(text, encoding="utf-8")
        rules = (self.directory / "upf.nft").read_text(encoding="utf-8").replace("10.46.", "10.47.")
        (self.directory / "upf2.nft").write_text(rules, encoding="utf-8")
        self.run("upf2", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.run("upf2", "nft", "-f", str(self.directory / "upf2.nft"))
        self.run("smf2", "ip", "route", "add", "172.16.23.10", "via", "172.16.33.10")
        self.run("upf2", "ip", "route", "add", "172.16.21.40", "via", "172.16.31.40")
        self.run("n3iwf", "nft", "-f", str(self.directory / "n3iwf.nft"))
        for folder in ("config", "cert"):
            (self.directory / folder).mkdir()
        for step in n3iwf.certificate_steps(PARAMS):
            if "argv" in step.body:
                argv = [
                    word.replace(n3iwf.TLS, str(self.directory / "cert"))
                    for word in step.body["argv"]
                ]
                subprocess.run(argv, check=True, capture_output=True)
        name = self.directory / "cert" / n3iwf.fqdn(PARAMS.plmn)
        name.with_name(f"{name.name}.key.pem").rename(self.directory / "cert/n3iwf.key")
        name.with_name(f"{name.name}.cert.pem").rename(self.directory / "cert/n3iwf.pem")
        (self.directory / "cert/n3iwf-ca.cert.pem").rename(self.directory / "cert/ca.pem")
        document = self.document("n3iwfcfg.yaml")
        document["configuration"]["livenessCheck"]["transFreq"] = "1s"
        self.change("config/n3iwfcfg.yaml", document)
        ue = self.document("n3ue.yaml")
        ue["configuration"]["N3IWFInformation"]["IPSecIfaceAddr"] = "192.168.25.40"
        ue["configuration"]["N3UEInformation"]["IPSecIfaceAddr"] = "192.168.25.50"
        self.change("config/n3ue.yaml", ue)

    def passes(self, dnn: str, count: int = 3) -> bool:
        return self.ping(SERVERS[dnn], count, DEVICES[dnn])


@pytest.fixture(scope="module")
def wifi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wifi]:
    points = (("n3ue", "ens4"), ("upf", "wg-n3"), ("n3iwf", "wg-n3b"), ("amf", "wg-n2"))
    with town(tmp_path_factory.mktemp("wifi"), Wifi) as made, made.captured(*points):
        assert isinstance(made, Wifi)
        made.bring_up()
        for dnn in DEVICES:
            made.until(f"packets in {dnn}", lambda dnn=dnn: made.passes(dnn, 1), 120)
        yield made


def test_packets_pass_in_two_slices_and_are_marked_on_n3(wifi: Wifi) -> None:
    for dnn, file in (("internet", "wg-n3"), ("factory", "wg-n3b")):
        wifi.until(f"packets in {dnn}", lambda dnn=dnn: wifi.passes(dnn))
        time.sleep(0.5)  # tcpdump writes what it has
        words = ("-Y", "gtp.message == 0xff", "-T", "fields")
        words += ("-e", "gtp.ext_hdr.pdu_ses_con.qos_flow_id")
        shown = frames(wifi.directory / f"{file}.pcap", *words)
        assert len(shown) >= 8
        assert set(shown) == {str(QFI[dnn])}


def test_a_transfer_passes_with_packets_of_full_size(wifi: Wifi) -> None:
    wifi.transfer(SERVERS["internet"], "10.46.0.2", "-t", "2")
    assert "drop" not in wifi.log("n3iwf")


def test_the_firewall_lets_nothing_else_in(wifi: Wifi) -> None:
    probe = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
    for host, port in (("192.168.25.40", 22), ("192.168.25.40", 20000), ("10.45.0.1", 22)):
        argv = ["ip", "netns", "exec", wifi.netns("n3ue"), "python3", "-c", probe, host, str(port)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert "timed out" in done.stderr, (host, port, done.stderr)
    rules = wifi.run("n3iwf", "nft", "-j", "list", "table", "inet", n3iwf.TABLE)
    counted = n3iwf._packets(rules)
    assert counted["dropped"] >= 3
    assert counted["ike"] >= 8
    assert counted["esp"] >= 8
    assert wifi.passes("internet", 1)
    shown = wifi.run("n3iwf", "ss", "-Htn", "state", "established", "sport", "=", ":20000")
    assert [row.split()[3].rpartition(":")[0] for row in shown.splitlines()] == ["10.45.0.2"]


def test_a_ue_without_power_is_released_and_comes_back(wifi: Wifi) -> None:
    before = wifi.log("amf").count("is registered")
    wifi.processes["n3iwue"].kill()
    wifi.until("the N3IWF notices", lambda: "did not answer" in wifi.log("n3iwf"))
    wifi.stop("n3iwue")
    wifi.start("n3iwue")
    for dnn in DEVICES:
        wifi.until(f"packets in {dnn}", lambda dnn=dnn: wifi.passes(dnn, 1), 120)
    assert wifi.log("amf").count("is registered") == before + 1


def test_an_n3iwf_that_restarts_gets_its_ue_back(wifi: Wifi) -> None:
    wifi.stop("n3iwf")
    wifi.start("n3iwf")
    for dnn in DEVICES:
        wifi.until(f"packets in {dnn}", lambda dnn=dnn: wifi.passes(dnn, 1), 120)


def test_a_subscriber_that_is_unknown_is_refused(wifi: Wifi) -> None:
    wifi.stop("n3iwue")
    wifi.sql(f"DELETE FROM AuthenticationSubscription WHERE ueid = '{IMSI}'")
    wifi.start("n3iwue")
    wifi.until("refusal", lambda: "Registration rejected: Illegal UE" in wifi.log("n3iwue"))
    wifi.until("EAP fails", lambda: "The UE stops EAP-5G" in wifi.log("n3iwf"))
    wifi.stop("n3iwue")
    wifi.provision()
    wifi.start("n3iwue")
    wifi.until("packets again", lambda: wifi.passes("internet", 1), 120)


def test_another_authority_is_not_trusted(wifi: Wifi) -> None:
    wifi.stop("n3iwue")
    root = wifi.directory / "cert/ca.pem"
    kept = root.read_bytes()
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"]
    subprocess.run(
        [*words, "-keyout", "/dev/null", "-out", str(root)], check=True, capture_output=True
    )
    wifi.start("n3iwue")
    wifi.until("mistrust", lambda: "certificate is not trusted" in wifi.log("n3iwue"))
    wifi.until("notification", lambda: "The peer says AUTHENTICATION_FAILED" in wifi.log("n3iwf"))
    wifi.stop("n3iwue")
    root.write_bytes(kept)
    wifi.start("n3iwue")
    wifi.until("packets again", lambda: wifi.passes("factory", 1), 120)


def test_only_ike_and_esp_were_on_the_wifi_and_nothing_was_malformed(wifi: Wifi) -> None:
    """Last: the captures have registrations, sessions, packets, refusals and restarts."""
    time.sleep(0.5)
    file = wifi.directory / "ens4.pcap"
    done = subprocess.run(
        ["tcpdump", "-nn", "-r", str(file), CLEAR], capture_output=True, text=True, check=True
    )
    # What the firewall's test sent in clear, and nothing came back for it.
    clear = [row for row in done.stdout.splitlines() if "192.168.25.50." not in row.split(" > ")[0]]
    assert clear == []
    kinds = frames(file, "-Y", "isakmp", "-T", "fields", "-e", "isakmp.exchangetype")
    assert {int(kind) for kind in kinds} >= {34, 35, 36, 37}
    for name in ("ens4", "wg-n3", "wg-n3b", "wg-n2"):
        assert frames(wifi.directory / f"{name}.pcap", "-Y", "_ws.malformed") == [], name
    assert b"factory" not in file.read_bytes()
