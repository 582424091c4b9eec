"""Failures provoked on purpose, as the troubleshooting page describes them.

Cast: server, client (`vpn_basic_ns`).

Seen:
- status, logs and answers say the sentence that docs/how-to/troubleshooting.md quotes;
- the remedy of that page heals the service.
"""

import base64
import re
from pathlib import Path

import pytest
import yaml
from e2e_basic import LINKS, SERVER, configure, is_red_when_asked, rules
from e2e_handshake import initiation
from e2e_support import ActionError, Lab, Service, Vnf, wait

pytestmark = [pytest.mark.lab, pytest.mark.schedule(worker="basic")]


def status_line(service: Service, index: str) -> tuple[str, str]:
    """Return a unit's workload status and its text, after every charm has looked."""
    with service.controller() as controlled:
        controlled.update_status()
        return controlled.status(index)


def restarted(vnf: Vnf) -> str:
    """Forget the handshakes there were, and return the reason show-status has now."""
    vnf.action("restart", link=LINKS[vnf.index])
    answer = vnf.status(LINKS[vnf.index])
    return f"{answer['state']}: {answer['reason']}"


def test_a_dead_link_is_red_for_who_asks(basic: Service, client: Vnf, server: Vnf) -> None:
    is_red_when_asked(client, server, "udp dport 51820 drop")
    # Both ends know it: the first to notice has woken the other one.
    assert status_line(basic, "client")[0] == status_line(basic, "server")[0] == "active"


@pytest.mark.long
def test_a_firewall_that_drops_the_port(client: Vnf, server: Vnf) -> None:
    peer = server.application
    with rules(server, "udp dport 51820 drop"):
        assert restarted(client) == f"down: no handshake with {peer}"
        row = client.status("vpn-client")["peers"][0]
        # The other end calls as well, so that something is received, but no handshake gets done.
        assert row["last-handshake-s"] is None
        assert row["sent-bytes"] > 0
        with pytest.raises(ActionError) as error:
            client.action("measure-latency", link="vpn-client")
        assert f"{peer} did not answer any of " in str(error.value)
        assert client.action("measure-latency", link="vpn-client", path="underlay")["rtt-ms"]
    assert client.pings(SERVER, tries=60)


@pytest.mark.long
def test_gateways_that_are_not_the_right_addresses(
    basic: Service, client: Vnf, server: Vnf
) -> None:
    """At both ends: with one right, WireGuard learns the other from packets that arrive.

    So an end that has called until now keeps the tunnel up, whatever `gateway` says. Nothing passes
    until both have forgotten the right addresses.
    """
    wrong = {"server": "192.168.100.99", "client": "192.168.100.98"}
    for vnf in (server, client):
        configure(vnf, gateway=wrong[vnf.index])
    try:
        port = "udp dport 51820 drop"
        with rules(server, port), rules(client, port):
            for vnf in (server, client):
                restarted(vnf)
        assert not client.pings(SERVER, tries=30)
        shown = client.status("vpn-client")
        peer = server.application
        assert (shown["state"], shown["reason"]) == ("down", f"no handshake with {peer}")
        assert shown["peers"][0]["endpoint"] == f"{wrong['server']}:51820"
        workload, text = status_line(basic, "client")
        assert workload == "blocked"
        assert re.match(rf"vpn-client down since \S+Z \(no handshake with {peer}\)", text)
    finally:
        for vnf in (server, client):
            configure(vnf)
    assert client.pings(SERVER, tries=60)


def test_keys_made_anew_are_agreed_by_themselves(basic: Service, client: Vnf, server: Vnf) -> None:
    """As after a rebuild from the image: what the VDU had is gone, the charm is not."""
    before = client.public_key("wg-vpn-client")
    client.out("systemctl", "stop", "wg-quick@wg-vpn-client")
    client.out("rm", "-r", "/etc/osm-vpnaas", "/etc/wireguard/wg-vpn-client.conf")
    assert not client.pings(SERVER, tries=5)
    # The bad look of the server wakes the client's charm, which may mend it at once.
    assert restarted(server) in (f"down: no handshake with {client.application}", "up: ")
    workload, text = status_line(basic, "client")
    assert (workload, text.partition(" (")[0]) == (
        "active",
        "vpn-server unconfigured, vpn-client up",
    )
    assert client.public_key("wg-vpn-client") != before
    if "run rotate-keys" in text:  # where the key before had a higher number
        client.action("rotate-keys", link="vpn-client")
    assert client.pings(SERVER, tries=60)
    basic.note_secrets()


@pytest.mark.parametrize(
    "damage",
    [
        "ip link set wg-vpn-client down",
        "ip link delete wg-vpn-client",
        "ip address flush dev wg-vpn-client",
        "ip route flush dev wg-vpn-client",
    ],
)
def test_what_carries_a_tunnel_is_put_back_in_seconds(client: Vnf, damage: str) -> None:
    client.out(*damage.split())
    wait(lambda: client.pings(SERVER, tries=1), "the tunnel carries packets again", seconds=60)


KEY = "/etc/osm-vpnaas/vpn-client/private.key"
NO_KEY = f"the private key of vpn-client in {KEY} of the VDU is empty or damaged; rotate-keys"
OWN_DISK = (
    "mount -t tmpfs -o size=4k none /etc/wireguard && head -c 4096 /dev/zero >/etc/wireguard/x"
)
READ_ONLY = """mount --bind /etc/wireguard /etc/wireguard
rm /etc/wireguard/wg-vpn-client.conf
mount -o remount,ro,bind /etc/wireguard"""
HANGING = """printf '#!/bin/sh\\nexec sleep 99' >/run/wg
chmod +x /run/wg
mount --bind /run/wg $(which wg)"""
FOREIGN = """umask 077
printf '[Interface]\\nPrivateKey = %s\\nListenPort = 51820\\n' $(wg genkey) >/etc/wireguard/wg0.conf
systemctl stop wg-quick@wg-vpn-client
wg-quick up wg0"""
THEIRS = """cd /etc/wireguard; umask 077
printf '[Interface]\\nPrivateKey = %s\\nListenPort = 40000\\n' $(wg genkey) >wg-vpn-client.conf"""

THEIR_INTERFACE = """systemctl stop wg-quick@wg-vpn-client
rm /etc/wireguard/wg-vpn-client.conf
ip link add wg-vpn-client type wireguard || wireguard-go wg-vpn-client
wg genkey | wg set wg-vpn-client listen-port 40000 private-key /dev/stdin \\
  peer $(wg genkey | wg pubkey) allowed-ips 10.99.0.0/24
wg showconf wg-vpn-client >/run/theirs"""
UNTOUCHED = "wg showconf wg-vpn-client | cmp - /run/theirs && ip link delete wg-vpn-client"


@pytest.mark.parametrize(
    ("damage", "undo", "sentence"),
    [
        (
            OWN_DISK,
            "umount /etc/wireguard",
            "there is no room left for /etc/wireguard/wg-vpn-client.conf on the VDU",
        ),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                (
                    FOREIGN,
                    "wg-quick down wg0; rm /etc/wireguard/wg0.conf",
                    "UDP port 51820 of the VDU is used by wg0; allowed: another listen-port",
                ),
                (
                    THEIRS,
                    "rm /etc/wireguard/wg-vpn-client.conf",
                    "/etc/wireguard/wg-vpn-client.conf: somebody else wrote this file of the VDU",
                ),
                (
                    THEIR_INTERFACE,
                    UNTOUCHED,
                    "wg-vpn-client: somebody else made this interface of the VDU; allowed: none of",
                ),
                (
                    READ_ONLY,
                    "umount /etc/wireguard",
                    "/etc/wireguard/wg-vpn-client.conf is on a read-only file system of the VDU",
                ),
                (f"mv {KEY} {KEY}.away && touch {KEY}", f"mv {KEY}.away {KEY}", NO_KEY),
                (f"mv {KEY} {KEY}.away && echo key >{KEY}", f"mv {KEY}.away {KEY}", NO_KEY),
                (
                    HANGING,
                    "umount $(which wg)",
                    "wg did not end within 20 s on the VDU",
                ),
            )
        ),
    ],
)
def test_what_breaks_a_link_is_named(
    basic: Service, client: Vnf, damage: str, undo: str, sentence: str
) -> None:
    client.out("sh", "-ec", damage)
    try:
        shown = client.status("vpn-client")
        assert (shown["state"], shown["reason"].startswith(sentence)) == ("blocked", True), shown
        workload, text = status_line(basic, "client")
        assert (workload, sentence in text) == ("blocked", True), text
    finally:
        client.out("sh", "-c", undo)
    assert client.status("vpn-client")["state"] == "up"
    assert client.pings(SERVER, tries=60)


def test_a_route_of_somebody_else_stays_and_is_named(client: Vnf, server: Vnf) -> None:
    behind = "10.99.7.0/24"
    theirs = (behind, "via", server.management)
    client.out("ip", "route", "add", *theirs)
    try:
        configure(client, accept_prefixes=behind)
        configure(server, allowed_prefixes=behind)
        said = f"{server.application}: the VDU has a route of somebody else to {behind} by ens3;"
        wait(lambda: said in client.status("vpn-client")["reason"], "the route is named")
        assert client.status("vpn-client")["state"] == "blocked"
        assert "wg-" not in client.out("ip", "route", "show", behind)
        assert client.pings(SERVER)
        client.out("ip", "route", "delete", *theirs)
        assert client.status("vpn-client")["state"] == "up"
        assert "wg-vpn-client" in client.out("ip", "route", "show", behind)
    finally:
        client.run("ip", "route", "delete", *theirs)
        configure(server)
        configure(client)
    assert client.pings(SERVER, tries=60)


def test_our_rules_are_put_back_in_seconds(client: Vnf) -> None:
    def rules() -> str:
        return re.sub(r"packets \d+ bytes \d+", "", client.run("nft", "list", *guard).stdout)

    guard = ("table", "inet", "osm_vpnaas_guard")
    before = rules()
    for words in (("delete", *guard), ("flush", *guard), ("flush", "chain", *guard[1:], "input")):
        client.out("nft", *words)
        wait(lambda: rules() == before, "the guard is whole again", seconds=60)


@pytest.mark.long
def test_large_packets_that_vanish(client: Vnf, server: Vnf) -> None:
    with rules(server, "udp dport 51820 meta length > 1400 drop"):
        vanish = "packets of 1370 bytes vanish, small ones pass; "
        assert restarted(client) == f"up: {server.application}: {vanish}set a smaller mtu"
        assert client.pings(SERVER)
        assert not client.pings(SERVER, "-s", "1392", tries=5)
        broken = client.action("measure-throughput", link="vpn-client", duration=2)
        assert (broken["mbps"] < 0.1, broken["reason"]) == (True, f"{vanish}set a smaller mtu")
        with pytest.raises(ActionError, match=f"did not answer any of 2 .*; {vanish}set"):
            client.action("measure-latency", link="vpn-client", size=1342, count=2)
        assert "reason" not in client.action("measure-latency", link="vpn-client", count=2)
        configure(client, mtu=1300)
        assert restarted(client) == "up: "
        assert client.pings(SERVER, "-s", "1272")
        healed = client.action("measure-throughput", link="vpn-client", duration=2)
        assert healed["mbps"] > broken["mbps"]
        assert "reason" not in healed
    configure(client)


@pytest.mark.long
@pytest.mark.parametrize(("tool", "technology"), [("wg", "wireguard"), ("swanctl", "ipsec")])
def test_an_image_without_the_tools(
    basic: Service, client: Vnf, tool: str, technology: str
) -> None:
    path = client.out("which", tool).strip()
    client.out("mv", path, f"{path}.away")
    try:
        with pytest.raises(ActionError) as error:
            configure(client, technology=technology)
        reason = f"the VDU has no {tool}; its image or Day-0 cloud-init must install "
        assert reason in str(error.value)
        workload, text = status_line(basic, "client")
        # What was asked for is not in force, so nothing suffers from its tools not being there.
        assert (workload, text.startswith(reason)) == (
            ("blocked", True) if technology == "wireguard" else ("active", False)
        )
    finally:
        client.out("mv", f"{path}.away", path)
    assert client.pings(SERVER)
    status_line(basic, "client")


@pytest.mark.long
def test_a_login_key_that_is_not_there(basic: Service, client: Vnf) -> None:
    path = "/home/ubuntu/.ssh/authorized_keys"
    client.out("mv", path, f"{path}.away")
    try:
        with pytest.raises(ActionError) as error:
            client.status("vpn-client")
        reason = " refuses the login of ubuntu; is this unit's SSH key injected?"
        assert str(error.value).endswith(reason)
        workload, text = status_line(basic, "client")
        assert workload == "blocked"
        assert text.endswith(reason)
        # The tunnel needs no charm.
        assert client.pings(SERVER)
    finally:
        client.out("mv", f"{path}.away", path)
    assert status_line(basic, "client")[0] == "active"


@pytest.mark.long
def test_a_network_the_vim_does_not_have(lab: Lab, dist: Path, tmp_path: Path) -> None:
    document = yaml.safe_load((dist / "params/vpn_basic.yaml").read_text(encoding="utf-8"))
    document["vld"] = [{"name": "data", "vim-network-name": "elsewhere"}]
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    words = ("--ns_name", "wrong", "--nsd_name", "vpn_basic_ns", "--vim_account", "lab")
    said = lab.refused("ns-create", *words, "--config_file", str(file), "--wait")
    assert "Network not found with this criteria: 'elsewhere'" in said
    lab.done("ns-delete", "wrong", "--wait")


CALL = """
import socket, sys
call = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
call.bind(("", 51820))
call.settimeout(1)
for _ in range(20):
    call.sendto(bytes.fromhex({message!r}), ({address!r}, 51820))
    try:
        print(call.recv(2048)[:1].hex())
        break
    except TimeoutError:
        pass
"""

#: Packets whose payload begins with the message type 1.
INITIATION = "@th,64,8 1"


@pytest.mark.long
def test_a_clock_that_was_ahead(client: Vnf, server: Vnf) -> None:
    """The client called an hour ahead of time; since its clock is right, nobody answers it."""
    unit = "wg-quick@wg-vpn-client"
    address = client.status("vpn-client")["peers"][0]["endpoint"].partition(":")[0]
    private = base64.b64decode(client.out("cat", "/etc/osm-vpnaas/vpn-client/private.key"))
    public = base64.b64decode(server.public_key("wg-vpn-server"))
    client.out("systemctl", "stop", unit)
    try:
        message = initiation(private, public, int(client.out("date", "+%s")) + 3600)
        call = CALL.format(message=message.hex(), address=address)
        # The answer: a handshake response, message type 2.
        assert client.out("python3", "-", input=call).strip() == "02"
    finally:
        client.out("systemctl", "start", unit)
    # When the other end sends, it calls as well, and gets an answer.
    with rules(server, f"udp dport 51820 {INITIATION} drop", hook="output"):
        assert restarted(client) == f"down: no handshake with {server.application}"
        assert not client.pings(SERVER, tries=5)
        row = client.status("vpn-client")["peers"][0]
        assert (row["last-handshake-s"], row["received-bytes"]) == (None, 0)
        assert row["sent-bytes"] > 0
        # What the other end remembers of this one's clock goes with its interface.
        server.action("restart", link="vpn-server")
        assert client.pings(SERVER, tries=60)
        assert server.status("vpn-server")["state"] == "up"
    assert client.status("vpn-client")["state"] == "up"
