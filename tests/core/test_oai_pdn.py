"""Measurements through a UE's PDN connection: parameters, commands, what programs print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import attr
import pytest
from oai import pdn
from support.ports import free_port
from support.waiting import listens, wait_until
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.vdu.programs import agent
from vpnaas.vdu.steps import Results

pytestmark = pytest.mark.slow

OWN = "10.45.0.2"
SERVER = "10.254.1.203"


def results(step: str, out: str = "", err: str = "", code: int = 0) -> Results:
    return Results({step: {"code": code, "out": out, "err": err}})


@pytest.mark.parametrize(
    ("parse", "given", "word"),
    [
        (pdn.Throughput.parse, {}, "server"),
        (pdn.Throughput.parse, {"server": "x; reboot"}, "server"),
        (pdn.Throughput.parse, {"server": "2001:db8::1"}, "server"),
        (pdn.Throughput.parse, {"server": SERVER, "port": 0}, "port"),
        (pdn.Throughput.parse, {"server": SERVER, "duration": 1501}, "duration"),
        (pdn.Throughput.parse, {"server": SERVER, "protocol": "sctp"}, "protocol"),
        (pdn.Latency.parse, {"server": "--flood"}, "server"),
        (pdn.Latency.parse, {"server": SERVER, "count": 10000, "interval-ms": 60000}, "count"),
    ],
)
def test_bad_parameters_are_a_sentence(parse: Any, given: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=rf"measure-\w+: {word}: "):
        parse(given)


def test_packets_leave_by_the_ues_own_address() -> None:
    test = pdn.Throughput.parse({"server": SERVER, "direction": "download", "bitrate-mbps": 20})
    words = json.loads(pdn.throughput_step(test, OWN).body["stdin"])["options"]
    assert words[words.index("--bind") + 1] == OWN
    assert words[words.index("--bitrate") + 1] == "20M"
    assert "--reverse" in words
    ping = list(pdn.Latency.parse({"server": SERVER}).step(SERVER, OWN).body["argv"])
    assert ping[ping.index("-I") + 1] == OWN
    assert ping[-1] == SERVER


def test_the_address_is_the_interfaces_or_there_is_none() -> None:
    shown = json.dumps([{}, {"addr_info": [{"local": OWN, "prefixlen": 32}]}])
    assert pdn.address(results("address", shown)) == OWN
    before_dhcp = {"local": "169.254.7.8", "prefixlen": 16}
    both = json.dumps([{"addr_info": [before_dhcp, {"local": OWN, "prefixlen": 24}]}])
    assert pdn.address(results("address", both)) == OWN
    alone = json.dumps([{"addr_info": [before_dhcp]}])
    for out in ("", "[{}]", "[]", "{", '[{"addr_info": [{}]}]', alone):
        assert pdn.address(results("address", out, "Device does not exist", 1)) == ""


def test_reports_are_summed_up_and_failures_are_sentences() -> None:
    test = pdn.Throughput.parse({"server": SERVER, "duration": 5})
    report = {
        "start": {"version": "iperf 3.12", "tcp_mss_default": 1332},
        "end": {
            "sum_sent": {"bits_per_second": 9e7, "retransmits": 3},
            "sum_received": {"bits_per_second": 8.5e7},
        },
    }
    result = pdn.throughput(test, OWN, results("iperf3", json.dumps(report)))
    assert (result["mbps"], result["mss"], result["retransmits"]) == (85.0, 1332, 3)
    assert (result["address"], result["server"], result["port"]) == (OWN, SERVER, 5201)
    refused = json.dumps({"cause": "no-server"})
    sentence = "10.254.1.203:5201 failed: no TCP connection to the iperf3 server of 10.254.1.203"
    with pytest.raises(VpnaasError, match=sentence):
        pdn.throughput(test, OWN, results("iperf3", refused))
    with pytest.raises(VpnaasError) as failed:
        pdn.throughput(test, OWN, results("iperf3", "", "Traceback: json.decoder: x", 1))
    assert str(failed.value).endswith("failed: its program on the VDU failed with exit code 1")
    ping = "3 packets transmitted, 3 received, 0% packet loss\nrtt = 0.1/0.2/0.3/0.04 ms\n"
    result = pdn.latency(pdn.Latency.parse({"server": SERVER}), OWN, results("ping", ping))
    assert result["rtt-ms"] == {"min": 0.1, "avg": 0.2, "max": 0.3, "mdev": 0.04}


def test_a_server_ends_by_itself_or_says_why_it_is_none() -> None:
    steps = pdn.serve_steps(SERVER, 60)
    assert "RuntimeMaxSec=60" in next(s for s in steps if s.id == "serve").body["argv"]
    done = Results({"stop": {"code": 5, "out": "", "err": ""}, "serve": {"code": 0}})
    assert pdn.served(SERVER, 60, done) == {"address": SERVER, "port": 5201, "seconds": 60}
    bad = Results({"serve": {"code": 1, "out": "", "err": "Failed to start: no\n"}})
    with pytest.raises(VpnaasError, match="did not start: its program on the VDU failed"):
        pdn.served(SERVER, 60, bad)


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_the_run_of_a_ue_is_one_that_its_vdu_can_do(direction: str) -> None:
    port = free_port()
    words = ["iperf3", "--server", "--bind", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens("127.0.0.1", port), "the server listens")
        given = {"server": "192.0.2.1", "port": port, "duration": 1, "direction": direction}
        test = attr.evolve(pdn.Throughput.parse(given), server="127.0.0.1")
        step = pdn.throughput_step(test, "127.0.0.1")
        done = agent.execute([step.to_json()], exclusive=False)
        answer = pdn.throughput(test, "127.0.0.1", Results(done["results"]))
    finally:
        server.kill()
        server.wait(10)
    assert (answer["direction"], answer["mbps"] > 1) == (direction, True)


LISTEN = """import signal, socket
kept = [socket.create_server(("", port)) for port in (22, 5201)]
signal.pause()
"""
CONNECT = """import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.7).close()
    print("open")
except TimeoutError:
    print("silent")
"""
TOWN = """set -e
trap 'kill $(jobs -p)' EXIT
apart() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
at() { nsenter -t "$1" -n "${@:2}"; }
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
nft -f - <<< "$RULES"  # before there is a tun0
"$PYTHON" -c "$LISTEN" &
for place in ue:tun0:10.45.0 data:ens6:10.254.1 management:ens3:10.0.0; do
    IFS=: read -r name device net <<< "$place"
    unshare --net "$PYTHON" -c "$LISTEN" &
    pid=$!
    eval "$name=$pid"
    until apart "$pid"; do sleep 0.05; done
    ip link add "$device" type veth peer name eth0 netns "$pid"
    ip address add "$net.1/24" dev "$device"
    ip link set "$device" up
    at "$pid" ip address add "$net.2/24" dev eth0
    at "$pid" ip link set eth0 up
    at "$pid" ip route add default via "$net.1"
done
sleep 1
tcp() { at "$1" "$PYTHON" -c "$CONNECT" "$2" "$3"; }
ping() { at "$1" ping -n -q -c 1 -W 1 "$2" > /dev/null && echo open || echo silent; }
"""


def test_subscribers_and_the_data_network_reach_each_other_only() -> None:
    """A user plane with three hosts, of which one is the UE; packets go over veths."""
    expected = {
        "tcp $ue 10.254.1.1 5201": "open",  # for measure-throughput
        "ping $ue 10.254.1.1": "open",
        "tcp $ue 10.254.1.1 22": "silent",
        "tcp $ue 10.0.0.1 22": "silent",
        "tcp $ue 10.254.1.2 22": "open",
        "tcp $ue 10.0.0.2 22": "silent",
        "ping $ue 10.0.0.2": "silent",
        "tcp $data 10.254.1.1 5201": "silent",
        "tcp $data 10.45.0.2 22": "open",
        "tcp $data 10.0.0.2 22": "silent",
        "tcp $management 10.0.0.1 22": "open",
        "tcp $management 10.45.0.2 22": "silent",
        "tcp $management 10.254.1.2 22": "silent",
    }
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "bash", "-c", TOWN + "\n".join(expected)],
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "LISTEN": LISTEN,
            "CONNECT": CONNECT,
            "RULES": pdn.rules("ens6", "tun0", "10.45.0.0/24", nat=False),
        },
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert done.returncode == 0, done.stderr
    assert dict(zip(expected, done.stdout.split(), strict=True)) == expected


@pytest.mark.parametrize("place", ["0.0.0.0", "*", OWN])
def test_a_server_does_not_run_where_somebody_has_its_port(place):
    """systemd-run says nothing of an iperf3 that ends at once."""
    line = f'LISTEN 0 5 {place}:5201 {place}:* users:(("iperf3",pid=7,fd=3))\n'
    started = {"port": {"code": 0, "out": line}, "serve": {"code": 0}}
    with pytest.raises(VpnaasError, match="TCP port 5201 of the VDU is used by iperf3; allowed"):
        pdn.served(OWN, 60, Results(started))
    free = dict(started, port={"code": 0, "out": line.replace(f"{place}:5201", "127.0.0.1:5201")})
    assert pdn.served(OWN, 60, Results(free)) == {"address": OWN, "port": 5201, "seconds": 60}
