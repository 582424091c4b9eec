"""Network functions on secured links: a UE attaches through all five tunnels, with no manual step.

What runs on the VDUs are the simulators of the lab, by the image references and files of the real
network functions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_support import NEIGHBOURS, Service, captured, wait, wireguard_only

pytestmark = [pytest.mark.lab, pytest.mark.long]

SGI = "10.254.1.203"
DEVICE = "oaitun_ue1"
SUBSCRIBER = {"imsi": "242881234500000", "msisdn": "24288880000000"}
MARKER = b"a UE's own words"
PORTS = {"s1u": 51825, "s1c": 51823}


def attached(epc: Service, *options: str) -> bool:
    """Say whether the UE reaches the packet data network."""
    words = ("ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "2", "-I", DEVICE)
    return epc["ue"].run(*words, *options, SGI).returncode == 0


def test_every_network_function_is_ready_after_ns_create(epc: Service) -> None:
    for name in ("hss", "mme", "spgwc", "spgwu", "enb", "ue"):
        told = epc[name].action("health")
        assert (told["state"], told["reason"], told["restarts"]) == ("ready", "", 0), name
    connected = epc["mme"].action("show-connected")
    assert {name: row["now"] for name, row in connected.items()} == dict.fromkeys(connected, 1)


def test_a_ues_packets_reach_sgi_and_only_wireguard_is_on_s1u(epc: Service, tmp_path: Path) -> None:
    with captured(epc, "s1u", tmp_path / "s1u.pcap") as capture:
        assert attached(epc, "-p", MARKER.hex(), "-s", "64")
    assert capture.count(wireguard_only(PORTS["s1u"])) >= 6
    other = f"not {NEIGHBOURS} and not {wireguard_only(PORTS['s1u'])}"
    assert capture.count(other) == 0, capture.sample(other)
    assert not capture.holds(MARKER)


def test_a_removed_subscriber_does_not_attach_and_the_ue_says_so(epc: Service) -> None:
    epc["hss"].action("remove-subscriber", imsi=SUBSCRIBER["imsi"])
    epc["ue"].out("systemctl", "restart", "ue.service")
    told = epc["ue"].action("health")
    assert told["state"] == "starting"
    assert DEVICE in told["reason"] or "ue " in told["reason"], told
    assert not attached(epc)
    epc["hss"].action("add-subscriber", **SUBSCRIBER)
    assert epc["ue"].action("restart-nf")["state"] == "ready"
    assert attached(epc)


def test_an_hss_that_restarts_heals_without_the_others(epc: Service) -> None:
    shown = ("systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic", "mme.service")
    before = epc["mme"].out(*shown)
    assert epc["hss"].action("restart-nf")["state"] == "ready"
    # freeDiameter's reconnection timer is 10 s.
    wait(lambda: epc["mme"].action("health")["state"] == "ready", "S6a is open again", 60)
    assert epc["mme"].out(*shown) == before
    assert epc["ue"].action("restart-nf")["state"] == "ready"
    assert attached(epc)
