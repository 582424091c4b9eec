"""Two VNFs and one IPsec tunnel: packets on the wire, rotation, algorithms, faults and removal.

Cast: server, client (`vpn_basic_ns` with IPsec).

Seen:
- a capture has IKE and ESP only, and the largest packet passes whole;
- a TCP stream survives the rotation of both ends;
- refused parameters leave the tunnel alone;
- a peer on the link gets in by strongSwan and the file that `add-peer` answers;
- with the daemon down nothing leaves in clear; after a reboot the link comes back without the
  charm;
- IPsec and WireGuard replace each other.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest
from e2e_basic import (
    CLIENT,
    INNER,
    LINKS,
    SERVER,
    configure,
    configure_both,
    is_red_when_asked,
    journal,
)
from e2e_revocation import DROP, URL, Chain, bring, unanswered
from e2e_support import (
    PATIENCE,
    ActionError,
    InBackground,
    Service,
    Vnf,
    associations,
    unbroken,
    wait,
)
from e2e_wire import captured, ipsec_only
from support.filters import NEIGHBOURS
from support.juju_operator import remove_relation

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-5.5, worker="clear")]

#: What a ping carries (its option -p), to be found in a capture or not.
MARKER = b"osm-vpnaas-ipsec"
MARKED = ("-p", MARKER.hex(), "-s", "64")


@pytest.fixture(scope="module")
def service(clear: Service) -> Service:
    """The service without a VPN, both ends switched over."""
    configure_both(clear, technology="ipsec")
    clear.note_secrets()
    return clear


def test_tunnel_is_up_and_only_ipsec_is_on_the_wire(
    service: Service, server: Vnf, client: Vnf, tmp_path: Path
) -> None:
    with captured(service, "data", tmp_path / "ipsec.pcap") as capture:
        assert client.pings(SERVER, *MARKED)
        assert server.pings(CLIENT, *MARKED)
        assert client.action("measure-throughput", link="vpn-client", duration=1)["mbps"] > 0
    assert capture.count(ipsec_only()) >= 4
    other = f"not {NEIGHBOURS} and not {ipsec_only()}"
    assert capture.count(other) == 0, capture.sample(other)
    assert not capture.holds(MARKER)
    for index, link in LINKS.items():
        answer = service[index].status(link)
        assert (answer["state"], answer["reason"], answer["technology"]) == ("up", "", "ipsec")
        (peer,) = answer["peers"]
        assert peer["esp"] == "AES_GCM_16-256"
        assert peer["received-bytes"] > 0
        assert service[index].boot_cycles() == ""
        modes = service[index].out(
            "stat", "--format=%a", f"/etc/swanctl/private/osm-vpnaas-{link}.pem",
            f"/etc/swanctl/conf.d/osm-vpnaas-{link}.conf",
        )  # fmt: skip
        assert modes.split() == ["600", "600"]


@pytest.mark.long
def test_a_dead_link_is_red_for_who_asks(client: Vnf, server: Vnf) -> None:
    """Before charon notices: it asks a silent peer after 10 s, and gives up 26 s later."""
    is_red_when_asked(client, server, "meta l4proto { 50, 17 } drop")


@pytest.mark.parametrize(
    "damage",
    [
        "ip rule del pref 220",
        "ip route flush table 220",
        "ip link set ipsec0 down",
        "ip link set xf-vpn-client down",
        "ip address flush dev xf-vpn-client",
    ],
)
def test_what_carries_a_tunnel_is_put_back_in_seconds(client: Vnf, damage: str) -> None:
    """As systemd-networkd removes rules and routes that it did not make."""
    client.out(*damage.split())
    wait(lambda: client.pings(SERVER, tries=1), "the tunnel carries packets again", seconds=60)


def test_the_largest_packet_passes_whole(client: Vnf) -> None:
    mtu = client.status("vpn-client")["mtu"]
    assert client.pings(SERVER, "-M", "do", "-s", str(mtu - 28), tries=60)


@pytest.mark.long
def test_rotation_of_both_ends_does_not_break_a_tcp_stream(
    service: Service, server: Vnf, client: Vnf
) -> None:
    before = {index: service[index].status(link) for index, link in LINKS.items()}
    listen = ("iperf3", "--server", "--one-off", "--bind", SERVER, "--port", "5301", "--json")
    sink = InBackground(lambda: server.run(*listen, timeout=PATIENCE))
    wait(lambda: any(":5301" in s for s in server.listening()), "iperf3 listens")
    send = ("iperf3", "--client", SERVER, "--port", "5301", "--time", "120", "--json",
            "--bitrate", "2M", "--length", "8K")  # fmt: skip
    source = InBackground(lambda: client.run(*send, timeout=PATIENCE))
    try:
        time.sleep(2)
        for index, link in LINKS.items():
            service[index].action("rotate-keys", link=link)
            service.note_secrets()
            new = service[index].status(link)["public-key"]
            assert new != before[index]["public-key"]
        assert not source.ended, "the stream ended before the rotation did"
        time.sleep(2)
    finally:
        client.run("pkill", "-INT", "-x", "iperf3")
    for end in (source, sink):
        unbroken(end.result().stdout)
    for index, link in LINKS.items():
        after = service[index].status(link)
        assert after["key-generation"] == before[index]["key-generation"] + 1
        assert (after["state"], after["rotation"]) == ("up", "none")
        assert len(associations(service[index])) == 1
        text = service[index].out("cat", f"/etc/swanctl/conf.d/osm-vpnaas-{link}.conf")
        assert not any(result["public-key"] in text for result in before.values())


@pytest.mark.long
@pytest.mark.parametrize("first", ["server", "client"])
def test_a_changed_proposal_loses_one_packet_at_most(
    service: Service, client: Vnf, first: str
) -> None:
    """Twenty packets a second, while one end and then the other get other algorithms."""
    chosen = {"server": "aes128gcm-ecp256", "client": "aes256gcm-ecp384"}[first]
    pings = InBackground(lambda: client.run("ping", "-n", "-i", "0.05", SERVER, timeout=PATIENCE))
    try:
        time.sleep(1)
        for vnf in (first, "client" if first == "server" else "server"):
            configure(service[vnf], technology="ipsec", proposal=chosen)
        wait(
            lambda: (
                [p["ike-proposal"].split("-")[-1] for p in client.status("vpn-client")["peers"]]
                == [{"aes128gcm-ecp256": "ECP_256", "aes256gcm-ecp384": "ECP_384"}[chosen]]
            ),
            "the new algorithms are in use",
        )
        time.sleep(1)
    finally:
        client.run("pkill", "-INT", "-x", "ping")
    result = pings.result().stdout
    # The end that answers may send by the new tunnel before the other end can take its packets.
    # The last request may have no answer yet when ping ends.
    answered = {int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", result)}
    (sent,) = map(int, re.findall(r"(\d+) packets transmitted", result))
    assert sent > 40
    assert len(set(range(1, sent)) - answered) <= 1, result
    assert len(associations(client)) == 1


def test_revocation_servers_that_drop_packets_hold_no_tunnel_down(
    service: Service, client: Vnf
) -> None:
    """With `revocation=relaxed`, the default; charon alone would ask for longer than peers wait."""
    with unanswered(service, DROP):
        configure_both(service, technology="ipsec", credentials="cert-external")
        bring(service, Chain(2))
        service.wait(lambda: client.pings(SERVER, tries=1), "the peer is accepted", 60)
        reason = str(client.status("vpn-client")["reason"])
        assert "peers are accepted though nobody says whether their certificates are r" in reason
        assert f"{URL}/ocsp: " in reason
    configure_both(service, technology="ipsec")
    assert client.pings(SERVER)


@pytest.mark.long
def test_other_algorithms_and_credentials(service: Service, server: Vnf, client: Vnf) -> None:
    configure_both(service, technology="ipsec", proposal="aes256-sha512-ecp256", credentials="psk")
    service.note_secrets()
    (peer,) = client.status("vpn-client")["peers"]
    assert (peer["esp"], peer["preshared-key"]) == ("AES_CBC-256-HMAC_SHA2_512_256", True)
    assert client.pings(SERVER)
    assert "authentication of" in journal(client)
    configure_both(
        service, technology="ipsec", preshared_key=True, proposal="chacha20poly1305-curve25519"
    )
    (peer,) = client.status("vpn-client")["peers"]
    assert (peer["esp"], peer["preshared-key"]) == ("CHACHA20_POLY1305", True)
    assert client.pings(SERVER)
    assert "using PPK" in journal(client)
    configure_both(service, technology="ipsec", proposal="3gpp")
    answer = client.status("vpn-client")
    assert (answer["proposal"], answer["peers"][0]["esp"]) == ("3gpp", "AES_GCM_16-256")
    assert client.pings(SERVER)
    configure_both(service, technology="ipsec")
    assert client.pings(SERVER)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ipsec_options": "esn=yes"}, "kernel has no ESP"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ({"proposal": "3des-sha1-modp1024"}, "proposal: 3des is too weak"),
                ({"ipsec_options": "replay=1"}, "not an option"),
                ({"listen_port": 500}, "500 is not IKE's"),
            )
        ),
    ],
)
def test_refused_parameters_leave_the_tunnel_alone(
    client: Vnf, options: dict[str, object], reason: str
) -> None:
    if "kernel" in reason and client.status("vpn-client")["dataplane"] != "userspace":
        pytest.skip("this kernel has ESP")
    before = associations(client)
    with pytest.raises(ActionError, match=reason):
        configure(client, technology="ipsec", **options)
    assert associations(client) == before
    assert client.pings(SERVER)


def test_restart(client: Vnf) -> None:
    assert client.action("restart", link="vpn-client")["vpn-client"]["state"] == "up"
    assert client.pings(SERVER)


@pytest.mark.parametrize("index", [pytest.param("server", marks=pytest.mark.long), "client"])
def test_a_tunnel_outlives_its_underlay_going_down_and_up(
    service: Service, client: Vnf, index: str
) -> None:
    service[index].out("ip", "link", "set", "ens4", "down")
    try:
        assert not client.pings(SERVER, tries=5)
    finally:
        service[index].out("ip", "link", "set", "ens4", "up")
    # Neither a charm nor anybody who restarts the daemon.
    assert client.pings(SERVER, tries=300)


def test_nothing_leaves_in_clear_while_the_daemon_is_down(
    service: Service, server: Vnf, client: Vnf, tmp_path: Path
) -> None:
    client.out("systemctl", "stop", "strongswan.service")
    try:
        with captured(service, "data", tmp_path / "down.pcap") as capture:
            assert not client.pings(SERVER, *MARKED, tries=10)
            assert not server.pings(CLIENT, *MARKED, tries=10)
        assert not capture.holds(MARKER)
        assert capture.count(f"host {SERVER} or host {CLIENT}") == 0
    finally:
        client.out("systemctl", "start", "strongswan.service")
    # The keeper opens the tunnel, no charm.
    service.wait(lambda: client.pings(SERVER), "the tunnel is up again")


def test_link_comes_back_with_the_vdu_and_without_the_charm(
    service: Service, server: Vnf, client: Vnf
) -> None:
    logged = service.hook_log()
    with service.controller() as controlled:
        service.vim.reboot(client.server_id)
        service.vim.wait_active(client.server_id, PATIENCE)
        service.wait(lambda: client.pings(SERVER), "the tunnel is up again")
        assert server.pings(CLIENT)
        assert service.hook_log() == logged
        controlled.update_status()
        assert controlled.status("client")[0] == "active"


@pytest.mark.long
def test_unrelated_ends_part_at_once(
    service: Service, server: Vnf, client: Vnf, tmp_path: Path
) -> None:
    ends = [f"{vnf.application}:{LINKS[vnf.index]}" for vnf in (server, client)]
    with service.controller() as controlled:
        remove_relation(controlled.model, *ends)
        controlled.settle()
        assert associations(server) == associations(client) == []
        with captured(service, "data", tmp_path / "parted.pcap") as capture:
            assert not client.pings(SERVER, *MARKED, tries=5)
            assert not server.pings(CLIENT, *MARKED, tries=5)
        assert not capture.holds(MARKER)
    by_hand(service, server, client)
    with service.controller() as controlled:
        controlled.model.add_relation(*ends)
        controlled.settle()
        assert client.pings(SERVER, tries=60)


def by_hand(service: Service, server: Vnf, client: Vnf) -> None:
    """Two VNFs that no relation joins add each other under their IKE identities."""
    reply = {index: service[index].status(link) for index, link in LINKS.items()}
    for index, other, endpoint in (
        ("server", "client", "none"),
        ("client", "server", "192.168.100.11:4500"),
    ):
        answer = service[index].action(
            "add-peer",
            link=LINKS[index],
            name=reply[other]["ike-identity"],
            public_key=reply[other]["public-key"],
            allowed_prefixes=f"{INNER[other]}/32",
            endpoint=endpoint,
        )
        assert answer["ike-identity"] == reply[index]["ike-identity"]
    service.wait(lambda: client.pings(SERVER, tries=5), "the keeper opens the tunnel")
    assert server.status("vpn-server")["peers"][0]["state"] == "up"
    name = reply["client"]["ike-identity"]
    server.action("delete-peer", link="vpn-server", name=name)
    assert associations(server) == []
    assert not client.pings(SERVER, tries=5)
    client.action("delete-peer", link="vpn-client", name=reply["server"]["ike-identity"])


ON_THE_LINK = """
set -e
cp "$1" "$SWANCTL_DIR/conf.d/"
cp "$2" "$SWANCTL_DIR/private/"
openssl pkey -in "$2" -pubout -out "$SWANCTL_DIR/pubkey/laptop.pem"
ip address add 10.77.0.200/32 dev eth0
swanctl --load-all
swanctl --initiate --child vpn-server
ping -c 3 -W 5 -I 10.77.0.200 10.77.0.1
"""
"""What an operator types into the shell of `lab attach`, with the peer's file and its key."""


def test_a_peer_on_the_link_runs_the_file_of_its_answer(
    service: Service, server: Vnf, tmp_path: Path
) -> None:
    key = tmp_path / "laptop.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ED25519", "-out", key], check=True)
    words = ["openssl", "pkey", "-in", str(key), "-pubout"]
    public = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    answer = server.action(
        "add-peer",
        link="vpn-server",
        name="laptop",
        public_key="".join(public.splitlines()[1:-1]),
        allowed_prefixes="10.77.0.200/32",
    )
    (tmp_path / "peer.conf").write_text(answer["swanctl"])
    given = ("--", "bash", "-c", ON_THE_LINK, "bash", str(tmp_path / "peer.conf"), str(key))
    said = service.lab.done("lab", "attach", service.name, "data", *given)
    assert "3 received" in said
    server.action("delete-peer", link="vpn-server", name="laptop")
    assert not [p for p in server.status("vpn-server")["peers"] if p["peer"] == "laptop"]


@pytest.mark.long
def test_ipsec_and_wireguard_replace_each_other(
    service: Service, server: Vnf, client: Vnf, tmp_path: Path
) -> None:
    configure_both(service)
    service.note_secrets()
    assert client.pings(SERVER)
    for vnf in (server, client):
        assert associations(vnf) == []
        assert vnf.run("ip", "link", "show", f"xf-{LINKS[vnf.index]}").returncode != 0
    configure_both(service, technology="ipsec")
    assert client.pings(SERVER)
    for vnf in (server, client):
        assert vnf.out("wg", "show", "interfaces").strip() == ""
        assert vnf.status(LINKS[vnf.index])["state"] == "up"
