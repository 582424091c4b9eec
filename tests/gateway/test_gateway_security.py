"""What a gateway lets in and out on its untrusted side, and how it stands a flood."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import wait_until
from vpnaas.base.errors import InputError
from vpnaas.features.gateway.gateway_firewall import TABLE, GatewayFirewall, render
from vpnaas.vdu.programs.exporter import Look, Meter

from testbed.site import CORE, GATEWAY, Site

PEERS = 4
FLOOD = str(Path(__file__).resolve().parents[2] / "testbed/flood.py")
TRY = """
import socket, sys
s = socket.socket(); s.settimeout(1)
try:
    s.connect((sys.argv[1], 22)); print("open")
except TimeoutError: print("silence")
except OSError: print("refused")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site"), PEERS, processes=1) as site:
        firewall = render(GatewayFirewall(("out0",), "mgmt0"))
        site.spaces.run("gw", "nft", "-f", "-", text=firewall)
        site.spaces.sysctl("gw", "net.ipv4.ip_forward=1")
        site.call()
        # A peer has its virtual IP a moment after the gateway has the tunnel.
        site.gateway.wait_for(PEERS, 30)
        for daemon in site.fields:
            daemon.wait_for(PEERS // len(site.fields), 30)
        yield site


def dropped(site: Site) -> int:
    shown = site.spaces.run("gw", "nft", "list", "table", "inet", TABLE)
    counters = (line.split() for line in shown.splitlines() if "counter packets" in line)
    return sum(int(words[words.index("packets") + 1]) for words in counters)


@pytest.mark.lab
def test_tunnels_come_up_and_carry_through_the_firewall(site: Site) -> None:
    assert sum(site.carries(PEERS)) == PEERS


@pytest.mark.lab
def test_only_ike_and_esp_reach_the_gateway(site: Site) -> None:
    before = dropped(site)
    assert site.spaces.run("peers0", sys.executable, "-c", TRY, GATEWAY).strip() == "silence"
    assert dropped(site) > before
    # Without the firewall the port answers that it is closed: the test can fail.
    site.spaces.run("gw", "nft", "delete", "table", "inet", TABLE)
    try:
        assert site.spaces.run("peers0", sys.executable, "-c", TRY, GATEWAY).strip() == "refused"
    finally:
        firewall = render(GatewayFirewall(("out0",), "mgmt0"))
        site.spaces.run("gw", "nft", "-f", "-", text=firewall)


UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(sys.argv[3]))
if sys.argv[1] == "hear":
    s.bind(("0.0.0.0", int(sys.argv[2]))); print("ready", flush=True)
    try: print(s.recv(100).decode(), flush=True)
    except TimeoutError: print("nothing", flush=True)
else:
    s.sendto(b"something", (sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.lab
@pytest.mark.parametrize(("ports", "heard"), [((), "nothing"), ((51823,), "something")])
def test_ports_of_wireguard_links_pass_and_no_other(
    site: Site, ports: tuple[int, ...], heard: str
) -> None:
    spaces = site.spaces
    rules = render(GatewayFirewall(("out0",), "mgmt0", wireguard=ports))
    spaces.run("gw", "nft", "-f", "-", text=rules)
    wait = "60" if ports else "2"
    argv = spaces.argv("gw", sys.executable, "-c", UDP, "hear", "51823", wait)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout
        assert listener.stdout.readline() == "ready\n"
        spaces.run("peers0", sys.executable, "-c", UDP, GATEWAY, "51823", "1")
        assert listener.stdout.readline() == heard + "\n"


@pytest.mark.lab
def test_nothing_is_forwarded_to_or_from_the_untrusted_side_in_clear(site: Site) -> None:
    spaces = site.spaces
    spaces.ip("gw", "link", "add", "in0", "type", "bridge")
    spaces.ip("gw", "address", "add", "10.55.0.1/24", "dev", "in0")
    spaces.ip("gw", "link", "set", "in0", "up")
    spaces.ip("peers0", "route", "add", "10.55.0.0/24", "via", GATEWAY)
    before = dropped(site)
    spaces.run("peers0", "ping", "-n", "-q", "-c", "2", "-W", "1", "10.55.0.9", check=False)
    assert dropped(site) > before


@pytest.mark.lab
def test_metrics_follow_a_real_daemon_over_a_rekeying(site: Site) -> None:
    item = {"name": "", "label": "all", "technology": "ipsec"}
    uri = f"unix://{site.gateway.socket}"
    meter = Meter()

    def told(*words: str) -> str:
        argv = ("swanctl", *words, "--raw", "--uri", uri)
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def metrics() -> dict[str, float]:
        meter.update(
            Look(
                time.time(),
                {"peers": json.dumps({"peers": [item]})},  # Of the one connection there is.
                sas=told("--list-sas"),
                counters=told("--counters", "--all"),
                stats=told("--stats"),
            )
        )
        samples = [s for family in meter.collect() for s in family.samples]
        return {s.name + s.labels.get("kind", ""): s.value for s in samples}

    before = metrics()
    assert before["vpnaas_ike_sas"] == before["vpnaas_ike_sas_all"] == PEERS
    assert before["vpnaas_child_sas"] == PEERS
    assert before["vpnaas_peer_up"] == before["vpnaas_ike_daemon_up"] == 1
    assert sum(site.carries(PEERS)) == PEERS
    between = metrics()
    told("--rekey", "--child", "s1")
    due = before["vpnaas_rekeys_totalchild"] + PEERS
    wait_until(lambda: metrics()["vpnaas_rekeys_totalchild"] >= due, "the rekeying is told")
    assert sum(site.carries(PEERS)) == PEERS
    after = metrics()
    for name in ("vpnaas_received_bytes_total", "vpnaas_sent_bytes_total"):
        # An echo each, before the rekeying and after.
        assert between[name] - before[name] >= PEERS * 84
        assert after[name] - between[name] >= PEERS * 84


@pytest.mark.lab
def test_a_flood_of_requests_meets_cookies_and_tunnels_stay_up(site: Site) -> None:
    spis = {sa["initiator-spi"] for _, sa in site.gateway.sas()}
    before = dropped(site)
    # Answers go to a router, as on any backhaul.
    site.spaces.ip("gw", "route", "add", "198.18.0.0/15", "via", "10.100.1.1")
    argv = site.spaces.argv("peers0", sys.executable, FLOOD, "4", "2000", GATEWAY)
    flood = subprocess.Popen(argv, stdout=subprocess.PIPE)
    ping = ("ping", "-n", "-q", "-c", "15", "-i", "0.2", "-I")
    addresses = [sa["local-vips"][0].decode() for _, sa in site.fields[0].sas()]
    shown = site.spaces.run("peers0", *ping, addresses[0], CORE, check=False)
    half_open = int(site.gateway.vici.stats()["ikesas"]["half-open"])
    tracked = site.spaces.run("gw", "cat", "/proc/sys/net/netfilter/nf_conntrack_count")
    sent = int(flood.communicate(timeout=60)[0])
    assert sent > 2000
    assert int(tracked) < 100  # The invented addresses are no connections.
    received = int(re.findall(r"(\d+) received", shown)[0])
    assert received >= 12, shown
    # Cookies: the gateway keeps no state for callers that do not show their address is theirs.
    threshold = int(site.gateway.settings["cookie_threshold"])
    assert 0 < half_open <= 2 * threshold
    assert "N(COOKIE)" in site.gateway.log.read_text(errors="replace")
    assert {sa["initiator-spi"] for _, sa in site.gateway.sas()} >= spis
    assert dropped(site) - before > sent // 4


@pytest.mark.parametrize(
    ("untrusted", "management"),
    [(("ens3", "ens4"), "ens3"), (('ens4"; drop',), "ens3"), (("ens4",), "a b")],
)
def test_interfaces_that_make_no_firewall_are_refused(
    untrusted: tuple[str, ...], management: str
) -> None:
    with pytest.raises(InputError):
        render(GatewayFirewall(untrusted, management))
