"""A 4G core behind a security gateway.

What UE and eNB send leaves the gateway on its trusted side only.

Cast: hss, mme, spgwc, spgwu, enb, ue, gateway (`epc_secgw_nst`); gateway1, gateway2
    (`epc_secgw_ha_ns`).

Seen:
- a UE attaches through the gateway;
- without the gateway nothing passes, and all comes back with it;
- behind a pair a UE keeps its address when the standby takes over;
- a take-over amid attaches and a download loses no UE.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_support import (
    EPC_SECGW,
    InBackground,
    Lab,
    Service,
    associations,
    scan,
    wait,
)
from e2e_ue import DEVICE, LONG, attached, load, reaches
from e2e_wire import captured, ipsec_only, wireguard_only
from support.filters import NEIGHBOURS
from vpnaas.base.links import REFERENCE_POINTS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-10, worker="epc")]

MARKER = b"a UE's own words"
MME, SPGWU = "10.43.1.10", "10.43.1.20"
CORE = ("s6a", "s11", "sxab")
"""Links of the core, which has the gateways on S1 only."""
SCTP, GTPU = "ip proto 132", "udp port 2152"


@pytest.fixture(scope="module")
def behind(lab: Lab) -> Iterator[Service]:
    """The core as a slice, with a 5QI on S1-U."""
    lab.onboard(*EPC_SECGW)
    file = str(lab.dist / "params" / "epc_secgw_slice.yaml")
    words = ("--nsi_name", "behind", "--nst_name", "epc_secgw_nst", "--vim_account", "lab")
    lab.done("nsi-create", *words, "--config_file", file, "--wait")
    service = Service(lab, "behind.core")
    yield service
    service.note_secrets()
    assert scan(lab, lab.secrets.texts) == []
    lab.done("nsi-delete", "behind", "--wait")


@pytest.mark.long
def test_a_ue_attaches_through_the_gateway(behind: Service, tmp_path: Path) -> None:
    wait(behind["ue"].ready, "the UE is attached", LONG)
    for end in ("enb", "gateway"):
        assert behind[end].action("show-qos")["s1u"]["in-force"] is True
    answer = behind["enb"].action("show-config")["files"]["/etc/osm-vpnaas/nf/enb.conf"]
    assert f'ipv4 = "{MME}"' in answer, "the MME's address, not the gateway's"
    with ExitStack() as stack:
        backhaul, trusted = (
            stack.enter_context(captured(behind, name, tmp_path / f"{name}.pcap"))
            for name in ("backhaul", "trusted")
        )
        behind["ue"].out("systemctl", "restart", "ue.service")
        attached(behind)
        assert reaches(behind, "-p", MARKER.hex(), "-s", "64")
    assert backhaul.count(ipsec_only()) > 10
    other = f"not {NEIGHBOURS} and not {ipsec_only()}"
    assert backhaul.count(other) == 0, backhaul.sample(other)
    assert not backhaul.holds(MARKER)
    # On the trusted side is what the tunnels carried, between eNB and network functions themselves.
    assert trusted.count(f"{SCTP} and host 10.41.0.11 and host {MME}") > 5
    assert trusted.count(f"{GTPU} and host 10.42.0.11 and host {SPGWU}") >= 6
    assert trusted.holds(MARKER)
    assert len(associations(behind["gateway"])) == 2


@pytest.mark.long
def test_without_the_gateway_nothing_goes_and_all_comes_back(
    behind: Service, tmp_path: Path
) -> None:
    gateway = behind["gateway"]
    gateway.out("systemctl", "stop", "strongswan")
    with captured(behind, "backhaul", tmp_path / "without.pcap") as backhaul:
        assert not reaches(behind, "-c", "2")
    gateway.out("systemctl", "start", "strongswan")
    assert backhaul.count(f"{SCTP} or {GTPU}") == 0, backhaul.sample(f"{SCTP} or {GTPU}")
    attached(behind)


def test_a_ue_attaches_behind_a_pair_and_stays_when_the_standby_takes_over(
    epc_behind: Service, tmp_path: Path
) -> None:
    first, second = epc_behind["gateway1"], epc_behind["gateway2"]
    wait(epc_behind["ue"].ready, "the UE is attached", LONG)
    with ExitStack() as stack:
        wires = {
            name: stack.enter_context(captured(epc_behind, name, tmp_path / f"{name}.pcap"))
            for name in ("backhaul", "trusted", *CORE)
        }
        epc_behind["ue"].out("systemctl", "restart", "ue.service")
        attached(epc_behind)
        wait(
            lambda: reaches(epc_behind, "-p", MARKER.hex(), "-s", "64"), "all its packets go", LONG
        )
    # By IPsec up to the gateways, in clear behind them, by WireGuard between the functions.
    allowed = {
        "backhaul": ipsec_only(),
        **{name: wireguard_only(REFERENCE_POINTS[name].listen_port) for name in CORE},
    }
    for name, protected in allowed.items():
        assert wires[name].count(protected) > 1, name
        other = f"not {NEIGHBOURS} and not {protected}"
        assert wires[name].count(other) == 0, f"{name}: {wires[name].sample(other)}"
        assert not wires[name].holds(MARKER), name
    assert wires["trusted"].count(SCTP) > 5
    assert wires["trusted"].count(GTPU) >= 6
    assert wires["trusted"].holds(MARKER)
    for gateway, role in ((first, "active"), (second, "standby")):
        assert len(associations(gateway)) == 2
        assert gateway.action("show-status")["standby"]["state"] == role
    before = address(epc_behind)
    assert first.action("switch-over")["state"] == "standby"
    try:
        assert second.action("show-status")["standby"]["state"] == "active"
        attached(epc_behind)
        assert address(epc_behind) == before
    finally:
        first.action("switch-over", activity="resume")
    attached(epc_behind)


@pytest.mark.long
def test_a_takeover_amid_attaches_and_a_download_loses_no_ue(epc_behind: Service) -> None:
    pair = epc_behind
    attached(pair)
    ue, gateway = pair["ue"], pair["gateway1"]
    server = pair["spgwu"].action("serve-throughput", seconds=300)
    # Not as an action: OSM runs those of one service one after the other.
    receive = (
        *(
            "iperf3",
            "--client",
            server["address"],
            "--port",
            str(server["port"]),
            "--bind",
            address(pair),
        ),
        *("--reverse", "--bitrate", "20M", "--time", "60", "--json"),
    )
    download = InBackground(lambda: ue.out(*receive, timeout=180))
    storm = InBackground(lambda: load(pair["enb"], count=120, rate=3.0))
    wait(lambda: load_runs(pair), "UEs attach", LONG)
    gateway.action("switch-over")
    assert not storm.ended
    assert not download.ended
    result = storm.result()
    assert (result["attached"], result["lost"]) == (120, 0), result
    intervals = json.loads(download.result())["intervals"]
    assert all(each["sum"]["bytes"] > 0 for each in intervals[-5:]), intervals[-5:]
    assert reaches(pair, "-c", "3")
    assert pair["gateway2"].action("show-status")["standby"]["state"] == "active"


def address(service: Service) -> str:
    """Return what the UE was given when it attached."""
    (device,) = json.loads(service["ue"].out("ip", "-j", "-4", "addr", "show", "dev", DEVICE))
    found: str = device["addr_info"][0]["local"]
    return found


def load_runs(service: Service) -> bool:
    shown = service["mme"].action("show-connected")
    return bool(shown["attached-ues"] > 5)
